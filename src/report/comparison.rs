//! A comparison of two files, and a gate's judgement of it, as text and as Markdown.

use super::columns::{Align, Columns, escaped};
use super::words::plural;
use crate::analyse::{CellComparison, Change, Comparison, Gate, GateCell, units};
use crate::record::{CaseKey, CellKey};

/// The comparison as text of at most `width` characters a line; `all` lists unchanged cells too.
pub fn comparison_text(comparison: &Comparison, width: usize, all: bool) -> String {
    let mut columns = comparison_columns(comparison, all);
    columns.shorten(6, width);
    columns.shorten(3, width);
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

fn comparison_columns(comparison: &Comparison, all: bool) -> Columns {
    let mut columns = Columns::new(vec![
        ("change", Align::Left),
        ("case", Align::Left),
        ("batch", Align::Right),
        ("kernel", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("99.6% interval, or why", Align::Left),
    ]);
    let quiet = |change: Change| matches!(change, Change::Same | Change::Untimed);
    let mut cells: Vec<&CellComparison> = comparison.cells.iter().filter(|c| all || !quiet(c.change)).collect();
    cells.sort_by_key(|cell| cell.change);
    for cell in cells {
        let [before, after] = cell.median_ns.map(|ns| ns.map_or("-".to_string(), units::duration));
        let (change, reason) = match &cell.verdict {
            Some(verdict) => {
                let [low, high] = verdict.interval.map(units::percent_more);
                (format!("{} {}", cell.change.as_str(), units::percent_more(verdict.ratio)), format!("{low} .. {high}"))
            }
            None => (cell.change.as_str().to_string(), cell.reason.clone()),
        };
        let CellKey { case, kernel, .. } = &cell.cell;
        columns.push(vec![change, case_text(case), case.batch.to_string(), kernel.to_string(), before, after, reason]);
    }
    columns
}

/// A case in few words, without its batch.
fn case_text(case: &CaseKey) -> String {
    let ep = if case.ep > 1 { format!(" ep {}", case.ep) } else { String::new() };
    format!("{} tp {}{ep} {} {}", case.model, case.tp, case.stage, case.routing)
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
        columns.shorten(2, width);
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
            ("case", Align::Left),
            ("batch", Align::Right),
            ("kernel", Align::Left),
            ("slower by", Align::Right),
            ("interval", Align::Left),
            ("p", Align::Right),
            ("limit", Align::Right),
        ]);
        for cell in cells {
            let [low, high] = cell.interval.map(units::percent_more);
            let CellKey { case, kernel, .. } = &cell.cell;
            columns.push(vec![
                case_text(case),
                case.batch.to_string(),
                kernel.to_string(),
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
        let mut columns = Columns::new(vec![
            ("case", Align::Left),
            ("batch", Align::Right),
            ("kernel", Align::Left),
            ("outcome", Align::Left),
        ]);
        for cell in &gate.broken {
            let CellKey { case, kernel, .. } = &cell.cell;
            columns.push(vec![case_text(case), case.batch.to_string(), kernel.to_string(), cell.reason.clone()]);
        }
        tables.push(("Broken", columns));
    }
    tables
}
