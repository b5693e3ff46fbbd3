//! What makes two rows the same cell.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::row::{Conditions, L2, Launch, Row};
use crate::kernel::KernelId;
use crate::shape::{Case, Stage};

/// A case by the words that name it. Its rows per expert follow from them, so they are not part of the key; where they
/// differ all the same, the routing was drawn differently.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CaseKey {
    /// Model.
    pub model: String,
    /// Tensor parallelism.
    pub tp: u32,
    /// Expert parallelism.
    pub ep: u32,
    /// Pipeline parallelism.
    pub pp: u32,
    /// EP rank.
    pub ep_rank: u32,
    /// What is computed.
    pub stage: Stage,
    /// Experts on this GPU.
    pub experts: u32,
    /// Output columns.
    pub n: u32,
    /// Length of the reduction.
    pub k: u32,
    /// Experts per token.
    pub top_k: u32,
    /// Routing word.
    pub routing: String,
    /// Seed of routing and operands.
    pub seed: u64,
    /// Tokens.
    pub batch: u32,
}

impl CaseKey {
    /// The key of a case.
    pub fn of(case: &Case) -> Self {
        CaseKey {
            model: case.model.clone(),
            tp: case.tp,
            ep: case.ep,
            pp: case.pp,
            ep_rank: case.ep_rank,
            stage: case.stage,
            experts: case.shape.experts,
            n: case.shape.n,
            k: case.shape.k,
            top_k: case.top_k,
            routing: case.routing.clone(),
            seed: case.seed,
            batch: case.batch,
        }
    }
}

impl std::fmt::Display for CaseKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tp {} ep {}", self.model, self.tp, self.ep)?;
        if self.pp > 1 {
            write!(f, " pp {}", self.pp)?;
        }
        write!(f, " {} {} seed {} batch {}", self.stage, self.routing, self.seed, self.batch)
    }
}

/// Conditions without the plan that reached them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ConditionsKey {
    /// Cache state.
    pub l2: L2,
    /// Launch kind.
    pub launch: Launch,
    /// Programmatic dependent launch.
    pub pdl: bool,
}

impl ConditionsKey {
    /// The key of a row's conditions.
    pub fn of(conditions: &Conditions) -> Self {
        ConditionsKey { l2: conditions.l2, launch: conditions.launch, pdl: conditions.pdl }
    }
}

impl std::fmt::Display for ConditionsKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} L2, {}", self.l2.as_str(), self.launch.as_str())?;
        f.write_str(if self.pdl { ", PDL" } else { "" })
    }
}

/// One cell of a sweep: case x kernel x conditions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CellKey {
    /// What was computed.
    pub case: CaseKey,
    /// Under which conditions.
    pub conditions: ConditionsKey,
    /// By which kernel.
    pub kernel: KernelId,
}

impl CellKey {
    /// The key of a row.
    pub fn of(row: &Row) -> Self {
        CellKey {
            case: CaseKey::of(&row.case),
            conditions: ConditionsKey::of(&row.conditions),
            kernel: row.kernel.id.clone(),
        }
    }
}

impl std::fmt::Display for CellKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}) {}", self.case, self.conditions, self.kernel)
    }
}
