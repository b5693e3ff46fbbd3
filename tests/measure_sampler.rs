//! The sampler, with subjects whose times are written down and a clock that they move.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use moebius::measure::{
    Clock, Contender, Hooks, Monitor, Progress, Sample, Sampling, Settings, Stop, Subject, SubjectError, Verdict,
    judge_paired, sample,
};

#[derive(Clone, Default)]
struct TestClock(Rc<Cell<Duration>>);

impl Clock for TestClock {
    fn now(&self) -> Duration {
        self.0.get()
    }
}

/// Takes `time(n)` nanoseconds the n-th time and a millisecond of the clock; writes its name into the log.
struct Scripted<F> {
    name: char,
    time: F,
    taken: u32,
    clock: TestClock,
    log: Rc<RefCell<String>>,
}

impl<F: FnMut(u32) -> Result<f64, SubjectError>> Subject for Scripted<F> {
    fn sample(&mut self) -> Result<Sample, SubjectError> {
        self.clock.0.set(self.clock.0.get() + Duration::from_millis(1));
        self.log.borrow_mut().push(self.name);
        let ns_per_call = (self.time)(self.taken)?;
        self.taken += 1;
        Ok(Sample { ns_per_call, calls: 10, throttled: false })
    }
}

#[derive(Default)]
struct Bench {
    clock: TestClock,
    log: Rc<RefCell<String>>,
}

impl Bench {
    fn scripted(&self, name: char, time: impl FnMut(u32) -> Result<f64, SubjectError> + 'static) -> Box<dyn Subject> {
        Box::new(Scripted { name, time, taken: 0, clock: self.clock.clone(), log: Rc::clone(&self.log) })
    }

    /// `ns` with a saw-tooth noise of up to `percent`, different for each name.
    fn steady(&self, name: char, ns: f64, percent: f64) -> Box<dyn Subject> {
        let step = f64::from(name as u32 % 7) + 2.0;
        self.scripted(name, move |n| Ok(ns * (1.0 + percent / 100.0 * ((f64::from(n) * step * 0.618) % 1.0 - 0.5))))
    }

    fn run(&self, subjects: &mut [Box<dyn Subject>], settings: &Settings) -> Sampling {
        let mut contenders: Vec<Contender<'_>> = subjects.iter_mut().map(|s| Contender::new(s.as_mut())).collect();
        sample(&mut contenders, settings, &mut Hooks::new(&self.clock))
    }
}

fn settings() -> Settings {
    Settings { warmup_rounds: 1, ..Settings::gpu(42) }
}

#[test]
fn every_round_samples_every_subject_once_in_changing_seeded_order() {
    let run = |seed| {
        let bench = Bench::default();
        let mut subjects = ['a', 'b', 'c'].map(|name| bench.steady(name, 100.0, 0.1));
        let sampling = bench.run(&mut subjects, &Settings { seed, ..settings() });
        let log = bench.log.borrow().clone();
        (sampling, log)
    };
    let (sampling, log) = run(42);
    let rounds: Vec<String> = log.as_bytes().chunks(3).map(|r| String::from_utf8_lossy(r).into_owned()).collect();
    let mut orders = rounds.clone();
    for round in &rounds {
        let mut names: Vec<char> = round.chars().collect();
        names.sort_unstable();
        assert_eq!(names, ['a', 'b', 'c']);
    }
    orders.sort_unstable();
    orders.dedup();
    assert_eq!(orders.len(), 6, "every order comes up: {orders:?}");
    assert_eq!(run(42), (sampling, log.clone()));
    assert_ne!(run(43).1, log);
}

#[test]
fn warm_up_is_not_recorded_even_when_none_is_asked_for() {
    for (asked, thrown_away) in [(0, 1), (3, 3)] {
        let bench = Bench::default();
        let mut subjects = [bench.scripted('a', |n| Ok(100.0 + f64::from(n)))];
        let sampling = bench.run(&mut subjects, &Settings { warmup_rounds: asked, max_rounds: 9, ..settings() });
        assert_eq!(sampling.outcomes[0].samples_ns.first(), Some(&(100.0 + f64::from(thrown_away))));
    }
}

#[test]
fn settled_verdicts_end_the_sampling() {
    let bench = Bench::default();
    let mut subjects = [bench.steady('a', 100.0, 0.2), bench.steady('b', 105.0, 0.2), bench.steady('c', 100.1, 0.2)];
    let sampling = bench.run(&mut subjects, &settings());
    assert_eq!((sampling.stop, sampling.rounds), (Stop::Settled, 20));
    let verdict = |i: usize| {
        let [a, other] = [0, i].map(|i| sampling.outcomes[i].series());
        judge_paired(other, a).map(|j| j.verdict)
    };
    assert_eq!((verdict(1), verdict(2)), (Some(Verdict::Slower), Some(Verdict::Same)));
    let first = &sampling.outcomes[0];
    let (median, interval) = (first.median_ns.expect("sampled"), first.ci95_ns.expect("sampled"));
    assert!(interval.contains(median) && interval.relative_half_width(median) < 0.01);
    assert_eq!((first.rounds.len(), first.calls_per_sample, first.throttled_samples()), (20, 10, 0));
}

