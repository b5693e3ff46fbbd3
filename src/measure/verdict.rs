//! Verdicts: which of two is faster, and which of many is best.
//!
//! Two series are compared by the location (midmean) of the logarithm of their per-round time ratio. The thresholds are
//! those of the measurement contract: `faster` or `slower` when the 99.6% interval lies outside 1 +- 0.5%, `same` when
//! inside 1 +- 1%, else `uncertain`.

use super::bootstrap::{Bootstrap, Confidence, Interval, Location, interval_about, median};
use super::rng::Rng;

/// A ratio this close to 1 is no difference that a verdict may call.
pub(super) const NO_DIFFERENCE: f64 = 0.005;

/// Ratios inside 1 +- this are the same for every purpose.
pub(super) const SAME_WITHIN: f64 = 0.01;

/// Fewest pairs (or samples a side) that a verdict is given on.
pub(super) const MIN_PAIRS: usize = 6;

/// How the first of two compares with the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Takes less time, by more than 0.5%.
    Faster,
    /// Takes more time, by more than 0.5%.
    Slower,
    /// Within 1%.
    Same,
    /// The samples do not tell.
    Uncertain,
}

/// A verdict and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The verdict of the first on the second.
    pub verdict: Verdict,
    /// Time of the first over time of the second.
    pub ratio: f64,
    /// Its 99.6% interval.
    pub interval: Interval,
    /// Pairs of samples, or samples of the shorter side when they are not paired.
    pub pairs: usize,
}

/// Times of one subject and the rounds that they were taken in.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// Round of each sample, ascending.
    pub rounds: &'a [u32],
    /// Nanoseconds per call of each sample.
    pub ns: &'a [f64],
}

/// How much the median of one kernel wanders between runs of the program on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BetweenRuns {
    /// Standard deviation of the logarithm of the median: 0.01 is about 1%.
    pub sd_log: f64,
    /// Degrees of freedom that it was measured with; none when it is taken as exact.
    pub degrees: Option<u32>,
}

impl BetweenRuns {
    /// Pools the spread of medians over kernels: one slice for each kernel and case, holding its median in each run.
    /// None unless some kernel was run twice.
    pub fn measure(medians: &[&[f64]]) -> Option<Self> {
        let (mut squares, mut degrees) = (0.0, 0usize);
        for runs in medians.iter().filter(|runs| runs.len() > 1 && runs.iter().all(|&m| usable(m))) {
            let mean = runs.iter().map(|m| m.ln()).sum::<f64>() / runs.len() as f64;
            squares += runs.iter().map(|m| (m.ln() - mean).powi(2)).sum::<f64>();
            degrees += runs.len() - 1;
        }
        let sd_log = (squares / degrees as f64).sqrt();
        (degrees > 0).then_some(BetweenRuns { sd_log, degrees: u32::try_from(degrees).ok() })
    }
}

/// Compares two series sampled in the same rounds. Rounds that only one of them has are left out. None when there are
/// too few shared rounds for any interval.
pub fn judge_paired(first: Series<'_>, second: Series<'_>) -> Option<Judgement> {
    let logs = paired_logs(first, second);
    let bootstrap = enough(&logs, 0)?;
    Some(judge(bootstrap.estimate, bootstrap.stretched(Confidence::P996), logs.len()))
}

/// Compares two series that were never sampled together, but each of them with the same anchor: the ratio of their
/// ratios to it.
pub fn judge_through(anchor: Series<'_>, first: Series<'_>, second: Series<'_>) -> Option<Judgement> {
    let (first, second) = (paired_logs(first, anchor), paired_logs(second, anchor));
    difference(&first, &second, BetweenRuns::default())
}

/// Compares the samples of two runs, such as those of two files, adding what medians wander between runs.
pub fn judge_unpaired(first: &[f64], second: &[f64], between: BetweenRuns) -> Option<Judgement> {
    let logs = |ns: &[f64]| ns.iter().filter(|&&t| usable(t)).map(|t| t.ln()).collect::<Vec<f64>>();
    difference(&logs(first), &logs(second), between)
}

fn difference(first: &[f64], second: &[f64], between: BetweenRuns) -> Option<Judgement> {
    let (a, b) = (enough(first, 0)?, enough(second, 1)?);
    let confidence = Confidence::P996;
    // Each of the two runs has its own offset.
    let mut scale = between.sd_log * std::f64::consts::SQRT_2;
    if let Some(degrees) = between.degrees {
        scale *= confidence.student_quantile(f64::from(degrees)) / confidence.student_quantile(f64::INFINITY);
    }
    let mut rng = Rng::new(2);
    let deviations = a
        .stretched(confidence)
        .iter()
        .zip(b.stretched(confidence))
        .map(|(a, b)| a - b + scale * rng.normal())
        .collect();
    Some(judge(a.estimate - b.estimate, deviations, first.len().min(second.len())))
}

