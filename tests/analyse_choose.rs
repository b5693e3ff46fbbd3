//! Choices, regret and exports, on results with known answers, and the published table.

mod record_support;

use moebius::analyse::*;
use moebius::kernel::Scheme;
use moebius::record::*;
use moebius::shape::Stage;
use record_support::*;

/// Times in nanoseconds of kernels `small` and `large` at each batch: they cross between 8 and 16.
fn crossing() -> Results {
    let table = [(1, 10e3, 16e3), (4, 20e3, 26e3), (8, 30e3, 33e3), (16, 60e3, 54e3), (64, 200e3, 150e3)];
    let mut rows = Vec::new();
    for (batch, small, large) in table {
        for (name, ns) in [("small", small), ("large", large)] {
            let time = time(ns, 0.002, u64::from(batch) + ns as u64);
            rows.push(row(case(Stage::Gemm1, batch), "native", Scheme::Nvfp4W4a16, name, Some(time)));
        }
    }
    results(rows)
}

fn only_choice(choices: &Choices) -> &SchemeChoice {
    &choices.tables[0].schemes[0]
}

fn names(choice: &SchemeChoice) -> Vec<&str> {
    choice.entries.iter().map(|e| e.kernel.configuration()).collect()
}

#[test]
fn the_faster_kernel_is_chosen_and_the_crossover_found() {
    let choices = choose(&crossing());
    let choice = only_choice(&choices);
    assert_eq!(names(choice), ["small", "small", "small", "large", "large"]);
    let [crossover] = choice.crossovers.as_slice() else { panic!("{:?}", choice.crossovers) };
    assert_eq!((crossover.after, crossover.before), (8, 16));
    // ln(30/33) = -0.0953 at 8, ln(60/54) = 0.1054 at 16: zero at 0.475 of the way, 8 * 2^0.475 = 11.1.
    let batch = crossover.batch.unwrap();
    assert!((batch - 11.1).abs() < 0.15, "{batch}");
    let [low, high] = crossover.range.unwrap();
    assert!(8.0 < low && low < batch && batch < high && high < 16.0, "{low} {high}");
    let next = choice.entries[0].next_best.as_ref().unwrap();
    assert_eq!(next.kernel.configuration(), "large");
    assert!((next.ratio - 1.6).abs() < 0.01);
    assert_eq!(next.verdict.unwrap().verdict, VerdictWord::Slower);
}

#[test]
fn regrets_by_hand() {
    let choices = choose(&crossing());
    let choice = only_choice(&choices);
    // `small` everywhere costs 60/54 and 200/150 at two of five batches; `large` costs 1.6, 1.3 and 1.1 at three.
    let one = choice.one_kernel.as_ref().unwrap();
    assert_eq!(one.kernel.configuration(), "small");
    let mean = ((60.0f64 / 54.0 * 200.0 / 150.0).ln() / 5.0).exp();
    assert!((one.cost.mean - mean).abs() < 0.003, "{one:?}");
    assert_eq!((one.cost.worst_batch, one.cost.batches), (64, 5));
    // 4 snaps to 1, 8 to 4, 16 to 8: only the last is a mistake.
    let snapping = &choice.snapping.as_ref().unwrap().cost;
    assert!((snapping.worst - 60.0 / 54.0).abs() < 0.004, "{snapping:?}");
    assert_eq!((snapping.worst_batch, snapping.batches), (16, 3));
}

#[test]
fn a_tie_does_not_change_the_choice() {
    let mut file = crossing();
    // `large` is ahead by a hair at 4 only.
    for row in file.rows.iter_mut().filter(|r| r.case.batch == 4) {
        row.time = Some(time(if row.kernel.id.configuration() == "large" { 19_990.0 } else { 20_000.0 }, 0.002, 3));
    }
    let choices = choose(&file);
    assert_eq!(names(only_choice(&choices))[..3], ["small", "small", "small"]);
    assert_eq!(only_choice(&choices).entries[1].ties.len(), 2);
    assert_eq!(only_choice(&choices).entries[1].fastest.configuration(), "large");
}

