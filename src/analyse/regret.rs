//! What a simpler choice costs against the best kernel of each cell.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::winners::{Cell, Sweep};
use crate::kernel::{KernelId, Scheme};
use crate::record::{CaseKey, ConditionsKey};

/// Cost of a choice over several batches: ratios of its time to the best, 1 being no cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Geometric mean over the batches.
    pub mean: f64,
    /// The worst batch's.
    pub worst: f64,
    /// The worst batch.
    pub worst_batch: u32,
    /// Batches that it was taken over.
    pub batches: u32,
}

/// One kernel for all batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OneKernel {
    /// The kernel of the least mean cost among those timed at every batch.
    pub kernel: KernelId,
    /// What it costs.
    pub cost: Cost,
}

/// The nearest tuned batch's kernel at a batch left out of the table, for each batch but the first and the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapping {
    /// What that costs.
    pub cost: Cost,
}

/// A table tuned on one routing, used under another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoutingRegret {
    /// The case; its routing is the one that was run, its batch 0.
    pub case: CaseKey,
    /// Under which conditions.
    pub conditions: ConditionsKey,
    /// Number formats.
    pub scheme: Scheme,
    /// The routing that the table was tuned on.
    pub tuned_on: String,
    /// What that costs.
    pub cost: Cost,
}

/// The kernel that costs least when it must serve every batch.
pub(super) fn one_kernel(cells: &[&Cell<'_>]) -> Option<OneKernel> {
    let candidates = cells.first()?.ranked.iter().filter(|r| !r.row.kernel.needs_host_counts);
    candidates
        .filter_map(|candidate| {
            let kernel = &candidate.row.kernel.id;
            let ratios = cells.iter().map(|cell| Some((cell.batch, excess(cell, kernel)?))).collect::<Option<Vec<_>>>();
            Some(OneKernel { kernel: kernel.clone(), cost: cost(&ratios?)? })
        })
        .min_by(|a, b| a.cost.mean.total_cmp(&b.cost.mean))
}

/// Leaves each inner batch out in turn and takes the kernel of the nearest batch that is left, the smaller one of two
/// equally near.
pub(super) fn snapping(cells: &[&Cell<'_>]) -> Option<Snapping> {
    let inner = cells.len().checked_sub(2)?;
    let ratios: Vec<(u32, f64)> = cells
        .iter()
        .skip(1)
        .take(inner)
        .filter_map(|cell| {
            let others = cells.iter().filter(|other| other.batch != cell.batch);
            let nearest = others.min_by_key(|other| other.batch.abs_diff(cell.batch))?;
            Some((cell.batch, excess(cell, &nearest.best()?.row.kernel.id)?))
        })
        .collect();
    Some(Snapping { cost: cost(&ratios)? })
}

/// For each two routings of one case: the winners under one, run under the other.
pub(super) fn other_routings(sweeps: &[Sweep<'_>]) -> Vec<RoutingRegret> {
    let mut alike: BTreeMap<(CaseKey, ConditionsKey), Vec<&Sweep<'_>>> = BTreeMap::new();
    for sweep in sweeps {
        // The EP rank with most work depends on the routing.
        let case = CaseKey { routing: String::new(), ep_rank: 0, ..sweep.key.case.clone() };
        alike.entry((case, sweep.key.conditions)).or_default().push(sweep);
    }
    let mut regrets = Vec::new();
    for group in alike.values() {
        for run in group {
            for tuned in group.iter().filter(|t| t.key.case.routing != run.key.case.routing) {
                regrets.extend(between(tuned, run));
            }
        }
    }
    regrets
}

fn between(tuned: &Sweep<'_>, run: &Sweep<'_>) -> Vec<RoutingRegret> {
    let of = |scheme: Scheme| tuned.schemes.iter().find(|s| s.scheme == scheme);
    let regrets = run.schemes.iter().filter_map(|block| {
        let table = of(block.scheme)?;
        let ratios: Vec<(u32, f64)> = block
            .cells
            .iter()
            .filter_map(|cell| {
                let entry = table.cells.iter().find(|c| c.batch == cell.batch)?.best()?;
                Some((cell.batch, excess(cell, &entry.row.kernel.id)?))
            })
            .collect();
        Some(RoutingRegret {
            case: run.key.case.clone(),
            conditions: run.key.conditions,
            scheme: block.scheme,
            tuned_on: tuned.key.case.routing.clone(),
            cost: cost(&ratios)?,
        })
    });
    regrets.collect()
}

/// Time of a kernel in a cell over the best's; 1 when they cannot be told apart, since that is no cost that was shown.
fn excess(cell: &Cell<'_>, kernel: &KernelId) -> Option<f64> {
    if cell.winners().any(|r| r.row.kernel.id == *kernel) {
        return Some(1.0);
    }
    cell.ranked.iter().find(|r| r.row.kernel.id == *kernel).map(|r| r.ratio)
}

fn cost(ratios: &[(u32, f64)]) -> Option<Cost> {
    let &(worst_batch, worst) = ratios.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mean = (ratios.iter().map(|(_, ratio)| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    Some(Cost { mean, worst, worst_batch, batches: u32::try_from(ratios.len()).unwrap_or(u32::MAX) })
}
