//! Interleaved sampling of the subjects of one case, until what matters is known or time is up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::bootstrap::{Confidence, Interval, median, median_interval, order_interval};
use super::rng::Rng;
use super::verdict::{
    Candidate, Judgement, MIN_PAIRS, NO_DIFFERENCE, SAME_WITHIN, Series, Verdict, judge_paired, rank,
};
use super::{Clock, Drift, Sample, Subject, SubjectError};

/// A subject whose interval lies wholly above this multiple of the best's is sampled no more.
const RACE_FACTOR: f64 = 1.3;

/// Fewest rounds before racing: six values are the fewest whose range is a 95% interval of the median.
const RACE_ROUNDS: u32 = 6;

/// Rounds between two looks at the verdicts grow by this factor: each look costs time and, as any look at unfinished
/// data, adds to the false calls.
const LOOK_GROWTH: f64 = 1.2;

/// When to stop.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Asked half-width of the 95% interval of the best subject's median, over the median.
    pub precision: f64,
    /// A verdict that stays uncertain is given up when the 99.6% interval of its ratio has become as narrow as this on
    /// either side.
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
    /// For kernels on a GPU, whose samples are quiet and quick: 1%, a second per subject.
    pub fn gpu(seed: u64) -> Self {
        Settings {
            precision: 0.01,
            verdict_precision: 0.0025,
            time_limit: Duration::from_secs(1),
            warmup_rounds: 2,
            min_rounds: 20,
            sure_rounds: 6,
            max_rounds: 1000,
            exhaustive: false,
            first_round: 0,
            seed,
        }
    }

    /// For kernels on a processor, whose samples are noisy and slow: 5%, two seconds per subject, and verdicts given up
    /// as soon as that precision is reached.
    pub fn cpu(seed: u64) -> Self {
        Settings {
            precision: 0.05,
            verdict_precision: 0.05,
            time_limit: Duration::from_secs(2),
            warmup_rounds: 1,
            min_rounds: 8,
            sure_rounds: 3,
            ..Settings::gpu(seed)
        }
    }
}

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

    fn cancelled(&self) -> bool {
        self.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

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

/// Samples the contenders round after round, each live one once a round in seeded random order.
pub fn sample(contenders: &mut [Contender<'_>], settings: &Settings, hooks: &mut Hooks<'_>) -> Sampling {
    let began = hooks.clock.now();
    let mut field = Field::new(contenders.len(), settings.seed);
    let stop = run(contenders, settings, hooks, &mut field, began);
    let elapsed = hooks.clock.now().saturating_sub(began);
    let rounds = field.lanes.iter().map(|lane| lane.outcome.rounds.len()).max().unwrap_or(0) as u32;
    let summed = |lane: Lane| {
        let mut outcome = lane.outcome;
        outcome.median_ns = median(&outcome.samples_ns);
        outcome.ci95_ns = median_interval(&outcome.samples_ns, Confidence::P95);
        outcome.drift = Drift::of(&outcome.samples_ns);
        outcome
    };
    Sampling { outcomes: field.lanes.into_iter().map(summed).collect(), rounds, elapsed, stop }
}

fn run(
    contenders: &mut [Contender<'_>],
    settings: &Settings,
    hooks: &mut Hooks<'_>,
    field: &mut Field,
    began: Duration,
) -> Stop {
    let budget = settings.time_limit.saturating_mul(contenders.len() as u32);
    for _ in 0..settings.warmup_rounds.max(1) {
        if !field.round(contenders, None, hooks) {
            return Stop::Cancelled;
        }
    }
    let recording = hooks.clock.now();
    let mut next_look = settings.min_rounds;
    let mut rounds_needed = f64::from(settings.min_rounds);
    for round in 1..=settings.max_rounds {
        if let Some(monitor) = &mut hooks.monitor {
            monitor.begin_round();
        }
        let number = settings.first_round.saturating_add(round - 1);
        let whole = field.round(contenders, Some(number), hooks);
        if hooks.monitor.as_mut().is_some_and(|monitor| monitor.end_round()) {
            field.mark_throttled(number);
        }
        if !whole {
            return Stop::Cancelled;
        }
        if !settings.exhaustive && round >= settings.sure_rounds.max(RACE_ROUNDS) {
            field.race(contenders);
        }
        if field.live().next().is_none() {
            return Stop::NothingLeft;
        }
        if round >= next_look {
            match field.look(contenders, settings) {
                Look::Settled => return Stop::Settled,
                Look::Open { rounds } => rounds_needed = rounds,
            }
            next_look = (f64::from(round) * LOOK_GROWTH).ceil() as u32;
        }
        let now = hooks.clock.now();
        let elapsed = now.saturating_sub(began);
        if let Some(progress) = &mut hooks.progress {
            let rounds_left = (rounds_needed.min(f64::from(settings.max_rounds)) - f64::from(round)).max(0.0);
            let guess = now.saturating_sub(recording).as_secs_f64() / f64::from(round) * rounds_left;
            let remaining = Duration::try_from_secs_f64(guess).unwrap_or(budget).min(budget.saturating_sub(elapsed));
            progress(&Progress { rounds: round, live: field.live().count(), elapsed, remaining });
        }
        if elapsed >= budget && round >= settings.sure_rounds {
            return Stop::TimeUp;
        }
    }
    Stop::MaxRounds
}

/// The subjects of a case while they are sampled.
struct Field {
    lanes: Vec<Lane>,
    rng: Rng,
    /// The subject whose verdict was open at the last look: asked first at the next.
    open: Option<usize>,
}

/// One subject while it is sampled.
#[derive(Default)]
struct Lane {
    outcome: Outcome,
    /// The samples in ascending order.
    sorted: Vec<f64>,
}

/// What a look at the verdicts found.
enum Look {
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
    fn new(subjects: usize, seed: u64) -> Self {
        let lanes = (0..subjects).map(|_| Lane::default()).collect();
        Field { lanes, rng: Rng::new(seed), open: None }
    }

    fn live(&self) -> impl Iterator<Item = usize> + '_ {
        self.lanes.iter().enumerate().filter(|(_, lane)| lane.is_live()).map(|(i, _)| i)
    }

    /// One sample of every live subject, recorded under a round number if there is one. False when it was cancelled.
    fn round(&mut self, contenders: &mut [Contender<'_>], number: Option<u32>, hooks: &Hooks<'_>) -> bool {
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

    fn mark_throttled(&mut self, round: u32) {
        for lane in &mut self.lanes {
            if lane.outcome.rounds.last() == Some(&round)
                && let Some(mark) = lane.outcome.throttled.last_mut()
            {
                *mark = true;
            }
        }
    }

    /// Retires every subject whose interval lies wholly above 1.3 times that of the best of its class.
    fn race(&mut self, contenders: &[Contender<'_>]) {
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
    fn look(&mut self, contenders: &[Contender<'_>], settings: &Settings) -> Look {
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
            let (a, b) = (self.lanes[open].outcome.series(), self.lanes[leader].outcome.series());
            let judgement = judge_paired(a, b);
            if let Some(rounds) = unsettled(judgement, settings) {
                return Some(rounds);
            }
        }
        let candidates: Vec<Candidate<'_>> = members
            .iter()
            .map(|&i| Candidate { series: self.lanes[i].outcome.series(), eligible: contenders[i].eligible })
            .collect();
        let ranking = rank(&candidates);
        let open = members
            .iter()
            .zip(&ranking.against_best)
            .enumerate()
            .filter(|(place, (i, _))| ranking.best != Some(*place) && self.lanes[**i].is_live())
            .find_map(|(_, (&i, &judgement))| unsettled(judgement, settings).map(|rounds| (i, rounds)));
        self.open = open.map(|(i, _)| i);
        open.map(|(_, rounds)| rounds)
    }

    fn median(&self, i: usize) -> f64 {
        super::bootstrap::median_of_sorted(&self.lanes[i].sorted).unwrap_or(f64::INFINITY)
    }

    /// The rounds after which the subject's median should be as precise as asked; none when it is.
    fn imprecise(&self, i: usize, settings: &Settings) -> Option<f64> {
        let samples = &self.lanes[i].outcome.samples_ns;
        let interval = median_interval(samples, Confidence::P95)?;
        let width = interval.relative_half_width(self.median(i));
        (width > settings.precision).then(|| samples.len() as f64 * (width / settings.precision).powi(2))
    }
}

/// The rounds after which a verdict should be settled or given up; none when it is.
fn unsettled(judgement: Option<Judgement>, settings: &Settings) -> Option<f64> {
    let Some(judgement) = judgement else { return Some(MIN_PAIRS as f64) };
    let width = judgement.interval.relative_half_width(judgement.ratio);
    if judgement.verdict != Verdict::Uncertain || width <= settings.verdict_precision {
        return None;
    }
    let distance = judgement.ratio.ln().abs();
    let target = settings.verdict_precision.max(distance - NO_DIFFERENCE).max(SAME_WITHIN - distance);
    Some(judgement.pairs as f64 * (width / target).powi(2).max(1.0))
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
