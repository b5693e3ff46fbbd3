//! Floors, winners and what follows from them, on results with known answers.

mod record_support;

use indexmap::IndexMap;
use moebius::analyse::*;
use moebius::kernel::Scheme;
use moebius::record::*;
use moebius::shape::Stage;
use record_support::*;

fn close(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 1e-6, "{value} instead of {expected}");
}

#[test]
fn floor_of_one_token_through_gemm1_by_hand() {
    let file = results(vec![]);
    let bound = floor(&case(Stage::Gemm1, 1), Scheme::Nvfp4W4a16, &file.ceilings, L2::Cold, &file.device).unwrap();
    // 8 experts of 512 x 6144: 1 572 864 B of e2m1, 196 608 B of scales, 4 B of global.
    assert_eq!(bound.weight_bytes, 8 * (1_572_864 + 196_608 + 4));
    // One token of 6144 bf16; 8 rows of 512 bf16.
    assert_eq!(bound.read_bytes, bound.weight_bytes + 12_288);
    assert_eq!(bound.write_bytes, 8_192);
    assert_eq!(bound.flops, 50_331_648);
    // 14 168 096 B / 4.43 TB/s = 3198.216 ns, 8192 B / 4 TB/s = 2.048 ns, launch 1200 ns.
    close(bound.floor_ns, 3_198.215_801 + 2.048 + 1200.0);
    assert_eq!(bound.limited_by, LimitedBy::Memory);
}

#[test]
fn floor_of_gemm2_counts_each_routed_row() {
    let file = results(vec![]);
    let bound = floor(&case(Stage::Gemm2, 64), Scheme::Nvfp4W4a4, &file.ceilings, L2::Cold, &file.device).unwrap();
    // 256 experts of 6144 x 256: 786 432 + 98 304 + 4 B; 512 rows of 128 + 16 B and one global; 512 rows of 12 288 B.
    assert_eq!(bound.weight_bytes, 256 * 884_740);
    assert_eq!(bound.read_bytes, bound.weight_bytes + 512 * 144 + 4);
    assert_eq!(bound.write_bytes, 512 * 12_288);
    close(bound.floor_ns, (226_493_440.0 + 73_732.0) / 4.43e3 + 6_291_456.0 / 4e3 + 1200.0);
}

#[test]
fn floor_of_a_whole_bf16_layer_on_a_data_sheet_by_hand() {
    let mut file = results(vec![]);
    file.ceilings = Ceilings { datasheet_read_bytes_per_s: Some(1.792e12), ..Ceilings::default() };
    let bound = floor(&case(Stage::Ffn, 1), Scheme::Bf16, &file.ceilings, L2::Cold, &file.device).unwrap();
    // 8 experts of 2 * (512 * 6144 + 6144 * 256) B, a token of 12 288 B in and out.
    assert_eq!(bound.weight_bytes, 75_497_472);
    close(bound.floor_ns, (75_497_472.0 + 2.0 * 12_288.0) / 1.792e3);
}

#[test]
fn many_rows_are_limited_by_arithmetic_and_tiny_work_by_the_launch() {
    let mut file = results(vec![]);
    let mut big = case(Stage::Gemm1, 1);
    big.rows = vec![4096; 256];
    big.batch = 131_072;
    let bound = floor(&big, Scheme::Nvfp4W4a16, &file.ceilings, L2::Cold, &file.device).unwrap();
    assert_eq!(bound.limited_by, LimitedBy::Compute);
    close(bound.floor_ns, 2.0 * 4096.0 * 256.0 * 512.0 * 6144.0 / 780e3 + 1200.0);
    file.ceilings.launch_ns = Some(5000.0);
    let bound = floor(&case(Stage::Gemm1, 1), Scheme::Nvfp4W4a16, &file.ceilings, L2::Cold, &file.device).unwrap();
    assert_eq!(bound.limited_by, LimitedBy::Launch);
}

