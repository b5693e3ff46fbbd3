//! How often verdicts are wrong: whole samplings of subjects whose true times are known, under invented or measured
//! noise.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::bootstrap::{Bootstrap, Location, median};
use super::rng::Rng;
use super::{
    Clock, Confidence, Contender, Hooks, Sample, Settings, Subject, SubjectError, Verdict, judge_paired,
    median_interval, sample,
};

/// Noise of invented subjects. Times are multiplied by `exp` of the sum of its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Model {
    /// Standard deviation of the logarithm of each sample by itself: 0.01 is 1% noise.
    pub sd: f64,
    /// What a whole round has in common, such as the clock of the device.
    pub shared: Wander,
    /// What each subject has for itself, such as where its operands lie.
    pub own: Wander,
    /// Probability that a sample is an outlier.
    pub outliers: f64,
    /// How many times longer an outlier takes, at most; at least it takes its time.
    pub outlier_factor: f64,
    /// Step of the timer in nanoseconds; zero for a timer without steps.
    pub tick_ns: f64,
}

/// A first-order autoregression.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wander {
    /// Its standard deviation.
    pub sd: f64,
    /// Correlation of one round with the next.
    pub rho: f64,
}

/// Where noise comes from.
#[derive(Clone, Debug)]
pub enum Noise {
    /// Invented.
    Model(Model),
    /// Measured: times of one or more kernels that were sampled in the same rounds, each slice as long as the first.
    /// Every simulated sampling reads them from another round on, around and around; each subject takes a kernel, by
    /// turns, so that what kernels had in common stays in common.
    Measured(Vec<Vec<f64>>),
}

/// Comparisons of a subject with one that takes `ratio` times as long.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The noise.
    pub noise: Noise,
    /// True time of the faster subject in nanoseconds per call.
    pub base_ns: f64,
    /// True time of the second over the first: 1 for A/A, 1.02 for a planted slowdown of 2%.
    pub ratio: f64,
    /// Calls in a sample: what a sample costs of the time limit.
    pub calls: u32,
    /// How each comparison is sampled.
    pub settings: Settings,
    /// Comparisons.
    pub comparisons: u32,
}

/// How the comparisons of an experiment ended: the second subject judged on the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// Called faster.
    pub faster: u32,
    /// Called slower.
    pub slower: u32,
    /// Called the same.
    pub same: u32,
    /// Left uncertain.
    pub uncertain: u32,
    /// Rounds that each comparison took, ascending.
    pub rounds: Vec<u32>,
}

impl Rates {
    /// The share of a count in all comparisons.
    pub fn share(&self, count: u32) -> f64 {
        f64::from(count) / self.rounds.len().max(1) as f64
    }

    /// Rounds within which a share of the comparisons ended.
    pub fn rounds_within(&self, share: f64) -> u32 {
        let last = self.rounds.len().saturating_sub(1);
        self.rounds.get((last as f64 * share) as usize).copied().unwrap_or(0)
    }
}

/// Runs an experiment, each comparison with a seed of its own.
pub fn simulate(experiment: &Experiment) -> Rates {
    let mut rates = Rates::default();
    for comparison in 0..experiment.comparisons {
        let seed = experiment.settings.seed.wrapping_add(u64::from(comparison).wrapping_mul(0x2545_f491_4f6c_dd1d));
        let clock = SimulatedClock::default();
        let times = [experiment.base_ns, experiment.base_ns * experiment.ratio];
        let mut subjects = simulated(&experiment.noise, &times, experiment.calls, seed, &clock);
        let settings = Settings { seed, ..experiment.settings.clone() };
        let mut contenders: Vec<Contender<'_>> = subjects.iter_mut().map(|s| Contender::new(s)).collect();
        let sampling = sample(&mut contenders, &settings, &mut Hooks::new(&clock));
        let [a, b] = &sampling.outcomes[..] else { continue };
        match judge_paired(b.series(), a.series()).map(|j| j.verdict) {
            Some(Verdict::Faster) => rates.faster += 1,
            Some(Verdict::Slower) => rates.slower += 1,
            Some(Verdict::Same) => rates.same += 1,
            Some(Verdict::Uncertain) | None => rates.uncertain += 1,
        }
        rates.rounds.push(sampling.rounds);
    }
    rates.rounds.sort_unstable();
    rates
}

/// Subjects of these true times in nanoseconds per call, to be sampled together; their samples take no time.
pub fn subjects(noise: &Noise, times_ns: &[f64], calls: u32, seed: u64) -> Vec<Box<dyn Subject>> {
    let clock = SimulatedClock::default();
    let boxed = |subject: SimulatedSubject| -> Box<dyn Subject> { Box::new(subject) };
    simulated(noise, times_ns, calls, seed, &clock).into_iter().map(boxed).collect()
}

fn simulated(noise: &Noise, times_ns: &[f64], calls: u32, seed: u64, clock: &SimulatedClock) -> Vec<SimulatedSubject> {
    let source = Rc::new(RefCell::new(Source::new(noise, times_ns.len(), seed)));
    let subject = |(index, &ns): (usize, &f64)| SimulatedSubject {
        source: Rc::clone(&source),
        clock: clock.clone(),
        index,
        ns,
        calls,
        round: 0,
    };
    times_ns.iter().enumerate().map(subject).collect()
}

/// How often intervals over a fixed number of rounds hold the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coverage {
    /// Share of 99.6% intervals of the paired ratio that hold it.
    pub ratio: f64,
    /// Share of 95% intervals of the median that hold it.
    pub median: f64,
}

