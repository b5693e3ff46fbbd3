//! From the words of the command line to cases.

use std::path::Path;

use super::args::{CaseArgs, KernelArgs};
use super::error::CliError;
use crate::record::{self, Row};
use crate::shape::{
    Case, CaseSpec, GemmShape, MAX_BATCH, MAX_EXPERTS, MAX_ROWS, MAX_WIDTH, Model, ModelConfig, Parallelism, QuantHint,
    Routing, Stage, parse_list,
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
    /// The kernels that `--cells` names, by their ids.
    pub kernels: Vec<String>,
}

impl Wanted {
    /// The kernels that the flags ask for, with those of `--cells` where they name none.
    pub fn kernel_args(&self, args: &KernelArgs) -> KernelArgs {
        let kernel = if args.kernel.is_empty() { self.kernels.clone() } else { args.kernel.clone() };
        KernelArgs { kernel, ..args.clone() }
    }
}

/// Builds the cases that the flags ask for.
///
/// # Errors
/// A flag whose value cannot be used, in one sentence.
pub fn cases(args: &CaseArgs) -> Result<Wanted, CliError> {
    if let Some(path) = &args.cells {
        return cells(path);
    }
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
    Ok(Wanted { cases: spec.build().map_err(CliError::input)?, quantisation, kernels: Vec::new() })
}

/// The cases and kernels of a results file.
fn cells(path: &Path) -> Result<Wanted, CliError> {
    let results = record::read(path).map_err(CliError::input)?;
    let mut wanted = Wanted { cases: Vec::new(), quantisation: None, kernels: Vec::new() };
    for Row { case, kernel, .. } in results.rows {
        let GemmShape { experts, n, k } = case.shape;
        // Imported rows may come without the rows of each expert, and a file may hold any number.
        let measurable = case.rows.len() == experts as usize
            && experts <= MAX_EXPERTS
            && n.max(k) <= MAX_WIDTH
            && case.total_rows() <= MAX_ROWS
            && case.stage != Stage::Ffn;
        if !measurable {
            return Err(CliError::input(format!(
                "{}: {} {} batch {} cannot be measured again: its rows per expert are not known, or it is larger than any \
                 case; give a file that `moebius run` wrote",
                path.display(),
                case.model,
                case.stage,
                case.batch
            )));
        }
        if !wanted.cases.contains(&case) {
            wanted.cases.push(case);
        }
        if !wanted.kernels.iter().any(|id| id == kernel.id.as_str()) {
            wanted.kernels.push(kernel.id.as_str().to_owned());
        }
    }
    if wanted.cases.is_empty() {
        return Err(CliError::input(format!("{} holds no rows, so there is nothing to measure again", path.display())));
    }
    Ok(wanted)
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
