//! How a config says that experts are quantised.

use serde_json::Value;

use super::super::error::{Error, brief, quote};
use super::Fields;

/// The number format of a checkpoint's experts, as its config names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantHint {
    /// The word of the scheme, where moebius has one for it.
    pub scheme: Option<&'static str>,
    /// The words of the config, such as `modelopt NVFP4` or `fp8 128x128`.
    pub format: String,
}

impl QuantHint {
    fn new(scheme: Option<&'static str>, format: impl Into<String>) -> Option<QuantHint> {
        Some(QuantHint { scheme, format: format.into() })
    }

    /// Reads the text of an `hf_quant_config.json`; `path` is for sentences.
    ///
    /// # Errors
    /// One sentence when it is not JSON or a field has the wrong type. `None` when it names no format.
    pub fn parse(text: &str, path: &str) -> Result<Option<QuantHint>, Error> {
        let wrong = |problem: String| Error::File { path: path.into(), problem, remedy: "mend or remove it".into() };
        let value: Value =
            serde_json::from_str(text).map_err(|error| wrong(format!("is no valid JSON ({})", brief(&error))))?;
        let Value::Object(object) = &value else { return Err(wrong("is not a JSON object".into())) };
        match Fields::new(path, "", object).object("quantization")? {
            Some(object) => modelopt(Fields::new(path, "quantization.", object)),
            None => Ok(None),
        }
    }
}

/// Reads the `quantization_config` of a config.
pub(super) fn inside(fields: Fields<'_>) -> Result<Option<QuantHint>, Error> {
    let Some(object) = fields.object("quantization_config")? else { return Ok(None) };
    let fields = fields.within("quantization_config.", object);
    match fields.word("quant_method")? {
        Some("fp8") => fp8(fields),
        Some("mxfp4") => Ok(QuantHint::new(Some("mxfp4-w4a8"), "mxfp4")),
        Some("compressed-tensors") => compressed_tensors(fields),
        Some(method) if !method.starts_with("modelopt") => Ok(QuantHint::new(None, quote(method))),
        Some(_) | None => modelopt(fields),
    }
}

/// FP8 as DeepSeek publishes it: with square blocks, or without.
fn fp8(fields: Fields<'_>) -> Result<Option<QuantHint>, Error> {
    Ok(match fields.numbers("weight_block_size")?.as_deref() {
        None => QuantHint::new(Some("fp8"), "fp8"),
        Some([128, 128]) => QuantHint::new(Some("fp8-block"), "fp8 128x128"),
        Some(block) => {
            let block: Vec<String> = block.iter().take(4).map(u32::to_string).collect();
            QuantHint::new(None, format!("fp8 {}", block.join("x")))
        }
    })
}

/// ModelOpt names one algorithm for the whole checkpoint.
fn modelopt(fields: Fields<'_>) -> Result<Option<QuantHint>, Error> {
    let Some(mut algorithm) = fields.word("quant_algo")? else { return Ok(None) };
    if algorithm == "MIXED_PRECISION" {
        algorithm = of_experts(fields)?.unwrap_or(algorithm);
    }
    let scheme = match algorithm {
        "NVFP4" => Some("nvfp4-w4a4"),
        "W4A16_NVFP4" | "NVFP4_W4A16" => Some("nvfp4-w4a16"),
        "FP8" => Some("fp8"),
        "FP8_PB_WO" | "FP8_BLOCK_SCALES" => Some("fp8-block"),
        "MXFP4" | "W4A8_MXFP4_MXFP8" => Some("mxfp4-w4a8"),
        _ => None,
    };
    Ok(QuantHint::new(scheme, format!("modelopt {}", quote(algorithm).trim_matches('`'))))
}

/// The algorithm of the first layer with experts, where each layer has its own.
fn of_experts<'a>(fields: Fields<'a>) -> Result<Option<&'a str>, Error> {
    let Some(object) = fields.object("quantized_layers")? else { return Ok(None) };
    let layers = fields.within("quantized_layers.", object);
    let Some(key) = object.keys().find(|key| key.contains("experts") && !key.contains("shared")) else {
        return Ok(None);
    };
    match layers.object(key)? {
        Some(layer) => layers.within("quantized_layers.*.", layer).word("quant_algo"),
        None => Ok(None),
    }
}

/// compressed-tensors describes weights and activations of each group of layers; the experts are in the first.
fn compressed_tensors(fields: Fields<'_>) -> Result<Option<QuantHint>, Error> {
    let unknown = QuantHint::new(None, "compressed-tensors");
    let Some(groups) = fields.object("config_groups")? else { return Ok(unknown) };
    let groups = fields.within("quantization_config.config_groups.", groups);
    let Some(group) = groups.first_object()? else { return Ok(unknown) };
    let Some(weights) = group.object("weights")? else { return Ok(unknown) };
    let weights = group.within("quantization_config.config_groups.*.weights.", weights);
    let weight_only = group.get("input_activations").is_none();
    let bits = weights.number("num_bits")?.unwrap_or(0);
    let kind = weights.word("type")?.unwrap_or_default();
    // -1 stands for one scale a column.
    let group_size = weights.real("group_size")?.filter(|&size| size > 0.0).map(|size| size as u32);
    let block = weights.numbers("block_structure")?;
    let scheme = match (kind, bits, group_size, block.as_deref()) {
        ("float", 4, Some(16), _) if weight_only => Some("nvfp4-w4a16"),
        ("float", 4, Some(16), _) => Some("nvfp4-w4a4"),
        ("float", 4, Some(32), _) => Some("mxfp4-w4a8"),
        ("float", 8, _, Some([128, 128])) => Some("fp8-block"),
        ("float", 8, None, None) if weights.word("strategy")? == Some("tensor") => Some("fp8"),
        _ => None,
    };
    let group = group_size.map(|size| format!(" in groups of {size}")).unwrap_or_default();
    Ok(QuantHint::new(scheme, format!("compressed-tensors {}{bits}{group}", quote(kind).trim_matches('`'))))
}