fn enough(logs: &[f64], stream: u64) -> Option<Bootstrap> {
    (logs.len() >= MIN_PAIRS).then(|| Bootstrap::new(logs, Location::Midmean, stream)).flatten()
}

fn usable(ns: f64) -> bool {
    ns.is_finite() && ns > 0.0
}

fn judge(log_ratio: f64, deviations: Vec<f64>, pairs: usize) -> Judgement {
    let log = interval_about(log_ratio, deviations, Confidence::P996);
    let interval = Interval { low: log.low.exp(), high: log.high.exp() };
    Judgement { verdict: verdict_of(interval), ratio: log_ratio.exp(), interval, pairs }
}

fn verdict_of(interval: Interval) -> Verdict {
    if interval.high < 1.0 - NO_DIFFERENCE {
        Verdict::Faster
    } else if interval.low > 1.0 + NO_DIFFERENCE {
        Verdict::Slower
    } else if interval.low >= 1.0 - SAME_WITHIN && interval.high <= 1.0 + SAME_WITHIN {
        Verdict::Same
    } else {
        Verdict::Uncertain
    }
}

/// Logarithm of the time ratio in each round that both have, in the order of rounds.
fn paired_logs(first: Series<'_>, second: Series<'_>) -> Vec<f64> {
    let mut others = second.rounds.iter().zip(second.ns).peekable();
    let mut logs = Vec::with_capacity(first.ns.len().min(second.ns.len()));
    for (round, &a) in first.rounds.iter().zip(first.ns) {
        while others.next_if(|(other, _)| *other < round).is_some() {}
        if let Some((_, &b)) = others.next_if(|(other, _)| *other == round)
            && usable(a)
            && usable(b)
        {
            logs.push((a / b).ln());
        }
    }
    logs
}

/// One of the subjects that are ranked against each other.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its samples.
    pub series: Series<'a>,
    /// May be called best. One that may not is still judged against the best.
    pub eligible: bool,
    /// Stopped early because it was far from the best: never part of a tie, though its few samples may not give a
    /// verdict.
    pub raced_out: bool,
}

/// The best of several subjects, and the judgement of each other against it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// Index of the best: the smallest median among the eligible, unless another of them is called faster than it.
    pub best: Option<usize>,
    /// Judgement of each candidate on the best; none for the best itself and where too few rounds are shared.
    pub against_best: Vec<Option<Judgement>>,
    /// The eligible candidates that were neither raced out nor called slower than the best, itself included, in the
    /// order of their medians. More than one is a tie.
    pub ties: Vec<usize>,
}

