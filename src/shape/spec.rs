//! From what was asked for to cases: the product of all axes.

use super::assignment::{rank_rows, worst_rank};
use super::error::Error;
use super::routing::Draw;
use super::{Assignment, Case, EpRank, GemmShape, Model, Parallelism, Routing, Stage, Trace};

/// Largest batch: 2048 times the largest of a usual decode step.
pub const MAX_BATCH: u32 = 1 << 20;
/// Most rows of a case, all experts and ranks together.
pub const MAX_ROWS: u64 = 1 << 25;
/// The batches of a decode sweep.
pub const DEFAULT_BATCHES: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// What is asked for. Each list is an axis: there is a case for every combination.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseSpec {
    /// The model.
    pub model: Model,
    /// Experts of the layer to try instead of the model's; empty for the model's.
    pub experts: Vec<u32>,
    /// Experts per token to try instead of the model's; empty for the model's.
    pub top_k: Vec<u32>,
    /// How the model is divided.
    pub parallelism: Parallelism,
    /// Tokens in the forward pass. `None` for [`DEFAULT_BATCHES`]; with [`Routing::Rows`], for the smallest batch that
    /// can give these rows.
    pub batches: Option<Vec<u32>>,
    /// What is computed.
    pub stages: Vec<Stage>,
    /// Tokens to experts.
    pub routing: Routing,
    /// Seed of routing and operands.
    pub seed: u64,
}

impl CaseSpec {
    /// Both GEMMs of a model on one GPU, at the default batches, with uniform routing from seed 0.
    pub fn new(model: Model) -> Self {
        CaseSpec {
            model,
            experts: Vec::new(),
            top_k: Vec::new(),
            parallelism: Parallelism::default(),
            batches: None,
            stages: vec![Stage::Gemm1, Stage::Gemm2],
            routing: Routing::Uniform,
            seed: 0,
        }
    }

    /// The cases, ordered by experts, experts per token, stage and batch. A rank without rows still has its case; see
    /// [`Case::unsupported`].
    ///
    /// # Errors
    /// One sentence for the first thing that cannot be: a split that does not divide, an empty list, a batch of 0 or
    /// more than [`MAX_BATCH`], more than [`MAX_ROWS`] rows, explicit rows that do not fit, an unusable trace.
    pub fn build(&self) -> Result<Vec<Case>, Error> {
        if self.stages.is_empty() {
            return Err(Error::value("--stage", "names no stage", "give gemm1, gemm2 or ffn"));
        }
        let trace = self.routing.trace()?;
        let mut cases = Vec::new();
        for experts in axis(&self.experts) {
            for top_k in axis(&self.top_k) {
                self.build_model(&self.model.with_experts(experts, top_k)?, trace.as_ref(), &mut cases)?;
            }
        }
        Ok(cases)
    }

    fn build_model(&self, model: &Model, trace: Option<&Trace>, cases: &mut Vec<Case>) -> Result<(), Error> {
        let per_gpu = self.parallelism.per_gpu(model)?;
        let routed = self
            .batches(model)?
            .into_iter()
            .map(|batch| self.route(model, trace, per_gpu.gemm1.experts, batch))
            .collect::<Result<Vec<Routed>, Error>>()?;
        for &stage in &self.stages {
            for routed in &routed {
                cases.push(self.case(model, stage, per_gpu.stage(stage), per_gpu.moe_layers, routed));
            }
        }
        Ok(())
    }

    fn batches(&self, model: &Model) -> Result<Vec<u32>, Error> {
        let mut batches = match (&self.batches, &self.routing) {
            (Some(batches), _) => batches.clone(),
            (None, Routing::Rows(rows)) => vec![least_batch(rows, model.top_k)],
            (None, _) => DEFAULT_BATCHES.to_vec(),
        };
        if batches.is_empty() {
            return Err(Error::value("--batch", "names no batch", "give numbers such as 1,2,4"));
        }
        let mut seen = std::collections::HashSet::new();
        batches.retain(|batch| seen.insert(*batch));
        for &batch in &batches {
            let range = format!("give 1 to {MAX_BATCH}");
            if batch == 0 || batch > MAX_BATCH {
                return Err(Error::value(format!("--batch {batch}"), "is out of range", range));
            }
        }
        Ok(batches)
    }

