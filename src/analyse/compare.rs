//! Two files, cell by cell: what became faster, slower, broken.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::judge::judge_files;
use super::verdict::{VerdictRecord, VerdictWord};
use crate::measure::BetweenRuns;
use crate::record::{CellKey, Results, Row, Status};

/// What medians are taken to wander between runs where that was never measured: GPU, and CPU.
const ASSUMED_SD_LOG: (f64, f64) = (0.004, 0.015);

/// SM clocks further apart than this explain differences that are not the kernel's.
const CLOCK_TOLERANCE: f64 = 0.03;

/// How two files are compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompareOptions {
    /// Compare although device, conditions, seeds or routing differ.
    pub allow_differences: bool,
    /// Wandering of medians between runs; else what the files say, else an assumption that is stated in the notes.
    pub between_runs: Option<BetweenRuns>,
}

/// The outcome of comparing a file with an earlier one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Cells that both files have, in the order of their keys.
    pub cells: Vec<CellComparison>,
    /// Cells of the earlier file only.
    pub only_before: Vec<CellKey>,
    /// Cells of the later file only.
    pub only_after: Vec<CellKey>,
    /// In what the files differ that had to be allowed.
    pub differences: Vec<String>,
    /// What a reader must know to judge the verdicts.
    pub notes: Vec<String>,
}

/// One cell of both files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellComparison {
    /// The cell, as the later file names it.
    pub cell: CellKey,
    /// What happened to it.
    pub change: Change,
    /// Why, in one sentence.
    pub reason: String,
    /// Medians of before and after, in nanoseconds.
    pub median_ns: [Option<f64>; 2],
    /// Verdict of after on before: a ratio above 1 is slower.
    pub verdict: Option<VerdictRecord>,
}

/// What happened to a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Ended well before, and wrong, failed, timed out or impossible after.
    Broken,
    /// Slower.
    Slower,
    /// The samples do not tell, or there are none.
    Uncertain,
    /// Evidently the same.
    Same,
    /// Faster.
    Faster,
    /// The other way round of broken.
    Mended,
    /// Without a time in both files, for the same or other reasons.
    Untimed,
}

impl Change {
    /// The word used in files and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Change::Broken => "broken",
            Change::Slower => "slower",
            Change::Uncertain => "uncertain",
            Change::Same => "same",
            Change::Faster => "faster",
            Change::Mended => "mended",
            Change::Untimed => "untimed",
        }
    }
}

/// Compares a file with an earlier one.
///
/// # Errors
/// One sentence that says in what the files differ, when that was not allowed, or that they share no cell.
pub fn compare(before: &Results, after: &Results, options: &CompareOptions) -> Result<Comparison, String> {
    let mut differences = device_differences(before, after);
    let seeds = differing("seed", before, after, |row| row.case.seed.to_string());
    let conditions = differing("conditions", before, after, |row| CellKey::of(row).conditions.to_string());
    let blind = Blind { seed: seeds.is_some(), conditions: conditions.is_some() };
    differences.extend(seeds.into_iter().chain(conditions));

    let (old, new) = (cells(before, blind)?, cells(after, blind)?);
    differences.extend(routing_difference(&old, &new));
    if !differences.is_empty() && !options.allow_differences {
        return Err(format!(
            "the files cannot be compared: {}; allow differences to compare all the same",
            differences.join("; ")
        ));
    }
    let shared: Vec<_> = new.iter().filter_map(|(key, after)| Some((key, *old.get(key)?, *after))).collect();
    if shared.is_empty() {
        return Err(
            "the files share no cell (case, kernel and conditions); compare sweeps of the same cases".to_string()
        );
    }
    let (between, source) = between_runs(before, after, options);
    let mut notes = vec![format!(
        "medians of two runs are taken to differ by {:.2} % (standard deviation, {source})",
        between.sd_log * 100.0
    )];
    notes.extend(clock_note(before, after));
    Ok(Comparison {
        cells: shared.into_iter().map(|(_, before, after)| compare_rows(before, after, between)).collect(),
        only_before: old.iter().filter(|(key, _)| !new.contains_key(key)).map(|(_, row)| CellKey::of(row)).collect(),
        only_after: new.iter().filter(|(key, _)| !old.contains_key(key)).map(|(_, row)| CellKey::of(row)).collect(),
        differences,
        notes,
    })
}

impl Comparison {
    /// Puts a better verdict in a cell's place, such as one from measuring both builds side by side. Whether there is
    /// such a cell.
    pub fn replace(&mut self, cell: &CellKey, verdict: VerdictRecord) -> bool {
        let Some(found) = self.cells.iter_mut().find(|c| c.cell == *cell) else { return false };
        (found.change, found.reason) = changed(&verdict, "measured side by side");
        found.verdict = Some(verdict);
        true
    }

    /// How many cells changed in each way.
    pub fn counts(&self) -> BTreeMap<Change, usize> {
        let mut counts = BTreeMap::new();
        for cell in &self.cells {
            *counts.entry(cell.change).or_default() += 1;
        }
        counts
    }
}

/// Parts of the key that are left out, because the files differ in them throughout and that was allowed.
#[derive(Clone, Copy)]
struct Blind {
    seed: bool,
    conditions: bool,
}

