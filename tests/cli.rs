//! The program as its users meet it: what it prints, what it refuses and how, and what it leaves behind.

use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;
use moebius::record::{self, Results, Row, Status};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_moebius");

/// The program in an empty folder, with lines as wide everywhere.
fn moebius(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder).args(arguments).env("COLUMNS", "100").env_remove("NO_COLOR");
    command
}

fn folder() -> TempDir {
    TempDir::new().expect("a temporary folder")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect()
}

/// What the program prints when all is well.
fn printed(arguments: &[&str]) -> String {
    let folder = folder();
    let output = moebius(folder.path(), arguments).assert().success().get_output().clone();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    assert!(files(folder.path()).is_empty(), "{arguments:?} left a file");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs into a refusal and returns its sentence. `kept` files may lie in the folder, and no others may come.
fn refused_in(folder: &Path, arguments: &[&str], code: i32) -> String {
    let before = files(folder).len();
    let output = moebius(folder, arguments).timeout(Duration::from_secs(300)).assert().code(code).get_output().clone();
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?} printed before it refused");
    assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
    assert_eq!(files(folder).len(), before, "{arguments:?} left a file");
    let sentence = stderr.strip_prefix("moebius: ").unwrap_or_else(|| panic!("{arguments:?}: {stderr}"));
    let sentence = sentence.strip_suffix('\n').unwrap_or_else(|| panic!("{arguments:?}: {stderr}"));
    assert!(!sentence.contains('\n') && (10..500).contains(&sentence.len()), "{arguments:?}: not a sentence: {stderr}");
    sentence.to_owned()
}

#[track_caller]
fn refused(arguments: &[&str], words: &[&str]) {
    let sentence = refused_in(folder().path(), arguments, 2);
    for word in words {
        assert!(sentence.contains(word), "{arguments:?}: `{word}` is not in: {sentence}");
    }
}

#[test]
fn help_is_what_it_was() {
    insta::assert_snapshot!(printed(&["--help"]));
}

#[test]
fn models_are_listed() {
    insta::assert_snapshot!(printed(&["list", "models"]));
}

#[test]
fn shapes_of_one_model_are_listed() {
    insta::assert_snapshot!(printed(&["list", "models", "--model", "glm-5"]));
}