#[test]
fn a_table_of_another_routing_has_a_cost() {
    let mut file = crossing();
    let mut skewed = crossing().rows;
    for row in &mut skewed {
        row.case.routing = "power-law:1.2".into();
        if row.kernel.id.configuration() == "small" {
            row.time = Some(time(row.time.as_ref().unwrap().median_ns * 0.5, 0.002, 5));
        }
    }
    file.rows.extend(skewed);
    let choices = choose(&file);
    let regret = choices.routing_regret.iter().find(|r| r.case.routing == "power-law:1.2").unwrap();
    assert_eq!(regret.tuned_on, "uniform");
    // `large`, chosen at 64 under uniform, takes 150 us where `small` now takes 100.
    assert!((regret.cost.worst - 1.8).abs() < 0.02, "{regret:?}");
    assert_eq!(regret.cost.worst_batch, 16);
    assert_eq!(choices.routing_regret.len(), 2);
}

#[test]
fn across_schemes_a_coarser_one_must_be_faster_to_be_an_option() {
    let mut file = crossing();
    for batch in [1, 64] {
        let ns = if batch == 1 { 12e3 } else { 100e3 };
        file.rows.push(row(case(Stage::Gemm1, batch), "cutlass", Scheme::Nvfp4W4a4, "x", Some(time(ns, 0.002, 1))));
    }
    let choices = choose(&file);
    let options = |batch| {
        let across = choices.tables[0].across.iter().find(|a| a.batch == batch).unwrap();
        across.options.iter().map(|o| o.scheme).collect::<Vec<_>>()
    };
    assert_eq!(options(1), [Scheme::Nvfp4W4a16]);
    assert_eq!(options(64), [Scheme::Nvfp4W4a16, Scheme::Nvfp4W4a4]);
}

#[test]
fn the_schema_of_choice_files_is_current_and_real_output_validates() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/choice.schema.json");
    let generated = serde_json::to_string_pretty(&choice_schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap();
    assert_eq!(checked_in, generated, "run the tests once with UPDATE_SCHEMAS=1 and commit docs/choice.schema.json");
    let validator = jsonschema::validator_for(&serde_json::from_str(&checked_in).unwrap()).unwrap();
    let choices = choose(&crossing());
    let value = serde_json::to_value(&choices).unwrap();
    assert!(validator.is_valid(&value), "{:?}", validator.iter_errors(&value).next().map(|e| e.to_string()));
    let back: Choices = serde_json::from_value(value).unwrap();
    assert_eq!(back, choices);
}

#[test]
fn triton_winners_become_a_tuned_config() {
    let mut file = crossing();
    for row in file.rows.iter_mut().filter(|r| r.kernel.id.configuration() == "large") {
        row.kernel.id = moebius::kernel::KernelId::new("triton", "sm90", Scheme::Nvfp4W4a16, "16x64x128-g8-w4-s3");
    }
    let sweeps = sweeps(&file);
    let [config] = tuned_configs(&sweeps[0], "NVIDIA H200").unwrap().try_into().unwrap();
    assert_eq!(config.file_name, "E=256,N=256,device_name=NVIDIA_H200,dtype=nvfp4-w4a16.json");
    let expected = serde_json::json!({
        "BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 8, "num_warps": 4, "num_stages": 3
    });
    assert_eq!(serde_json::to_value(&config.configs["64"]).unwrap(), expected);
    assert!((config.cost[&1] - 1.6).abs() < 0.01 && config.cost[&64] == 1.0);
    let none = crossing();
    let sweeps = moebius::analyse::sweeps(&none);
    assert!(tuned_configs(&sweeps[0], "x").unwrap_err().contains("no timed kernel"));
}

const HEADING: &str = "framework,version,device,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,\
                       num_experts,moe_tp_size,moe_ep_size,distribution,latency\n";

fn glm5() -> KnownModel {
    KnownModel { name: "GLM-5".into(), hidden: 6144, inter: 2048, experts: 256, top_k: 8, moe_layers: 75 }
}

fn imported(lines: &[&str]) -> Result<Imported, String> {
    let text = HEADING.to_string() + &lines.join("\n");
    import_csv(text.as_bytes(), "table.csv", &[glm5()])
}

const SERVER: &str = "NVIDIA RTX PRO 6000 Blackwell Server Edition";