fn cells(results: &Results, blind: Blind) -> Result<BTreeMap<CellKey, &Row>, String> {
    let mut cells = BTreeMap::new();
    for row in &results.rows {
        let mut key = CellKey::of(row);
        if blind.seed {
            key.case.seed = 0;
        }
        if blind.conditions {
            key.conditions = crate::record::ConditionsKey {
                l2: crate::record::L2::Cold,
                launch: crate::record::Launch::Graph,
                pdl: false,
            };
        }
        if let Some(twice) = cells.insert(key, row) {
            return Err(format!(
                "a file holds the cell `{}` twice once differences are allowed; compare files of one seed and one set of conditions",
                CellKey::of(twice)
            ));
        }
    }
    Ok(cells)
}

fn device_differences(before: &Results, after: &Results) -> Vec<String> {
    let (a, b) = (&before.device, &after.device);
    let named = |what: &str, a: &str, b: &str| (a != b).then(|| format!("{what} `{a}` and `{b}`"));
    [
        named("device", &a.name, &b.name),
        named("arch", &a.arch, &b.arch),
        named("units", &a.units.to_string(), &b.units.to_string()),
        named("driver", a.driver.as_deref().unwrap_or("none"), b.driver.as_deref().unwrap_or("none")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Says what values of a property the files have, when they share none.
fn differing(what: &str, before: &Results, after: &Results, of: impl Fn(&Row) -> String) -> Option<String> {
    let values = |results: &Results| results.rows.iter().map(&of).collect::<BTreeSet<String>>();
    let (a, b) = (values(before), values(after));
    let list = |set: BTreeSet<String>| set.into_iter().take(4).collect::<Vec<_>>().join(", ");
    (a.is_disjoint(&b) && !a.is_empty() && !b.is_empty()).then(|| format!("{what} `{}` and `{}`", list(a), list(b)))
}

/// The same case with other rows per expert was drawn by other code or from another trace.
fn routing_difference(old: &BTreeMap<CellKey, &Row>, new: &BTreeMap<CellKey, &Row>) -> Option<String> {
    let (key, _) =
        new.iter().find(|(key, row)| old.get(key).is_some_and(|before| before.case.rows != row.case.rows))?;
    Some(format!("rows per expert of `{}`", key.case))
}

fn between_runs(before: &Results, after: &Results, options: &CompareOptions) -> (BetweenRuns, &'static str) {
    if let Some(given) = options.between_runs {
        return (given, "given");
    }
    let measured = [&before.ceilings, &after.ceilings].into_iter().filter_map(|ceilings| {
        Some(BetweenRuns { sd_log: ceilings.between_runs_sd_log?, degrees: ceilings.between_runs_degrees })
    });
    match measured.reduce(|a, b| if a.sd_log >= b.sd_log { a } else { b }) {
        Some(between) => (between, "measured on the device"),
        None => {
            let sd_log = if after.device.arch == "cpu" { ASSUMED_SD_LOG.1 } else { ASSUMED_SD_LOG.0 };
            (BetweenRuns { sd_log, degrees: None }, "assumed, as it was not measured on the device")
        }
    }
}

fn clock_note(before: &Results, after: &Results) -> Option<String> {
    let clock = |results: &Results| {
        let clocks: Vec<f64> =
            results.rows.iter().filter_map(|row| Some(f64::from(row.telemetry.as_ref()?.sm_clock_mhz?))).collect();
        crate::measure::median(&clocks)
    };
    let (a, b) = (clock(before)?, clock(after)?);
    ((a / b - 1.0).abs() > CLOCK_TOLERANCE)
        .then(|| format!("the SM clock was {a:.0} MHz before and {b:.0} MHz after, which changes times by itself"))
}

fn compare_rows(before: &Row, after: &Row, between: BetweenRuns) -> CellComparison {
    let counts = |row: &Row| matches!(row.status, Status::Ok | Status::Imported);
    let fails = |row: &Row| matches!(row.status, Status::Wrong | Status::Failed | Status::Timeout | Status::Impossible);
    let median = |row: &Row| row.time.as_ref().filter(|_| counts(row)).map(|t| t.median_ns);
    let outcome = |row: &Row| match &row.reason {
        Some(reason) => format!("{} ({reason})", row.status.as_str()),
        None => row.status.as_str().to_string(),
    };
    let mut verdict = None;
    let (change, reason) = if counts(before) && fails(after) {
        (Change::Broken, format!("{} after", outcome(after)))
    } else if fails(before) && counts(after) {
        (Change::Mended, format!("{} before", outcome(before)))
    } else if let (Some(old), Some(new), true, true) = (&before.time, &after.time, counts(before), counts(after)) {
        verdict = judge_files(new, old, between).map(VerdictRecord::from);
        match &verdict {
            Some(verdict) => changed(verdict, "between two runs"),
            None => (Change::Uncertain, "too few samples to judge by".to_string()),
        }
    } else {
        (Change::Untimed, format!("{} before, {} after", outcome(before), outcome(after)))
    };
    CellComparison { cell: CellKey::of(after), change, reason, median_ns: [median(before), median(after)], verdict }
}

fn changed(verdict: &VerdictRecord, how: &str) -> (Change, String) {
    let [low, high] = verdict.interval.map(|r| format!("{:+.1} %", (r - 1.0) * 100.0));
    let (change, reading) = match verdict.verdict {
        VerdictWord::Faster => (Change::Faster, "lies wholly below -0.5 %"),
        VerdictWord::Slower => (Change::Slower, "lies wholly above +0.5 %"),
        VerdictWord::Same => (Change::Same, "lies within +-1 %"),
        VerdictWord::Uncertain => (Change::Uncertain, "allows both a difference and none"),
    };
    (change, format!("the interval {low} .. {high} ({how}, {} samples) {reading}", verdict.pairs))
}