#[test]
fn lists_come_as_json_too() {
    let models: serde_json::Value = serde_json::from_str(&printed(&["list", "models", "--json"])).expect("JSON");
    assert!(models.as_array().is_some_and(|models| models.iter().any(|model| model["name"] == "glm-5")));
    let kernels: serde_json::Value = serde_json::from_str(&printed(&["list", "kernels", "--json"])).expect("JSON");
    let ids: Vec<&str> = kernels.as_array().into_iter().flatten().filter_map(|kernel| kernel["id"].as_str()).collect();
    assert!(ids.contains(&"cpu/cpu/nvfp4-w4a16/stream"), "{ids:?}");
    let devices: serde_json::Value = serde_json::from_str(&printed(&["list", "devices", "--json"])).expect("JSON");
    assert!(devices["cpu"]["cache_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{devices}");
}

#[test]
fn an_unknown_model_is_told_its_nearest_names() {
    refused(&["run", "--model", "glm5"], &["glm5", "did you mean glm-5", "list models"]);
    refused(&["list", "models", "--model", "deepseek-v33"], &["deepseek-v3"]);
    refused(&["verify", "--model", ""], &["unknown model"]);
}

#[test]
fn lists_of_numbers_are_refused_by_name() {
    for batch in ["", ",", "0", "1,,2", "1..", "64..1", "-1", "1e3", "many", "99999999999999999999", "4294967296"] {
        refused(&["run", &format!("--batch={batch}")], &["--batch"]);
    }
    refused(&["run", "--experts=-8"], &["--experts"]);
    refused(&["run", "--top-k=0"], &["--top-k"]);
    refused(&["list", "models", "--model", "glm-5", "--tp=0"], &["--tp"]);
}

#[test]
fn shapes_and_splits_that_cannot_be_are_refused_with_their_numbers() {
    for shape in ["", "64", "64,64,4", "64,64,4,2,1", "64,64,4,8", "0,64,4,2", "-64,64,4,2", "64,64,4,x", "1e9,64,4,2"]
    {
        refused(&["run", "--device", "cpu", &format!("--shape={shape}")], &[]);
    }
    refused(&["run", "--shape=99999999999,64,4,2"], &["99999999999"]);
    refused(&["run", "--model", "glm-5", "--tp", "3"], &["tp 3", "glm-5"]);
    refused(&["run", "--model", "glm-5", "--ep", "7"], &["ep 7", "256"]);
    refused(&["run", "--model", "glm-5", "--tp", "0"], &["tp"]);
    refused(&["run", "--model", "glm-5", "--ep", "8", "--ep-rank", "8"], &["8"]);
    refused(&["run", "--ep-rank", "best"], &["best"]);
}

#[test]
fn routings_that_cannot_be_are_refused() {
    for routing in
        ["", "fair", "power-law:", "power-law:-1", "power-law:nan", "power-law:1e9", "rows:", "rows:-1", "rows:0,0"]
    {
        refused(&["run", &format!("--routing={routing}")], &[]);
    }
    refused(&["run", "--routing=trace:nowhere.txt"], &["nowhere.txt"]);
    let folder = folder();
    std::fs::write(folder.path().join("trace.txt"), "0 1 2 -7 99999999999999999999\n\u{0}").expect("a file");
    let sentence = refused_in(folder.path(), &["run", "--routing=trace:trace.txt"], 2);
    assert!(sentence.contains("trace.txt"), "{sentence}");
}

#[test]
fn other_flags_are_refused_by_name() {
    refused(&["run", "--device", "cpu", "--kernel", "cutlas/*"], &["cutlas/*"]);
    refused(&["run", "--device", "cpu", "--tile", "7x7*"], &["7x7*"]);
    refused(&["run", "--device", "cpu", "--scheme", "nvfp5"], &["--scheme", "nvfp5"]);
    refused(&["run", "--device", "gpu"], &["--device gpu", "cuda:0"]);
    refused(&["run", "--device", "cuda:-1"], &["--device cuda:-1"]);
    for value in ["0", "-1", "nan", "inf", "1e99"] {
        refused(&["run", &format!("--precision={value}")], &["--precision"]);
        refused(&["run", &format!("--time-limit={value}")], &["--time-limit"]);
        refused(&["run", &format!("--tpot-ms={value}")], &["--tpot-ms"]);
    }
    for shard in ["", "1", "0/2", "3/2", "a/b", "1/0", "-1/2"] {
        refused(&["run", &format!("--shard={shard}")], &["--shard"]);
    }
    refused(&["run", "--stage", "gemm3"], &["gemm3"]);
    refused(&["run", "--stage", "ffn"], &["ffn", "gemm1"]);
}

#[test]
fn what_the_parser_of_words_refuses_names_the_flag_too() {
    refused(&["run", "--tp=-1"], &["--tp", "-1"]);
    refused(&["run", "--tp=99999999999999999999"], &["--tp"]);
    refused(&["run", "--seed=x"], &["--seed"]);
    refused(&["run", "--l2=hot"], &["--l2", "hot"]);
    refused(&["run", "--no-such-flag"], &["--no-such-flag"]);
    refused(&["measure"], &["measure"]);
    refused(&["run", "--model", "glm-5", "--shape", "64,64,4,2"], &["--model", "--shape"]);
    refused(&["merge"], &["--out"]);
}

#[test]
fn model_configs_are_refused_with_file_and_field() {
    let deep = "[".repeat(100_000);
    let whole = r#"{"model_type": "glm_moe_dsa", "hidden_size": 6144, "moe_intermediate_size": 2048, "n_routed_experts": 256,
        "num_experts_per_tok": 8, "num_hidden_layers": 78, "first_k_dense_replace": 3}"#;
    let with = |from: &str, to: &str| whole.replace(from, to);
    let texts = [
        (String::new(), ""),
        ("{".to_owned(), ""),
        (whole[..whole.len() / 2].to_owned(), ""),
        ("null".to_owned(), ""),
        ("[1, 2]".to_owned(), ""),
        ("{}".to_owned(), ""),
        ("not JSON at all".to_owned(), ""),
        (deep.clone(), ""),
        (format!("{{\"text_config\": {deep}"), ""),
        (with("6144", "-6144"), "hidden_size"),
        (with("6144", "0"), "hidden_size"),
        (with("6144", "1e300"), "hidden_size"),
        (with("6144", "99999999999999999999999"), "hidden_size"),
        (with("6144", "\"wide\""), "hidden_size"),
        (with("6144", "{}"), "hidden_size"),
        (with(": 8,", ": 800,"), "num_experts_per_tok"),
        (with("256", "4000000000"), "n_routed_experts"),
    ];
    for (text, field) in texts {
        let folder = folder();
        std::fs::write(folder.path().join("config.json"), &text).expect("a file");
        for verb in [&["run"][..], &["list", "models"]] {
            let sentence = refused_in(folder.path(), &[verb, &["--model-config", "config.json"]].concat(), 2);
            let start: String = text.chars().take(60).collect();
            assert!(sentence.contains("config.json") && sentence.contains(field), "{start}: {sentence}");
        }
    }
    refused(&["run", "--model-config", "nowhere.json"], &["nowhere.json"]);
    refused(&["run", "--model-config", "."], &["."]);
}

