//! Which layers of a config have routed experts. Each family has its own way to say it; a config uses one of them.

use super::super::error::Error;
use super::super::model::MAX_LAYERS;
use super::Fields;

/// The number of layers with routed experts.
pub(super) fn count(fields: Fields<'_>, family: &str, layers: u32) -> Result<u32, Error> {
    if layers > MAX_LAYERS {
        let problem = format!("is {layers}, more than {MAX_LAYERS}");
        return Err(fields.wrong("num_hidden_layers", &problem, "give the config.json of a real model"));
    }
    let moe = match listed(fields, family, layers)? {
        Some(moe) => moe,
        None => {
            let rule = Rule::read(fields)?;
            (0..layers).filter(|&layer| rule.holds(layer)).count() as u32
        }
    };
    if moe == 0 {
        return Err(fields.wrong_file(
            &format!("describes a model without experts (all of its {layers} layers are dense)"),
            "give the config.json of a mixture-of-experts model",
        ));
    }
    Ok(moe)
}

/// The number where the config names the kind of each layer, or the layers one by one.
fn listed(fields: Fields<'_>, family: &str, layers: u32) -> Result<Option<u32>, Error> {
    // Nemotron-H: one letter a layer, E for experts.
    if let Some(pattern) = fields.word("hybrid_override_pattern")? {
        let length = pattern.chars().count();
        whole(fields, "hybrid_override_pattern", length, layers)?;
        return Ok(Some(pattern.matches('E').count() as u32));
    }
    for (key, word) in [("mlp_layer_types", "sparse"), ("layers_block_type", "moe")] {
        if family == "jamba" {
            break;
        }
        if let Some(kinds) = fields.words(key)? {
            whole(fields, key, kinds.len(), layers)?;
            return Ok(Some(kinds.iter().filter(|&&kind| kind == word).count() as u32));
        }
    }
    // One number a layer, 1 for experts.
    if fields.get("moe_layer_freq").is_some_and(serde_json::Value::is_array) {
        let flags = fields.numbers("moe_layer_freq")?.unwrap_or_default();
        whole(fields, "moe_layer_freq", flags.len(), layers)?;
        return Ok(Some(flags.iter().filter(|&&flag| flag != 0).count() as u32));
    }
    // Llama 4: the layers with experts.
    if let Some(list) = fields.numbers("moe_layers")? {
        return named(fields, "moe_layers", list, layers).map(Some);
    }
    // Step: the same as text, `3,4,5`.
    if let Some(text) = fields.get("moe_layers_enum").and_then(|_| fields.word("moe_layers_enum").transpose()) {
        let list: Option<Vec<u32>> = text?.split(',').map(|layer| layer.trim().parse().ok()).collect();
        let list = list.ok_or_else(|| {
            fields.wrong("moe_layers_enum", "is no list of layer numbers", "give numbers separated by commas")
        })?;
        return named(fields, "moe_layers_enum", list, layers).map(Some);
    }
    Ok(None)
}

/// A list with an entry for each layer must have as many.
fn whole(fields: Fields<'_>, key: &str, length: usize, layers: u32) -> Result<(), Error> {
    if length as u64 == u64::from(layers) {
        return Ok(());
    }
    let problem = format!("describes {length} layers where num_hidden_layers is {layers}");
    Err(fields.wrong(key, &problem, "give the config.json of the checkpoint"))
}

/// How many layers a list names.
fn named(fields: Fields<'_>, key: &str, mut list: Vec<u32>, layers: u32) -> Result<u32, Error> {
    list.sort_unstable();
    list.dedup();
    match list.last() {
        Some(&last) if last >= layers => {
            let problem = format!("names layer {last} where num_hidden_layers is {layers}");
            Err(fields.wrong(key, &problem, "give the config.json of the checkpoint"))
        }
        _ => Ok(list.len() as u32),
    }
}

/// Which layers have experts, where the config gives a rule. What it leaves out holds for all layers.
struct Rule {
    /// First and last layer that may have experts.
    first: u32,
    last: u32,
    /// Layer i has experts when `(i + shift) % step` is 0.
    step: u32,
    shift: u32,
    /// Layers without experts all the same.
    dense: Vec<u32>,
}

impl Rule {
    fn read(fields: Fields<'_>) -> Result<Rule, Error> {
        // DeepSeek and GLM; Hunyuan; ERNIE.
        let first =
            fields.first_number(&["first_k_dense_replace", "moe_layer_num_skipped", "moe_layer_start_index"])?;
        let last = end(fields)?;
        // Layers 0, s, 2s: DeepSeek. Layers s-1, 2s-1: Qwen, Llama 4, ERNIE. Jamba: from an offset of its own.
        let from_zero = fields.first_number(&["moe_layer_freq"])?;
        let from_end =
            fields.first_number(&["decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"])?;
        let from_offset = fields.first_number(&["expert_layer_period"])?;
        let (step, shift) = match (from_zero, from_end, from_offset) {
            (Some(step), _, _) => (step, 0),
            (None, Some(step), _) => (step, 1),
            (None, None, Some(step)) => {
                let offset = fields.number("expert_layer_offset")?.unwrap_or(0);
                (step, step.value.saturating_sub(offset))
            }
            (None, None, None) => (super::fields::Found { key: "", value: 1 }, 0),
        };
        if step.value == 0 {
            return Err(fields.wrong(step.key, "is 0", "give 1 when every layer has experts"));
        }
        Ok(Rule {
            first: first.map_or(0, |found| found.value),
            last,
            step: step.value,
            shift,
            dense: fields.numbers("mlp_only_layers")?.unwrap_or_default(),
        })
    }

    fn holds(&self, layer: u32) -> bool {
        (self.first..=self.last).contains(&layer)
            && (u64::from(layer) + u64::from(self.shift)).is_multiple_of(u64::from(self.step))
            && !self.dense.contains(&layer)
    }
}

/// ERNIE names the last layer with experts, or -1 for the last of all.
fn end(fields: Fields<'_>) -> Result<u32, Error> {
    match fields.get("moe_layer_end_index").and_then(serde_json::Value::as_i64) {
        Some(-1) => Ok(u32::MAX),
        _ => Ok(fields.number("moe_layer_end_index")?.unwrap_or(u32::MAX)),
    }
}
