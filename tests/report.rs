//! Tables, exports and the page, on synthetic results.

mod record_support;

use moebius::analyse::bind;
use moebius::kernel::Scheme;
use moebius::record::*;
use moebius::report::*;
use moebius::shape::Stage;
use record_support::*;

/// Three kernels of two schemes at four batches: a clear winner, a tie, a coarser but faster scheme, and every way of
/// not being timed.
fn sweep() -> Results {
    let mut rows = Vec::new();
    for (i, batch) in [1u32, 8, 64, 512].into_iter().enumerate() {
        let case = || case(Stage::Gemm1, batch);
        let base = [9_000.0, 40_000.0, 130_000.0, 190_000.0][i];
        let seed = 10 * i as u64;
        let a16 = |family: &str, configuration: &str, factor: f64, seed: u64| {
            row(case(), family, Scheme::Nvfp4W4a16, configuration, Some(time(base * factor, 0.004, seed)))
        };
        rows.push(a16("native", "16x8-k512", 1.0, seed));
        rows.push(a16("marlin", "m64n128", [1.41, 1.0, 1.18, 1.22][i], seed + 1));
        let mut host = a16("triton", "64x64x64", 0.8, seed + 2);
        host.kernel.needs_host_counts = true;
        rows.push(host);
        let cutlass = "128x32x128-pingpong-swap";
        if batch == 1 {
            let mut wrong = row(case(), "cutlass", Scheme::Nvfp4W4a4, cutlass, None);
            wrong.status = Status::Wrong;
            wrong.reason = Some("expert 3 is off by 3 %".into());
            rows.push(wrong);
        } else {
            rows.push(row(case(), "cutlass", Scheme::Nvfp4W4a4, cutlass, Some(time(base * 0.9, 0.01, seed + 3))));
        }
        let mut unsupported = row(case(), "cutlass", Scheme::Nvfp4W4a4, "256x128x128", None);
        unsupported.status = Status::Unsupported;
        unsupported.reason = Some("N 512 is no multiple of tile 768".into());
        rows.push(unsupported);
    }
    let mut results = results(rows);
    let (ceilings, device) = (results.ceilings.clone(), results.device.clone());
    results.rows.iter_mut().for_each(|row| bind(row, &ceilings, &device));
    results
}

fn options(width: usize, all: bool) -> TableOptions {
    TableOptions { width, all, colour: false }
}

#[test]
fn the_table_names_winners_and_ties() {
    insta::assert_snapshot!("winners_160", table(&sweep(), options(160, false)));
    insta::assert_snapshot!("winners_100", table(&sweep(), options(100, false)));
    insta::assert_snapshot!("winners_80", table(&sweep(), options(80, false)));
}

#[test]
fn the_long_table_lists_every_kernel() {
    insta::assert_snapshot!("all_160", table(&sweep(), options(160, true)));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let results = sweep();
    for width in [80, 90, 100, 120, 140, 160, 200] {
        for all in [false, true] {
            for line in table(&results, options(width, all)).lines() {
                assert!(line.chars().count() <= width, "{width} {all}: {line}");
            }
        }
    }
}

#[test]
fn colour_is_only_where_it_was_asked_for() {
    let results = sweep();
    assert!(!table(&results, options(120, false)).contains('\x1b'));
    assert!(table(&results, TableOptions { colour: true, ..options(120, false) }).contains("\x1b[1m"));
}