/// Measures the coverage of intervals by as many samplings of `rounds` rounds.
pub fn coverage(model: Model, base_ns: f64, rounds: u32, samplings: u32, seed: u64) -> Coverage {
    let (mut ratio, mut medians) = (0, 0);
    let truth = true_median(model, base_ns, seed);
    for sampling in 0..samplings {
        let seed = seed.wrapping_add(u64::from(sampling).wrapping_mul(0x2545_f491_4f6c_dd1d));
        let mut source = Source::new(&Noise::Model(model), 2, seed);
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for (index, times) in times.iter_mut().enumerate() {
                times.push(source.time(round, index, base_ns));
            }
        }
        let logs: Vec<f64> = times[0].iter().zip(&times[1]).map(|(a, b)| (a / b).ln()).collect();
        let interval = Bootstrap::new(&logs, Location::Midmean, 0).map(|b| b.interval(Confidence::P996));
        ratio += u32::from(interval.is_some_and(|i| i.contains(0.0)));
        medians += u32::from(median_interval(&times[0], Confidence::P95).is_some_and(|i| i.contains(truth)));
    }
    let share = |count: u32| f64::from(count) / f64::from(samplings.max(1));
    Coverage { ratio: share(ratio), median: share(medians) }
}

/// The median that a very long sampling would find.
fn true_median(model: Model, base_ns: f64, seed: u64) -> f64 {
    let mut source = Source::new(&Noise::Model(model), 1, seed ^ 0xdead_beef);
    let times: Vec<f64> = (0..200_001).map(|round| source.time(round, 0, base_ns)).collect();
    median(&times).unwrap_or(base_ns)
}

/// A clock that only samples move.
#[derive(Clone, Debug, Default)]
struct SimulatedClock(Rc<Cell<Duration>>);

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        self.0.get()
    }
}

struct SimulatedSubject {
    source: Rc<RefCell<Source>>,
    clock: SimulatedClock,
    index: usize,
    ns: f64,
    calls: u32,
    round: u32,
}

impl Subject for SimulatedSubject {
    fn sample(&mut self) -> Result<Sample, SubjectError> {
        let ns_per_call = self.source.borrow_mut().time(self.round, self.index, self.ns);
        self.round += 1;
        let cost = Duration::from_nanos((ns_per_call * f64::from(self.calls)) as u64);
        self.clock.0.set(self.clock.0.get() + cost);
        Ok(Sample { ns_per_call, calls: self.calls, throttled: false })
    }
}

/// The noise of one sampling.
struct Source {
    rng: Rng,
    kind: Kind,
}

enum Kind {
    Model {
        model: Model,
        /// Value of the shared wander in each round so far.
        shared: Vec<f64>,
        /// Last value of each subject's own wander.
        own: Vec<f64>,
    },
    /// Logarithms of measured times, each kernel's centred; the round to begin at.
    Measured { logs: Vec<Vec<f64>>, start: usize },
}

impl Wander {
    fn first(self, rng: &mut Rng) -> f64 {
        self.sd * rng.normal()
    }

    fn next(self, value: f64, rng: &mut Rng) -> f64 {
        self.rho * value + self.sd * (1.0 - self.rho * self.rho).sqrt() * rng.normal()
    }
}

impl Source {
    fn new(noise: &Noise, subjects: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x006e_6f69_7365);
        let kind = match noise {
            Noise::Model(model) => {
                let own = (0..subjects).map(|_| model.own.first(&mut rng)).collect();
                Kind::Model { model: *model, shared: vec![model.shared.first(&mut rng)], own }
            }
            Noise::Measured(times) => {
                let logs = centred(times);
                let rounds = logs.first().map_or(0, Vec::len);
                Kind::Measured { logs, start: if rounds == 0 { 0 } else { rng.below(rounds) } }
            }
        };
        Source { rng, kind }
    }

    /// Time of a subject in a round; rounds come in order.
    fn time(&mut self, round: u32, index: usize, ns: f64) -> f64 {
        let rng = &mut self.rng;
        match &mut self.kind {
            Kind::Model { model, shared, own } => {
                while shared.len() <= round as usize {
                    let last = shared.last().copied().unwrap_or(0.0);
                    shared.push(model.shared.next(last, rng));
                }
                let own = &mut own[index];
                *own = model.own.next(*own, rng);
                let mut time = ns * (shared[round as usize] + *own + model.sd * rng.normal()).exp();
                if rng.unit() < model.outliers {
                    time *= 1.0 + (model.outlier_factor - 1.0) * rng.unit();
                }
                if model.tick_ns > 0.0 {
                    time = (time / model.tick_ns).round().max(1.0) * model.tick_ns;
                }
                time
            }
            Kind::Measured { logs, start } => {
                let kernel = logs.get(index % logs.len().max(1));
                let log = kernel.and_then(|l| l.get((*start + round as usize) % l.len().max(1)));
                ns * log.copied().unwrap_or(0.0).exp()
            }
        }
    }
}

/// Logarithms of times, shifted so that the paired ratio of each kernel to the first is 1 over all rounds.
fn centred(times: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let rounds = times.iter().map(Vec::len).min().unwrap_or(0);
    let logs: Vec<Vec<f64>> = times.iter().map(|t| t.iter().take(rounds).map(|t| t.ln()).collect()).collect();
    let Some(first) = logs.first().cloned() else { return logs };
    let centre = median(&first).unwrap_or(0.0);
    logs.into_iter()
        .map(|kernel| {
            let ratios: Vec<f64> = kernel.iter().zip(&first).map(|(k, f)| k - f).collect();
            let offset = Bootstrap::new(&ratios, Location::Midmean, 0).map_or(0.0, |b| b.estimate);
            kernel.into_iter().map(|log| log - offset - centre).collect()
        })
        .collect()
}