#[test]
fn warm_floors_use_the_cache_and_what_does_not_fit_it_comes_from_memory() {
    let file = results(vec![]);
    let warm = |batch| floor(&case(Stage::Gemm1, batch), Scheme::Nvfp4W4a16, &file.ceilings, L2::Warm, &file.device);
    let small = warm(1).unwrap();
    close(small.floor_ns, (small.read_bytes as f64 + small.write_bytes as f64) / 9e3 + 1200.0);
    let large = warm(64).unwrap();
    let beyond = (large.read_bytes - file.device.cache_bytes) as f64 / 4.43e3;
    close(large.floor_ns, beyond + large.write_bytes as f64 / 9e3 + 1200.0);
    let no_cache = Ceilings { cache_read_bytes_per_s: None, ..file.ceilings.clone() };
    assert!(floor(&case(Stage::Gemm1, 1), Scheme::Bf16, &no_cache, L2::Warm, &file.device).is_none());
}

#[test]
fn no_floor_is_invented_without_a_ceiling_or_without_rows() {
    let file = results(vec![]);
    let none = Ceilings::default();
    assert!(floor(&case(Stage::Gemm1, 1), Scheme::Bf16, &none, L2::Cold, &file.device).is_none());
    let mut unknown = case(Stage::Gemm1, 1);
    unknown.rows.clear();
    assert!(floor(&unknown, Scheme::Bf16, &file.ceilings, L2::Cold, &file.device).is_none());
}

#[test]
fn weights_of_every_scheme_by_hand() {
    let mut one = case(Stage::Gemm1, 1);
    (one.shape.n, one.shape.k) = (200, 300);
    let expected = [
        (Scheme::Nvfp4W4a4, 200 * 150 + 200 * 19 + 4, 150 + 19 + 4),
        (Scheme::Nvfp4W4a16, 200 * 150 + 200 * 19 + 4, 600),
        (Scheme::Mxfp4W4a8, 200 * 150 + 200 * 10, 300 + 10),
        (Scheme::Fp8Block, 200 * 300 + 2 * 3 * 4, 300 + 3 * 4),
        (Scheme::Fp8, 200 * 300 + 4, 300 + 4),
        (Scheme::Bf16, 200 * 300 * 2, 600),
    ];
    for (scheme, expert, activation) in expected {
        let work = work(&one, scheme).unwrap();
        assert_eq!((work.weight_bytes, work.activation_bytes), (8 * expert, activation), "{scheme}");
    }
}

fn timed(batch: u32, ns: f64) -> Row {
    row(case(Stage::Gemm1, batch), "native", Scheme::Nvfp4W4a16, "a", Some(time(ns, 0.001, 1)))
}

#[test]
fn a_cold_row_faster_than_memory_is_impossible_with_its_cause() {
    let file = results(vec![]);
    // 14.16 MB at 4.43 TB/s take 3195 ns; 97% of that are 3100 ns.
    for (ns, possible) in [(3150.0, true), (3050.0, false)] {
        let mut row = timed(1, ns);
        mark_impossible(&mut row, &file.ceilings, &file.device);
        assert_eq!(row.status == Status::Ok, possible, "{ns}: {:?}", row.reason);
    }
    let mut skipped = timed(1, 3000.0);
    mark_impossible(&mut skipped, &file.ceilings, &file.device);
    assert!(skipped.reason.as_ref().unwrap().contains("work was skipped"), "{:?}", skipped.reason);

    let mut cached = timed(1, 3000.0);
    cached.conditions.plan.as_mut().unwrap().reuse_distance_bytes = 1 << 20;
    mark_impossible(&mut cached, &file.ceilings, &file.device);
    assert!(cached.reason.as_ref().unwrap().contains("still in the 50 MiB cache"), "{:?}", cached.reason);

    // Without a plan, as in somebody else's table: what the cache could hold is the likely cause.
    for (batch, ns, words) in [(1, 3000.0, "which they fit"), (8, 20_000.0, "a part of the weights was still in")] {
        let mut unplanned = timed(batch, ns);
        unplanned.conditions.plan = None;
        mark_impossible(&mut unplanned, &file.ceilings, &file.device);
        assert!(unplanned.reason.as_ref().unwrap().contains(words), "{:?}", unplanned.reason);
    }

    let mut warm = timed(1, 3000.0);
    warm.conditions.l2 = L2::Warm;
    mark_impossible(&mut warm, &file.ceilings, &file.device);
    assert_eq!(warm.status, Status::Ok);

    let mut wrong = timed(1, 3000.0);
    wrong.status = Status::Wrong;
    mark_impossible(&mut wrong, &file.ceilings, &file.device);
    assert_eq!(wrong.status, Status::Wrong);
}

