//! Location of a series and how sure it is: block bootstrap for results, order statistics while sampling.
//!
//! Neighbouring samples resemble each other (clocks and temperature wander), so resamples are made of blocks of
//! neighbours: the circular block bootstrap of Politis and Romano (1992). Plain percentile intervals are too narrow for
//! short or correlated series, so they are stretched about the estimate: by Student's t over the normal quantile, by
//! the variance that is lost to the estimate itself, and by the correlation that reaches beyond a block. `coverage` in
//! [`super::simulate`] measures what that achieves.

use super::rng::Rng;

/// Resamples per interval. The 0.2% tails that verdicts read hold eight of them.
const RESAMPLES: usize = 4000;

/// A range of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Half the width over `centre`: the `1%` of `8.1 us +-1%`.
    pub fn relative_half_width(&self, centre: f64) -> f64 {
        (self.high - self.low) / (2.0 * centre)
    }

    /// Whether `value` lies between the ends, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// How often an interval is meant to hold the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// 95%: reported times.
    P95,
    /// 99.6%: verdicts.
    P996,
}

impl Confidence {
    /// The probability left outside on either side.
    fn tail(self) -> f64 {
        match self {
            Confidence::P95 => 0.025,
            Confidence::P996 => 0.002,
        }
    }

    /// The standard normal quantile of `1 - tail`.
    fn normal_quantile(self) -> f64 {
        match self {
            Confidence::P95 => 1.959_964,
            Confidence::P996 => 2.878_162,
        }
    }

    /// Student's t quantile of `1 - tail` (Cornish and Fisher; Abramowitz and Stegun 26.7.5), within 1% from 4 degrees
    /// of freedom on.
    pub(super) fn student_quantile(self, degrees: f64) -> f64 {
        let z = self.normal_quantile();
        let power = |n| z.powi(n);
        let terms = [
            (power(3) + z) / 4.0,
            (5.0 * power(5) + 16.0 * power(3) + 3.0 * z) / 96.0,
            (3.0 * power(7) + 19.0 * power(5) + 17.0 * power(3) - 15.0 * z) / 384.0,
            (79.0 * power(9) + 776.0 * power(7) + 1482.0 * power(5) - 1920.0 * power(3) - 945.0 * z) / 92160.0,
        ];
        terms.iter().enumerate().fold(z, |sum, (i, term)| sum + term / degrees.powi(i as i32 + 1))
    }
}

/// The middle value; the mean of the two middle ones of an even number. None of an empty slice.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

/// [`median`] of values in ascending order.
pub(super) fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let high = sorted.get(sorted.len() / 2)?;
    let low = sorted.get((sorted.len() - 1) / 2)?;
    Some((low + high) / 2.0)
}

/// Block-bootstrap interval of the median of values in the order in which they were taken. None of fewer than two.
pub fn median_interval(values: &[f64], confidence: Confidence) -> Option<Interval> {
    let bootstrap = Bootstrap::new(values, Location::Median, 0).filter(|_| values.len() > 1);
    bootstrap.map(|b| b.interval(confidence))
}

/// Distribution-free 95% interval of the median of values in ascending order: the two order statistics that the
/// binomial distribution of the count below the median allows. Below six values it is their whole range, which holds
/// the median less often. Cheap enough for every round, but blind to correlation.
pub(super) fn order_interval(sorted: &[f64]) -> Option<Interval> {
    let n = sorted.len();
    let outside =
        if n < 100 { binomial_outside(n) } else { ((n as f64 - 1.96 * (n as f64).sqrt() - 1.0) / 2.0) as usize };
    Some(Interval { low: *sorted.get(outside)?, high: *sorted.get(n - 1 - outside)? })
}

/// The largest count with at most 2.5% probability that no more than so many of `n` values lie below the median.
fn binomial_outside(n: usize) -> usize {
    let mut term = 0.5f64.powi(n as i32);
    let mut probability = term;
    let mut count = 0;
    while probability <= 0.025 {
        count += 1;
        term *= (n + 1 - count) as f64 / count as f64;
        probability += term;
    }
    // The last one added was one too many; below six values even none is, and none is what can be left out.
    count.saturating_sub(1)
}

/// What stands for the centre of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// The median.
    Median,
    /// Mean of the middle half: as deaf to outliers as verdicts need, a quarter fewer samples than the median for the
    /// same width, and not stuck on the steps of a coarse timer.
    Midmean,
}

/// Resampled locations of a series.
pub(super) struct Bootstrap {
    /// Location of the series itself.
    pub(super) estimate: f64,
    /// Location of each resample, minus the estimate.
    deviations: Vec<f64>,
    /// Blocks that the series is long.
    blocks: f64,
    /// What the blocks do not show of the spread.
    lost: f64,
}

