//! Results files: round trips, hostile input, merging, the checked-in schema.

mod record_support;

use std::path::{Path, PathBuf};

use moebius::kernel::Scheme;
use moebius::record::*;
use moebius::shape::Stage;
use record_support::*;

fn bytes(results: &Results) -> Vec<u8> {
    let mut out = Vec::new();
    write_json(&mut out, results).unwrap();
    out
}

/// Applies `change` to the JSON of a results file and parses it.
fn parse_changed(change: impl FnOnce(&mut serde_json::Value)) -> Result<Results, String> {
    let mut value: serde_json::Value = serde_json::from_slice(&bytes(&one_of_each())).unwrap();
    change(&mut value);
    parse(value.to_string().as_bytes())
}

#[test]
fn a_file_reads_back_as_it_was_written_unknown_fields_included() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.json");
    let results = one_of_each();
    write(&path, &results).unwrap();
    let back = read(&path).unwrap();
    assert!(back == results);
    assert_eq!(back.rows[0].extra["from_the_future"]["a"][2], "x");
    assert_eq!(back.extra["note"], "kept");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file stays");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o400, 0o400);
        assert_ne!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "readable like other files");
    }
}

#[test]
fn infinite_errors_of_a_wrong_answer_survive() {
    let mut results = one_of_each();
    results.rows[3].verify.as_mut().unwrap().max_error_over_bound = f64::NAN;
    let back = parse(&bytes(&results)).unwrap();
    assert_eq!(back.rows[3].verify.as_ref().unwrap().max_error_over_bound, f64::INFINITY);
}

#[test]
fn a_file_cut_at_any_byte_gives_a_sentence() {
    let mut results = one_of_each();
    results.rows.truncate(2);
    let whole = bytes(&results);
    for length in 0..whole.len() - 1 {
        let message = parse(&whole[..length]).expect_err(&format!("cut at {length}"));
        let known = ["ends in the middle", "is empty", "is not JSON"];
        assert!(known.iter().any(|k| message.contains(k)), "cut at {length}: {message}");
    }
    parse(&whole[..whole.len() - 1]).expect("only the last newline is missing");
}

#[test]
fn a_file_with_any_byte_changed_never_panics() {
    let mut results = one_of_each();
    results.rows.truncate(1);
    let whole = bytes(&results);
    for at in 0..whole.len() {
        for byte in [b'"', b'-', b'9', b'}', b'[', 0xff, 0] {
            let mut changed = whole.clone();
            changed[at] = byte;
            let _ = parse(&changed).map_err(|message| assert!(!message.is_empty()));
        }
    }
}

#[test]
fn a_newer_schema_is_refused_with_a_sentence_even_when_its_fields_differ() {
    for rows in [serde_json::json!([]), serde_json::json!("elsewhere")] {
        let message = parse_changed(|v| {
            v["schema"] = "moebius.results/2".into();
            v["rows"] = rows;
        })
        .unwrap_err();
        assert!(message.contains("newer") && message.contains("update moebius"), "{message}");
    }
    let message = parse_changed(|v| v["schema"] = "other/1".into()).unwrap_err();
    assert!(message.contains("`other/1`"), "{message}");
    let message = parse(b"{}").unwrap_err();
    assert!(message.contains("no schema word"), "{message}");
}

#[test]
fn wrong_types_and_numbers_name_their_field() {
    let cases: [(&str, serde_json::Value, &str); 10] = [
        ("/rows/0/time/median_ns", "fast".into(), "rows[0].time.median_ns"),
        ("/rows/0/time/median_ns", (-1.0).into(), "rows[0].time.median_ns"),
        ("/rows/0/case/batch", (-3).into(), "rows[0].case.batch"),
        ("/rows/0/case/batch", 1e30.into(), "rows[0].case.batch"),
        ("/rows/0/case/rows", serde_json::json!([1, 2]), "rows[0].case.rows"),
        ("/rows/0/case/shape/n", u32::MAX.into(), "rows[0].case.shape"),
        ("/rows/0/kernel/scheme", "nvfp3".into(), "rows[0].kernel.scheme"),
        ("/rows/0/kernel/id", "a/b".into(), "rows[0].kernel.id"),
        ("/rows/0/case/model", "\u{1b}[2J".into(), "rows[0].case.model"),
        ("/ceilings/read_bytes_per_s", 0.into(), "ceilings.read_bytes_per_s"),
    ];
    for (pointer, value, field) in cases {
        let message = parse_changed(|v| {
            if pointer.ends_with("/n") {
                *v.pointer_mut("/rows/0/case/shape/k").unwrap() = u32::MAX.into();
            }
            *v.pointer_mut(pointer).unwrap() = value;
        })
        .unwrap_err();
        assert!(message.contains(&format!("`{field}`")), "{pointer}: {message}");
        assert!(!message.contains('\n'), "one sentence: {message}");
    }
}

