//! A case: what is computed, whatever the kernel.

use serde::{Deserialize, Serialize};

use super::Stage;

/// The grouped GEMM of one stage on one GPU: `experts` independent products of `rows[e] x k` activations with the
/// transposed `n x k` weights of expert `e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GemmShape {
    /// Experts held by this GPU, touched or not.
    pub experts: u32,
    /// Output columns.
    pub n: u32,
    /// Length of the reduction.
    pub k: u32,
}

/// One computation: a stage of a model under a parallelism, at a batch size, with a routing drawn from a seed.
///
/// The model, the parallelism and the routing are kept as the words that name them, so that a case can be written to a
/// results file and read on a machine that has neither.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Case {
    /// Name of the model preset, of the config file, or of the free shape.
    pub model: String,
    /// Tensor parallelism.
    pub tp: u32,
    /// Expert parallelism.
    pub ep: u32,
    /// Pipeline parallelism.
    pub pp: u32,
    /// The EP rank whose work this is.
    pub ep_rank: u32,
    /// Tokens in the forward pass; with ep, of the whole EP group.
    pub batch: u32,
    /// Experts per token.
    pub top_k: u32,
    /// Routing word, such as `uniform` or `power-law:1.2`.
    pub routing: String,
    /// Seed of routing and operands.
    pub seed: u64,
    /// What is computed.
    pub stage: Stage,
    /// Shape on this GPU. For [`Stage::Ffn`] this is the shape of gemm1.
    pub shape: GemmShape,
    /// Rows per expert of this GPU, `shape.experts` entries: the histogram of the routing.
    pub rows: Vec<u32>,
    /// MoE layers of the model on this GPU (L/pp).
    pub moe_layers: u32,
}

impl Case {
    /// Rows of all experts together.
    pub fn total_rows(&self) -> u64 {
        self.rows.iter().map(|&r| u64::from(r)).sum()
    }

    /// Experts with at least one row: those whose weights are read.
    pub fn touched_experts(&self) -> u32 {
        self.rows.iter().filter(|&&r| r > 0).count() as u32
    }

    /// Useful floating-point operations of one grouped GEMM of this shape: a multiply and an add for each product.
    pub fn useful_flops(&self) -> u64 {
        // Saturating, because a case may come from a file of anybody.
        let products = self.total_rows().saturating_mul(u64::from(self.shape.n) * u64::from(self.shape.k));
        products.saturating_mul(2)
    }
}