impl Bootstrap {
    /// Resamples `values`, which are in the order in which they were taken. None of an empty slice.
    ///
    /// The same values give the same resamples, so that a verdict drawn while sampling stands when it is drawn again
    /// from a file. Series that are to be resampled independently of each other need different streams.
    pub(super) fn new(values: &[f64], location: Location, stream: u64) -> Option<Self> {
        let n = values.len();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
        let sorted: Vec<f64> = order.iter().map(|&i| values[i]).collect();
        median_of_sorted(&sorted)?;
        let mut ranks = vec![0usize; n];
        for (rank, &i) in order.iter().enumerate() {
            ranks[i] = rank;
        }
        let Correlation { block, lost } = Correlation::of(&ranks);
        // The series is a circle: its head follows its tail.
        ranks.extend_from_within(..block - 1);

        let estimate = location.of_counts(&sorted, &vec![1; n]);
        let mut rng = Rng::new(stream);
        let mut counts = vec![0u32; n];
        let deviations = (0..RESAMPLES)
            .map(|_| {
                counts.fill(0);
                let mut left = n;
                while left > 0 {
                    let start = rng.below(n);
                    let length = block.min(left);
                    for &rank in &ranks[start..start + length] {
                        counts[rank] += 1;
                    }
                    left -= length;
                }
                location.of_counts(&sorted, &counts) - estimate
            })
            .collect();
        Some(Bootstrap { estimate, deviations, blocks: n as f64 / block as f64, lost })
    }

    /// The interval of the location.
    pub(super) fn interval(&self, confidence: Confidence) -> Interval {
        interval_about(self.estimate, self.stretched(confidence), confidence)
    }

    /// The deviations, stretched by what a short series hides.
    pub(super) fn stretched(&self, confidence: Confidence) -> Vec<f64> {
        let blocks = self.blocks.max(2.0);
        // Blocks overlap, which makes their variance as sure as that of half as many again.
        let degrees = 1.5 * blocks - 1.0;
        let student = confidence.student_quantile(degrees) / confidence.normal_quantile();
        let factor = student * (blocks / (blocks - 1.0)).sqrt() * self.lost;
        self.deviations.iter().map(|d| d * factor).collect()
    }
}

/// The percentile interval of `estimate + deviations`.
pub(super) fn interval_about(estimate: f64, mut deviations: Vec<f64>, confidence: Confidence) -> Interval {
    deviations.sort_unstable_by(f64::total_cmp);
    let last = deviations.len().saturating_sub(1);
    let outside = ((deviations.len() as f64 * confidence.tail()) as usize).min(last);
    let at = |i: usize| estimate + deviations.get(i).copied().unwrap_or(0.0);
    Interval { low: at(outside), high: at(last - outside) }
}

impl Location {
    /// The location of a sample that holds `sorted[i]` `counts[i]` times, in all as often as there are values.
    fn of_counts(self, sorted: &[f64], counts: &[u32]) -> f64 {
        let n = sorted.len() as u64;
        // The middle stretch of the sample, in quarters of a value: a point for the median, a half for the midmean.
        let (from, to) = match self {
            Location::Median => ((n - 1) / 2 * 4, (n / 2 + 1) * 4),
            Location::Midmean => (n, 3 * n),
        };
        let mut sum = 0.0;
        let mut before = 0;
        for (&value, &count) in sorted.iter().zip(counts) {
            let after = before + 4 * u64::from(count);
            if after > from {
                sum += (after.min(to) - before.max(from)) as f64 * value;
                if after >= to {
                    break;
                }
            }
            before = after;
        }
        sum / (to - from) as f64
    }
}

/// How far correlation reaches in a series of `values` places, read from ranks so that outliers neither hide nor feign
/// it.
struct Correlation {
    /// Places per block: the square root of their number, which keeps both the correlation inside a block and the
    /// count of blocks growing with the series.
    block: usize,
    /// Standard error of the mean under all the correlation seen, over that which blocks of this length keep; at least 1.
    lost: f64,
}

impl Correlation {
    fn of(ranks: &[usize]) -> Self {
        let places = ranks.len();
        let n = places as f64;
        let block = (n.sqrt().ceil() as usize).clamp(1, (places / 4).max(1));
        let centred: Vec<f64> = ranks.iter().map(|&r| r as f64 - (n - 1.0) / 2.0).collect();
        let product = |lag: usize| centred.iter().zip(&centred[lag..]).map(|(a, b)| a * b).sum::<f64>();
        let square = product(0);
        // Four places do not show any correlation.
        if places < 4 || square <= 0.0 {
            return Correlation { block, lost: 1.0 };
        }
        let rho: Vec<f64> = (0..=places / 4).map(|lag| product(lag) / square).collect();
        let window = flat_top_window(&rho, n);
        let sum = |reach: usize, weight: &dyn Fn(f64) -> f64| {
            1.0 + 2.0 * rho.iter().enumerate().take(reach).skip(1).map(|(k, r)| weight(k as f64) * r).sum::<f64>()
        };
        let seen = sum(window + 1, &|lag| (2.0 - 2.0 * lag / window as f64).min(1.0));
        // Centring a series takes its own share of the variance away at every lag.
        let seen = seen / (1.0 - (2.0 * window as f64 + 1.0) / n).max(0.3);
        let kept = sum(block, &|lag| 1.0 - lag / block as f64);
        let lost = if kept > 0.0 { (seen / kept).max(1.0).sqrt() } else { 1.0 };
        Correlation { block, lost }
    }
}

