//! Between which batches the choice changes, and about where.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choose::ChoiceEntry;
use super::winners::Cell;
use crate::kernel::KernelId;

/// A change of the choice between two neighbouring batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Crossover {
    /// The choice up to `after`.
    pub from: KernelId,
    /// The choice from `before` on.
    pub to: KernelId,
    /// Largest batch of the former choice.
    pub after: u32,
    /// Smallest batch of the latter.
    pub before: u32,
    /// Where the two times are equal, when the logarithm of each is a straight line of the logarithm of the batch
    /// between the two; absent when one of them has no time at both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<f64>,
    /// The same with each time at the ends of its 95% interval, both ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

/// Every change of choice along the entries.
pub(super) fn crossovers(entries: &[ChoiceEntry], cells: &[&Cell<'_>]) -> Vec<Crossover> {
    let changes = entries.windows(2).filter_map(|pair| match pair {
        [a, b] if a.kernel != b.kernel => Some((a, b)),
        _ => None,
    });
    changes
        .map(|(a, b)| {
            let ends = lines(cells, a, b);
            let middle = |[low, high]: [[f64; 3]; 2]| meeting(low[1], high[1]);
            Crossover {
                from: a.kernel.clone(),
                to: b.kernel.clone(),
                after: a.batch,
                before: b.batch,
                batch: ends.map(|ends| at(a.batch, b.batch, middle(ends))),
                range: ends.map(|[low, high]| {
                    // The former choice looks worst at its slowest: the change comes earliest then.
                    let early = at(a.batch, b.batch, meeting(low[2], high[2]));
                    let late = at(a.batch, b.batch, meeting(low[0], high[0]));
                    [early.min(late), early.max(late)]
                }),
            }
        })
        .collect()
}

/// Logarithm of the time of the former over the latter choice at both batches: least, middle, most.
fn lines(cells: &[&Cell<'_>], a: &ChoiceEntry, b: &ChoiceEntry) -> Option<[[f64; 3]; 2]> {
    let time = |batch: u32, kernel: &KernelId| {
        let cell = cells.iter().find(|cell| cell.batch == batch)?;
        cell.ranked.iter().find(|r| r.row.kernel.id == *kernel).map(|r| r.time)
    };
    let ratios = |batch: u32| {
        let (from, to) = (time(batch, &a.kernel)?, time(batch, &b.kernel)?);
        let [from_low, from_high] = from.ci95_ns;
        let [to_low, to_high] = to.ci95_ns;
        Some([(from_low / to_high).ln(), (from.median_ns / to.median_ns).ln(), (from_high / to_low).ln()])
    };
    Some([ratios(a.batch)?, ratios(b.batch)?])
}

/// Where a straight line from `low` at 0 to `high` at 1 crosses zero, kept between the two.
fn meeting(low: f64, high: f64) -> f64 {
    if low >= 0.0 {
        0.0
    } else if high <= 0.0 {
        1.0
    } else {
        low / (low - high)
    }
}

/// The batch a share of the way between two, on a logarithmic scale.
fn at(from: u32, to: u32, share: f64) -> f64 {
    f64::from(from) * (f64::from(to) / f64::from(from)).powf(share)
}
