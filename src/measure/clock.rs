//! The clock that time limits are held against, never the one that samples are timed by.

use std::time::{Duration, Instant};

/// Time since some fixed moment.
pub trait Clock {
    /// Time passed since a moment that stays the same for the life of the clock.
    fn now(&self) -> Duration;
}

/// The monotonic clock of the machine.
#[derive(Debug)]
pub struct WallClock(Instant);

impl WallClock {
    /// A clock that starts at zero.
    pub fn start() -> Self {
        WallClock(Instant::now())
    }
}

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
