//! Parsers of `shape` under mutated input: they accept or refuse with one short sentence, and never panic.

mod common;

use common::fuzz;
use moebius::shape::{
    CaseSpec, EpRank, Error, MAX_BATCH, Model, ModelConfig, Parallelism, Routing, Stage, Trace, parse_list,
};

/// Longest sentence: a path, two quoted texts and the words around them.
const LONGEST_SENTENCE: usize = 1200;

/// Whether it was accepted; a refusal must be one sentence.
fn accepted<T>(result: &Result<T, Error>) -> bool {
    let Err(error) = result else { return true };
    let sentence = error.to_string();
    assert!(!sentence.is_empty() && sentence.len() < LONGEST_SENTENCE, "{} bytes: {sentence}", sentence.len());
    assert!(!sentence.chars().any(char::is_control), "{sentence:?}");
    false
}

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
    fuzz::run("configs", &seeds, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        let config = ModelConfig::parse(text, "config.json", "fuzzed");
        if let Ok(config) = &config {
            assert_eq!(config.model.check(), Ok(()));
            // Whatever was accepted can be divided or refused, and turned into cases.
            for (tp, ep, pp) in [(1, 1, 1), (8, 4, 3)] {
                let parallelism = Parallelism { tp, ep, pp, ep_rank: EpRank::Worst };
                let spec = CaseSpec { parallelism, batches: Some(vec![3]), ..CaseSpec::new(config.model.clone()) };
                accepted(&spec.build());
            }
        }
        accepted(&config)
    });
}

#[test]
fn configs_on_disk_with_a_quantisation_file() {
    let seeds: [&[u8]; 2] = [
        include_bytes!("fixtures/config/glm-5_hf_quant_config.json"),
        br#"{"quantization":{"quant_algo":"MIXED_PRECISION","quantized_layers":{"l.experts":{"quant_algo":"NVFP4"}}}}"#,
    ];
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.json");
    std::fs::write(&config, include_bytes!("fixtures/config/glm-5_config.json")).unwrap();
    fuzz::run("hf_quant_config", &seeds, |bytes| {
        std::fs::write(dir.path().join("hf_quant_config.json"), bytes).unwrap();
        accepted(&ModelConfig::read(&config))
    });
}

#[test]
fn traces() {
    let seeds: [&[u8]; 4] =
        [b"# head\n1, 2\n\n3\t4 # tail\r\n5 6\n", b"[[1,2],[3,4],[5,6]]", b"7\n6\n5\n", b"0 1 2 3 4 5 6 7"];
    fuzz::run("traces", &seeds, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        let trace = Trace::parse(text, "trace.txt");
        if let Ok(trace) = &trace {
            assert!(!trace.is_empty() && trace.top_k() > 0);
        }
        accepted(&trace)
    });
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
    fuzz::run("words", &seeds, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        let routing = text.parse::<Routing>();
        let shape = Model::free_shape(text);
        if let Ok(routing) = &routing
            && !matches!(routing, Routing::Trace(_))
        {
            assert_eq!(routing.to_string().parse::<Routing>().as_ref(), Ok(routing));
            let model = Model::free_shape("64,32,8,2").unwrap();
            let spec = CaseSpec { routing: routing.clone(), ..CaseSpec::new(model) };
            accepted(&spec.build());
        }
        let list = parse_list("--batch", text, MAX_BATCH);
        if let Ok(list) = &list {
            assert!(!list.is_empty() && list.iter().all(|n| (1..=MAX_BATCH).contains(n)));
        }
        accepted(&text.parse::<Stage>());
        // Not `any`: each must be tried.
        [
            accepted(&routing),
            accepted(&shape),
            accepted(&list),
            accepted(&Model::preset(text)),
            accepted(&text.parse::<EpRank>()),
        ]
        .contains(&true)
    });
}
