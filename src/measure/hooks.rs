//! What sampling is given from outside: the contenders, a clock, and whoever watches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Clock, Subject};

/// A subject with its place in the comparison.
pub struct Contender<'a> {
    /// What is sampled.
    pub subject: &'a mut dyn Subject,
    /// Subjects are compared within their class, such as a scheme. All of a case share rounds, whatever their class.
    pub class: u32,
    /// May be called best of its class.
    pub eligible: bool,
}

impl<'a> Contender<'a> {
    /// An eligible contender of class 0.
    pub fn new(subject: &'a mut dyn Subject) -> Self {
        Contender { subject, class: 0, eligible: true }
    }
}

/// Watches the device while it is sampled.
pub trait Monitor {
    /// Called before the samples of a round.
    fn begin_round(&mut self);

    /// Called after the samples of a round. True when the device was throttled meanwhile: all samples of the round are
    /// then marked.
    fn end_round(&mut self) -> bool;
}

/// How far sampling has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Recorded rounds.
    pub rounds: u32,
    /// Subjects that are still sampled.
    pub live: usize,
    /// Time since sampling began.
    pub elapsed: Duration,
    /// A guess of the time left: what the widest open interval still needs, at most what the limits allow.
    pub remaining: Duration,
}

/// What sampling needs from outside.
pub struct Hooks<'a> {
    /// The clock of time limits.
    pub clock: &'a dyn Clock,
    /// Stops sampling between two samples once it is true.
    pub cancel: Option<&'a AtomicBool>,
    /// Watches the device.
    pub monitor: Option<&'a mut dyn Monitor>,
    /// Called after every round.
    pub progress: Option<&'a mut dyn FnMut(&Progress)>,
}

impl<'a> Hooks<'a> {
    /// Only a clock.
    pub fn new(clock: &'a dyn Clock) -> Self {
        Hooks { clock, cancel: None, monitor: None, progress: None }
    }

    /// Whether sampling is to stop now.
    pub(super) fn cancelled(&self) -> bool {
        self.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}
