//! Which kernel to run at which batch, where that changes, and what a simpler choice would cost.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crossover::{Crossover, crossovers};
use super::regret::{OneKernel, RoutingRegret, Snapping, one_kernel, other_routings, snapping};
use super::verdict::VerdictRecord;
use super::winners::{Cell, SchemeSweep, Sweep, sweeps};
use crate::kernel::{KernelId, Scheme};
use crate::record::{CaseKey, ConditionsKey, Results};

/// The schema word of choice files.
pub const CHOICE_SCHEMA: &str = "moebius.choice/1";

/// A choice file: for each case the kernel to run at each batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Choices {
    /// `moebius.choice/1`
    pub schema: String,
    /// Device that the times are of.
    pub device: String,
    /// Its architecture.
    pub arch: String,
    /// Version of moebius that timed.
    pub tool: String,
    /// One table for each case and conditions.
    pub tables: Vec<ChoiceTable>,
    /// What a table tuned on one routing costs under another.
    pub routing_regret: Vec<RoutingRegret>,
}

/// The choices of one case over all batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChoiceTable {
    /// The case; its batch is 0.
    pub case: CaseKey,
    /// Under which conditions.
    pub conditions: ConditionsKey,
    /// Choices within each scheme.
    pub schemes: Vec<SchemeChoice>,
    /// Choices across schemes: for each batch those that no finer scheme beats, the most exact first.
    pub across: Vec<AcrossChoice>,
}

/// The choices within one scheme.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SchemeChoice {
    /// Number formats.
    pub scheme: Scheme,
    /// Relative Frobenius error of the scheme against the bf16 layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantisation_error: Option<f64>,
    /// One entry for each batch that has a winner, ascending.
    pub entries: Vec<ChoiceEntry>,
    /// Where the choice changes between two batches.
    pub crossovers: Vec<Crossover>,
    /// The best single kernel for all batches, and what it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_kernel: Option<OneKernel>,
    /// What it costs to take the nearest batch's kernel at a batch that was not tuned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapping: Option<Snapping>,
}

/// The choice at one batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChoiceEntry {
    /// Tokens.
    pub batch: u32,
    /// The kernel to run: of those that cannot be told apart, the one that stays the choice over most batches.
    pub kernel: KernelId,
    /// Its median time in nanoseconds.
    pub ns: f64,
    /// 95% interval of it.
    pub ci95_ns: [f64; 2],
    /// Share of the floor that it reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_floor: Option<f64>,
    /// The kernel of the smallest median.
    pub fastest: KernelId,
    /// All that cannot be told apart from the fastest, itself included.
    pub ties: Vec<KernelId>,
    /// The fastest that is slower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_best: Option<NextBest>,
}

/// The fastest kernel outside the ties.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextBest {
    /// Its id.
    pub kernel: KernelId,
    /// Its time over the fastest's: the margin.
    pub ratio: f64,
    /// The verdict, where there were samples enough for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictRecord>,
}

/// The choice across schemes at one batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AcrossChoice {
    /// Tokens.
    pub batch: u32,
    /// Schemes that no scheme of smaller or equal error is faster than.
    pub options: Vec<AcrossOption>,
}

/// One scheme's choice at a batch, with what it costs in exactness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AcrossOption {
    /// Number formats.
    pub scheme: Scheme,
    /// Their error against the bf16 layer; unknown where nothing was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantisation_error: Option<f64>,
    /// The scheme's choice.
    pub kernel: KernelId,
    /// Its median time in nanoseconds.
    pub ns: f64,
}

/// The JSON Schema of choice files, as checked in at `docs/choice.schema.json`.
pub fn choice_schema() -> schemars::Schema {
    schemars::schema_for!(Choices)
}

/// Chooses kernels for every case of a file.
pub fn choose(results: &Results) -> Choices {
    let sweeps = sweeps(results);
    Choices {
        schema: CHOICE_SCHEMA.to_string(),
        device: results.device.name.clone(),
        arch: results.device.arch.clone(),
        tool: results.tool.version.clone(),
        routing_regret: other_routings(&sweeps),
        tables: sweeps.iter().map(table).collect(),
    }
}

