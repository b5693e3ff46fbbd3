//! Whether a change made anything slower, for certain.
//!
//! A cell regressed when its ratio of after over before is above the threshold beyond doubt: a one-sided test of each
//! cell, whose standard error is read off the 99.6% interval, and Holm's step-down correction over all cells tested, so
//! that the chance of even one false alarm in the whole file stays below [`GateOptions::alpha`].

use serde::Serialize;

use super::compare::{CellComparison, Change, Comparison};
use super::normal::{Z_996, upper_tail};
use crate::record::CellKey;

/// When a gate fails.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GateOptions {
    /// Slowdowns up to this are let pass: 0.015 is 1.5%.
    pub threshold: f64,
    /// Chance of a false alarm in the whole file.
    pub alpha: f64,
}

impl Default for GateOptions {
    fn default() -> Self {
        GateOptions { threshold: 0.015, alpha: 0.01 }
    }
}

/// The outcome of a gate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gate {
    /// With which limits.
    pub options: GateOptions,
    /// Cells tested.
    pub tested: usize,
    /// Cells that regressed for certain, worst first.
    pub regressions: Vec<GateCell>,
    /// Cells that ended well before and not after.
    pub broken: Vec<CellComparison>,
    /// Cells whose ratio is above the threshold but might not be: measure these again, side by side.
    pub suspects: Vec<GateCell>,
    /// Cells of the earlier file that the later one lacks; they do not fail the gate.
    pub missing: Vec<CellKey>,
}

/// A cell under test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateCell {
    /// The cell.
    pub cell: CellKey,
    /// After over before.
    pub ratio: f64,
    /// Its 99.6% interval.
    pub interval: [f64; 2],
    /// Probability of such a ratio, or a larger one, when the true one is at the threshold.
    pub p: f64,
    /// What `p` had to stay below, after Holm.
    pub limit: f64,
}

impl Gate {
    /// Whether nothing regressed and nothing broke.
    pub fn passed(&self) -> bool {
        self.regressions.is_empty() && self.broken.is_empty()
    }
}

/// Judges a comparison.
pub fn gate(comparison: &Comparison, options: GateOptions) -> Gate {
    let mut tested: Vec<GateCell> = comparison.cells.iter().filter_map(|cell| under_test(cell, options)).collect();
    tested.sort_by(|a, b| a.p.total_cmp(&b.p));
    let count = tested.len();
    for (rank, cell) in tested.iter_mut().enumerate() {
        cell.limit = options.alpha / (count - rank) as f64;
    }
    // Holm: the first that does not pass its limit ends the confirmations.
    let confirmed = tested.iter().take_while(|cell| cell.p <= cell.limit).count();
    let mut suspects = tested.split_off(confirmed);
    suspects.retain(|cell| cell.ratio > 1.0 + options.threshold);
    tested.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    Gate {
        options,
        tested: count,
        regressions: tested,
        broken: comparison.cells.iter().filter(|c| c.change == Change::Broken).cloned().collect(),
        suspects,
        missing: comparison.only_before.clone(),
    }
}

fn under_test(cell: &CellComparison, options: GateOptions) -> Option<GateCell> {
    let verdict = cell.verdict.as_ref()?;
    let [low, high] = verdict.interval;
    // The half of the interval on the side of the test: intervals need not be symmetric.
    let error = (verdict.ratio / low).ln() / Z_996;
    let excess = (verdict.ratio / (1.0 + options.threshold)).ln();
    let p = if error > 0.0 { upper_tail(excess / error) } else { f64::from(u8::from(excess <= 0.0)) };
    Some(GateCell { cell: cell.cell.clone(), ratio: verdict.ratio, interval: [low, high], p, limit: 0.0 })
}
