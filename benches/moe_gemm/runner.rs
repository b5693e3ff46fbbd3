//! Runs groups of cases under criterion.
//!
//! Criterion runs functions one after another, so that a clock that wanders between two of them looks like a
//! difference. The kernels of a case are therefore sampled interleaved first, by the sampler of the library, and each
//! function then hands its recorded samples over: one criterion sample is one recorded sample. Criterion multiplies
//! iterations to fill its time; a recorded time per call is handed over times that count, so that its division gives the
//! recorded time back.

use std::time::Duration;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};
use moebius::measure::{
    BenchCase, BenchGroup, Candidate, Contender, Hooks, NamedSubject, Outcome, Settings, Subject, WallClock, rank,
    sample,
};

use crate::arguments::{Arguments, Mode};
use crate::time::CallTime;

/// Criterion refuses fewer samples.
const FEWEST_SAMPLES: u32 = 10;

/// Criterion's statistics and plots take time by the sample.
const MOST_SAMPLES: u32 = 500;

/// Criterion's idea of the time per sample. It spends it on nothing; too little makes it warn.
const PRETENDED_SAMPLE_TIME: Duration = Duration::from_micros(100);

/// Runs every function that the arguments select.
pub fn run(criterion: &mut Criterion<CallTime>, groups: Vec<BenchGroup>, arguments: &Arguments) {
    match arguments.mode {
        Mode::Recorded => eprintln!(
            "Each case's kernels are sampled interleaved by moebius before its first function; criterion is handed the \
             recorded samples, so its warm-up and iteration counts mean nothing."
        ),
        Mode::Live => eprintln!("Kernels run one after another in this mode: comparisons are sequential."),
        Mode::Nothing => {}
    }
    for group in groups {
        let mut benchmarks = criterion.benchmark_group(&group.label);
        benchmarks.sampling_mode(SamplingMode::Flat);
        for case in group.cases {
            benchmarks.throughput(Throughput::ElementsAndBytes {
                elements: case.throughput.flops,
                bytes: case.throughput.bytes,
            });
            run_case(&mut benchmarks, &group.label, case, &group.settings, arguments);
        }
        benchmarks.finish();
    }
}

fn run_case(
    benchmarks: &mut BenchmarkGroup<'_, CallTime>,
    label: &str,
    mut case: BenchCase,
    settings: &Settings,
    arguments: &Arguments,
) {
    let id = |kernel: &str| BenchmarkId::new(kernel, &case.parameter);
    if arguments.mode == Mode::Nothing {
        for kernel in &case.kernels {
            benchmarks.bench_function(id(kernel), |_| {});
        }
        return;
    }
    let selected = |kernel: &&String| arguments.select(&format!("{label}/{kernel}/{}", case.parameter));
    let wanted: Vec<String> = case.kernels.iter().filter(selected).cloned().collect();
    if wanted.is_empty() {
        return;
    }
    let opened = match (case.open)(&wanted) {
        Ok(opened) => opened,
        Err(error) => return refuse(arguments, &format!("{label}/{}", case.parameter), &error.to_string()),
    };
    let mut subjects = Vec::new();
    for NamedSubject { name, subject } in opened {
        match subject {
            Ok(subject) => subjects.push((name, subject)),
            Err(error) => refuse(arguments, &format!("{label}/{name}/{}", case.parameter), &error.to_string()),
        }
    }
    if arguments.mode == Mode::Live {
        for (name, subject) in &mut subjects {
            let whole = format!("{label}/{name}/{}", case.parameter);
            benchmarks.bench_function(id(name), |bencher| {
                bencher.iter_custom(|iterations| live(subject.as_mut(), iterations, &whole));
            });
        }
        return;
    }
    let outcomes = take_samples(&mut subjects, settings, arguments);
    println!("{}", summary(&format!("{label}/{}", case.parameter), &subjects, &outcomes));
    for ((name, _), outcome) in subjects.iter().zip(&outcomes) {
        let samples = &outcome.samples_ns;
        if let Some(error) = &outcome.error {
            refuse(arguments, &format!("{label}/{name}/{}", case.parameter), &error.to_string());
        } else if samples.len() >= FEWEST_SAMPLES as usize {
            benchmarks.sample_size(samples.len());
            // Any time at all ends the warm-up: the closure returns at once, and its first call is enough.
            benchmarks.warm_up_time(Duration::from_nanos(1));
            benchmarks.measurement_time(PRETENDED_SAMPLE_TIME * samples.len() as u32);
            // The first call is the warm-up's: beginning with the last sample leaves them in order for the rest.
            let mut served = samples.iter().cycle().skip(samples.len() - 1);
            benchmarks.bench_function(id(name), |bencher| {
                bencher.iter_custom(|iterations| served.next().copied().unwrap_or(f64::NAN) * iterations as f64);
            });
        }
    }
}

fn take_samples(
    subjects: &mut [(String, Box<dyn Subject>)],
    settings: &Settings,
    arguments: &Arguments,
) -> Vec<Outcome> {
    let settings = Settings {
        min_rounds: settings.min_rounds.max(FEWEST_SAMPLES),
        sure_rounds: settings.sure_rounds.max(FEWEST_SAMPLES),
        max_rounds: settings.max_rounds.clamp(FEWEST_SAMPLES, MOST_SAMPLES),
        time_limit: arguments.time_per_function.unwrap_or(settings.time_limit),
        ..settings.clone()
    };
    let mut contenders: Vec<Contender<'_>> =
        subjects.iter_mut().map(|(_, subject)| Contender::new(subject.as_mut())).collect();
    sample(&mut contenders, &settings, &mut Hooks::new(&WallClock::start())).outcomes
}

/// Who is best by the paired rounds, which criterion does not see.
fn summary(case: &str, subjects: &[(String, Box<dyn Subject>)], outcomes: &[Outcome]) -> String {
    let candidates: Vec<Candidate<'_>> = outcomes.iter().map(|o| o.candidate(true)).collect();
    let ties: Vec<&str> =
        rank(&candidates).ties.iter().filter_map(|&i| subjects.get(i)).map(|(name, _)| name.as_str()).collect();
    let rounds = outcomes.iter().map(|o| o.rounds.len()).max().unwrap_or(0);
    match ties.as_slice() {
        [] => format!("{case}: no kernel could be sampled"),
        [best] => format!("{case}: {best} is fastest ({rounds} interleaved rounds)"),
        tied => format!("{case}: tie of {} ({rounds} interleaved rounds)", tied.join(", ")),
    }
}

/// Runs a subject until it has made its calls; the time of all of them.
fn live(subject: &mut dyn Subject, iterations: u64, id: &str) -> f64 {
    let mut total = 0.0;
    for _ in 0..iterations {
        match subject.sample() {
            Ok(sample) => total += sample.ns_per_call,
            Err(error) => fail(id, &error.to_string()),
        }
    }
    total
}

/// Says why a function does not run; a test run ends there.
fn refuse(arguments: &Arguments, id: &str, reason: &str) {
    if arguments.mode == Mode::Live {
        fail(id, reason);
    }
    eprintln!("{id}: not run: {reason}");
}

fn fail(id: &str, reason: &str) -> ! {
    eprintln!("{id}: {reason}");
    std::process::exit(1);
}
