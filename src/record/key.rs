//! What makes two rows the same cell.

use super::row::{L2, Launch, Row};
use crate::kernel::KernelId;
use crate::shape::{Case, Stage};

/// A case by the words that name it. Its rows per expert follow from them, so they are not part of the key; where they
/// differ all the same, the routing was drawn differently.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CaseKey {
    /// Model.
    pub model: String,
    /// Tensor, expert and pipeline parallelism, and the EP rank.
    pub parallelism: (u32, u32, u32, u32),
    /// Stage.
    pub stage: Stage,
    /// Experts, n and k.
    pub shape: (u32, u32, u32),
    /// Experts per token.
    pub top_k: u32,
    /// Routing word.
    pub routing: String,
    /// Seed.
    pub seed: u64,
    /// Batch.
    pub batch: u32,
}

impl CaseKey {
    /// The key of a case.
    pub fn of(case: &Case) -> Self {
        CaseKey {
            model: case.model.clone(),
            parallelism: (case.tp, case.ep, case.pp, case.ep_rank),
            stage: case.stage,
            shape: (case.shape.experts, case.shape.n, case.shape.k),
            top_k: case.top_k,
            routing: case.routing.clone(),
            seed: case.seed,
            batch: case.batch,
        }
    }
}

/// One cell of a sweep: case x kernel x conditions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CellKey {
    /// What was computed.
    pub case: CaseKey,
    /// Cache state, launch kind and PDL.
    pub conditions: (L2, Launch, bool),
    /// By which kernel.
    pub kernel: KernelId,
}

impl CellKey {
    /// The key of a row.
    pub fn of(row: &Row) -> Self {
        CellKey {
            case: CaseKey::of(&row.case),
            conditions: (row.conditions.l2, row.conditions.launch, row.conditions.pdl),
            kernel: row.kernel.id.clone(),
        }
    }
}

impl std::fmt::Display for CellKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (tp, ep, _, _) = self.case.parallelism;
        let (l2, launch, pdl) = self.conditions;
        write!(
            f,
            "{} tp {tp} ep {ep} {} {} batch {} seed {} {} L2 {}{} {}",
            self.case.model,
            self.case.stage,
            self.case.routing,
            self.case.batch,
            self.case.seed,
            l2.as_str(),
            launch.as_str(),
            if pdl { " pdl" } else { "" },
            self.kernel
        )
    }
}