#[test]
fn published_rows_get_floors_by_hand_and_impossible_ones_are_marked() {
    let line = |dtype: &str, batch: u32, tp: u32, ep: u32, ms: f64| {
        format!("SGLang,0.5.14,{SERVER},some_kernel,{dtype},{batch},6144,2048,8,256,{tp},{ep},balanced,{ms}")
    };
    let lines = [
        line("bfloat16", 1, 8, 1, 0.035),
        line("nvfp4", 64, 8, 1, 0.632),
        line("fp8_block", 16, 1, 8, 0.9),
        line("bfloat16", 1, 8, 1, 0.0415).replace("some", "other"),
    ];
    let table = imported(&lines.iter().map(String::as_str).collect::<Vec<_>>()).unwrap().results;
    let bound = |i: usize| table.rows[i].bound.as_ref().unwrap();
    let close = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 1e-6, "{value} {expected}");

    // bf16 at tp 8, batch 1: 8 experts of 2 * (512 * 6144 + 6144 * 256) B, one token of 12 288 B in and one out.
    close(bound(0).floor_ns, (8.0 * 9_437_184.0 + 2.0 * 12_288.0) / 1792.0);
    assert_eq!(table.rows[0].status, Status::Impossible);
    assert!(table.rows[0].reason.as_ref().unwrap().contains("128 MiB cache"), "{:?}", table.rows[0].reason);
    assert_eq!(table.rows[3].status, Status::Imported, "42.1 us are needed, 3% are the ceiling's uncertainty");

    // nvfp4 at tp 8, batch 64: all 256 experts of 4.5 bits * (512 * 6144 + 6144 * 256) and two globals; 64 tokens.
    close(bound(1).floor_ns, (256.0 * (4_718_592.0 * 0.5625 + 8.0) + 2.0 * 64.0 * 12_288.0) / 1792.0);
    close(bound(1).of_floor.unwrap(), bound(1).floor_ns / 632e3);

    // fp8-block at ep 8, batch 16: 16 of 32 experts of (4096 * 6144 + 6144 * 2048) B and 1536 + 768 f32 scales. The 16
    // rows are of 2 tokens at least, as far as the rows tell.
    let expert = 4096.0 * 6144.0 + 6144.0 * 2048.0 + 4.0 * (32.0 * 48.0 + 48.0 * 16.0);
    close(bound(2).floor_ns, (16.0 * expert + 2.0 * 2.0 * 12_288.0) / 1792.0);
    assert_eq!(table.rows[2].case.touched_experts(), 16);
    assert_eq!((table.rows[2].case.model.as_str(), table.rows[2].case.shape.experts), ("GLM-5", 32));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("published.json");
    write(&path, &table).unwrap();
    assert!(read(&path).unwrap() == table);
}

#[test]
fn rows_of_unknown_routing_or_format_are_kept_or_named() {
    let skewed = format!("SGLang,0.5.14,{SERVER},k,nvfp4,8,6144,2048,8,256,8,1,power_law_1.2,0.1");
    let int4 = format!("SGLang,0.5.10,{SERVER},marlin,int4_wo,8,6144,2048,8,256,8,1,balanced,0.1");
    let table = imported(&[&skewed, &int4]).unwrap();
    assert_eq!(table.results.rows.len(), 1);
    assert_eq!(table.results.rows[0].case.routing, "power-law:1.2");
    assert!(table.results.rows[0].bound.is_none());
    assert!(table.notes.iter().any(|n| n.contains("`int4_wo`")), "{:?}", table.notes);
    assert!(table.notes.iter().any(|n| n.contains("1 lines have no floor")), "{:?}", table.notes);
}

#[test]
fn bad_tables_get_a_sentence_with_the_line() {
    let good = format!("SGLang,0.5.14,{SERVER},k,nvfp4,8,6144,2048,8,256,8,1,balanced,0.1");
    let changed = [
        (good.replace(",8,6144", ",eight,6144"), "line 3: column 6"),
        (good.replace(",8,6144", ",-8,6144"), "line 3: column 6"),
        (good.replace(",0.1", ",NaN"), "latency NaN"),
        (good.replace(",0.1", ",-1"), "latency -1"),
        (good.replace("256,8,1", "256,7,1"), "inter_size 2048 does not divide by 7"),
        (good.replace("256,8,1", "256,0,1"), "moe_tp_size 0"),
        (good.replace(",0.1", ""), "13 fields instead of 14"),
        (good.replace(SERVER, "Toaster"), "device `Toaster`"),
    ];
    for (line, word) in changed {
        let message = imported(&[&good, &line]).unwrap_err();
        assert!(message.starts_with("line 3") && message.contains(word), "{message}");
    }
    assert!(imported(&[]).unwrap_err().contains("no rows"));
    assert!(import_csv(b"a,b\n1,2\n", "x", &[]).unwrap_err().contains("line 2"));
    assert!(import_csv(b"\xff\xfe", "x", &[]).is_err());
}