#[test]
fn an_open_verdict_is_given_up_only_once_its_ratio_is_known() {
    // 0.75% apart: neither the same nor, under this noise, surely different.
    let rounds = |verdict_precision| {
        let bench = Bench::default();
        let mut subjects = [bench.steady('a', 100.0, 6.0), bench.steady('b', 100.75, 6.0)];
        let settings = Settings { verdict_precision, ..settings() };
        let sampling = bench.run(&mut subjects, &settings);
        assert_eq!(sampling.stop, Stop::Settled);
        sampling.rounds
    };
    assert!(rounds(f64::INFINITY) < rounds(0.005));
}

#[test]
fn the_best_is_sampled_until_it_is_precise() {
    let bench = Bench::default();
    let mut subjects = [bench.steady('a', 100.0, 20.0)];
    let sampling = bench.run(&mut subjects, &Settings { precision: 0.02, ..settings() });
    let outcome = &sampling.outcomes[0];
    let width = outcome.ci95_ns.expect("sampled").relative_half_width(outcome.median_ns.expect("sampled"));
    assert!(sampling.stop == Stop::Settled && sampling.rounds > 20 && width <= 0.02, "{} {width}", sampling.rounds);
}

#[test]
fn a_far_subject_is_raced_out_unless_asked_to_stay() {
    for exhaustive in [false, true] {
        let bench = Bench::default();
        let mut subjects =
            [bench.steady('a', 100.0, 1.0), bench.steady('b', 140.0, 1.0), bench.steady('c', 125.0, 1.0)];
        let sampling = bench.run(&mut subjects, &Settings { exhaustive, ..settings() });
        let raced: Vec<bool> = sampling.outcomes.iter().map(|o| o.raced_out).collect();
        assert_eq!(raced, [false, !exhaustive, false]);
        assert_eq!(sampling.outcomes[1].samples_ns.len() < sampling.outcomes[0].samples_ns.len(), !exhaustive);
        assert!(sampling.outcomes[1].samples_ns.len() >= 6);
        assert!(sampling.outcomes[1].ci95_ns.is_some());
    }
}

#[test]
fn classes_race_and_rank_for_themselves_and_the_ineligible_never_lead() {
    let bench = Bench::default();
    let mut subjects = [
        bench.steady('a', 100.0, 1.0),
        bench.steady('b', 200.0, 1.0),
        bench.steady('c', 201.0, 1.0),
        bench.steady('d', 50.0, 1.0),
    ];
    let mut contenders: Vec<Contender<'_>> = subjects.iter_mut().map(|s| Contender::new(s.as_mut())).collect();
    contenders[1].class = 1;
    contenders[2].class = 1;
    contenders[3].eligible = false;
    let sampling = sample(&mut contenders, &settings(), &mut Hooks::new(&bench.clock));
    assert!(sampling.outcomes.iter().all(|o| !o.raced_out), "{sampling:?}");
}

#[test]
fn a_failing_subject_is_dropped_with_its_reason_and_the_others_go_on() {
    let bench = Bench::default();
    let fail = |n: u32| if n < 5 { Ok(90.0) } else { Err(SubjectError("the device is gone".into())) };
    let mut subjects = [
        bench.scripted('a', fail),
        bench.steady('b', 100.0, 0.5),
        bench.scripted('c', |_| Ok(0.0)),
        bench.scripted('d', |n| Ok(if n == 0 { 1.0 } else { f64::NAN })),
    ];
    let sampling = bench.run(&mut subjects, &settings());
    let [a, b, c, d] = &sampling.outcomes[..] else { panic!("four outcomes") };
    // Five good samples, of which the first was warm-up.
    assert_eq!((a.samples_ns.len(), a.error.clone()), (4, Some(SubjectError("the device is gone".into()))));
    assert!(b.error.is_none() && b.samples_ns.len() == 20);
    assert!(c.error.as_ref().is_some_and(|e| e.0.contains("0 ns")) && c.samples_ns.is_empty() && c.ci95_ns.is_none());
    assert!(d.error.as_ref().is_some_and(|e| e.0.contains("NaN")) && d.median_ns.is_none());
    assert_eq!(sampling.stop, Stop::Settled);
}

#[test]
fn sampling_ends_when_nothing_is_left() {
    let bench = Bench::default();
    let mut subjects = [bench.scripted('a', |_| Err(SubjectError("no".into())))];
    assert_eq!(bench.run(&mut subjects, &settings()).stop, Stop::NothingLeft);
    assert_eq!(bench.run(&mut [], &settings()).stop, Stop::NothingLeft);
}

