//! What sampling found.

use std::time::Duration;

use super::{Candidate, Drift, Interval, Series, SubjectError};

/// Why sampling stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Every verdict that matters is settled or given up, and the best is as precise as asked.
    Settled,
    /// The time limit was reached.
    TimeUp,
    /// The limit of rounds was reached.
    MaxRounds,
    /// The cancel flag was set.
    Cancelled,
    /// No subject is left that can be sampled.
    NothingLeft,
}

/// What became of one subject.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Nanoseconds per call of each sample, in the order of rounds.
    pub samples_ns: Vec<f64>,
    /// The round of each sample.
    pub rounds: Vec<u32>,
    /// Whether each sample was taken while the device was throttled.
    pub throttled: Vec<bool>,
    /// Calls in the last sample.
    pub calls_per_sample: u32,
    /// Median of the samples, when there are any.
    pub median_ns: Option<f64>,
    /// 95% block-bootstrap interval of the median.
    pub ci95_ns: Option<Interval>,
    /// Second half against first half; none of few samples.
    pub drift: Option<Drift>,
    /// Stopped early because it was far from the best of its class.
    pub raced_out: bool,
    /// Why it was dropped. Its samples up to then are kept, but it is never best.
    pub error: Option<SubjectError>,
}

impl Outcome {
    /// Its samples for a verdict.
    pub fn series(&self) -> Series<'_> {
        Series { rounds: &self.rounds, ns: &self.samples_ns }
    }

    /// It among those to be ranked; one with an error is not eligible.
    pub fn candidate(&self, eligible: bool) -> Candidate<'_> {
        let eligible = eligible && self.error.is_none();
        Candidate { series: self.series(), eligible, raced_out: self.raced_out }
    }

    /// Samples that were taken while the device was throttled.
    pub fn throttled_samples(&self) -> u32 {
        self.throttled.iter().filter(|&&t| t).count() as u32
    }
}

/// The outcome of sampling one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// One outcome for each contender, in their order.
    pub outcomes: Vec<Outcome>,
    /// Recorded rounds, the last one perhaps in part.
    pub rounds: u32,
    /// Time taken, warm-up included.
    pub elapsed: Duration,
    /// Why it ended.
    pub stop: Stop,
}
