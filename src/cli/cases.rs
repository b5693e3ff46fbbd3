//! From the words of the command line to cases.

use super::args::CaseArgs;
use super::error::CliError;
use crate::shape::{
    Case, CaseSpec, MAX_BATCH, MAX_EXPERTS, Model, ModelConfig, Parallelism, QuantHint, Routing, Stage, parse_list,
};

/// The model that is measured when none is named, and how it is split.
const DEFAULT_MODEL: &str = "glm-5";
const DEFAULT_TP: u32 = 8;

/// The cases, and what a config file says of the model's quantisation.
pub struct Wanted {
    /// Cases in the order in which they run.
    pub cases: Vec<Case>,
    /// What `--model-config` says of the experts' number format.
    pub quantisation: Option<QuantHint>,
}

/// Builds the cases that the flags ask for.
///
/// # Errors
/// A flag whose value cannot be used, in one sentence.
pub fn cases(args: &CaseArgs) -> Result<Wanted, CliError> {
    let (model, quantisation) = model(args)?;
    let named = args.model.is_some() || args.model_config.is_some() || args.shape.is_some();
    let tp = args.tp.unwrap_or(if named { 1 } else { DEFAULT_TP });
    let routing: Routing = args.routing.parse().map_err(CliError::input)?;
    let explicit_rows = matches!(routing, Routing::Rows(_));
    let spec = CaseSpec {
        experts: list("--experts", args.experts.as_deref(), MAX_EXPERTS)?,
        top_k: list("--top-k", args.top_k.as_deref(), MAX_EXPERTS)?,
        parallelism: Parallelism {
            tp,
            ep: args.ep,
            pp: args.pp,
            ep_rank: args.ep_rank.parse().map_err(CliError::input)?,
        },
        batches: match &args.batch {
            None if explicit_rows => None,
            None => Some(crate::shape::DEFAULT_BATCHES.to_vec()),
            Some(text) => Some(parse_list("--batch", text, MAX_BATCH).map_err(CliError::input)?),
        },
        stages: stages(&args.stage)?,
        routing,
        seed: args.seed,
        model,
    };
    Ok(Wanted { cases: spec.build().map_err(CliError::input)?, quantisation })
}

fn model(args: &CaseArgs) -> Result<(Model, Option<QuantHint>), CliError> {
    if let Some(path) = &args.model_config {
        let ModelConfig { model, quant } = ModelConfig::read(path).map_err(CliError::input)?;
        return Ok((model, quant));
    }
    let model = match &args.shape {
        Some(text) => Model::free_shape(text),
        None => Model::preset(args.model.as_deref().unwrap_or(DEFAULT_MODEL)).cloned(),
    };
    Ok((model.map_err(CliError::input)?, None))
}

fn list(flag: &str, text: Option<&str>, most: u32) -> Result<Vec<u32>, CliError> {
    text.map_or(Ok(Vec::new()), |text| parse_list(flag, text, most).map_err(CliError::input))
}

fn stages(text: &str) -> Result<Vec<Stage>, CliError> {
    text.split(',')
        .map(|word| match word.trim().parse::<Stage>().map_err(CliError::input)? {
            Stage::Ffn => {
                Err(CliError::input("--stage ffn: no kernel of this build computes a whole layer; give gemm1 or gemm2"))
            }
            stage => Ok(stage),
        })
        .collect()
}

/// Every n-th case from the i-th on, as `--shard i/n` asks.
///
/// # Errors
/// The flag is not two numbers, or the first is not within the second.
pub fn shard(cases: Vec<Case>, flag: Option<&str>) -> Result<Vec<Case>, CliError> {
    let Some(text) = flag else { return Ok(cases) };
    let wrong = || CliError::input(format!("--shard {text}: give I/N with I from 1 to N, such as 2/8"));
    let (index, count) = text.split_once('/').ok_or_else(wrong)?;
    let (index, count): (usize, usize) = (index.parse().map_err(|_| wrong())?, count.parse().map_err(|_| wrong())?);
    if index == 0 || index > count {
        return Err(wrong());
    }
    Ok(cases.into_iter().skip(index - 1).step_by(count).collect())
}