/// Twice the lag beyond which three correlations in a row are no more than chance gives (Politis and White 2004).
fn flat_top_window(rho: &[f64], n: f64) -> usize {
    let chance = 2.0 * (n.log10() / n).sqrt();
    let mut reach = 0;
    for (lag, r) in rho.iter().enumerate().skip(1) {
        if r.abs() > chance {
            reach = lag;
        } else if lag >= reach + 3 {
            break;
        }
    }
    (2 * reach).min(rho.len() - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn median_is_the_middle_or_the_mean_of_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn student_quantiles_agree_with_tables() {
        for (degrees, p95, p996) in [(4.0, 2.7764, 5.9514), (5.0, 2.5706, 5.0302), (10.0, 2.2281, 3.7162)] {
            assert!((Confidence::P95.student_quantile(degrees) / p95 - 1.0).abs() < 0.002);
            assert!((Confidence::P996.student_quantile(degrees) / p996 - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn order_interval_leaves_out_what_the_binomial_allows() {
        // Ranks from the tables of the sign test at 95%: none of 6, 1 of 9, 5 of 20, 39 of 100.
        for (n, outside) in [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (20, 5), (99, 39), (100, 39), (1000, 468)] {
            let sorted: Vec<f64> = (0..n).map(f64::from).collect();
            let interval = order_interval(&sorted).expect("not empty");
            assert_eq!((interval.low, interval.high), (f64::from(outside), f64::from(n - 1 - outside)), "of {n}");
        }
        assert_eq!(order_interval(&[]), None);
    }

    #[test]
    fn locations_of_counts_are_those_of_the_sample_they_stand_for() {
        let sorted = [1.0, 2.0, 3.0, 10.0];
        assert_eq!(Location::Median.of_counts(&sorted, &[1, 1, 1, 1]), 2.5);
        assert_eq!(Location::Median.of_counts(&sorted, &[0, 0, 3, 1]), 3.0);
        assert_eq!(Location::Median.of_counts(&sorted, &[2, 0, 0, 2]), 5.5);
        assert_eq!(Location::Midmean.of_counts(&sorted, &[1, 1, 1, 1]), 2.5);
        assert_eq!(Location::Midmean.of_counts(&sorted, &[4, 0, 0, 0]), 1.0);
        // Of five, the middle half is 2.5 long: all of the third, three quarters of its neighbours.
        let fifths = [0.0, 4.0, 8.0, 16.0, 99.0];
        assert_eq!(Location::Midmean.of_counts(&fifths, &[1; 5]), (0.75 * 4.0 + 8.0 + 0.75 * 16.0) / 2.5);
    }

    #[test]
    fn correlation_widens_the_interval() {
        let mut rng = Rng::new(5);
        let mut state = 0.0;
        let wandering: Vec<f64> = (0..400)
            .map(|_| {
                state = 0.9 * state + rng.normal();
                100.0 + state
            })
            .collect();
        let mut shuffled = wandering.clone();
        rng.shuffle(&mut shuffled);
        let width = |values: &[f64]| {
            let interval = median_interval(values, Confidence::P95).expect("not empty");
            interval.high - interval.low
        };
        // By theory the wandering series knows its centre sqrt(19) = 4.4 times worse.
        assert!(width(&wandering) > 2.0 * width(&shuffled), "{} {}", width(&wandering), width(&shuffled));
    }

    #[test]
    fn too_few_values_have_no_interval() {
        assert_eq!(median_interval(&[], Confidence::P95), None);
        assert_eq!(median_interval(&[1.0], Confidence::P95), None);
        let constant = median_interval(&[2.0; 30], Confidence::P996);
        assert_eq!(constant, Some(Interval { low: 2.0, high: 2.0 }));
    }

    proptest! {
        #[test]
        fn intervals_hold_the_median_and_scale_with_the_values(
            values in prop::collection::vec(1.0f64..1000.0, 2..60),
        ) {
            let interval = median_interval(&values, Confidence::P95).expect("two values");
            let middle = median(&values).expect("two values");
            prop_assert!(interval.contains(middle));
            let wide = median_interval(&values, Confidence::P996).expect("two values");
            prop_assert!(wide.low <= interval.low && wide.high >= interval.high);
            let doubled: Vec<f64> = values.iter().map(|v| v * 2.0).collect();
            let twice = median_interval(&doubled, Confidence::P95).expect("two values");
            prop_assert_eq!((twice.low, twice.high), (interval.low * 2.0, interval.high * 2.0));
        }
    }
}
