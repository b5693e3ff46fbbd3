//! How a model is divided over GPUs, and what one of them holds.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::error::{Error, quote};
use super::{GemmShape, Model, Stage};

/// How a model is divided over GPUs: each expert over `tp`, the experts over `ep`, the layers over `pp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallelism {
    /// Tensor parallelism.
    pub tp: u32,
    /// Expert parallelism.
    pub ep: u32,
    /// Pipeline parallelism.
    pub pp: u32,
    /// Whose work is computed.
    pub ep_rank: EpRank,
}

impl Default for Parallelism {
    /// One GPU.
    fn default() -> Self {
        Parallelism { tp: 1, ep: 1, pp: 1, ep_rank: EpRank::Worst }
    }
}

/// Which rank of an EP group is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpRank {
    /// This one.
    Rank(u32),
    /// The one with most rows, the lowest of several.
    Worst,
}

impl FromStr for EpRank {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "worst" => Ok(EpRank::Worst),
            _ => text.parse().map(EpRank::Rank).map_err(|_| {
                Error::value(format!("--ep-rank {}", quote(text)), "is not a rank", "give a number from 0 or `worst`")
            }),
        }
    }
}

impl fmt::Display for EpRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EpRank::Rank(rank) => rank.fmt(f),
            EpRank::Worst => f.write_str("worst"),
        }
    }
}

/// What one GPU holds of each MoE layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PerGpu {
    /// The gate-up projection: E/ep experts, N = 2I/tp (I/tp when not gated), K = H.
    pub gemm1: GemmShape,
    /// The down projection: E/ep experts, N = H, K = I/tp.
    pub gemm2: GemmShape,
    /// I/tp: columns of the gate alone, and of the up projection alone.
    pub intermediate: u32,
    /// MoE layers: L/pp.
    pub moe_layers: u32,
}

impl Parallelism {
    /// What one GPU holds of `model`.
    ///
    /// # Errors
    /// [`Error::Split`] when a division leaves a remainder, [`Error::Value`] when a parallelism is 0 or the rank is not
    /// below `ep`.
    pub fn per_gpu(&self, model: &Model) -> Result<PerGpu, Error> {
        let experts = divide("ep", self.ep, "experts", model.experts, model)?;
        let intermediate = divide("tp", self.tp, "expert intermediate columns", model.intermediate, model)?;
        let moe_layers = divide("pp", self.pp, "MoE layers", model.moe_layers, model)?;
        if let EpRank::Rank(rank) = self.ep_rank
            && rank >= self.ep
        {
            return Err(Error::value(
                format!("--ep-rank {rank}"),
                format!("is not below ep {}", self.ep),
                format!("give 0 to {} or `worst`", self.ep - 1),
            ));
        }
        let columns = if model.activation.gated() { 2 * intermediate } else { intermediate };
        Ok(PerGpu {
            gemm1: GemmShape { experts, n: columns, k: model.width() },
            gemm2: GemmShape { experts, n: model.width(), k: intermediate },
            intermediate,
            moe_layers,
        })
    }
}

fn divide(axis: &'static str, parts: u32, dimension: &'static str, total: u32, model: &Model) -> Result<u32, Error> {
    if parts == 0 {
        return Err(Error::value(format!("--{axis} 0"), "is no parallelism", "give 1 or more"));
    }
    if !total.is_multiple_of(parts) {
        return Err(Error::Split { axis, parts, dimension, total, model: model.name.clone() });
    }
    Ok(total / parts)
}

impl PerGpu {
    /// The shape of a stage; that of gemm1 for the whole layer.
    pub fn stage(&self, stage: Stage) -> GemmShape {
        match stage {
            Stage::Gemm1 | Stage::Ffn => self.gemm1,
            Stage::Gemm2 => self.gemm2,
        }
    }

    /// How well the shapes meet the needs of kernels.
    pub fn alignment(&self) -> Alignment {
        let k = |d: u32| self.gemm1.k.is_multiple_of(d) && self.gemm2.k.is_multiple_of(d);
        let n = |d: u32| self.gemm1.n.is_multiple_of(d) && self.gemm2.n.is_multiple_of(d);
        Alignment {
            k16: k(16),
            k32: k(32),
            k128: k(128),
            n32: n(32),
            n128: n(128),
            half128: self.intermediate.is_multiple_of(128),
        }
    }
}

/// Which widths divide both GEMMs of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Alignment {
    /// Both K by 16: whole NVFP4 scale groups.
    pub k16: bool,
    /// Both K by 32: whole MX scale groups.
    pub k32: bool,
    /// Both K by 128: whole K tiles and FP8 scale blocks.
    pub k128: bool,
    /// Both N by 32.
    pub n32: bool,
    /// Both N by 128: whole N tiles.
    pub n128: bool,
    /// I/tp by 128: no N tile or FP8 scale block straddles the border of gate and up.
    pub half128: bool,
}
