//! `config.json` readers: each family's way to write its shape gives the preset's.

use std::path::{Path, PathBuf};

use moebius::shape::{Activation, Model, ModelConfig};
use serde_json::{Value, json};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/config")
}

fn parse(value: &Value) -> Result<ModelConfig, String> {
    ModelConfig::parse(&value.to_string(), "c.json", "test").map_err(|error| error.to_string())
}

/// What a config and a preset must agree on.
fn assert_same_shape(read: &Model, preset: &Model, at: &str) {
    let shape = |m: &Model| [m.hidden, m.intermediate, m.experts, m.top_k, m.width(), m.layers, m.moe_layers];
    assert_eq!(shape(read), shape(preset), "{at}: hidden, intermediate, experts, top-k, width, layers, MoE layers");
    assert_eq!(read.activation, preset.activation, "{at}");
    assert_eq!(read.shared, preset.shared, "{at}");
}

#[test]
fn each_family_gives_the_shape_of_its_preset() {
    let mut read = 0;
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        let Some(name) = file.strip_suffix("_config.json").filter(|name| !name.ends_with("_hf_quant")) else {
            continue;
        };
        if name == "dense" {
            continue;
        }
        let config = ModelConfig::read(&path).unwrap();
        assert_same_shape(&config.model, Model::preset(name).unwrap(), name);
        assert_eq!(config.model.name, name);
        read += 1;
    }
    assert_eq!(read, 14);
}

#[test]
fn routers_that_a_config_spells_out_are_those_of_the_preset() {
    for name in ["glm-5", "deepseek-v3", "qwen3-30b-a3b", "minimax-m2", "llama-4-maverick", "gpt-oss-120b", "dbrx"] {
        let config = ModelConfig::read(&fixtures().join(format!("{name}_config.json"))).unwrap();
        assert_eq!(config.model.router, Model::preset(name).unwrap().router, "{name}");
    }
}

#[test]
fn a_dense_model_is_told_that_it_has_no_experts() {
    let error = ModelConfig::read(&fixtures().join("dense_config.json")).unwrap_err().to_string();
    assert!(error.contains("dense_config.json: describes a model without experts (none of the fields"), "{error}");
    assert!(error.ends_with("give the config.json of a mixture-of-experts model"), "{error}");
    let mut all_dense = small();
    all_dense["first_k_dense_replace"] = json!(12);
    assert!(parse(&all_dense).unwrap_err().contains("without experts (all of its 12 layers are dense)"));
}

/// A config with the least that is needed.
fn small() -> Value {
    json!({"model_type": "m", "hidden_size": 64, "moe_intermediate_size": 32, "num_experts": 8,
           "num_experts_per_tok": 2, "num_hidden_layers": 12})
}

fn moe_layers(fields: Value) -> Result<u32, String> {
    let mut config = small();
    for (key, value) in fields.as_object().unwrap() {
        config[key] = value.clone();
    }
    parse(&config).map(|config| config.model.moe_layers)
}