#[test]
fn nan_and_infinity_are_refused_with_a_sentence() {
    let text = String::from_utf8(bytes(&one_of_each())).unwrap();
    let median = format!("\"median_ns\":{}", one_of_each().rows[0].time.as_ref().unwrap().median_ns);
    assert!(text.contains(&median));
    for word in ["NaN", "Infinity", "-Infinity", "1e999", "null"] {
        let message = parse(text.replacen(&median, &format!("\"median_ns\":{word}"), 1).as_bytes()).unwrap_err();
        assert!(message.contains("line"), "{word}: {message}");
    }
    let mut results = one_of_each();
    results.rows[0].time.as_mut().unwrap().median_ns = f64::NAN;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let message = write(&path, &results).unwrap_err().to_string();
    assert!(message.contains("rows[0].time.median_ns"), "{message}");
    assert!(!path.exists());
}

#[test]
fn deep_nesting_is_refused() {
    let deep = "[".repeat(100_000);
    let message = parse(format!("{{\"schema\":\"{SCHEMA}\",\"x\":{deep}").as_bytes()).unwrap_err();
    assert!(message.contains("not JSON"), "{message}");
}

#[test]
fn a_place_that_cannot_be_written_gives_a_sentence_and_keeps_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let results = one_of_each();
    let message = write(&folder.path().join("no/such/folder.json"), &results).unwrap_err().to_string();
    assert!(message.contains("cannot be written"), "{message}");
    let message = write(folder.path(), &results).unwrap_err().to_string();
    assert!(message.contains("is a folder"), "{message}");
    if Path::new("/dev/full").exists() {
        let message = write(Path::new("/dev/full"), &results).unwrap_err().to_string();
        assert!(message.contains("cannot be written"), "{message}");
    }
    let path = folder.path().join("kept.json");
    std::fs::write(&path, "old").unwrap();
    let mut bad = results.clone();
    bad.rows[0].time.as_mut().unwrap().samples_ns[0] = f64::INFINITY;
    write(&path, &bad).unwrap_err();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    write(&path, &results).unwrap();
    assert!(read(&path).unwrap() == results);
}

#[test]
fn a_missing_file_and_a_folder_give_sentences() {
    let folder = tempfile::tempdir().unwrap();
    let message = read(&folder.path().join("none.json")).unwrap_err().to_string();
    assert!(message.contains("none.json: cannot be opened"), "{message}");
    read(folder.path()).unwrap_err();
}

#[test]
fn the_schema_of_results_files_is_current_and_real_output_validates() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/results.schema.json");
    let generated = serde_json::to_string_pretty(&results_schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap();
    assert_eq!(checked_in, generated, "run the tests once with UPDATE_SCHEMAS=1 and commit docs/results.schema.json");

    let schema: serde_json::Value = serde_json::from_str(&checked_in).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut file = one_of_each();
    file.rows[3].verify.as_mut().unwrap().max_slope_over_limit = f64::INFINITY;
    let mut value: serde_json::Value = serde_json::from_slice(&bytes(&file)).unwrap();
    let errors: Vec<String> = validator.iter_errors(&value).map(|e| format!("{e} at {}", e.instance_path)).collect();
    assert!(errors.is_empty(), "{errors:?}");
    value["rows"][0]["status"] = "good".into();
    assert!(!validator.is_valid(&value));
}

fn shard(label: &str, batches: &[u32]) -> (PathBuf, Results) {
    let rows = batches
        .iter()
        .map(|&b| row(case(Stage::Gemm1, b), "native", Scheme::Nvfp4W4a16, "a", Some(time(9e3, 0.01, b.into()))))
        .collect();
    let mut shard = results(rows);
    shard.settings.insert("shard".into(), label.into());
    (PathBuf::from(format!("{}.json", label.replace('/', "of"))), shard)
}

