//! How a config says that experts are chosen and weighted.

use super::super::error::Error;
use super::super::model::{Router, Score};
use super::Fields;

/// Families that score with a sigmoid though their config does not say so.
const SIGMOID: [&str; 4] = ["glm4_moe", "nemotron_h", "hy_v3", "step3p5"];

/// Reads the router.
pub(super) fn read(fields: Fields<'_>, family: &str) -> Result<Router, Error> {
    let word = fields.word("scoring_func")?;
    let score = match word {
        Some("sigmoid") => Score::Sigmoid,
        Some("softmax") => Score::Softmax,
        // The router does not change the GEMMs: a new kind is no reason to refuse a shape.
        Some(_) | None if family.starts_with("llama4") => Score::SigmoidOfTopK,
        Some(_) | None if family == "gpt_oss" => Score::SoftmaxOfTopK,
        Some(_) | None if SIGMOID.iter().any(|known| family.starts_with(known)) => Score::Sigmoid,
        Some(_) | None => Score::Softmax,
    };
    let bias = fields.word("topk_method")? == Some("noaux_tc")
        || fields.flag("use_routing_bias")?.unwrap_or(false)
        || (word.is_none() && score == Score::Sigmoid);
    Ok(Router {
        score,
        selection_bias: bias,
        groups: fields.number("n_group")?.unwrap_or(1).max(1),
        top_groups: fields.number("topk_group")?.unwrap_or(1).max(1),
        renormalise: fields.flag("norm_topk_prob")?.unwrap_or(score != Score::SigmoidOfTopK),
        scale: fields.real("routed_scaling_factor")?.unwrap_or(1.0),
    })
}