#[test]
fn layers_with_experts_are_counted_in_every_notation() {
    for (fields, layers) in [
        (json!({}), 12),
        (json!({"first_k_dense_replace": 3}), 9),
        (json!({"first_k_dense_replace": 1, "moe_layer_freq": 2}), 5),
        (json!({"decoder_sparse_step": 2}), 6),
        (json!({"decoder_sparse_step": 5}), 2),
        (json!({"decoder_sparse_step": 2, "mlp_only_layers": [1, 2]}), 5),
        (json!({"interleave_moe_layer_step": 4}), 3),
        (json!({"moe_layers": [3, 7, 11]}), 3),
        (json!({"moe_layers_enum": "4,5, 6"}), 3),
        (json!({"moe_layer_freq": [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}), 11),
        (json!({"hybrid_override_pattern": "ME*EME*EMEMM"}), 5),
        (
            json!({"mlp_layer_types": ["dense", "sparse", "sparse", "sparse", "sparse", "sparse",
                                    "sparse", "sparse", "sparse", "sparse", "sparse", "sparse"]}),
            11,
        ),
        (json!({"moe_layer_start_index": 2, "moe_layer_end_index": 9, "moe_layer_interval": 2}), 4),
        (json!({"moe_layer_start_index": 2, "moe_layer_end_index": -1}), 10),
        (json!({"expert_layer_period": 2, "expert_layer_offset": 1}), 6),
        (json!({"expert_layer_period": 5, "expert_layer_offset": 3}), 2),
    ] {
        assert_eq!(moe_layers(fields.clone()), Ok(layers), "{fields}");
    }
    for (fields, sentence) in [
        (json!({"moe_layer_freq": 0}), "field `moe_layer_freq` is 0; "),
        (json!({"decoder_sparse_step": -1}), "field `decoder_sparse_step` is -1; "),
        (json!({"moe_layers": [12]}), "field `moe_layers` names layer 12 where num_hidden_layers is 12; "),
        (json!({"moe_layers_enum": "a"}), "field `moe_layers_enum` is no list of layer numbers; "),
        (json!({"hybrid_override_pattern": "ME"}), "field `hybrid_override_pattern` describes 2 layers where "),
        (json!({"mlp_layer_types": [1]}), "field `mlp_layer_types` is a list of 1; "),
        (json!({"expert_layer_period": 4294967295u32, "expert_layer_offset": 4294967295u32}), ""),
    ] {
        match moe_layers(fields.clone()) {
            Ok(layers) => assert!(sentence.is_empty() && layers == 1, "{fields}"),
            Err(error) => assert!(!sentence.is_empty() && error.contains(sentence), "{fields}: {error}"),
        }
    }
}

#[test]
fn activations_are_told_apart() {
    let act = |fields: Value| {
        let mut config = small();
        for (key, value) in fields.as_object().unwrap() {
            config[key] = value.clone();
        }
        parse(&config).map(|config| config.model.activation)
    };
    assert_eq!(act(json!({"hidden_act": "silu"})), Ok(Activation::Swiglu));
    assert_eq!(act(json!({"hidden_act": "silu", "swiglu_limit": 10.0})), Ok(Activation::SwigluClamped { limit: 10.0 }));
    assert_eq!(act(json!({"mlp_hidden_act": "relu2", "hidden_act": "silu"})), Ok(Activation::Relu2));
    assert!(act(json!({"hidden_act": "gelu"})).unwrap_err().contains("is `gelu`, neither silu nor relu2"));
}

#[test]
fn quantisation_is_read_from_inside_and_from_beside() {
    let hint = |name: &str| ModelConfig::read(&fixtures().join(format!("{name}_config.json"))).unwrap().quant;
    let scheme = |name: &str| hint(name).and_then(|hint| hint.scheme);
    assert_eq!(scheme("glm-5"), Some("nvfp4-w4a4"));
    assert_eq!(scheme("deepseek-v3"), Some("fp8-block"));
    assert_eq!(scheme("gpt-oss-120b"), Some("mxfp4-w4a8"));
    assert_eq!(scheme("nemotron-3-super"), Some("nvfp4-w4a4"));
    assert_eq!(hint("qwen3-30b-a3b"), None);
}

#[test]
fn quantisation_formats_are_named() {
    let read = |quant: Value| {
        let mut config = small();
        config["quantization_config"] = quant;
        let hint = parse(&config).unwrap().quant.unwrap();
        (hint.scheme, hint.format)
    };
    let compressed = |weights: Value, activations: Value| {
        read(json!({"quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": weights, "input_activations": activations}}}))
    };
    let some = |word, format: &str| (Some(word), format.to_owned());
    assert_eq!(read(json!({"quant_method": "fp8"})), some("fp8", "fp8"));
    assert_eq!(read(json!({"quant_method": "fp8", "weight_block_size": [64, 64]})), (None, "fp8 64x64".to_owned()));
    assert_eq!(read(json!({"quant_method": "awq", "bits": 4})), (None, "`awq`".to_owned()));
    assert_eq!(
        read(json!({"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"})),
        some("nvfp4-w4a16", "modelopt W4A16_NVFP4")
    );
    let mixed = json!({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {
        "l.0.attn": {"quant_algo": "FP8"}, "l.0.mlp.shared_experts": {"quant_algo": "FP8"},
        "l.0.mlp.experts.0": {"quant_algo": "NVFP4"}}});
    assert_eq!(read(mixed), some("nvfp4-w4a4", "modelopt NVFP4"));
    let fp4 = json!({"num_bits": 4, "type": "float", "group_size": 16});
    assert_eq!(compressed(fp4.clone(), json!({"num_bits": 4})).0, Some("nvfp4-w4a4"));
    assert_eq!(compressed(fp4, Value::Null).0, Some("nvfp4-w4a16"));
    assert_eq!(
        compressed(json!({"num_bits": 4, "type": "int", "group_size": 32}), Value::Null),
        (None, "compressed-tensors int4 in groups of 32".to_owned())
    );
    let per_column = json!({"num_bits": 8, "type": "float", "group_size": -1, "strategy": "channel"});
    assert_eq!(compressed(per_column, Value::Null).0, None);
    let block = json!({"num_bits": 8, "type": "float", "block_structure": [128, 128]});
    assert_eq!(compressed(block, json!({})).0, Some("fp8-block"));
}

