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
}

/// The best of several subjects, and the judgement of each other against it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// Index of the best: the smallest median among the eligible, unless another of them is called faster than it.
    pub best: Option<usize>,
    /// Judgement of each candidate on the best; none for the best itself and where too few rounds are shared.
    pub against_best: Vec<Option<Judgement>>,
    /// The eligible candidates that were not called slower than the best, itself included, in the order of their
    /// medians. More than one is a tie.
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
    let ties = order.into_iter().filter(|&i| i == best || !called(&against_best, i, Verdict::Slower)).collect();
    Ranking { best: Some(best), against_best, ties }
}