#[test]
fn an_impossible_row_never_wins() {
    let mut file = results(vec![timed(1, 1000.0), timed(1, 9000.0)]);
    let (ceilings, device) = (file.ceilings.clone(), file.device.clone());
    file.rows.iter_mut().for_each(|row| mark_impossible(row, &ceilings, &device));
    let sweeps = sweeps(&file);
    let cell = &sweeps[0].schemes[0].cells[0];
    assert!(cell.best().unwrap().time.median_ns > 8000.0);
    assert_eq!(cell.rest.len(), 1);
}

#[test]
fn binding_keeps_what_is_known_of_the_kernel() {
    let file = results(vec![]);
    let mut row = timed(1, 8800.0);
    bind(&mut row, &file.ceilings, &file.device);
    row.bound.as_mut().unwrap().kernel_bytes = Some(77);
    bind(&mut row, &file.ceilings, &file.device);
    let bound = row.bound.unwrap();
    assert_eq!(bound.kernel_bytes, Some(77));
    close(bound.of_floor.unwrap(), bound.floor_ns / row.time.unwrap().median_ns);
}

/// A cell of kernels `a`, `b`, ... with the given medians and 0.5% noise.
fn cell_of(medians: &[f64]) -> Results {
    let rows = medians.iter().enumerate().map(|(i, &ns)| {
        let name = char::from(b'a' + i as u8).to_string();
        row(case(Stage::Gemm1, 8), "native", Scheme::Nvfp4W4a16, &name, Some(time(ns, 0.005, i as u64 + 1)))
    });
    results(rows.collect())
}

fn standings(file: &Results) -> Vec<(String, Standing)> {
    let sweeps = sweeps(file);
    let ranked = &sweeps[0].schemes[0].cells[0].ranked;
    ranked.iter().map(|r| (r.row.kernel.id.configuration().to_string(), r.standing)).collect()
}

#[test]
fn the_smallest_wins_and_equals_tie() {
    let file = cell_of(&[12e3, 10e3, 10.0e3, 11e3]);
    let standings = standings(&file);
    let (first, behind) = standings.split_at(2);
    let mut winners = first.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
    winners.sort_unstable();
    assert_eq!(winners, ["b", "c"]);
    assert_eq!(standings[0].1, Standing::Best);
    assert_eq!(standings[1].1, Standing::Tied);
    assert_eq!(behind, [("d".to_string(), Standing::Behind), ("a".to_string(), Standing::Behind)]);
}

#[test]
fn a_kernel_that_needs_host_counts_never_wins() {
    let mut file = cell_of(&[10e3, 8e3]);
    file.rows[1].kernel.needs_host_counts = true;
    assert_eq!(standings(&file), [("a".to_string(), Standing::Best), ("b".to_string(), Standing::MayNotWin)]);
    file.rows.remove(0);
    let sweeps = sweeps(&file);
    assert!(sweeps[0].schemes[0].cells[0].best().is_none());
}

#[test]
fn rows_without_samples_are_ranked_by_their_medians() {
    let mut file = cell_of(&[10.05e3, 10e3, 11e3]);
    for (row, ns) in file.rows.iter_mut().zip([10.05e3, 10e3, 11e3]) {
        let time = row.time.as_mut().unwrap();
        (time.median_ns, time.ci95_ns) = (ns, [ns, ns]);
        time.samples_ns.clear();
        time.rounds.clear();
        row.status = Status::Imported;
    }
    let expected = [("b", Standing::Best), ("a", Standing::Tied), ("c", Standing::Behind)];
    assert_eq!(standings(&file), expected.map(|(name, standing)| (name.to_string(), standing)));
}

