//! Cases: the product of the axes, on the right rank, within limits.

use moebius::shape::{Case, CaseSpec, DEFAULT_BATCHES, EpRank, MAX_BATCH, Model, Parallelism, Routing, Stage};
use proptest::prelude::*;

fn spec(model: &str) -> CaseSpec {
    CaseSpec::new(Model::preset(model).unwrap().clone())
}

fn free(shape: &str) -> CaseSpec {
    CaseSpec::new(Model::free_shape(shape).unwrap())
}

fn refused(spec: &CaseSpec) -> String {
    let sentence = spec.build().unwrap_err().to_string();
    assert_eq!(sentence.lines().count(), 1);
    sentence
}

#[test]
fn the_main_job_is_glm_5_over_8_gpus() {
    let cases =
        CaseSpec { parallelism: Parallelism { tp: 8, ..Parallelism::default() }, ..spec("glm-5") }.build().unwrap();
    assert_eq!(cases.len(), 2 * DEFAULT_BATCHES.len());
    let shape = |case: &Case| (case.stage, case.shape.experts, case.shape.n, case.shape.k);
    assert!(cases[..10].iter().all(|case| shape(case) == (Stage::Gemm1, 256, 512, 6144)));
    assert!(cases[10..].iter().all(|case| shape(case) == (Stage::Gemm2, 256, 6144, 256)));
    for (case, batch) in cases.iter().zip(DEFAULT_BATCHES.into_iter().cycle()) {
        assert_eq!((case.batch, case.total_rows()), (batch, u64::from(batch) * 8));
        assert_eq!((case.moe_layers, case.routing.as_str(), case.unsupported()), (75, "uniform", None));
    }
    // Both stages of a batch see the same tokens.
    assert!(cases[..10].iter().zip(&cases[10..]).all(|(gemm1, gemm2)| gemm1.rows == gemm2.rows));
}

#[test]
fn axes_multiply() {
    let cases = CaseSpec {
        experts: vec![8, 64],
        top_k: vec![1, 2, 8],
        batches: Some(vec![3, 5, 3]),
        stages: vec![Stage::Ffn],
        ..free("256,128,16,4")
    }
    .build()
    .unwrap();
    assert_eq!(cases.len(), 2 * 3 * 2);
    assert!(cases.iter().all(|case| case.rows.len() == case.shape.experts as usize));
    assert_eq!(cases[0].model, "shape:256,128,16,4 experts 8 top-k 1");
    assert_eq!((cases[11].shape.experts, cases[11].top_k, cases[11].batch), (64, 8, 5));

    let too_many = CaseSpec { experts: vec![4], top_k: vec![8], ..free("256,128,16,4") };
    assert!(refused(&too_many).contains("top_k that is 8, more than 4 experts"), "{}", refused(&too_many));
}

#[test]
fn ranks_hold_their_slice_and_the_worst_is_chosen() {
    let on = |ep_rank| {
        let parallelism = Parallelism { tp: 1, ep: 8, pp: 1, ep_rank };
        let batches = Some(vec![64]);
        CaseSpec { parallelism, batches, seed: 5, stages: vec![Stage::Gemm1], ..spec("deepseek-v3") }.build().unwrap()
    };
    let ranks: Vec<Case> = (0..8).flat_map(|rank| on(EpRank::Rank(rank))).collect();
    let whole = ranks[0].assignment().unwrap().unwrap().histogram();
    assert_eq!(ranks.iter().flat_map(|case| case.rows.clone()).collect::<Vec<u32>>(), whole);
    let worst = &on(EpRank::Worst)[0];
    let most = ranks.iter().map(Case::total_rows).max().unwrap();
    assert_eq!(worst.total_rows(), most);
    assert_eq!(worst.ep_rank as usize, ranks.iter().position(|case| case.total_rows() == most).unwrap());
}

#[test]
fn a_rank_without_rows_is_a_case_that_says_so() {
    let parallelism = Parallelism { tp: 1, ep: 8, pp: 1, ep_rank: EpRank::Worst };
    let spec = CaseSpec { parallelism, batches: Some(vec![1]), routing: Routing::Same, ..free("64,32,8,1") };
    assert!(spec.build().unwrap().iter().all(|case| case.unsupported().is_none()));
    let all = (0..8).flat_map(|rank| {
        let parallelism = Parallelism { ep_rank: EpRank::Rank(rank), ..parallelism };
        CaseSpec { parallelism, stages: vec![Stage::Gemm1], ..spec.clone() }.build().unwrap()
    });
    let empty = all.filter(|case| case.unsupported() == Some("no rows")).count();
    assert_eq!(empty, 7);
}

#[test]
fn a_rank_outside_the_group_is_refused() {
    let parallelism = Parallelism { tp: 1, ep: 4, pp: 1, ep_rank: EpRank::Rank(4) };
    assert_eq!(
        refused(&CaseSpec { parallelism, ..spec("glm-5") }),
        "--ep-rank 4 is not below ep 4; give 0 to 3 or `worst`"
    );
}