#[test]
fn results_files_are_refused_with_their_name() {
    let folder = folder();
    let newer = r#"{"schema": "moebius.results/2", "rows": []}"#;
    for (text, word) in
        [("", "empty"), ("{\"schema\": \"moebius.res", ""), ("[]", ""), ("{}", "schema"), (newer, "newer")]
    {
        std::fs::write(folder.path().join("old.json"), text).expect("a file");
        for arguments in [
            &["compare", "old.json", "old.json"][..],
            &["gate", "old.json", "old.json", "--markdown", "gate.md"],
            &["choose", "old.json"],
            &["report", "old.json", "--out", "report.md"],
            &["merge", "old.json", "old.json", "--out", "merged.json"],
        ] {
            let sentence = refused_in(folder.path(), arguments, 2);
            assert!(sentence.contains("old.json") && sentence.contains(word), "{arguments:?}: {sentence}");
        }
    }
    refused(&["compare", "nowhere.json", "nowhere.json"], &["nowhere.json"]);
    refused(&["import", "nowhere.csv"], &["nowhere.csv"]);
}

/// Flags of a run of a second or so on the processor.
const TINY: [&str; 11] =
    ["run", "--device", "cpu", "--shape", "64,64,4,2", "--batch", "1,2", "--time-limit", "0.1", "--seed", "5"];

#[test]
fn an_unwritable_output_ends_the_run_before_it_measures() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("taken")).expect("a folder");
    let mut outputs = vec!["no-such-folder/results.json", "taken"];
    if cfg!(target_os = "linux") {
        // Every write to it finds the disk full.
        outputs.push("/dev/full");
    }
    for out in outputs {
        // Were it said at the end only, this would take an hour.
        let long = ["run", "--device", "cpu", "--shape", "64,64,4,2", "--exhaustive", "--precision", "0.0001"];
        let sentence = refused_in(folder.path(), &[&long[..], &["--time-limit", "1000", "--out", out]].concat(), 3);
        assert!(sentence.contains(out), "{sentence}");
        assert!(files(&folder.path().join("taken")).is_empty());
    }
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let sentence = refused_in(folder().path(), &["run", "--device", "cuda:4711"], 3);
    assert!(!sentence.is_empty(), "{sentence}");
}

/// What two runs with one seed must agree on. How many elements were compared is left out: the last output is judged
/// again after timing, and which slot it is of depends on how many samples were taken.
fn repeated(row: &Row) -> (String, String, Status, [f64; 3]) {
    let verify = row.verify.as_ref().expect("a verified row");
    let ratios = [verify.max_error_over_bound, verify.max_slope_over_limit, verify.max_frobenius_over_limit];
    let case = serde_json::to_string(&row.case).expect("a case is data");
    (case, row.kernel.id.to_string(), row.status, ratios)
}

fn read(folder: &Path, name: &str) -> Results {
    record::read(&folder.join(name)).expect("a results file that can be read")
}

