//! Drift: whether the second half of the samples is slower or faster than the first.

use super::bootstrap::{Bootstrap, Confidence, Interval, Location, interval_about};

/// Second half of the samples over the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Time of the second half over time of the first.
    pub ratio: f64,
    /// Its 99.6% interval.
    pub interval: Interval,
    /// The interval leaves out 1.
    pub significant: bool,
}

impl Drift {
    /// Drift of positive times in the order in which they were taken; none of fewer than eight.
    pub(super) fn of(ns: &[f64]) -> Option<Self> {
        if ns.len() < 8 {
            return None;
        }
        let logs: Vec<f64> = ns.iter().map(|t| t.ln()).collect();
        let (first, second) = logs.split_at(logs.len() / 2);
        let first = Bootstrap::new(first, Location::Midmean, 0)?;
        let second = Bootstrap::new(second, Location::Midmean, 1)?;
        let confidence = Confidence::P996;
        let deviations =
            second.stretched(confidence).iter().zip(first.stretched(confidence)).map(|(s, f)| s - f).collect();
        let log_ratio = second.estimate - first.estimate;
        let interval = interval_about(log_ratio, deviations, confidence);
        let interval = Interval { low: interval.low.exp(), high: interval.high.exp() };
        Some(Drift { ratio: log_ratio.exp(), interval, significant: !interval.contains(1.0) })
    }
}