#[test]
fn a_config_is_named_by_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    for (place, name) in [
        ("GLM-5-NVFP4/config.json", "GLM-5-NVFP4"),
        ("models--zai-org--GLM-5/snapshots/0123abcd/config.json", "zai-org/GLM-5"),
        ("mine.json", "mine"),
        ("org--model_config.json", "org/model"),
    ] {
        let path = dir.path().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, small().to_string()).unwrap();
        assert_eq!(ModelConfig::read(&path).unwrap().model.name, name);
    }
}

/// Real, published configs, which are not part of the repository. `MOEBIUS_FACTS` names a folder with `configs/` and a
/// `models.json` that says what each must give.
#[test]
#[ignore = "needs MOEBIUS_FACTS, a folder of published configs"]
fn published_configs_give_the_published_shapes() {
    let facts = PathBuf::from(std::env::var_os("MOEBIUS_FACTS").expect("MOEBIUS_FACTS names the folder"));
    let models: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(facts.join("models.json")).unwrap()).unwrap();
    let (mut shapes, mut refusals) = (0, 0);
    for entry in std::fs::read_dir(facts.join("configs")).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        let Some(name) = file.strip_suffix("_config.json").filter(|name| !name.ends_with("_hf_quant")) else {
            continue;
        };
        let id = name.replacen("--", "/", 1);
        if id == "Qwen/Qwen3-8B" {
            assert!(ModelConfig::read(&path).unwrap_err().to_string().contains("without experts"));
            refusals += 1;
            continue;
        }
        let config = ModelConfig::read(&path).unwrap();
        let preset = Model::preset(&id).unwrap();
        assert_same_shape(&config.model, preset, &id);
        let wanted = models.iter().find(|m| m["id"] == preset.id.as_str()).unwrap();
        let field = |key: &str| u32::try_from(wanted[key].as_u64().unwrap()).unwrap();
        assert_eq!(
            [config.model.hidden, config.model.intermediate, config.model.experts, config.model.top_k],
            ["hidden_size", "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok"].map(field),
            "{id}"
        );
        assert_eq!(
            [config.model.moe_layers, config.model.layers, config.model.width(), config.model.width()],
            ["n_moe_layers", "num_hidden_layers", "gemm1_k", "gemm2_n"].map(field),
            "{id}"
        );
        assert_eq!(config.model.activation.gated(), wanted["gated"].as_bool().unwrap(), "{id}");
        assert_eq!(config.model.router, preset.router, "{id}");
        let quantised = ["NVFP4", "DeepSeek-V3", "Kimi", "MiniMax", "gpt-oss"].iter().any(|part| id.contains(part));
        // The Nemotron config has its quantisation in a file that is not in the folder.
        let expected = quantised && !id.contains("Nemotron");
        assert_eq!(config.quant.and_then(|hint| hint.scheme).is_some(), expected, "{id}");
        shapes += 1;
    }
    assert_eq!((shapes, refusals), (12, 1));
}
