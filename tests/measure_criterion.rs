//! The bench runner under criterion, on invented kernels: what criterion stores is what the sampler recorded.

#![allow(dead_code)]

#[path = "../benches/moe_gemm/arguments.rs"]
mod arguments;
#[path = "../benches/moe_gemm/runner.rs"]
mod runner;
#[path = "../benches/moe_gemm/simulated.rs"]
mod simulated;
#[path = "../benches/moe_gemm/time.rs"]
mod time;

use std::path::Path;
use std::time::{Duration, Instant};

use arguments::{Arguments, Mode};
use criterion::Criterion;
use criterion::Throughput;
use criterion::measurement::Measurement;
use moebius::measure::{Contender, Hooks, Settings, WallClock, sample};

fn parse(line: &str) -> Arguments {
    Arguments::parse(line.split_whitespace().map(str::to_owned))
}

#[test]
fn modes_and_filters_are_read_as_criterion_reads_them() {
    let selected = |line: &str, id: &str| parse(line).select(id);
    for (line, mode) in [
        ("--bench", Mode::Recorded),
        ("--bench --save-baseline x some.filter", Mode::Recorded),
        ("", Mode::Live),
        ("--bench --test", Mode::Live),
        ("--bench --quick", Mode::Live),
        ("--bench --profile-time 5", Mode::Live),
        ("--bench --profile-time=5", Mode::Live),
        ("--bench --list", Mode::Nothing),
        ("--list", Mode::Nothing),
        ("--bench --load-baseline old", Mode::Nothing),
    ] {
        assert_eq!(parse(line).mode, mode, "{line}");
    }
    assert!(selected("--bench", "anything"));
    // The word after an option is its value, not the filter.
    assert!(selected("--bench --save-baseline x -b y", "anything"));
    assert!(selected("--bench --baseline x gemm1/.*/64$", "glm gemm1/cutlass/64"));
    assert!(!selected("--bench --baseline=x gemm1/.*/64$", "glm gemm1/cutlass/640"));
    assert!(selected("--bench --exact a/b/1", "a/b/1") && !selected("--bench --exact a/b/1", "a/b/16"));
    assert!(!selected("--bench --ignored", "anything"));
    assert_eq!(parse("--bench --measurement-time 0.5").time_per_function, Some(Duration::from_millis(500)));
    assert_eq!(parse("--bench --measurement-time -1").time_per_function, None);
}

#[test]
fn units_are_those_of_the_field() {
    let units = time::CallTime;
    let formatter = units.formatter();
    assert_eq!(formatter.format_value(8_100.0), "8.1000 us");
    assert_eq!(formatter.format_value(0.5), "0.5000 ns");
    assert_eq!(formatter.format_value(2.5e6), "2.5000 ms");
    let both = [Throughput::Bytes(443_000_000), Throughput::Elements(50_000_000)];
    assert_eq!(formatter.format_throughput(&both[0], 100_000.0), "4.4300 TB/s");
    assert_eq!(formatter.format_throughput(&both[1], 100_000.0), "500.00 GFLOP/s");
    assert_eq!(formatter.format_throughput(&Throughput::Elements(2_000_000_000), 1000.0), "2000.0 TFLOP/s");
}

/// Field `path` of criterion's file of a function.
fn stored(directory: &Path, function: &str, file: &str) -> serde_json::Value {
    let path = directory.join("simulated gemm1").join(function).join("8").join("new").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("criterion writes JSON")
}

#[test]
fn criterion_stores_the_recorded_samples_and_does_not_wait() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let began = Instant::now();
    let mut criterion = Criterion::default()
        .without_plots()
        .output_directory(directory.path())
        .nresamples(1000)
        .with_measurement(time::CallTime);
    runner::run(&mut criterion, simulated::groups(), &parse("--bench gemm1/simulated/[abc]/8"));
    // Criterion by itself spends 8 seconds on each function.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());

    // The same case, sampled by hand.
    let mut group = simulated::groups().remove(0);
    let case = &mut group.cases[1];
    let mut subjects: Vec<_> =
        (case.open)(&case.kernels.clone()).expect("opens").into_iter().filter_map(|s| s.subject.ok()).collect();
    let mut contenders: Vec<Contender<'_>> = subjects.iter_mut().map(|s| Contender::new(s.as_mut())).collect();
    let settings = Settings { sure_rounds: 10, max_rounds: 500, ..group.settings };
    let sampling = sample(&mut contenders, &settings, &mut Hooks::new(&WallClock::start()));
    for (function, outcome) in ["simulated_a", "simulated_b", "simulated_c"].iter().zip(&sampling.outcomes) {
        let numbers = |field: &str| -> Vec<f64> {
            let sample = stored(directory.path(), function, "sample.json");
            sample[field].as_array().expect("an array").iter().filter_map(serde_json::Value::as_f64).collect()
        };
        let per_call: Vec<f64> = numbers("times").iter().zip(numbers("iters")).map(|(t, n)| t / n).collect();
        assert_eq!(per_call.len(), outcome.samples_ns.len(), "{function}");
        assert!(per_call.iter().zip(&outcome.samples_ns).all(|(c, s)| (c / s - 1.0).abs() < 1e-12), "{function}");
        let median = stored(directory.path(), function, "estimates.json")["median"]["point_estimate"].as_f64();
        assert!((median.expect("a number") / outcome.median_ns.expect("sampled") - 1.0).abs() < 1e-12);
    }
}

#[test]
fn kernels_that_are_filtered_out_are_neither_sampled_nor_stored() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut criterion = Criterion::default()
        .without_plots()
        .output_directory(directory.path())
        .nresamples(1000)
        .with_filter("gemm1/simulated/b/8$")
        .with_measurement(time::CallTime);
    let asked = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let mut groups = simulated::groups();
    for case in groups.iter_mut().flat_map(|group| &mut group.cases) {
        let asked = std::rc::Rc::clone(&asked);
        let mut open = std::mem::replace(&mut case.open, Box::new(|_| Ok(Vec::new())));
        case.open = Box::new(move |names| {
            asked.borrow_mut().push(names.to_vec());
            open(names)
        });
    }
    runner::run(&mut criterion, groups, &parse("--bench gemm1/simulated/b/8$"));
    assert_eq!(*asked.borrow(), [["simulated/b"]]);
    assert!(directory.path().join("simulated gemm1/simulated_b/8").exists());
    assert!(!directory.path().join("simulated gemm1/simulated_a").exists());
}
