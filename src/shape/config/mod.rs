//! Reading the shape of a model from a local Hugging Face `config.json`. Nothing is fetched.

mod fields;
mod layers;
mod quant;
mod router;

use std::path::Path;

use serde_json::Value;

use super::error::{Error, brief, quote, shown};
use super::file::read_text;
use super::model::{Activation, Confidence, Model, SharedExperts};
use fields::Fields;
pub use quant::QuantHint;

/// Largest config read; real ones with their quantisation lists stay below 1 MiB.
const MAX_BYTES: u64 = 16 << 20;
const REMEDY: &str = "give the config.json of a Hugging Face checkpoint";

/// Names of the number of routed experts.
const EXPERTS: [&str; 4] = ["n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"];
/// Names of the number of experts per token.
const TOP_K: [&str; 6] =
    ["num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_top_k", "moe_k"];
/// Objects that hold the language part of models that see or hear.
const LANGUAGE: [(&str, &str); 3] =
    [("text_config", "text_config."), ("language_config", "language_config."), ("llm_config", "llm_config.")];

/// What a config file says.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The shape.
    pub model: Model,
    /// The number format of the experts, where the file or the `hf_quant_config.json` beside it names one.
    pub quant: Option<QuantHint>,
}

impl ModelConfig {
    /// Reads a `config.json`, and the `hf_quant_config.json` beside it when there is one. For a file named
    /// `NAME_config.json` that is `NAME_hf_quant_config.json`.
    ///
    /// # Errors
    /// One sentence with file, field and remedy: unreadable, not JSON, a field missing or wrong, a model without
    /// experts.
    pub fn read(path: &Path) -> Result<ModelConfig, Error> {
        let text = read_text(path, MAX_BYTES, REMEDY)?;
        let mut config = ModelConfig::parse(&text, &shown(path), &name_of(path))?;
        if let Some(beside) = quant_file(path).filter(|file| file.exists()) {
            let text = read_text(&beside, MAX_BYTES, "mend or remove it")?;
            let hint = QuantHint::parse(&text, &shown(&beside))?;
            // Where both speak, the config itself is what serving engines read.
            config.quant = config.quant.or(hint);
        }
        Ok(config)
    }

    /// Reads the text of a config; `path` is for sentences, `name` becomes the model's.
    ///
    /// # Errors
    /// As [`ModelConfig::read`].
    pub fn parse(text: &str, path: &str, name: &str) -> Result<ModelConfig, Error> {
        let wrong = |problem: String| Error::File { path: path.into(), problem, remedy: REMEDY.into() };
        let value: Value =
            serde_json::from_str(text).map_err(|error| wrong(format!("is no valid JSON ({})", brief(&error))))?;
        let Value::Object(outer) = &value else { return Err(wrong("is not a JSON object".into())) };
        let outer = Fields::new(path, "", outer);
        let mut inner = outer;
        for (key, prefix) in LANGUAGE {
            if let Some(object) = outer.object(key)? {
                inner = outer.within(prefix, object);
                break;
            }
        }
        let model = model(inner, outer.word("model_type")?, name, path)?;
        let quant = match quant::inside(inner)? {
            Some(hint) => Some(hint),
            None => quant::inside(outer)?,
        };
        Ok(ModelConfig { model, quant })
    }
}

fn model(fields: Fields<'_>, outer_type: Option<&str>, name: &str, path: &str) -> Result<Model, Error> {
    let family = fields.word("model_type")?.or(outer_type).unwrap_or_default();
    // DBRX keeps its MLP in an object of its own.
    let mlp = match fields.object("ffn_config")? {
        Some(object) => fields.within("ffn_config.", object),
        None => fields,
    };
    let Some(experts) = mlp.first_number(&EXPERTS)?.filter(|found| found.value > 0) else {
        return Err(fields.wrong_file(
            &format!(
                "describes a model without experts (none of the fields {} has a number from 1)",
                EXPERTS.join(", ")
            ),
            "give the config.json of a mixture-of-experts model",
        ));
    };
    let top_k = mlp.required(&TOP_K)?;
    let hidden = fields.required(&["hidden_size", "d_model"])?;
    let layers = fields.required(&["num_hidden_layers", "n_layers"])?.value;
    let intermediate = mlp.required(width_keys(mlp, family, experts.key))?;
    let model = Model {
        name: name.to_owned(),
        id: String::new(),
        same_shape: Vec::new(),
        confidence: Confidence::Given,
        note: String::new(),
        hidden: hidden.value,
        intermediate: intermediate.value,
        experts: experts.value,
        top_k: top_k.value,
        latent: fields.first_number(&["moe_latent_size"])?.map(|found| found.value),
        layers,
        moe_layers: layers::count(fields, family, layers)?,
        activation: activation(fields, family)?,
        shared: shared(fields, family, intermediate.value)?,
        sources: vec![path.to_owned()],
        router: router::read(fields, family)?,
        quantised: Vec::new(),
    };
    model.check().map_err(|(field, problem)| {
        let (place, key) = match field {
            "hidden" => (fields, hidden.key),
            "latent" => (fields, "moe_latent_size"),
            "experts" => (mlp, experts.key),
            "top_k" => (mlp, top_k.key),
            "intermediate" => (mlp, intermediate.key),
            // The layers were counted within their limit.
            other => (fields, other),
        };
        place.wrong(key, &problem, "give the config.json of a real model, or --shape H,I,E,K")
    })?;
    Ok(model)
}

