//! Comparing files and gating, on runs with known differences.

mod record_support;

use moebius::analyse::*;
use moebius::kernel::Scheme;
use moebius::measure::BetweenRuns;
use moebius::record::*;
use moebius::shape::Stage;
use record_support::*;

const KERNELS: [&str; 4] = ["a", "b", "c", "d"];

/// A run of four kernels at five batches, each cell `factor(kernel, batch)` times its usual time, with 0.4% noise in the
/// samples and 0.3% between runs.
fn run(seed: u64, factor: impl Fn(&str, u32) -> f64) -> Results {
    run_of(&KERNELS, seed, factor)
}

fn run_of(kernels: &[&str], seed: u64, factor: impl Fn(&str, u32) -> f64) -> Results {
    let mut wander = Noise(seed.wrapping_mul(77).wrapping_add(5));
    let mut rows = Vec::new();
    for (b, batch) in [1u32, 4, 16, 64, 256].into_iter().enumerate() {
        for (k, &kernel) in kernels.iter().enumerate() {
            let ns = 9e3 * f64::from(batch).powf(0.5) * (1.0 + 0.1 * k as f64);
            let ns = ns * factor(kernel, batch) * (1.0 + 0.003 * wander.normal());
            let time = time(ns, 0.004, seed * 1000 + (b * 100 + k) as u64);
            rows.push(row(case(Stage::Gemm1, batch), "native", Scheme::Nvfp4W4a16, kernel, Some(time)));
        }
    }
    let mut results = results(rows);
    results.ceilings.between_runs_sd_log = Some(0.003);
    results
}

fn compared(before: &Results, after: &Results) -> Comparison {
    compare(before, after, &CompareOptions::default()).unwrap()
}

#[test]
fn a_planted_slowdown_and_speedup_are_found_where_they_are() {
    let before = run(1, |_, _| 1.0);
    let after = run(2, |kernel, batch| match (kernel, batch) {
        ("b", 16) => 1.10,
        ("c", _) => 0.9,
        _ => 1.0,
    });
    for cell in compared(&before, &after).cells {
        let expected = match (cell.cell.kernel.configuration(), cell.cell.case.batch) {
            ("b", 16) => &[Change::Slower][..],
            ("c", _) => &[Change::Faster],
            _ => &[Change::Uncertain, Change::Same],
        };
        assert!(expected.contains(&cell.change), "{cell:?}");
        assert!(cell.reason.contains("interval"), "{}", cell.reason);
    }
}

#[test]
fn same_needs_evidence() {
    let (before, mut after) = (run(1, |_, _| 1.0), run(2, |_, _| 1.0));
    let exact = CompareOptions { between_runs: Some(BetweenRuns::default()), ..Default::default() };
    let quiet = compare(&before, &before, &exact).unwrap();
    assert!(quiet.cells.iter().all(|c| c.change == Change::Same), "{:?}", quiet.counts());
    for time in after.rows.iter_mut().filter_map(|r| r.time.as_mut()) {
        time.samples_ns.truncate(3);
        time.rounds.truncate(3);
    }
    let few = compared(&before, &after);
    assert!(few.cells.iter().all(|c| c.change == Change::Uncertain && c.reason.contains("too few samples")));
}