#[test]
fn shards_merge_into_one_file_in_the_order_of_their_cells() {
    let (mut one, two) = (shard("1/3", &[4, 1]), shard("2/3", &[2, 8]));
    one.1.device.uuid = Some("GPU-2".into());
    one.1.ceilings.read_bytes_per_s = Some(4.40e12);
    let merged = merge(vec![one, two]).unwrap();
    let batches: Vec<u32> = merged.results.rows.iter().map(|r| r.case.batch).collect();
    assert_eq!(batches, [1, 2, 4, 8]);
    assert_eq!(merged.results.ceilings.read_bytes_per_s, Some(4.43e12));
    assert_eq!(merged.results.device.uuid, None);
    assert_eq!(merged.results.extra["shards"].as_array().unwrap().len(), 2);
    assert!(!merged.results.settings.contains_key("shard"));
    assert_eq!(merged.notes, ["shards not given: 3/3"]);
    assert!(parse(&bytes(&merged.results)).unwrap() == merged.results);
}

#[test]
fn kernels_of_one_case_from_two_shards_are_not_paired() {
    let (one, mut two) = (shard("1/2", &[1, 2]), shard("2/2", &[2, 4]));
    two.1
        .rows
        .iter_mut()
        .for_each(|r| r.kernel.id = moebius::kernel::KernelId::new("other", "sm90", Scheme::Bf16, "x"));
    let merged = merge(vec![one, two]).unwrap();
    for row in &merged.results.rows {
        assert_eq!(row.time.as_ref().unwrap().rounds.is_empty(), row.case.batch == 2);
    }
    assert_eq!(merged.notes.len(), 1);
    assert!(merged.notes[0].contains("1 cases come from several shards"), "{:?}", merged.notes);
}

/// What is changed in the second shard, and a word of the refusal.
type Conflict = (fn(&mut Results), &'static str);

#[test]
fn shards_that_do_not_belong_together_are_refused() {
    let conflicts: [Conflict; 6] = [
        (|r| r.device.name = "NVIDIA H100".into(), "NVIDIA H100"),
        (|r| r.device.driver = None, "driver"),
        (|r| r.tool.git = Some("other".into()), "git revision"),
        (|r| r.tool.nvcc = None, "nvcc"),
        (|r| drop(r.settings.insert("seed".into(), 2.into())), "`seed` 2 instead of 1"),
        (|r| r.ceilings.read_bytes_per_s = Some(3e12), "read ceiling"),
    ];
    for (change, word) in conflicts {
        let (one, mut two) = (shard("1/2", &[1]), shard("2/2", &[2]));
        change(&mut two.1);
        let message = merge(vec![one, two]).unwrap_err().to_string();
        assert!(message.starts_with("2of2.json: ") && message.contains(word), "{message}");
    }
    let message = merge(vec![shard("1/2", &[1, 2]), shard("2/2", &[2])]).unwrap_err().to_string();
    assert!(message.contains("batch 2") && message.contains("1of2.json"), "{message}");
    merge(vec![]).unwrap_err();
}

/// Highest memory of this process so far, in bytes.
#[cfg(target_os = "linux")]
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "a time limit for optimised code: cargo test --release --test record -- --ignored"]
fn a_file_of_100_mb_is_read_within_5_s_and_1_gib() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.json");
    let text = String::from_utf8(bytes(&one_of_each())).unwrap();
    let (head, rows) = text.split_once("\"rows\": [").unwrap();
    let rows = rows.trim().trim_end_matches('}').trim().trim_end_matches(']').trim();
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    write!(file, "{head}\"rows\": [{rows}").unwrap();
    for _ in 0..100_000_000 / rows.len() {
        write!(file, ",\n{rows}").unwrap();
    }
    write!(file, "]}}").unwrap();
    drop(file);
    assert!(std::fs::metadata(&path).unwrap().len() > 100_000_000);
    let start = std::time::Instant::now();
    let results = read(&path).unwrap();
    let (seconds, memory) = (start.elapsed().as_secs_f64(), peak_memory());
    println!("{} rows in {seconds:.2} s, peak memory {} MiB", results.rows.len(), memory >> 20);
    assert!(seconds < 5.0, "{seconds} s");
    assert!(memory < 1 << 30, "{memory} bytes");
}
