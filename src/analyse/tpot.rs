//! How much of a served token's time the MoE GEMMs explain.

use std::collections::BTreeMap;

use super::winners::sweeps;
use crate::kernel::{KernelId, Scheme};
use crate::record::{CaseKey, ConditionsKey, Results};
use crate::shape::Stage;

/// The MoE part of one forward pass at one batch, with the best kernel of each stage.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenShare {
    /// The case, of gemm1 or of the whole layer.
    pub case: CaseKey,
    /// Number formats.
    pub scheme: Scheme,
    /// Stage, its best kernel, and its time for one layer in nanoseconds.
    pub stages: Vec<(Stage, KernelId, f64)>,
    /// MoE layers that a token passes: all of the model's, on every pipeline stage.
    pub layers: u32,
    /// Nanoseconds of a token's time: layers x stage times.
    pub ns: f64,
    /// Of the token's whole time.
    pub share: f64,
}

/// The best kernel of one stage.
struct Best {
    case: CaseKey,
    kernel: KernelId,
    ns: f64,
    layers: u32,
}

/// The share of a token time of `tpot_ms` for each batch and scheme: gemm1 and gemm2 together where both were timed,
/// else the whole layer, where that was.
pub fn token_shares(results: &Results, tpot_ms: f64) -> Vec<TokenShare> {
    let mut groups: BTreeMap<(CaseKey, ConditionsKey, Scheme), Vec<Best>> = BTreeMap::new();
    for sweep in sweeps(results) {
        for block in &sweep.schemes {
            for cell in &block.cells {
                let Some(best) = cell.best() else { continue };
                let case = CaseKey::of(cell.case);
                // What the stages of one layer share.
                let layer = CaseKey { stage: Stage::Ffn, experts: 0, n: 0, k: 0, ..case.clone() };
                groups.entry((layer, sweep.key.conditions, block.scheme)).or_default().push(Best {
                    case,
                    kernel: best.row.kernel.id.clone(),
                    ns: best.time.median_ns,
                    layers: cell.case.moe_layers.saturating_mul(cell.case.pp),
                });
            }
        }
    }
    groups.into_iter().filter_map(|((_, _, scheme), stages)| share_of(scheme, stages, tpot_ms)).collect()
}

fn share_of(scheme: Scheme, stages: Vec<Best>, tpot_ms: f64) -> Option<TokenShare> {
    let has = |stage| stages.iter().any(|best| best.case.stage == stage);
    let wanted: &[Stage] = if has(Stage::Gemm1) && has(Stage::Gemm2) {
        &[Stage::Gemm1, Stage::Gemm2]
    } else if has(Stage::Ffn) {
        &[Stage::Ffn]
    } else {
        return None;
    };
    let chosen: Vec<Best> = stages.into_iter().filter(|best| wanted.contains(&best.case.stage)).collect();
    let Best { case, layers, .. } = chosen.first()?;
    let ns = f64::from(*layers) * chosen.iter().map(|best| best.ns).sum::<f64>();
    Some(TokenShare {
        case: case.clone(),
        scheme,
        layers: *layers,
        ns,
        share: ns / (tpot_ms * 1e6),
        stages: chosen.into_iter().map(|best| (best.case.stage, best.kernel, best.ns)).collect(),
    })
}