/// Ranks candidates that were sampled in the same rounds.
pub fn rank(candidates: &[Candidate<'_>]) -> Ranking {
    let medians: Vec<Option<f64>> = candidates.iter().map(|c| median(c.series.ns)).collect();
    let mut order: Vec<usize> =
        (0..candidates.len()).filter(|&i| candidates[i].eligible && medians[i].is_some()).collect();
    order.sort_by(|&a, &b| medians[a].unwrap_or(f64::NAN).total_cmp(&medians[b].unwrap_or(f64::NAN)));

    let judge_all = |best: usize| -> Vec<Option<Judgement>> {
        let of = |i: usize| judge_paired(candidates[i].series, candidates[best].series);
        (0..candidates.len()).map(|i| if i == best { None } else { of(i) }).collect()
    };
    let called = |judgements: &[Option<Judgement>], i: usize, verdict: Verdict| {
        judgements.get(i).copied().flatten().is_some_and(|j| j.verdict == verdict)
    };
    let Some(&first) = order.first() else {
        return Ranking { against_best: vec![None; candidates.len()], ..Ranking::default() };
    };
    let (mut best, mut against_best) = (first, judge_all(first));
    // Medians and paired ratios can disagree when a subject has two speeds; the pairs decide. Each step goes to a
    // faster one, and no more steps than candidates are taken should verdicts ever form a circle.
    for _ in 1..order.len() {
        let Some(&faster) = order.iter().find(|&&i| called(&against_best, i, Verdict::Faster)) else { break };
        (best, against_best) = (faster, judge_all(faster));
    }
    let tied = |i: usize| !candidates[i].raced_out && !called(&against_best, i, Verdict::Slower);
    let ties = order.into_iter().filter(|&i| i == best || tied(i)).collect();
    Ranking { best: Some(best), against_best, ties }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds 0 to `n` with noise of 0.2% around `ns`; the noise differs by `seed`.
    fn noisy(ns: f64, n: u32, seed: u64) -> (Vec<u32>, Vec<f64>) {
        let mut rng = Rng::new(seed);
        ((0..n).collect(), (0..n).map(|_| ns * (1.0 + 0.002 * rng.normal())).collect())
    }

    fn series((rounds, ns): &(Vec<u32>, Vec<f64>)) -> Series<'_> {
        Series { rounds, ns }
    }

    fn candidate(of: &(Vec<u32>, Vec<f64>)) -> Candidate<'_> {
        Candidate { series: series(of), eligible: true, raced_out: false }
    }

    #[test]
    fn verdicts_follow_the_thresholds() {
        let verdict = |low, high| verdict_of(Interval { low, high });
        assert_eq!(verdict(0.90, 0.9949), Verdict::Faster);
        assert_eq!(verdict(0.90, 0.9951), Verdict::Uncertain);
        assert_eq!(verdict(1.0051, 1.1), Verdict::Slower);
        assert_eq!(verdict(1.0049, 1.1), Verdict::Uncertain);
        assert_eq!(verdict(0.9901, 1.0099), Verdict::Same);
        assert_eq!(verdict(0.9899, 1.0), Verdict::Uncertain);
        assert_eq!(verdict(1.0, 1.0101), Verdict::Uncertain);
        // A real but small difference is a difference.
        assert_eq!(verdict(1.006, 1.008), Verdict::Slower);
    }

    #[test]
    fn only_shared_rounds_are_paired() {
        let first = (vec![0, 1, 3, 4, 7], vec![2.0, 4.0, 6.0, 0.0, 8.0]);
        let second = (vec![1, 2, 3, 4, 7], vec![2.0, 9.0, 3.0, 1.0, 2.0]);
        let expected = [2.0f64.ln(), 2.0f64.ln(), 4.0f64.ln()];
        assert_eq!(paired_logs(series(&first), series(&second)), expected);
    }

    #[test]
    fn pairing_takes_out_what_rounds_have_in_common() {
        // The device slows down to half within the run; the ratio stays.
        let slope = |i: usize| 1.0 + i as f64 / 40.0;
        let mut first = noisy(102.0, 40, 1);
        let mut second = noisy(100.0, 40, 2);
        for times in [&mut first.1, &mut second.1] {
            times.iter_mut().enumerate().for_each(|(i, t)| *t *= slope(i));
        }
        let paired = judge_paired(series(&first), series(&second)).expect("40 pairs");
        assert_eq!(paired.verdict, Verdict::Slower);
        assert!((paired.ratio - 1.02).abs() < 0.002 && paired.interval.contains(1.02), "{paired:?}");
        let unpaired = judge_unpaired(&first.1, &second.1, BetweenRuns::default()).expect("40 samples");
        assert_eq!(unpaired.verdict, Verdict::Uncertain);
    }

    #[test]
    fn swapping_the_two_mirrors_the_judgement() {
        let (first, second) = (noisy(103.0, 37, 1), noisy(100.0, 37, 2));
        let there = judge_paired(series(&first), series(&second)).expect("37 pairs");
        let back = judge_paired(series(&second), series(&first)).expect("37 pairs");
        assert_eq!((there.verdict, back.verdict), (Verdict::Slower, Verdict::Faster));
        assert!((there.ratio * back.ratio - 1.0).abs() < 1e-12);
        assert!((there.interval.low * back.interval.high - 1.0).abs() < 1e-12);
    }

    #[test]
    fn too_few_pairs_are_not_judged() {
        let (first, second) = (noisy(200.0, 5, 1), noisy(100.0, 5, 2));
        assert_eq!(judge_paired(series(&first), series(&second)), None);
        assert_eq!(judge_unpaired(&first.1, &second.1, BetweenRuns::default()), None);
        let stranger = (vec![9, 10, 11, 12, 13, 14], vec![100.0; 6]);
        assert_eq!(judge_paired(series(&first), series(&stranger)), None);
    }

    #[test]
    fn an_anchor_joins_two_groups() {
        let anchor_first = noisy(100.0, 30, 1);
        let mut anchor_second = noisy(110.0, 30, 2);
        let first = noisy(51.0, 30, 3);
        let mut second = noisy(55.0, 30, 4);
        for rounds in [&mut anchor_second.0, &mut second.0] {
            rounds.iter_mut().for_each(|r| *r += 30);
        }
        let anchor = ([anchor_first.0, anchor_second.0].concat(), [anchor_first.1, anchor_second.1].concat());
        // 0.51 of the anchor against 0.50 of it, although the device was 10% slower in the second group.
        let judgement = judge_through(series(&anchor), series(&first), series(&second)).expect("30 pairs each");
        assert_eq!(judgement.verdict, Verdict::Slower);
        assert!((judgement.ratio - 1.02).abs() < 0.003, "{judgement:?}");
    }

    #[test]
    fn variance_between_runs_is_added() {
        let (first, second) = (noisy(102.0, 100, 1), noisy(100.0, 100, 2));
        let verdict = |between| judge_unpaired(&first.1, &second.1, between).expect("100 samples").verdict;
        assert_eq!(verdict(BetweenRuns::default()), Verdict::Slower);
        assert_eq!(verdict(BetweenRuns { sd_log: 0.001, degrees: Some(50) }), Verdict::Slower);
        assert_eq!(verdict(BetweenRuns { sd_log: 0.01, degrees: Some(50) }), Verdict::Uncertain);
        // 2.9 x 0.0025 x sqrt 2 = 1.0% fits between 0.5% and 2%; with three degrees of freedom it is 2.8%.
        assert_eq!(verdict(BetweenRuns { sd_log: 0.0025, degrees: None }), Verdict::Slower);
        assert_eq!(verdict(BetweenRuns { sd_log: 0.0025, degrees: Some(3) }), Verdict::Uncertain);
    }

    #[test]
    fn variance_between_runs_is_pooled_over_kernels() {
        let e = 0.01f64.exp();
        let measured = BetweenRuns::measure(&[&[100.0, 100.0 * e * e], &[7.0, 7.0 * e * e], &[5.0], &[1.0, f64::NAN]]);
        let measured = measured.expect("two kernels with two runs");
        // Two runs 2% apart lie 1% from their mean: variance 2 x 0.01^2 with one degree of freedom each.
        assert!((measured.sd_log - 0.01 * 2.0f64.sqrt()).abs() < 1e-9, "{measured:?}");
        assert_eq!(measured.degrees, Some(2));
        assert_eq!(BetweenRuns::measure(&[&[1.0], &[]]), None);
    }

    #[test]
    fn the_best_and_its_ties() {
        let all = [noisy(110.0, 40, 1), noisy(100.1, 40, 2), noisy(100.0, 40, 3), noisy(90.0, 40, 4)];
        let mut candidates: Vec<Candidate<'_>> = all.iter().map(candidate).collect();
        candidates[3].eligible = false;
        let ranking = rank(&candidates);
        assert!(matches!(ranking.best, Some(1 | 2)), "{ranking:?}");
        let mut ties = ranking.ties.clone();
        ties.sort_unstable();
        assert_eq!(ties, [1, 2]);
        let verdict = |i: usize| ranking.against_best[i].map(|j| j.verdict);
        assert_eq!((verdict(0), verdict(3)), (Some(Verdict::Slower), Some(Verdict::Faster)));
    }

    #[test]
    fn pairs_overrule_medians() {
        // Slow rounds of the device hit only the rounds that the second one has: its median is larger, yet in every
        // shared round it takes 3% less.
        let first = noisy(100.0, 60, 1);
        let slow = noisy(194.0, 20, 2);
        let mut early = first.clone();
        early.1.iter_mut().take(20).for_each(|t| *t *= 2.0);
        let ranking = rank(&[candidate(&early), candidate(&slow)]);
        assert_eq!((ranking.best, ranking.ties.as_slice()), (Some(1), &[1][..]));
    }

    #[test]
    fn a_raced_out_candidate_is_no_tie() {
        let (best, far) = (noisy(100.0, 40, 1), noisy(150.0, 4, 2));
        let mut candidates = [candidate(&best), candidate(&far)];
        assert_eq!(rank(&candidates).ties, [0, 1]);
        candidates[1].raced_out = true;
        assert_eq!(rank(&candidates).ties, [0]);
    }

    #[test]
    fn nothing_to_rank_has_no_best() {
        assert_eq!(rank(&[]), Ranking::default());
        let empty = (Vec::new(), Vec::new());
        let ranking = rank(&[candidate(&empty)]);
        assert_eq!((ranking.best, ranking.ties.len(), ranking.against_best), (None, 0, vec![None]));
    }
}
