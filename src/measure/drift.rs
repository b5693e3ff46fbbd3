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
        let half = logs.len() / 2;
        let (first, second) = logs.split_at(half);
        let log_ratio = Bootstrap::new(second, Location::Midmean, 0)?.estimate
            - Bootstrap::new(first, Location::Midmean, 0)?.estimate;
        // A steady drift must not count as noise of the halves: what is resampled has none.
        let slope = 2.0 * log_ratio / logs.len() as f64;
        let level: Vec<f64> = logs.iter().enumerate().map(|(i, log)| log - slope * i as f64).collect();
        let (first, second) = level.split_at(half);
        let first = Bootstrap::new(first, Location::Midmean, 0)?;
        let second = Bootstrap::new(second, Location::Midmean, 1)?;
        let confidence = Confidence::P996;
        let deviations =
            second.stretched(confidence).iter().zip(first.stretched(confidence)).map(|(s, f)| s - f).collect();
        let interval = interval_about(log_ratio, deviations, confidence);
        let interval = Interval { low: interval.low.exp(), high: interval.high.exp() };
        Some(Drift { ratio: log_ratio.exp(), interval, significant: !interval.contains(1.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rng::Rng;

    fn times(slope: f64) -> Vec<f64> {
        let mut rng = Rng::new(3);
        (0..100).map(|i| 1000.0 * (1.0 + slope * f64::from(i) / 100.0 + 0.003 * rng.normal())).collect()
    }

    #[test]
    fn a_steady_series_does_not_drift() {
        let drift = Drift::of(&times(0.0)).expect("enough samples");
        assert!(!drift.significant && (drift.ratio - 1.0).abs() < 0.003, "{drift:?}");
    }

    #[test]
    fn a_warming_device_drifts() {
        let drift = Drift::of(&times(0.05)).expect("enough samples");
        assert!(drift.significant, "{drift:?}");
        // The halves lie half of the slope apart.
        assert!((drift.ratio - 1.025).abs() < 0.004, "{drift:?}");
    }

    #[test]
    fn few_samples_do_not_show_drift() {
        assert_eq!(Drift::of(&[1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0]), None);
    }
}
