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

type Key = (CaseKey, ConditionsKey, Scheme);
/// A stage's case, its best kernel, its time and the layers.
type Entry = (CaseKey, Stage, KernelId, f64, u32);

/// The share of a token time of `tpot_ms` for each batch and scheme: gemm1 and gemm2 together where both were timed,
/// else the whole layer, where that was.
pub fn token_shares(results: &Results, tpot_ms: f64) -> Vec<TokenShare> {
    let mut cells: BTreeMap<Key, Vec<Entry>> = BTreeMap::new();
    for sweep in sweeps(results) {
        for block in &sweep.schemes {
            for cell in &block.cells {
                let Some(best) = cell.best() else { continue };
                let case = CaseKey::of(cell.case);
                let common = CaseKey { stage: Stage::Ffn, experts: 0, n: 0, k: 0, ..case.clone() };
                let layers = cell.case.moe_layers.saturating_mul(cell.case.pp);
                let entry = (case, cell.case.stage, best.row.kernel.id.clone(), best.time.median_ns, layers);
                cells.entry((common, sweep.key.conditions, block.scheme)).or_default().push(entry);
            }
        }
    }
    cells.into_iter().filter_map(|((_, _, scheme), entries)| share_of(scheme, entries, tpot_ms)).collect()
}

fn share_of(scheme: Scheme, entries: Vec<Entry>, tpot_ms: f64) -> Option<TokenShare> {
    let has = |stage| entries.iter().any(|e| e.1 == stage);
    let wanted: &[Stage] = if has(Stage::Gemm1) && has(Stage::Gemm2) {
        &[Stage::Gemm1, Stage::Gemm2]
    } else if has(Stage::Ffn) {
        &[Stage::Ffn]
    } else {
        return None;
    };
    let mut chosen = entries.into_iter().filter(|e| wanted.contains(&e.1));
    let (case, stage, kernel, ns, layers) = chosen.next()?;
    let mut stages = vec![(stage, kernel, ns)];
    stages.extend(chosen.map(|(_, stage, kernel, ns, _)| (stage, kernel, ns)));
    let ns = f64::from(layers) * stages.iter().map(|s| s.2).sum::<f64>();
    Some(TokenShare { case, scheme, stages, layers, ns, share: ns / (tpot_ms * 1e6) })
}
