//! The subjects of a case while they are sampled: whose turn it is, who is raced out, and what is still open.

use super::bootstrap::{Confidence, Interval, median_interval, median_of_sorted, order_interval};
use super::rng::Rng;
use super::verdict::{Candidate, Judgement, MIN_PAIRS, NO_DIFFERENCE, SAME_WITHIN, Verdict, judge_paired, rank};
use super::{Contender, Hooks, Outcome, Sample, Settings, SubjectError};

/// A subject whose interval lies wholly above this multiple of the best's is sampled no more.
const RACE_FACTOR: f64 = 1.3;

/// The subjects of a case while they are sampled.
pub(super) struct Field {
    /// One for each contender, in their order.
    pub(super) lanes: Vec<Lane>,
    /// Draws the order of each round.
    rng: Rng,
    /// The subject whose verdict was open at the last look: asked first at the next.
    open: Option<usize>,
}

/// One subject while it is sampled.
#[derive(Default)]
pub(super) struct Lane {
    pub(super) outcome: Outcome,
    /// The samples in ascending order.
    sorted: Vec<f64>,
}

/// What a look at the verdicts found.
pub(super) enum Look {
    Settled,
    /// Not yet; the rounds, in all, after which it may be.
    Open {
        rounds: f64,
    },
}

impl Lane {
    fn is_live(&self) -> bool {
        !self.outcome.raced_out && self.outcome.error.is_none()
    }

    fn record(&mut self, round: u32, sample: Sample) {
        let outcome = &mut self.outcome;
        outcome.samples_ns.push(sample.ns_per_call);
        outcome.rounds.push(round);
        outcome.throttled.push(sample.throttled);
        outcome.calls_per_sample = sample.calls;
        let place = self.sorted.partition_point(|&t| t < sample.ns_per_call);
        self.sorted.insert(place, sample.ns_per_call);
    }
}

impl Field {
    pub(super) fn new(subjects: usize, seed: u64) -> Self {
        let lanes = (0..subjects).map(|_| Lane::default()).collect();
        Field { lanes, rng: Rng::new(seed), open: None }
    }

