//! Parsers of `shape` under mutated input, for a set time. `fuzz/` runs the same targets guided by coverage.

#[path = "common/fuzz.rs"]
mod fuzz;
#[path = "common/shape_targets.rs"]
mod shape_targets;

#[test]
fn configs() {
    let seeds: [&[u8]; 15] = [
        include_bytes!("fixtures/config/glm-5_config.json"),
        include_bytes!("fixtures/config/deepseek-v3_config.json"),
        include_bytes!("fixtures/config/qwen3-30b-a3b_config.json"),
        include_bytes!("fixtures/config/qwen3.5-35b-a3b_config.json"),
        include_bytes!("fixtures/config/llama-4-maverick_config.json"),
        include_bytes!("fixtures/config/mixtral-8x7b_config.json"),
        include_bytes!("fixtures/config/minimax-m2_config.json"),
        include_bytes!("fixtures/config/gpt-oss-120b_config.json"),
        include_bytes!("fixtures/config/nemotron-3-nano_config.json"),
        include_bytes!("fixtures/config/nemotron-3-super_config.json"),
        include_bytes!("fixtures/config/ernie-4.5-300b-a47b_config.json"),
        include_bytes!("fixtures/config/hunyuan-a13b_config.json"),
        include_bytes!("fixtures/config/step-3.5-flash_config.json"),
        include_bytes!("fixtures/config/dbrx_config.json"),
        br#"{"hidden_size":64,"moe_intermediate_size":32,"num_experts":8,"num_experts_per_tok":2,"num_hidden_layers":6,
            "expert_layer_period":2,"expert_layer_offset":1,"mlp_only_layers":[1],"quantization_config":
            {"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":4,"type":"float",
            "group_size":16,"block_structure":[128,128]},"input_activations":null}}}}"#,
    ];
    fuzz::run("configs", &seeds, shape_targets::config);
}

#[test]
fn quantisation_files() {
    let seeds: [&[u8]; 2] = [
        include_bytes!("fixtures/config/glm-5_hf_quant_config.json"),
        br#"{"quantization":{"quant_algo":"MIXED_PRECISION","quantized_layers":{"l.experts":{"quant_algo":"NVFP4"}}}}"#,
    ];
    fuzz::run("quantisation files", &seeds, shape_targets::quant);
}

#[test]
fn traces() {
    let seeds: [&[u8]; 4] =
        [b"# head\n1, 2\n\n3\t4 # tail\r\n5 6\n", b"[[1,2],[3,4],[5,6]]", b"7\n6\n5\n", b"0 1 2 3 4 5 6 7"];
    fuzz::run("traces", &seeds, shape_targets::trace);
}

#[test]
fn words_of_the_command_line() {
    let seeds: [&[u8]; 8] = [
        b"uniform",
        b"power-law:1.2",
        b"rows:12,0x3,5",
        b"rows:1x8",
        b"1,2,4..512",
        b"6144,2048,256,8",
        b"glm-5",
        b"worst",
    ];
    fuzz::run("words", &seeds, shape_targets::word);
}