/// The names that the expert width may have. `intermediate_size` means the dense MLP where a family has both, so it is
/// taken only for families that have no other.
fn width_keys(mlp: Fields<'_>, family: &str, experts_key: &str) -> &'static [&'static str] {
    if family == "dbrx" {
        &["ffn_hidden_size"]
    } else if mlp.get("moe_intermediate_size").is_none()
        && (experts_key == "num_local_experts" || family == "olmoe" || family == "jamba")
    {
        &["intermediate_size"]
    } else {
        &["moe_intermediate_size"]
    }
}

/// What happens between the two GEMMs.
fn activation(fields: Fields<'_>, family: &str) -> Result<Activation, Error> {
    let limit = fields.get("swiglu_limit").map(|_| fields.real("swiglu_limit")).transpose()?.flatten();
    if family == "gpt_oss" {
        // Slope and default clamp are those of the modelling code of gpt-oss.
        return Ok(Activation::SwigluOai { alpha: 1.702, limit: limit.unwrap_or(7.0) });
    }
    let key = ["mlp_hidden_act", "hidden_act", "hidden_activation"].into_iter().find(|key| fields.get(key).is_some());
    let word = key.map(|key| fields.word(key)).transpose()?.flatten().unwrap_or("silu");
    match (word, limit) {
        ("relu2", _) => Ok(Activation::Relu2),
        ("silu" | "swish" | "swiglu", Some(limit)) if limit > 0.0 => Ok(Activation::SwigluClamped { limit }),
        ("silu" | "swish" | "swiglu", _) => Ok(Activation::Swiglu),
        _ => Err(fields.wrong(
            key.unwrap_or_default(),
            &format!("is {}, neither silu nor relu2", quote(word)),
            "give the shape with --shape H,I,E,K",
        )),
    }
}

/// Experts that every token visits.
fn shared(fields: Fields<'_>, family: &str, intermediate: u32) -> Result<Option<SharedExperts>, Error> {
    let count = fields
        .first_number(&["n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"])?
        .map(|found| found.value);
    let width = fields
        .first_number(&[
            "shared_expert_intermediate_size",
            "moe_shared_expert_intermediate_size",
            "shared_intermediate_size",
            "share_expert_dim",
        ])?
        .map(|found| found.value);
    let (experts, intermediate) = match (count, width) {
        (_, Some(0)) | (Some(0), _) => return Ok(None),
        (count, Some(width)) => (count.unwrap_or(1), width),
        (Some(count), None) => (count, count.saturating_mul(intermediate)),
        // Llama 4 always has one of the expert width.
        (None, None) if family.starts_with("llama4") => (1, intermediate),
        (None, None) => return Ok(None),
    };
    let gated = ["qwen2_moe", "qwen3_next", "qwen3_5_moe"].iter().any(|known| family.starts_with(known));
    Ok(Some(SharedExperts { experts, intermediate, gated }))
}

/// The name of a config: its own, or that of its folder when the file is called `config.json` as they all are. In the
/// cache of Hugging Face (`models--ORG--NAME/snapshots/REVISION/config.json`), `ORG/NAME`.
fn name_of(path: &Path) -> String {
    let word = |part: &Path| part.file_name().map(|name| name.to_string_lossy().into_owned());
    let cached = path
        .ancestors()
        .filter_map(word)
        .find_map(|part| part.strip_prefix("models--").map(|name| name.replace("--", "/")));
    let file = word(path).unwrap_or_default();
    let own = file.strip_suffix(".json").unwrap_or(&file);
    let own = own.strip_suffix("config").unwrap_or(own).trim_end_matches(['_', '-', '.']);
    match (cached, own) {
        (Some(name), _) => name,
        (None, "") => path.parent().and_then(word).unwrap_or_else(|| "config.json".into()),
        (None, own) => own.replace("--", "/"),
    }
}

/// The quantisation config that belongs to a config file.
fn quant_file(path: &Path) -> Option<std::path::PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix("config.json")?;
    Some(path.with_file_name(format!("{stem}hf_quant_config.json")))
}
