//! Which kernel wins at which batch, and what comes next.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::judge::judge_rows;
use crate::kernel::Scheme;
use crate::measure::{Judgement, Verdict};
use crate::record::{CaseKey, ConditionsKey, Results, Row, Status, TimeRecord};
use crate::shape::Case;

/// Medians this close are a tie where there are no samples to judge by.
const POINT_TIE: f64 = 0.01;

/// What the rows of one table share. The batch of `case` is 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SweepKey {
    /// Everything of the case but its batch.
    pub case: CaseKey,
    /// Cache state, launch kind and PDL.
    pub conditions: ConditionsKey,
}

impl SweepKey {
    /// The table that a row belongs to.
    pub fn of(row: &Row) -> Self {
        SweepKey {
            case: CaseKey { batch: 0, ..CaseKey::of(&row.case) },
            conditions: ConditionsKey::of(&row.conditions),
        }
    }
}

/// One case over all batches and schemes: one table.
#[derive(Clone, Debug)]
pub struct Sweep<'a> {
    /// What its rows share.
    pub key: SweepKey,
    /// One block for each scheme, in the order of [`Scheme::ALL`].
    pub schemes: Vec<SchemeSweep<'a>>,
}

/// The rows of one scheme of a sweep.
#[derive(Clone, Debug)]
pub struct SchemeSweep<'a> {
    /// The scheme.
    pub scheme: Scheme,
    /// Relative Frobenius error of the scheme against the bf16 layer: the largest of its rows.
    pub quantisation_error: Option<f64>,
    /// One cell for each batch, ascending.
    pub cells: Vec<Cell<'a>>,
}

/// One batch of a scheme's sweep.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// Tokens.
    pub batch: u32,
    /// The case.
    pub case: &'a Case,
    /// Rows with a time that counts: the best first, then its ties, then the others, each by median. Rows that may not
    /// win stand among the others.
    pub ranked: Vec<Ranked<'a>>,
    /// Rows without a time that counts.
    pub rest: Vec<&'a Row>,
}

/// A timed row and how it stands against the best of its cell.
#[derive(Clone, Copy, Debug)]
pub struct Ranked<'a> {
    /// The row.
    pub row: &'a Row,
    /// Its time.
    pub time: &'a TimeRecord,
    /// Its place.
    pub standing: Standing,
    /// Judgement of it on the best: none for the best itself, and where there are too few samples.
    pub judgement: Option<Judgement>,
    /// Its time over the best's.
    pub ratio: f64,
}

/// Place of a row in its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The fastest that may win.
    Best,
    /// Not told apart from the best.
    Tied,
    /// Slower than the best.
    Behind,
    /// Needs the per-expert counts on the host, which a captured decode graph never has.
    MayNotWin,
}

impl<'a> Cell<'a> {
    /// The best row.
    pub fn best(&self) -> Option<&Ranked<'a>> {
        self.ranked.first().filter(|r| r.standing == Standing::Best)
    }

    /// The best and those that cannot be told apart from it.
    pub fn winners(&self) -> impl Iterator<Item = &Ranked<'a>> {
        self.ranked.iter().take_while(|r| matches!(r.standing, Standing::Best | Standing::Tied))
    }

    /// The fastest that is slower than the best.
    pub fn next_best(&self) -> Option<&Ranked<'a>> {
        self.ranked.iter().find(|r| r.standing == Standing::Behind)
    }
}