    fn route(&self, model: &Model, trace: Option<&Trace>, experts: u32, batch: u32) -> Result<Routed, Error> {
        let ep = self.parallelism.ep;
        if let Routing::Rows(rows) = &self.routing {
            check_rows(rows, model, experts, batch)?;
            let rank = match self.parallelism.ep_rank {
                EpRank::Rank(rank) => rank,
                EpRank::Worst => 0,
            };
            return Ok(Routed { batch, rank, rows: rows.clone() });
        }
        let draw = Draw { experts: model.experts, top_k: model.top_k, tokens: batch, seed: self.seed };
        let histogram = self.routing.assignment_from(trace, draw)?.map(|a| a.histogram()).unwrap_or_default();
        let rank = match self.parallelism.ep_rank {
            EpRank::Rank(rank) => rank,
            EpRank::Worst => worst_rank(&histogram, ep),
        };
        Ok(Routed { batch, rank, rows: rank_rows(&histogram, ep, rank).to_vec() })
    }

    fn case(&self, model: &Model, stage: Stage, shape: GemmShape, moe_layers: u32, routed: &Routed) -> Case {
        Case {
            model: model.name.clone(),
            tp: self.parallelism.tp,
            ep: self.parallelism.ep,
            pp: self.parallelism.pp,
            ep_rank: routed.rank,
            batch: routed.batch,
            top_k: model.top_k,
            routing: self.routing.to_string(),
            seed: self.seed,
            stage,
            shape,
            rows: routed.rows.clone(),
            moe_layers,
        }
    }
}

/// A batch with its rank and that rank's rows.
struct Routed {
    batch: u32,
    rank: u32,
    rows: Vec<u32>,
}

/// The values of an optional axis: each of the list, or the model's own.
fn axis(list: &[u32]) -> Vec<Option<u32>> {
    if list.is_empty() { vec![None] } else { list.iter().copied().map(Some).collect() }
}

/// The fewest tokens that can give these rows: each token visits an expert at most once, and `top_k` experts at most.
fn least_batch(rows: &[u32], top_k: u32) -> u32 {
    let total: u64 = rows.iter().map(|&r| u64::from(r)).sum();
    let tokens = total.div_ceil(u64::from(top_k.max(1)));
    rows.iter().copied().max().unwrap_or(0).max(u32::try_from(tokens).unwrap_or(u32::MAX)).max(1)
}

fn check_rows(rows: &[u32], model: &Model, experts: u32, batch: u32) -> Result<(), Error> {
    let what = || "--routing rows:...".to_owned();
    if rows.len() as u64 != u64::from(experts) {
        return Err(Error::value(
            what(),
            format!("lists {} experts where this GPU holds {experts}", rows.len()),
            format!("list {experts}, where `16x4` stands for 16,16,16,16"),
        ));
    }
    let total: u64 = rows.iter().map(|&r| u64::from(r)).sum();
    if total > MAX_ROWS {
        return Err(Error::value(what(), format!("has {total} rows, more than {MAX_ROWS}"), "give fewer"));
    }
    let least = least_batch(rows, model.top_k);
    if batch < least {
        return Err(Error::value(
            what(),
            format!("needs a batch of at least {least} with top-k {}, not {batch}", model.top_k),
            "leave --batch out, or raise it or --top-k",
        ));
    }
    Ok(())
}

impl Case {
    /// Experts of the layer over all ranks.
    pub fn layer_experts(&self) -> u64 {
        u64::from(self.shape.experts) * u64::from(self.ep)
    }

    /// The reason why no kernel can compute this case: it has no row at all.
    pub fn unsupported(&self) -> Option<&'static str> {
        (self.total_rows() == 0).then_some("no rows")
    }

    /// The experts of each token, over all ranks, drawn again from the words of the case; `None` for explicit rows.
    ///
    /// # Errors
    /// As [`Routing::assignment`]; also when the routing word of a foreign file is not known.
    pub fn assignment(&self) -> Result<Option<Assignment>, Error> {
        let experts = u32::try_from(self.layer_experts()).unwrap_or(u32::MAX);
        let draw = Draw { experts, top_k: self.top_k, tokens: self.batch, seed: self.seed };
        self.routing.parse::<Routing>()?.assignment(draw)
    }
}