#[test]
fn kernels_sampled_apart_are_judged_through_their_anchor() {
    let mut file = cell_of(&[10e3, 12e3, 11e3]);
    // `a` in rounds 0..40, `b` in rounds 100..140, the anchor `c` in both.
    file.rows[1].time.as_mut().unwrap().rounds.iter_mut().for_each(|r| *r += 100);
    let anchor = file.rows[2].time.as_mut().unwrap();
    anchor.samples_ns = [anchor.samples_ns.clone(), anchor.samples_ns.clone()].concat();
    anchor.rounds = (0..40).chain(100..140).collect();
    let sweeps = sweeps(&file);
    let ranked = &sweeps[0].schemes[0].cells[0].ranked;
    let last = ranked.last().unwrap();
    assert_eq!(last.row.kernel.id.configuration(), "b");
    let judgement = last.judgement.expect("judged through the anchor");
    assert!((judgement.ratio - 1.2).abs() < 0.01, "{judgement:?}");
}

#[test]
fn schemes_and_conditions_are_never_ranked_together() {
    let mut file = cell_of(&[10e3, 8e3, 9e3]);
    file.rows[1].kernel.scheme = Scheme::Nvfp4W4a4;
    file.rows[2].conditions.l2 = L2::Warm;
    let sweeps = sweeps(&file);
    assert_eq!(sweeps.len(), 2);
    assert_eq!(sweeps[0].schemes.iter().map(|s| s.scheme).collect::<Vec<_>>(), [Scheme::Nvfp4W4a4, Scheme::Nvfp4W4a16]);
}

#[test]
fn the_share_of_a_token_counts_every_layer_and_both_stages() {
    let mut rows = cell_of(&[10e3, 12e3]).rows;
    rows.push(row(case(Stage::Gemm2, 8), "native", Scheme::Nvfp4W4a16, "a", Some(time(6e3, 0.0, 1))));
    for row in &mut rows {
        row.case.pp = 3;
        row.case.moe_layers = 25;
    }
    let best = rows[0].time.as_ref().unwrap().median_ns;
    let shares = token_shares(&results(rows), 97.0);
    assert_eq!(shares.len(), 1);
    assert_eq!(shares[0].layers, 75);
    close(shares[0].ns, 75.0 * (best + 6e3));
    close(shares[0].share, 75.0 * (best + 6e3) / 97e6);
}

#[test]
fn a_stage_alone_explains_no_token() {
    assert_eq!(token_shares(&cell_of(&[10e3]), 97.0), []);
}

#[test]
fn ceilings_of_the_data_sheet_stand_in_where_nothing_was_measured() {
    let ceilings = Ceilings {
        datasheet_read_bytes_per_s: Some(5.0),
        datasheet_flops_per_s: IndexMap::from([(Scheme::Bf16, 7.0)]),
        ..Ceilings::default()
    };
    assert_eq!(read_ceiling(&ceilings), Some(5.0));
    assert_eq!(flop_ceiling(&ceilings, Scheme::Bf16), Some(7.0));
    let measured = Ceilings { read_bytes_per_s: Some(4.0), ..ceilings };
    assert_eq!(read_ceiling(&measured), Some(4.0));
}

#[test]
fn a_ceiling_that_was_measured_too_low_makes_no_row_impossible_for_good() {
    let timed = |ns| row(case(Stage::Gemm1, 64), "native", Scheme::Nvfp4W4a16, "one", Some(time(ns, 0.001, 1)));
    // 218 experts' weights at the true 4.43 TB/s take about 100 us, at half of that 200 us.
    let mut file = results(vec![timed(150_000.0), timed(10_000.0)]);
    let truth = file.ceilings.clone();
    file.ceilings.read_bytes_per_s = truth.read_bytes_per_s.map(|rate| rate / 2.0);
    file.ceilings.launch_ns = truth.launch_ns.map(|ns| ns * 3.0);
    let (ceilings, device) = (file.ceilings.clone(), file.device.clone());
    for row in &mut file.rows {
        bind(row, &ceilings, &device);
        mark_impossible(row, &ceilings, &device);
        assert_eq!(row.status, Status::Impossible);
    }
    judge_again(&mut file, &truth);
    assert_eq!(file.ceilings, truth);
    assert_eq!((file.rows[0].status, file.rows[0].reason.as_deref()), (Status::Ok, None));
    assert_eq!(file.rows[1].status, Status::Impossible);
    assert!(file.rows[0].bound.as_ref().unwrap().of_floor.unwrap() < 1.0);
    // A lower second measurement changes nothing.
    judge_again(&mut file, &ceilings);
    assert_eq!(file.ceilings, truth);
}