#[test]
fn time_and_rounds_are_limits() {
    let noisy = |bench: &Bench| [bench.steady('a', 100.0, 40.0), bench.steady('b', 101.0, 40.0)];
    let bench = Bench::default();
    let limited = Settings { time_limit: Duration::from_millis(50), ..settings() };
    let sampling = bench.run(&mut noisy(&bench), &limited);
    // Two subjects share 100 ms of 1 ms samples; one round was warm-up.
    assert_eq!((sampling.stop, sampling.rounds), (Stop::TimeUp, 49));
    assert_eq!(sampling.elapsed, Duration::from_millis(100));

    let bench = Bench::default();
    let hurried = Settings { time_limit: Duration::ZERO, sure_rounds: 7, ..settings() };
    let sampling = bench.run(&mut noisy(&bench), &hurried);
    assert_eq!((sampling.stop, sampling.rounds), (Stop::TimeUp, 7));

    let bench = Bench::default();
    let sampling = bench.run(&mut noisy(&bench), &Settings { max_rounds: 30, ..settings() });
    assert_eq!((sampling.stop, sampling.rounds), (Stop::MaxRounds, 30));
}

#[test]
fn cancelling_keeps_what_there_is() {
    let bench = Bench::default();
    let cancel = Rc::new(AtomicBool::new(false));
    let flag = Rc::clone(&cancel);
    let mut first = bench.scripted('a', move |n| {
        flag.store(n == 10, Ordering::Relaxed);
        Ok(100.0 + f64::from(n % 3) * 40.0)
    });
    let mut second = bench.steady('b', 100.0, 40.0);
    let mut contenders = [Contender::new(first.as_mut()), Contender::new(second.as_mut())];
    let mut hooks = Hooks { cancel: Some(&cancel), ..Hooks::new(&bench.clock) };
    let sampling = sample(&mut contenders, &settings(), &mut hooks);
    assert_eq!(sampling.stop, Stop::Cancelled);
    let [a, b] = [0, 1].map(|i| sampling.outcomes[i].samples_ns.len());
    assert!(a == 10 && (b == 9 || b == 10), "{a} {b}");
    assert!(sampling.outcomes[0].median_ns.is_some());
}

struct Throttling {
    round: u32,
}

impl Monitor for Throttling {
    fn begin_round(&mut self) {
        self.round += 1;
    }

    fn end_round(&mut self) -> bool {
        self.round.is_multiple_of(4)
    }
}

#[test]
fn throttled_rounds_are_marked_and_round_numbers_start_where_asked() {
    let bench = Bench::default();
    let mut subjects = [bench.steady('a', 100.0, 0.5), bench.steady('b', 110.0, 0.5)];
    let mut contenders: Vec<Contender<'_>> = subjects.iter_mut().map(|s| Contender::new(s.as_mut())).collect();
    let mut monitor = Throttling { round: 0 };
    let mut hooks = Hooks { monitor: Some(&mut monitor), ..Hooks::new(&bench.clock) };
    let sampling = sample(&mut contenders, &Settings { first_round: 500, ..settings() }, &mut hooks);
    for outcome in &sampling.outcomes {
        assert_eq!(outcome.rounds, (500..520).collect::<Vec<u32>>());
        assert_eq!(outcome.throttled_samples(), 5);
        assert!(outcome.throttled.iter().enumerate().all(|(i, &t)| t == ((i + 1).is_multiple_of(4))));
    }
}

#[test]
fn progress_counts_up_and_the_rest_counts_down() {
    let bench = Bench::default();
    let mut subjects = [bench.steady('a', 100.0, 30.0), bench.steady('b', 300.0, 1.0)];
    let mut contenders: Vec<Contender<'_>> = subjects.iter_mut().map(|s| Contender::new(s.as_mut())).collect();
    let mut seen: Vec<Progress> = Vec::new();
    let mut note = |p: &Progress| seen.push(*p);
    let mut hooks = Hooks { progress: Some(&mut note), ..Hooks::new(&bench.clock) };
    let limit = Duration::from_millis(60);
    let sampling = sample(&mut contenders, &Settings { time_limit: limit, ..settings() }, &mut hooks);
    assert_eq!(seen.len() as u32, sampling.rounds);
    assert!(seen.windows(2).all(|w| w[0].rounds + 1 == w[1].rounds && w[0].elapsed < w[1].elapsed));
    assert!(seen.iter().all(|p| p.elapsed + p.remaining <= limit * 2));
    assert_eq!((seen[0].live, seen[seen.len() - 1].live), (2, 1));
    assert!(seen[seen.len() - 1].remaining < seen[0].remaining);
}