#[test]
fn a_run_leaves_a_file_that_its_seed_repeats() {
    let folder = folder();
    let mut tables = Vec::new();
    for out in ["a.json", "b.json"] {
        let output =
            moebius(folder.path(), &[&TINY[..], &["--out", out]].concat()).assert().success().get_output().clone();
        tables.push(String::from_utf8(output.stdout).expect("UTF-8"));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "quiet in a pipe");
    }
    assert_eq!(files(folder.path()).len(), 2);
    let (a, b) = (read(folder.path(), "a.json"), read(folder.path(), "b.json"));
    // Two batches, two stages, two kernels for each of two schemes.
    assert_eq!(a.rows.len(), 16);
    for row in &a.rows {
        assert_eq!(row.status, Status::Ok, "{:?}", row.reason);
        let time = row.time.as_ref().expect("a timed row");
        assert!(time.median_ns > 0.0 && time.ci95_ns[0] <= time.median_ns && time.median_ns <= time.ci95_ns[1]);
        assert_eq!(time.samples_ns.len(), time.rounds.len());
        assert!(row.bound.as_ref().is_some_and(|bound| bound.floor_ns > 0.0 && bound.of_floor.is_some()));
    }
    let (first, second): (Vec<_>, Vec<_>) =
        (a.rows.iter().map(repeated).collect(), b.rows.iter().map(repeated).collect());
    assert_eq!(first, second);
    assert_eq!(a.settings["seed"], 5);
    for table in tables {
        assert!(table.contains("gemm1") && table.contains("gemm2") && table.contains("cpu/"), "{table}");
    }

    // The verbs over results files take what a run wrote.
    let report =
        moebius(folder.path(), &["report", "a.json", "--out", "a.csv"]).assert().success().get_output().clone();
    assert_eq!(String::from_utf8_lossy(&report.stderr), "");
    let csv = std::fs::read_to_string(folder.path().join("a.csv")).expect("a CSV file");
    assert_eq!(csv.lines().count(), 1 + a.rows.len());
    moebius(folder.path(), &["choose", "a.json"]).assert().success();
    moebius(folder.path(), &["gate", "a.json", "a.json"]).assert().success();
    let other = ["run", "--device", "cpu", "--kernel", "nothing-*", "--out", "a.json"];
    assert!(refused_in(folder.path(), &other, 2).contains("nothing-*"));
    assert_eq!(read(folder.path(), "a.json"), a, "a refused run leaves an earlier file as it is");
}

/// The rows of one kernel with times that hardly vary, and the same made 30% slower.
fn slower_by_30_percent(folder: &Path) {
    let one = ["--stage", "gemm1", "--kernel", "cpu/cpu/nvfp4-w4a16/stream"];
    moebius(folder, &[&TINY[..], &one, &["--out", "before.json"]].concat()).assert().success();
    let mut results = read(folder, "before.json");
    assert_eq!(results.rows.len(), 2);
    for (name, factor) in [("before.json", 1.0), ("after.json", 1.3)] {
        for time in results.rows.iter_mut().filter_map(|row| row.time.as_mut()) {
            time.rounds = (0..40).collect();
            time.samples_ns = time.rounds.iter().map(|round| factor * (1e6 + 500.0 * f64::from(round % 7))).collect();
            time.median_ns = factor * 1_001_500.0;
            time.ci95_ns = [factor * 1_001_000.0, factor * 1_002_000.0];
        }
        record::write(&folder.join(name), &results).expect("a results file");
    }
}

#[test]
fn a_regression_that_was_none_is_not_confirmed() {
    let folder = folder();
    slower_by_30_percent(folder.path());
    let gate = ["gate", "before.json", "after.json"];
    moebius(folder.path(), &gate).assert().code(1);
    // Both builds are this one, so neither is slower.
    let confirm = ["--device", "cpu", "--confirm", PROGRAM, PROGRAM];
    moebius(folder.path(), &[&gate[..], &confirm].concat()).assert().success();
    // `false` writes no results.
    for (program, words) in [("no-such-program", "cannot be started"), ("false", ".json")] {
        let arguments = [&gate[..], &["--confirm", program, PROGRAM]].concat();
        let output = moebius(folder.path(), &arguments).assert().failure().get_output().clone();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let sentence = stderr.lines().last().unwrap_or_default();
        assert!(sentence.starts_with("moebius: ") && sentence.contains(words), "{stderr}");
    }
}

