//! When sampling stops.

use std::time::Duration;

/// When to stop.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Asked half-width of the 95% interval of the best subject's median, over the median.
    pub precision: f64,
    /// A verdict that stays uncertain is given up when the 99.6% interval of its ratio has become as narrow as this on
    /// either side and the subject's own median is as precise as asked.
    pub verdict_precision: f64,
    /// Time per subject. The case may take so much for each of its subjects together: what one leaves unused, because
    /// it was far from the best, goes to the others.
    pub time_limit: Duration,
    /// Rounds that are thrown away first; at least one is.
    pub warmup_rounds: u32,
    /// Rounds before sampling may stop for being precise enough.
    pub min_rounds: u32,
    /// Rounds that are taken whatever the time limit, and before anything is raced out.
    pub sure_rounds: u32,
    /// Sampling stops after this many rounds.
    pub max_rounds: u32,
    /// Race nothing out.
    pub exhaustive: bool,
    /// Number of the first round. Cases sampled in several groups give each its own range, so that only samples taken
    /// next to each other share a round.
    pub first_round: u32,
    /// Seed of the order within rounds.
    pub seed: u64,
}

impl Settings {
    /// For kernels on a GPU, whose samples are quiet and quick: 1%, half a second per subject.
    pub fn gpu(seed: u64) -> Self {
        Settings {
            precision: 0.01,
            verdict_precision: 0.0025,
            time_limit: Duration::from_millis(500),
            warmup_rounds: 2,
            min_rounds: 20,
            sure_rounds: 6,
            max_rounds: 1000,
            exhaustive: false,
            first_round: 0,
            seed,
        }
    }

    /// For kernels on a processor, whose samples are noisy and slow: half a second per subject, two seconds for the four
    /// of a case, less when the best are known to 5%, whatever the verdicts; six rounds in any case, which verdicts need.
    pub fn cpu(seed: u64) -> Self {
        Settings {
            precision: 0.05,
            verdict_precision: f64::INFINITY,
            time_limit: Duration::from_millis(500),
            warmup_rounds: 1,
            min_rounds: 12,
            ..Settings::gpu(seed)
        }
    }
}