#[test]
fn explicit_rows_are_taken_as_they_are() {
    let rows = |text: &str, batches: Option<Vec<u32>>| CaseSpec {
        routing: text.parse().unwrap(),
        batches,
        stages: vec![Stage::Gemm2],
        ..free("64,32,4,2")
    };
    let [case] = &rows("rows:12,0,5,1", None).build().unwrap()[..] else { panic!("one case") };
    assert_eq!((case.rows.as_slice(), case.batch), ([12, 0, 5, 1].as_slice(), 12));
    assert_eq!(case.assignment().unwrap(), None);
    let [case] = &rows("rows:4x4", None).build().unwrap()[..] else { panic!("one case") };
    assert_eq!((case.total_rows(), case.batch, case.routing.as_str()), (16, 8, "rows:4x4"));
    let [empty] = &rows("rows:0x4", None).build().unwrap()[..] else { panic!("one case") };
    assert_eq!(empty.unsupported(), Some("no rows"));

    assert!(refused(&rows("rows:1,2", None)).contains("lists 2 experts where this GPU holds 4"));
    assert!(refused(&rows("rows:12,0,5,1", Some(vec![11]))).contains("needs a batch of at least 12"));
    assert!(refused(&rows("rows:9x4", Some(vec![17]))).contains("needs a batch of at least 18"));
}

#[test]
fn batches_out_of_range_are_refused() {
    for batches in [vec![], vec![0], vec![1, 0], vec![MAX_BATCH + 1], vec![u32::MAX]] {
        assert!(refused(&CaseSpec { batches: Some(batches), ..spec("glm-5") }).starts_with("--batch"));
    }
    let huge = CaseSpec { batches: Some(vec![MAX_BATCH]), top_k: vec![64], ..spec("glm-5") };
    assert!(refused(&huge).contains("has more than 33554432 rows"), "{}", refused(&huge));
    assert!(refused(&CaseSpec { stages: vec![], ..spec("glm-5") }).starts_with("--stage"));
}

#[test]
fn free_shapes_are_read_or_refused() {
    assert_eq!(free("6144, 2048,256,8").model.name, "shape:6144,2048,256,8");
    for text in ["", "1,2,3", "1,2,3,4,5", "0,1,1,1", "64,32,4,5", "-1,1,1,1", "64,32,4,x", "99999999,1,1,1"] {
        let error = Model::free_shape(text).unwrap_err().to_string();
        assert!(error.starts_with("--shape `") && error.ends_with("such as 6144,2048,256,8"), "{error}");
    }
}

#[test]
fn a_trace_gives_consecutive_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.txt");
    let lines: Vec<String> = (0..40).map(|i| format!("{} {}", i % 8, (i + 3) % 8)).collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let spec = |batch| CaseSpec {
        routing: Routing::Trace(path.clone()),
        batches: Some(vec![batch]),
        stages: vec![Stage::Gemm1],
        ..free("64,32,8,2")
    };
    let [case] = &spec(16).build().unwrap()[..] else { panic!("one case") };
    assert_eq!(case.rows, [4; 8]);
    let assignment = case.assignment().unwrap().unwrap();
    assert!(assignment.tokens().all(|token| token[1] == (token[0] + 3) % 8));
    assert!(refused(&spec(41)).contains("holds 40 tokens where batch 41"));
}

proptest! {
    #[test]
    fn rows_of_all_ranks_add_up(
        ep_log in 0u32..4, tp_log in 0u32..3, per_rank in 1u32..9, top_k in 1u32..9, batch in 1u32..100, seed: u64,
    ) {
        let (tp, ep) = (1 << tp_log, 1 << ep_log);
        let experts = per_rank * ep;
        let top_k = top_k.min(experts);
        let model = Model::free_shape(&format!("64,{},{experts},{top_k}", 16 * tp)).unwrap();
        let mut total = 0;
        for rank in 0..ep {
            let parallelism = Parallelism { tp, ep, pp: 1, ep_rank: EpRank::Rank(rank) };
            let base = CaseSpec::new(model.clone());
            for case in (CaseSpec { parallelism, batches: Some(vec![batch]), seed, ..base }).build().unwrap() {
                prop_assert_eq!(case.rows.len(), per_rank as usize);
                total += case.total_rows();
            }
        }
        prop_assert_eq!(total, 2 * u64::from(batch) * u64::from(top_k));
    }

    #[test]
    fn a_built_case_draws_its_assignment_again(batch in 1u32..64, seed: u64) {
        let parallelism = Parallelism { tp: 1, ep: 4, pp: 1, ep_rank: EpRank::Worst };
        let routing = Routing::PowerLaw(1.2);
        let spec = CaseSpec { parallelism, batches: Some(vec![batch]), seed, routing, ..spec("qwen3-30b-a3b") };
        for case in spec.build().unwrap() {
            let histogram = case.assignment().unwrap().unwrap().histogram();
            let first = case.ep_rank as usize * 32;
            prop_assert_eq!(&histogram[first..first + 32], case.rows.as_slice());
        }
    }
}