#[test]
fn cells_of_a_file_are_measured_again() {
    let folder = folder();
    slower_by_30_percent(folder.path());
    let again = ["run", "--device", "cpu", "--cells", "before.json", "--time-limit", "0.1", "--out", "again.json"];
    moebius(folder.path(), &again).assert().success();
    let cells = |name| -> Vec<_> { read(folder.path(), name).rows.iter().map(record::CellKey::of).collect() };
    assert_eq!(cells("again.json"), cells("before.json"));
    let mut imported = read(folder.path(), "before.json");
    imported.rows.iter_mut().for_each(|row| {
        row.case.rows.clear();
        row.status = Status::Imported;
    });
    record::write(&folder.path().join("imported.json"), &imported).expect("a results file");
    let sentence = refused_in(folder.path(), &["run", "--cells", "imported.json"], 2);
    assert!(sentence.contains("imported.json") && sentence.contains("rows per expert"), "{sentence}");
    imported.rows.clear();
    record::write(&folder.path().join("empty.json"), &imported).expect("a results file");
    assert!(refused_in(folder.path(), &["run", "--cells", "empty.json"], 2).contains("empty.json"));
    refused(&["run", "--cells", "nowhere.json"], &["nowhere.json"]);
    refused(&["run", "--cells", "a.json", "--model", "glm-5"], &["--cells", "--model"]);
}

#[test]
fn plots_are_written_beside_each_other() {
    let folder = folder();
    slower_by_30_percent(folder.path());
    moebius(folder.path(), &["report", "before.json", "--plots", "plots"]).assert().success();
    let names: Vec<String> = files(&folder.path().join("plots"))
        .iter()
        .map(|path| path.file_name().expect("a name").to_string_lossy().into())
        .collect();
    let ending = |ending: &str| names.iter().filter(|name| name.ends_with(ending)).count();
    assert!(ending(".svg") >= 3 && ending(".svg") == ending(".png"), "{names:?}");
    let sentence = refused_in(folder.path(), &["report", "before.json", "--plots", "before.json/plots"], 3);
    assert!(sentence.contains("before.json/plots"), "{sentence}");
}

#[test]
fn verification_repeats_to_the_bit() {
    let folder = folder();
    let arguments = ["verify", "--device", "cpu", "--shape", "64,64,4,2", "--batch", "3", "--seed", "9", "--out"];
    for out in ["a.json", "b.json"] {
        moebius(folder.path(), &[&arguments[..], &[out]].concat()).assert().success();
    }
    let (a, b) = (read(folder.path(), "a.json"), read(folder.path(), "b.json"));
    assert_eq!(a.rows.len(), 8);
    assert!(a.rows.iter().all(|row| row.status == Status::Ok && row.time.is_none() && row.verify.is_some()));
    // Floors differ: they are made of ceilings that each run measures.
    let said = |results: &Results| -> Vec<_> {
        results
            .rows
            .iter()
            .map(|row| (row.case.clone(), row.kernel.clone(), row.conditions.clone(), row.verify.clone()))
            .collect()
    };
    assert_eq!(said(&a), said(&b));
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_keeps_its_rows() {
    let long =
        ["run", "--device", "cpu", "--shape", "64,64,4,2", "--batch", "1..512", "--exhaustive", "--precision", "0.001"];
    let arguments = [&long[..], &["--time-limit", "20", "--out", "results.json"]].concat();
    // A slow machine may need longer until there is a first row.
    for delay in [2, 8, 32] {
        let folder = folder();
        let mut child = std::process::Command::new(PROGRAM)
            .current_dir(folder.path())
            .args(&arguments)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("the program starts");
        wait_until_it_catches_interrupts(&mut child);
        std::thread::sleep(Duration::from_secs(delay));
        let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(kill.expect("kill starts").success());
        let output = child.wait_with_output().expect("the program ends");
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert_eq!(files(folder.path()).len(), 1, "nothing but the results is left");
        let results = read(folder.path(), "results.json");
        assert!(stderr.contains(&format!("stopped early; {} finished rows were kept", results.rows.len())), "{stderr}");
        assert!(results.rows.len() < 10 * 2 * 4, "it was not stopped");
        if !results.rows.is_empty() {
            return;
        }
    }
    panic!("no row was finished in half a minute");
}

/// Waits until the signal mask of the child says so.
#[cfg(target_os = "linux")]
fn wait_until_it_catches_interrupts(child: &mut std::process::Child) {
    let path = format!("/proc/{}/status", child.id());
    let began = std::time::Instant::now();
    loop {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        if caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 2 != 0) {
            return;
        }
        assert!(child.try_wait().expect("the child's state").is_none(), "the run ended by itself");
        assert!(began.elapsed() < Duration::from_secs(120), "interrupts are not caught");
        std::thread::sleep(Duration::from_millis(20));
    }
}
