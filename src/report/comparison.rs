//! A comparison of two files, and a gate's judgement of it, as text and as Markdown.

use super::columns::{Align, Columns, escaped};
use super::words::plural;
use crate::analyse::{CellComparison, Change, Comparison, Gate, GateCell, units};
use crate::record::CellKey;

/// The comparison as text of at most `width` characters a line; `all` lists unchanged cells too.
pub fn comparison_text(comparison: &Comparison, width: usize, all: bool) -> String {
    let mut columns = comparison_columns(comparison, all);
    columns.shorten(CELL, width);
    columns.shorten(REASON, width);
    let mut out = summary(comparison).join("\n") + "\n";
    if !columns.is_empty() {
        out += &columns.text();
    }
    out
}

/// The comparison as Markdown.
pub fn comparison_markdown(comparison: &Comparison, all: bool) -> String {
    let columns = comparison_columns(comparison, all);
    let mut out: String = summary(comparison).iter().map(|line| format!("{}\n\n", escaped(line))).collect();
    if !columns.is_empty() {
        out += &columns.markdown();
    }
    out
}

const CELL: usize = 1;
const REASON: usize = 4;

fn comparison_columns(comparison: &Comparison, all: bool) -> Columns {
    let mut columns = Columns::new(vec![
        ("change", Align::Left),
        ("cell", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("reason", Align::Left),
    ]);
    let quiet = |change: Change| matches!(change, Change::Same | Change::Untimed);
    let mut cells: Vec<&CellComparison> = comparison.cells.iter().filter(|c| all || !quiet(c.change)).collect();
    cells.sort_by_key(|cell| cell.change);
    for cell in cells {
        let [before, after] = cell.median_ns.map(|ns| ns.map_or("-".to_string(), units::duration));
        let change = match &cell.verdict {
            Some(verdict) => format!("{} {}", cell.change.as_str(), units::percent_more(verdict.ratio)),
            None => cell.change.as_str().to_string(),
        };
        columns.push(vec![change, cell_text(&cell.cell), before, after, cell.reason.clone()]);
    }
    columns
}

/// A cell in few words: stage, routing, batch, kernel.
fn cell_text(cell: &CellKey) -> String {
    let case = &cell.case;
    format!(
        "{} tp {} ep {} {} {} batch {} {}",
        case.model, case.tp, case.ep, case.stage, case.routing, case.batch, cell.kernel
    )
}

fn summary(comparison: &Comparison) -> Vec<String> {
    let counts = comparison.counts();
    let parts: Vec<String> = counts.iter().map(|(change, count)| format!("{count} {}", change.as_str())).collect();
    let mut lines = vec![format!("{}: {}", plural(comparison.cells.len(), "cell"), parts.join(", "))];
    for (what, cells) in [("before", &comparison.only_before), ("after", &comparison.only_after)] {
        if let Some(first) = cells.first() {
            lines.push(format!("{} only {what}, first {first}", plural(cells.len(), "cell")));
        }
    }
    lines.extend(comparison.differences.iter().map(|difference| format!("allowed difference: {difference}")));
    lines.extend(comparison.notes.iter().map(|note| format!("note: {note}")));
    lines
}

/// The gate's outcome as text of at most `width` characters a line.
pub fn gate_text(gate: &Gate, width: usize) -> String {
    let mut out = verdict_line(gate) + "\n";
    for (heading, mut columns) in gate_tables(gate) {
        columns.shorten(0, width);
        out += &format!("\n{heading}\n{}", columns.text());
    }
    out
}

/// The gate's outcome as Markdown, for the summary page of a CI run.
pub fn gate_markdown(gate: &Gate) -> String {
    let mut out = format!(
        "## Performance gate: {}\n\n{}\n",
        if gate.passed() { "passed" } else { "failed" },
        escaped(&verdict_line(gate))
    );
    for (heading, columns) in gate_tables(gate) {
        out += &format!("\n### {heading}\n\n{}", columns.markdown());
    }
    out
}

fn verdict_line(gate: &Gate) -> String {
    let outcome = if gate.passed() { "passed" } else { "failed" };
    let mut line = format!(
        "{outcome}: {} slower by more than {:.1} % for certain, {} broken, {} tested together with a false alarm in {:.1} % of files at most",
        plural(gate.regressions.len(), "cell"),
        gate.options.threshold * 100.0,
        gate.broken.len(),
        gate.tested,
        gate.options.alpha * 100.0,
    );
    if !gate.missing.is_empty() {
        line += &format!("; {} of the earlier file missing", plural(gate.missing.len(), "cell"));
    }
    line
}

fn gate_tables(gate: &Gate) -> Vec<(&'static str, Columns)> {
    let mut tables = Vec::new();
    let mut timed = |heading: &'static str, cells: &[GateCell]| {
        let mut columns = Columns::new(vec![
            ("cell", Align::Left),
            ("slower by", Align::Right),
            ("interval", Align::Left),
            ("p", Align::Right),
            ("limit", Align::Right),
        ]);
        for cell in cells {
            let [low, high] = cell.interval.map(units::percent_more);
            columns.push(vec![
                cell_text(&cell.cell),
                units::percent_more(cell.ratio),
                format!("{low} .. {high}"),
                format!("{:.1e}", cell.p),
                format!("{:.1e}", cell.limit),
            ]);
        }
        if !columns.is_empty() {
            tables.push((heading, columns));
        }
    };
    timed("Slower for certain", &gate.regressions);
    timed("Suspect, not certain", &gate.suspects);
    if !gate.broken.is_empty() {
        let mut columns = Columns::new(vec![("cell", Align::Left), ("outcome", Align::Left)]);
        for cell in &gate.broken {
            columns.push(vec![cell_text(&cell.cell), cell.reason.clone()]);
        }
        tables.push(("Broken", columns));
    }
    tables
}