fn table(sweep: &Sweep<'_>) -> ChoiceTable {
    let schemes: Vec<SchemeChoice> = sweep.schemes.iter().map(scheme_choice).collect();
    ChoiceTable { case: sweep.key.case.clone(), conditions: sweep.key.conditions, across: across(&schemes), schemes }
}

fn scheme_choice(block: &SchemeSweep<'_>) -> SchemeChoice {
    let cells: Vec<&Cell<'_>> = block.cells.iter().filter(|cell| cell.best().is_some()).collect();
    let entries: Vec<ChoiceEntry> =
        steadiest(&cells).into_iter().zip(&cells).filter_map(|(kernel, cell)| entry(cell, kernel?)).collect();
    SchemeChoice {
        scheme: block.scheme,
        quantisation_error: block.quantisation_error,
        crossovers: crossovers(&entries, &cells),
        one_kernel: one_kernel(&cells),
        snapping: snapping(&cells),
        entries,
    }
}

/// For each cell the winner that goes on winning over most of the following cells, so that a table has no more changes
/// than the samples prove.
fn steadiest<'a>(cells: &[&Cell<'a>]) -> Vec<Option<&'a KernelId>> {
    let winners: Vec<Vec<&'a KernelId>> =
        cells.iter().map(|cell| cell.winners().map(|r| &r.row.kernel.id).collect()).collect();
    let mut chosen: Vec<Option<&'a KernelId>> = Vec::with_capacity(cells.len());
    for (index, candidates) in winners.iter().enumerate() {
        let previous = chosen.last().copied().flatten();
        let run = |id: &KernelId| winners.iter().skip(index).take_while(|w| w.contains(&id)).count();
        let kept = previous.filter(|id| candidates.contains(id));
        // The first of the longest: candidates stand in the order of their medians.
        let longest = || candidates.iter().copied().rev().max_by_key(|id| run(id));
        chosen.push(kept.or_else(longest));
    }
    chosen
}

fn entry(cell: &Cell<'_>, kernel: &KernelId) -> Option<ChoiceEntry> {
    let fastest = cell.best()?;
    let chosen = cell.winners().find(|r| r.row.kernel.id == *kernel)?;
    Some(ChoiceEntry {
        batch: cell.batch,
        kernel: kernel.clone(),
        ns: chosen.time.median_ns,
        ci95_ns: chosen.time.ci95_ns,
        of_floor: chosen.row.bound.as_ref().and_then(|b| b.of_floor),
        fastest: fastest.row.kernel.id.clone(),
        ties: cell.winners().map(|r| r.row.kernel.id.clone()).collect(),
        next_best: cell.next_best().map(|next| NextBest {
            kernel: next.row.kernel.id.clone(),
            ratio: next.ratio,
            verdict: next.judgement.map(VerdictRecord::from),
        }),
    })
}

/// For each batch the schemes that are worth a thought: none that a scheme of no larger error beats. A scheme of unknown
/// error is kept, since nothing speaks against it.
fn across(schemes: &[SchemeChoice]) -> Vec<AcrossChoice> {
    let batches: BTreeSet<u32> = schemes.iter().flat_map(|s| s.entries.iter().map(|e| e.batch)).collect();
    batches
        .into_iter()
        .map(|batch| {
            let all: Vec<AcrossOption> = schemes.iter().filter_map(|scheme| option(scheme, batch)).collect();
            let mut options: Vec<AcrossOption> =
                all.iter().filter(|option| !all.iter().any(|other| beats(other, option))).cloned().collect();
            let error = |option: &AcrossOption| option.quantisation_error.unwrap_or(f64::INFINITY);
            options.sort_by(|a, b| error(a).total_cmp(&error(b)).then(a.ns.total_cmp(&b.ns)));
            AcrossChoice { batch, options }
        })
        .collect()
}

fn option(scheme: &SchemeChoice, batch: u32) -> Option<AcrossOption> {
    let entry = scheme.entries.iter().find(|e| e.batch == batch)?;
    Some(AcrossOption {
        scheme: scheme.scheme,
        quantisation_error: scheme.quantisation_error,
        kernel: entry.kernel.clone(),
        ns: entry.ns,
    })
}

fn beats(one: &AcrossOption, other: &AcrossOption) -> bool {
    match (one.quantisation_error, other.quantisation_error) {
        (Some(a), Some(b)) => a <= b && one.ns < other.ns,
        _ => false,
    }
}
