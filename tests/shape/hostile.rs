//! Files that are not what they should be: one sentence with the file, the field where there is one, and a remedy.

use std::path::Path;

use moebius::shape::{Draw, ModelConfig, Routing};
use serde_json::{Value, json};

const GOOD: &str = include_str!("../fixtures/config/glm-5_config.json");

fn refused(path: &Path) -> String {
    let sentence = ModelConfig::read(path).unwrap_err().to_string();
    assert_eq!(sentence.lines().count(), 1, "{sentence}");
    assert!(sentence.starts_with(&path.display().to_string()), "{sentence}");
    assert!(sentence.contains("; "), "no remedy: {sentence}");
    sentence
}

fn refused_bytes(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    std::fs::write(&path, bytes).unwrap();
    refused(&path)
}

fn refused_with(field: &str, value: Value) -> String {
    let mut config: Value = serde_json::from_str(GOOD).unwrap();
    config[field] = value;
    refused_bytes(config.to_string().as_bytes())
}

#[test]
fn files_that_are_no_configs() {
    let dir = tempfile::tempdir().unwrap();
    assert!(refused(&dir.path().join("none.json")).contains("cannot be read"));
    assert!(refused(dir.path()).contains("is a folder, not a file"));
    assert!(refused_bytes(b"").contains("is no valid JSON"));
    assert!(refused_bytes(&GOOD.as_bytes()[..GOOD.len() / 2]).contains("is no valid JSON"));
    assert!(refused_bytes(b"{\n\"hidden_size\": \xff\xfe}").contains("is not UTF-8 text (line 2, "));
    assert!(refused_bytes(b"[1, 2]").contains("is not a JSON object"));
    assert!(refused_bytes(b"null").contains("is not a JSON object"));
    assert!(refused_bytes(&b"[".repeat(100_000)).contains("recursion limit"));
    assert!(refused_bytes(&b"{\"text_config\":".repeat(100_000)).contains("recursion limit"));
    assert!(refused_bytes(&b" ".repeat((16 << 20) + 1)).contains("is larger than 16777216 bytes"));
    assert!(refused_bytes(b"{}").contains("without experts"));
}

#[cfg(unix)]
#[test]
fn devices_and_pipes_are_refused_without_waiting_for_them() {
    assert!(refused(Path::new("/dev/zero")).contains("is not a regular file"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    assert!(refused(&path).contains("is not a regular file"));
}

#[test]
fn fields_that_are_wrong() {
    for (field, value, problem) in [
        ("hidden_size", json!("6144"), "is the text `6144`"),
        ("hidden_size", json!(-6144), "is -6144"),
        ("hidden_size", json!(0), "is 0"),
        ("hidden_size", json!(6144.5), "is 6144.5"),
        ("hidden_size", json!(1e300), "is 1e+300"),
        ("hidden_size", json!(4294967295u32), "is 4294967295, more than 262144"),
        ("hidden_size", json!(null), "is missing"),
        ("hidden_size", json!([]), "is a list of 0"),
        ("hidden_size", json!([1, 2]), "is a list of different values"),
        ("hidden_size", json!({"a": 1}), "is an object with 1 fields"),
        ("moe_intermediate_size", json!(null), "is missing"),
        ("moe_intermediate_size", json!(true), "is true"),
        ("n_routed_experts", json!(18446744073709551615u64), "is 18446744073709551615"),
        ("n_routed_experts", json!(100000), "is 100000, more than 4096"),
        ("n_routed_experts", json!("many\nmany"), "is the text `many\\nmany`"),
        ("num_experts", json!(8), "is 8 but `n_routed_experts` is 256"),
        ("num_experts_per_tok", json!(257), "is 257, more than 256 experts"),
        ("num_experts_per_tok", json!(0), "is 0"),
        ("num_hidden_layers", json!(4000000000u32), "is 4000000000, more than 4096"),
        ("first_k_dense_replace", json!("3"), "is the text `3`"),
        ("moe_latent_size", json!(0), "is 0"),
        ("text_config", json!(3), "is 3"),
        ("model_type", json!(3), "is 3"),
        ("scoring_func", json!([]), "is a list of 0"),
        ("norm_topk_prob", json!(1), "is 1"),
        ("routed_scaling_factor", json!("big"), "is the text `big`"),
        ("quantization_config", json!("fp8"), "is the text `fp8`"),
        ("hidden_act", json!("x".repeat(1000)), "neither silu nor relu2"),
    ] {
        let sentence = refused_with(field, value);
        assert!(sentence.contains(&format!("field `{field}` ")) && sentence.contains(problem), "{field}: {sentence}");
        assert!(sentence.len() < 400, "{sentence}");
    }
    let nested = json!({"text_config": {"num_experts": "x"}}).to_string();
    assert!(refused_bytes(nested.as_bytes()).contains("field `text_config.num_experts` is the text `x`"));
}

#[test]
fn a_bad_quantisation_file_beside_a_good_config_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (config, beside) = (dir.path().join("config.json"), dir.path().join("hf_quant_config.json"));
    std::fs::write(&config, GOOD).unwrap();
    for (text, problem) in [
        ("{", "is no valid JSON"),
        ("[]", "is not a JSON object"),
        ("{\"quantization\": 4}", "field `quantization` is 4"),
        ("{\"quantization\": {\"quant_algo\": 4}}", "field `quantization.quant_algo` is 4"),
    ] {
        std::fs::write(&beside, text).unwrap();
        let sentence = ModelConfig::read(&config).unwrap_err().to_string();
        assert!(sentence.contains("hf_quant_config.json") && sentence.contains(problem), "{sentence}");
    }
    std::fs::write(&beside, "{}").unwrap();
    assert_eq!(ModelConfig::read(&config).unwrap().quant, None);
}

#[test]
fn traces_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let draw = Draw { experts: 8, top_k: 2, tokens: 1, seed: 0 };
    let refused = |path: &Path| Routing::Trace(path.into()).assignment(draw).unwrap_err().to_string();
    assert!(refused(&dir.path().join("none")).contains("cannot be read"));
    assert!(refused(dir.path()).contains("is a folder"));
    let path = dir.path().join("trace.txt");
    std::fs::write(&path, b"1 2\n\xff 3\n").unwrap();
    assert!(refused(&path).contains("is not UTF-8 text (line 2, byte 4)"));
    std::fs::write(&path, "1 2\n3 8\n").unwrap();
    assert!(refused(&path).contains("line 2 names expert 8 where the model has 0 to 7"));
}