/// Sorts the rows of a file into tables and ranks each cell.
pub fn sweeps(results: &Results) -> Vec<Sweep<'_>> {
    let mut cells: BTreeMap<(SweepKey, Scheme, u32), Vec<&Row>> = BTreeMap::new();
    for row in &results.rows {
        cells.entry((SweepKey::of(row), row.kernel.scheme, row.case.batch)).or_default().push(row);
    }
    // Ranking resamples: the one part of reading a file that takes a while.
    let ranked: Vec<_> = cells
        .into_par_iter()
        .filter_map(|((key, scheme, batch), rows)| {
            let error = rows.iter().filter_map(|r| r.verify.as_ref()?.quantisation_error).reduce(f64::max);
            Some((key, scheme, error, cell(batch, rows)?))
        })
        .collect();
    let mut sweeps: Vec<Sweep<'_>> = Vec::new();
    for (key, scheme, error, cell) in ranked {
        if sweeps.last().is_none_or(|sweep| sweep.key != key) {
            sweeps.push(Sweep { key, schemes: Vec::new() });
        }
        let Some(sweep) = sweeps.last_mut() else { continue };
        match sweep.schemes.last_mut().filter(|s| s.scheme == scheme) {
            Some(block) => {
                block.quantisation_error = block.quantisation_error.into_iter().chain(error).reduce(f64::max);
                block.cells.push(cell);
            }
            None => sweep.schemes.push(SchemeSweep { scheme, quantisation_error: error, cells: vec![cell] }),
        }
    }
    sweeps
}

fn cell<'a>(batch: u32, rows: Vec<&'a Row>) -> Option<Cell<'a>> {
    let case = &rows.first()?.case;
    let (mut timed, mut rest) = (Vec::new(), Vec::new());
    for row in rows {
        match &row.time {
            Some(time) if matches!(row.status, Status::Ok | Status::Imported) => timed.push((row, time)),
            _ => rest.push(row),
        }
    }
    Some(Cell { batch, case, ranked: rank(timed), rest })
}

/// Ranks the timed rows of a cell. The best has the smallest median of those that may win, unless the paired samples
/// call another one faster.
fn rank<'a>(mut timed: Vec<(&'a Row, &'a TimeRecord)>) -> Vec<Ranked<'a>> {
    timed.sort_by(|a, b| a.1.median_ns.total_cmp(&b.1.median_ns));
    let against = |best: &TimeRecord| -> Vec<Ranked<'a>> {
        timed.iter().map(|&(row, time)| place(row, time, best, timed.iter().map(|t| t.1))).collect()
    };
    let mut eligible = timed.iter().filter(|(row, _)| !row.kernel.needs_host_counts);
    let Some(&(_, mut best)) = eligible.next() else {
        return timed.iter().map(|&(row, time)| alone(row, time, Standing::MayNotWin)).collect();
    };
    let mut ranked = against(best);
    // Verdicts could form a circle; no more steps than rows are taken.
    for _ in 1..timed.len() {
        let faster = ranked
            .iter()
            .find(|r| !r.row.kernel.needs_host_counts && r.judgement.is_some_and(|j| j.verdict == Verdict::Faster));
        let Some(faster) = faster else { break };
        best = faster.time;
        ranked = against(best);
    }
    // Stable: within a place the order stays that of the medians.
    ranked.sort_by_key(|r| match r.standing {
        Standing::Best => 0,
        Standing::Tied => 1,
        Standing::Behind | Standing::MayNotWin => 2,
    });
    ranked
}

fn alone<'a>(row: &'a Row, time: &'a TimeRecord, standing: Standing) -> Ranked<'a> {
    Ranked { row, time, standing, judgement: None, ratio: 1.0 }
}

fn place<'a>(
    row: &'a Row,
    time: &'a TimeRecord,
    best: &TimeRecord,
    all: impl Iterator<Item = &'a TimeRecord>,
) -> Ranked<'a> {
    if std::ptr::eq(time, best) {
        return alone(row, time, Standing::Best);
    }
    let judgement = judge_rows(time, best, all.filter(|t| !std::ptr::eq(*t, time) && !std::ptr::eq(*t, best)));
    let ratio = judgement.map_or(time.median_ns / best.median_ns, |j| j.ratio);
    let slower = judgement.map_or(ratio > 1.0 + POINT_TIE, |j| j.verdict == Verdict::Slower);
    let standing = match (row.kernel.needs_host_counts, slower) {
        (true, _) => Standing::MayNotWin,
        (false, true) => Standing::Behind,
        (false, false) => Standing::Tied,
    };
    Ranked { row, time, standing, judgement, ratio }
}