    pub(super) fn live(&self) -> impl Iterator<Item = usize> + '_ {
        self.lanes.iter().enumerate().filter(|(_, lane)| lane.is_live()).map(|(i, _)| i)
    }

    /// One sample of every live subject, recorded under a round number if there is one. False when it was cancelled.
    pub(super) fn round(&mut self, contenders: &mut [Contender<'_>], number: Option<u32>, hooks: &Hooks<'_>) -> bool {
        let mut order: Vec<usize> = self.live().collect();
        self.rng.shuffle(&mut order);
        for i in order {
            if hooks.cancelled() {
                return false;
            }
            let lane = &mut self.lanes[i];
            match contenders[i].subject.sample().and_then(plausible) {
                Ok(sample) => {
                    if let Some(number) = number {
                        lane.record(number, sample);
                    }
                }
                Err(error) => lane.outcome.error = Some(error),
            }
        }
        true
    }

    pub(super) fn mark_throttled(&mut self, round: u32) {
        for lane in &mut self.lanes {
            if lane.outcome.rounds.last() == Some(&round)
                && let Some(mark) = lane.outcome.throttled.last_mut()
            {
                *mark = true;
            }
        }
    }

    /// Retires every subject whose interval lies wholly above 1.3 times that of the best of its class.
    pub(super) fn race(&mut self, contenders: &[Contender<'_>]) {
        let intervals: Vec<Option<Interval>> = self.lanes.iter().map(|lane| order_interval(&lane.sorted)).collect();
        for class in classes(contenders) {
            let limit = self
                .live()
                .filter(|&i| contenders[i].class == class && contenders[i].eligible)
                .filter_map(|i| intervals[i])
                .map(|interval| interval.high * RACE_FACTOR)
                .fold(f64::INFINITY, f64::min);
            let live: Vec<usize> = self.live().filter(|&i| contenders[i].class == class).collect();
            for i in live {
                self.lanes[i].outcome.raced_out = intervals[i].is_some_and(|interval| interval.low > limit);
            }
        }
    }

    /// Whether every class has its best at the asked precision and a settled verdict on every other live subject.
    pub(super) fn look(&mut self, contenders: &[Contender<'_>], settings: &Settings) -> Look {
        for class in classes(contenders) {
            let members: Vec<usize> = (0..contenders.len())
                .filter(|&i| contenders[i].class == class && self.lanes[i].outcome.error.is_none())
                .collect();
            let rounds = self.rounds_needed(&members, contenders, settings);
            if let Some(rounds) = rounds {
                return Look::Open { rounds };
            }
        }
        Look::Settled
    }

    /// The rounds that a class still needs, counted from the first; none when it needs no more.
    fn rounds_needed(&mut self, members: &[usize], contenders: &[Contender<'_>], settings: &Settings) -> Option<f64> {
        let leader = members
            .iter()
            .copied()
            .filter(|&i| contenders[i].eligible)
            .min_by(|&a, &b| self.median(a).total_cmp(&self.median(b)));
        let Some(leader) = leader else {
            // Nothing to compare with: each is measured for itself.
            let live = members.iter().copied().filter(|&i| self.lanes[i].is_live());
            return live.filter_map(|i| self.imprecise(i, settings)).reduce(f64::max);
        };
        if let Some(rounds) = self.imprecise(leader, settings) {
            return Some(rounds);
        }
        if let Some(open) = self.open.filter(|&i| i != leader && self.lanes[i].is_live() && members.contains(&i)) {
            let judgement = judge_paired(self.lanes[open].outcome.series(), self.lanes[leader].outcome.series());
            if let Some(rounds) = self.unsettled(open, judgement, settings) {
                return Some(rounds);
            }
        }
        let candidates: Vec<Candidate<'_>> =
            members.iter().map(|&i| self.lanes[i].outcome.candidate(contenders[i].eligible)).collect();
        let ranking = rank(&candidates);
        let open = members
            .iter()
            .zip(&ranking.against_best)
            .enumerate()
            .filter(|(place, (i, _))| ranking.best != Some(*place) && self.lanes[**i].is_live())
            .find_map(|(_, (&i, &judgement))| self.unsettled(i, judgement, settings).map(|rounds| (i, rounds)));
        self.open = open.map(|(i, _)| i);
        open.map(|(_, rounds)| rounds)
    }

    fn median(&self, i: usize) -> f64 {
        median_of_sorted(&self.lanes[i].sorted).unwrap_or(f64::INFINITY)
    }

    /// The rounds after which the subject's median should be as precise as asked; none when it is.
    fn imprecise(&self, i: usize, settings: &Settings) -> Option<f64> {
        let samples = &self.lanes[i].outcome.samples_ns;
        let Some(interval) = median_interval(samples, Confidence::P95) else { return Some(MIN_PAIRS as f64) };
        let width = interval.relative_half_width(self.median(i));
        (width > settings.precision).then(|| samples.len() as f64 * (width / settings.precision).powi(2))
    }

    /// The rounds after which the verdict on a subject should be settled or given up; none when it is. It is given up
    /// when neither the ratio nor the subject's own time needs to be known any better.
    fn unsettled(&self, i: usize, judgement: Option<Judgement>, settings: &Settings) -> Option<f64> {
        let Some(judgement) = judgement else { return Some(MIN_PAIRS as f64) };
        if judgement.verdict != Verdict::Uncertain {
            return None;
        }
        let width = judgement.interval.relative_half_width(judgement.ratio);
        if width <= settings.verdict_precision {
            return self.imprecise(i, settings);
        }
        let distance = judgement.ratio.ln().abs();
        let target = settings.verdict_precision.max(distance - NO_DIFFERENCE).max(SAME_WITHIN - distance);
        Some(judgement.pairs as f64 * (width / target).powi(2).max(1.0))
    }
}

fn classes(contenders: &[Contender<'_>]) -> Vec<u32> {
    let mut classes: Vec<u32> = contenders.iter().map(|c| c.class).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// A sample whose time can be reasoned with.
fn plausible(sample: Sample) -> Result<Sample, SubjectError> {
    if sample.ns_per_call.is_finite() && sample.ns_per_call > 0.0 {
        Ok(sample)
    } else {
        Err(SubjectError(format!("a sample took {} ns per call, which no call can", sample.ns_per_call)))
    }
}
