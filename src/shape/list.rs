//! What `list models` shows, as data.

use serde::Serialize;

use super::{Alignment, EpRank, Model, Parallelism, PerGpu};

/// One model under one parallelism.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShapeRow {
    /// Name of the model.
    pub model: String,
    /// Tensor parallelism.
    pub tp: u32,
    /// Expert parallelism.
    pub ep: u32,
    /// Pipeline parallelism.
    pub pp: u32,
    /// What one GPU holds; absent when the split does not divide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_gpu: Option<PerGpu>,
    /// Which widths divide it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alignment: Option<Alignment>,
    /// Why there is no such split, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The shapes per GPU of each model at each combination of `tp`, `ep` and `pp`, in this order.
pub fn shape_rows<'a>(
    models: impl IntoIterator<Item = &'a Model>,
    tps: &[u32],
    eps: &[u32],
    pps: &[u32],
) -> Vec<ShapeRow> {
    let mut rows = Vec::new();
    for model in models {
        for &tp in tps {
            for &ep in eps {
                rows.extend(pps.iter().map(|&pp| shape_row(model, Parallelism { tp, ep, pp, ep_rank: EpRank::Worst })));
            }
        }
    }
    rows
}

fn shape_row(model: &Model, parallelism: Parallelism) -> ShapeRow {
    let split = parallelism.per_gpu(model);
    ShapeRow {
        model: model.name.clone(),
        tp: parallelism.tp,
        ep: parallelism.ep,
        pp: parallelism.pp,
        per_gpu: split.as_ref().ok().copied(),
        alignment: split.as_ref().ok().map(PerGpu::alignment),
        refused: split.err().map(|error| error.to_string()),
    }
}