/// What is changed in the later file, and a word of the refusal.
type Difference = (fn(&mut Results), &'static str);

#[test]
fn files_that_differ_are_refused_and_compared_when_allowed() {
    let differences: [Difference; 5] = [
        (|r| r.device.name = "NVIDIA H100".into(), "`NVIDIA H200` and `NVIDIA H100`"),
        (|r| r.device.driver = Some("590".into()), "driver"),
        (|r| r.rows.iter_mut().for_each(|r| r.case.seed = 9), "seed `1` and `9`"),
        (
            |r| r.rows.iter_mut().for_each(|r| r.conditions.l2 = L2::Warm),
            "conditions `cold L2, graph` and `warm L2, graph`",
        ),
        (|r| r.rows[7].case.rows.swap(0, 1), "rows per expert"),
    ];
    let before = run(1, |_, _| 1.0);
    for (change, word) in differences {
        let mut after = run(2, |_, _| 1.0);
        change(&mut after);
        let message = compare(&before, &after, &CompareOptions::default()).unwrap_err();
        assert!(message.contains(word) && message.contains("allow"), "{message}");
        let allowed = CompareOptions { allow_differences: true, ..Default::default() };
        let comparison = compare(&before, &after, &allowed).unwrap();
        assert_eq!(comparison.cells.len(), before.rows.len(), "{word}");
        assert_eq!(comparison.differences.len(), 1);
    }
}

#[test]
fn files_without_a_shared_cell_are_refused() {
    let mut other = run(1, |_, _| 1.0);
    other.rows.iter_mut().for_each(|r| r.case.model = "Other".into());
    let message = compare(&run(1, |_, _| 1.0), &other, &CompareOptions::default()).unwrap_err();
    assert!(message.contains("share no cell"), "{message}");
}

#[test]
fn other_outcomes_are_told_apart() {
    let (mut before, mut after) = (run(1, |_, _| 1.0), run(2, |_, _| 1.0));
    let fail = |row: &mut Row, status: Status| {
        row.status = status;
        row.reason = Some("off by 3%".into());
        row.time = None;
    };
    fail(&mut after.rows[0], Status::Wrong);
    fail(&mut before.rows[1], Status::Failed);
    fail(&mut before.rows[2], Status::Unsupported);
    fail(&mut after.rows[2], Status::Unsupported);
    let removed = after.rows.remove(3);
    let comparison = compared(&before, &after);
    let change = |row: &Row| comparison.cells.iter().find(|c| c.cell == CellKey::of(row)).map(|c| c.change);
    assert_eq!(change(&before.rows[0]), Some(Change::Broken));
    assert_eq!(change(&before.rows[1]), Some(Change::Mended));
    assert_eq!(change(&before.rows[2]), Some(Change::Untimed));
    assert_eq!(comparison.only_before, [CellKey::of(&removed)]);
    let gate = gate(&comparison, GateOptions::default());
    assert!(!gate.passed());
    assert_eq!(gate.broken.len(), 1);
    assert_eq!(gate.missing, [CellKey::of(&removed)]);
}

#[test]
fn the_gate_passes_equal_runs_and_names_the_planted_kernel_alone() {
    let (passed, caught) = rates(&KERNELS);
    assert_eq!(passed, 50, "equal runs that passed");
    assert!(caught >= 48, "planted slowdowns found: {caught} of 50");
}

/// How many of 50 gates passed equal runs, and how many caught 4% planted in kernel `b` and nothing else.
fn rates(kernels: &[&str]) -> (u32, u32) {
    let (mut passed, mut caught) = (0, 0);
    for seed in 0..50 {
        let before = run_of(kernels, seed, |_, _| 1.0);
        let equal = run_of(kernels, seed + 100, |_, _| 1.0);
        passed += u32::from(gate(&compared(&before, &equal), GateOptions::default()).passed());
        let slower = run_of(kernels, seed + 200, |kernel, _| if kernel == "b" { 1.04 } else { 1.0 });
        let planted = gate(&compared(&before, &slower), GateOptions::default());
        let alone = planted.regressions.iter().all(|r| r.cell.kernel.configuration() == "b");
        caught += u32::from(!planted.passed() && alone);
    }
    (passed, caught)
}

#[test]
#[ignore = "minutes without optimisation: cargo test --release --test analyse_compare -- --ignored"]
fn the_gate_holds_at_200_cells() {
    let names: Vec<String> = (0..40).map(|i| if i == 1 { "b".to_string() } else { format!("k{i}") }).collect();
    let (passed, caught) = rates(&names.iter().map(String::as_str).collect::<Vec<_>>());
    println!("200 cells: {passed} of 50 equal runs passed, {caught} of 50 planted slowdowns caught alone");
    assert!(passed == 50 && caught >= 48, "{passed} {caught}");
}

#[test]
fn a_slowdown_below_the_threshold_does_not_fail_the_gate() {
    let slower = run(2, |_, _| 1.01);
    let gate = gate(&compared(&run(1, |_, _| 1.0), &slower), GateOptions::default());
    assert!(gate.passed(), "{:?}", gate.regressions);
    assert_eq!(gate.tested, 20);
}

#[test]
fn a_suspect_measured_again_side_by_side_is_settled() {
    let mut after = run(2, |kernel, batch| if (kernel, batch) == ("d", 4) { 1.05 } else { 1.0 });
    after.ceilings.between_runs_sd_log = Some(0.02);
    let mut comparison = compared(&run(1, |_, _| 1.0), &after);
    let first = gate(&comparison, GateOptions::default());
    assert!(first.passed());
    let suspect = first.suspects.iter().find(|s| s.cell.kernel.configuration() == "d").expect("a suspect").cell.clone();
    let again = VerdictRecord { verdict: VerdictWord::Slower, ratio: 1.05, interval: [1.045, 1.055], pairs: 60 };
    assert!(comparison.replace(&suspect, again));
    let second = gate(&comparison, GateOptions::default());
    assert_eq!(second.regressions.iter().map(|r| r.cell.clone()).collect::<Vec<_>>(), [suspect]);
}

#[test]
fn the_notes_say_what_between_run_noise_was_taken() {
    let (mut before, mut after) = (run(1, |_, _| 1.0), run(2, |_, _| 1.0));
    assert!(compared(&before, &after).notes[0].contains("measured on the device"));
    (before.ceilings.between_runs_sd_log, after.ceilings.between_runs_sd_log) = (None, None);
    after.rows.iter_mut().for_each(|r| r.telemetry.as_mut().unwrap().sm_clock_mhz = Some(1500));
    let notes = compared(&before, &after).notes;
    assert!(notes[0].contains("assumed"), "{notes:?}");
    assert!(notes[1].contains("1980 MHz before and 1500 MHz"), "{notes:?}");
}
