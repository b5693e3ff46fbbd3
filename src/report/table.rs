//! The table on the terminal: a winner for each batch, or every kernel of each batch.

use super::columns::{Align, Columns, wrap};
use super::words::{heading, outcomes, several_seeds};
use crate::analyse::{Cell, Ranked, SchemeSweep, Standing, sweeps, units};
use crate::kernel::KernelId;
use crate::measure::{Judgement, Verdict};
use crate::record::{Results, Row, Status};

/// How the table is drawn.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// Characters of a line. Kernel ids lose their middle below about 120.
    pub width: usize,
    /// Every kernel of a batch, not only the winner.
    pub all: bool,
    /// Headings in bold by escape codes: for a terminal, never for a pipe.
    pub colour: bool,
}

/// Draws all sweeps of a file, each with a heading and one block a scheme, then how the rows ended.
pub fn table(results: &Results, options: TableOptions) -> String {
    let several_seeds = several_seeds(results);
    let mut lines = Vec::new();
    for sweep in sweeps(results) {
        let heading = wrap(&heading(results, &sweep.key, several_seeds), "  |  ", options.width);
        lines.extend(
            heading.into_iter().map(|line| if options.colour { format!("\x1b[1m{line}\x1b[0m") } else { line }),
        );
        for block in &sweep.schemes {
            lines.push(scheme_line(block));
            let (head, body) =
                if options.all { all_columns(block, options.width) } else { winner_columns(block, options.width) }
                    .render();
            lines.push(head);
            lines.extend(body);
        }
        lines.push(String::new());
    }
    lines.extend(wrap(&outcomes(results), " ", options.width));
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// The scheme and how coarse it is.
pub(super) fn scheme_line(block: &SchemeSweep<'_>) -> String {
    match block.quantisation_error {
        Some(error) => format!("{}: quantisation error {:.1} %", block.scheme, error * 100.0),
        None => block.scheme.to_string(),
    }
}

/// How much of an id and of the neighbouring columns a narrow terminal gets.
#[derive(Clone, Copy)]
struct Detail {
    whole_ids: bool,
    next_id: bool,
    limits: bool,
}

const DETAILS: [Detail; 4] = [
    Detail { whole_ids: true, next_id: true, limits: true },
    Detail { whole_ids: false, next_id: true, limits: true },
    Detail { whole_ids: false, next_id: false, limits: true },
    Detail { whole_ids: false, next_id: false, limits: false },
];

pub(super) fn winner_columns(block: &SchemeSweep<'_>, width: usize) -> Columns {
    let mut columns = winner_columns_with(block, DETAILS[0]);
    for detail in &DETAILS[1..] {
        if columns.width() <= width {
            break;
        }
        columns = winner_columns_with(block, *detail);
    }
    columns.shorten(WINNER, width);
    columns
}

/// Column of the winner.
const WINNER: usize = 2;

fn winner_columns_with(block: &SchemeSweep<'_>, detail: Detail) -> Columns {
    let mut headings = vec![
        ("batch", Align::Right),
        ("experts", Align::Right),
        ("winner", Align::Left),
        ("time", Align::Left),
        ("of floor", Align::Right),
    ];
    if detail.limits {
        headings.push(("limited by", Align::Left));
    }
    headings.push(("next best", Align::Left));
    let mut columns = Columns::new(headings);
    for cell in &block.cells {
        let best = cell.best();
        let mut line = vec![
            cell.batch.to_string(),
            experts(cell),
            winner_text(cell, detail.whole_ids),
            best.map_or("-".to_string(), time_text),
            best.map_or("-".to_string(), |b| of_floor(b.row)),
        ];
        if detail.limits {
            line.push(best.map_or("-", |b| limited_by(b.row)).to_string());
        }
        line.push(cell.next_best().map_or("-".to_string(), |next| {
            let more = units::percent_more(next.ratio);
            if detail.next_id { format!("{more}  {}", id_text(&next.row.kernel.id, detail.whole_ids)) } else { more }
        }));
        columns.push(line);
    }
    columns
}

/// Experts with rows; unknown where somebody else's table does not say.
fn experts(cell: &Cell<'_>) -> String {
    if cell.case.rows.is_empty() { "?".to_string() } else { cell.case.touched_experts().to_string() }
}

pub(super) fn winner_text(cell: &Cell<'_>, whole_ids: bool) -> String {
    const SHOWN: usize = 2;
    let ids: Vec<String> = cell.winners().map(|r| id_text(&r.row.kernel.id, whole_ids)).collect();
    match ids.as_slice() {
        [] => no_winner(cell),
        [one] => one.clone(),
        several if several.len() <= SHOWN => format!("tie: {}", several.join(", ")),
        several => format!(
            "tie of {}: {}, ..",
            several.len(),
            several.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Says how the rows of a cell without a winner ended.
fn no_winner(cell: &Cell<'_>) -> String {
    let mut counts = std::collections::BTreeMap::<Status, usize>::new();
    for row in &cell.rest {
        *counts.entry(row.status).or_default() += 1;
    }
    let mut parts: Vec<String> =
        counts.iter().map(|(status, count)| format!("{count} {}", rest_word(*status))).collect();
    if !cell.ranked.is_empty() {
        parts.push(format!("{} that need host counts", cell.ranked.len()));
    }
    format!("none: {}", parts.join(", "))
}

/// An `ok` row without a time was verified only.
pub(super) fn rest_word(status: Status) -> &'static str {
    if status == Status::Ok { "ok but not timed" } else { status.as_str() }
}

/// The id, or its family and configuration: architecture and scheme stand in the headings.
pub(super) fn id_text(id: &KernelId, whole: bool) -> String {
    if whole { id.to_string() } else { format!("{}/{}", id.family(), id.configuration()) }
}

pub(super) fn time_text(ranked: &Ranked<'_>) -> String {
    let time = ranked.time;
    let interval = if time.samples_ns.is_empty() {
        String::new()
    } else {
        format!(" {}", units::plus_minus(time.median_ns, time.ci95_ns))
    };
    format!("{}{interval}", units::duration(time.median_ns))
}

pub(super) fn of_floor(row: &Row) -> String {
    row.bound.as_ref().and_then(|b| b.of_floor).map_or("-".to_string(), |share| format!("{:.0} %", share * 100.0))
}

pub(super) fn limited_by(row: &Row) -> &'static str {
    row.bound.as_ref().map_or("-", |b| b.limited_by.as_str())
}

pub(super) fn all_columns(block: &SchemeSweep<'_>, width: usize) -> Columns {
    let build = |whole_ids: bool| {
        let mut columns = Columns::new(vec![
            ("batch", Align::Right),
            ("experts", Align::Right),
            ("kernel", Align::Left),
            ("time", Align::Left),
            ("of floor", Align::Right),
            ("limited by", Align::Left),
            ("against best", Align::Left),
        ]);
        for cell in &block.cells {
            for ranked in &cell.ranked {
                columns.push(vec![
                    cell.batch.to_string(),
                    experts(cell),
                    id_text(&ranked.row.kernel.id, whole_ids),
                    time_text(ranked),
                    of_floor(ranked.row),
                    limited_by(ranked.row).to_string(),
                    standing_text(ranked),
                ]);
            }
            for row in &cell.rest {
                let time = row.time.as_ref().map_or("-".to_string(), |t| units::duration(t.median_ns));
                let outcome = match &row.reason {
                    Some(reason) => format!("{}: {reason}", rest_word(row.status)),
                    None => rest_word(row.status).to_string(),
                };
                columns.push(vec![
                    cell.batch.to_string(),
                    experts(cell),
                    id_text(&row.kernel.id, whole_ids),
                    time,
                    "-".to_string(),
                    "-".to_string(),
                    outcome,
                ]);
            }
        }
        columns
    };
    let mut columns = build(true);
    if columns.width() > width {
        columns = build(false);
    }
    columns.shorten(6, width);
    columns.shorten(WINNER, width);
    columns
}

/// How a timed row compares with the best of its cell.
pub(super) fn standing_text(ranked: &Ranked<'_>) -> String {
    let more = units::percent_more(ranked.ratio);
    let warned = if ranked.row.warnings.is_empty() { "" } else { " (!)" };
    let text = match (ranked.standing, ranked.judgement) {
        (Standing::Best, _) => "best".to_string(),
        (Standing::Tied, Some(j)) => format!("{more} {} ({})", verdict_word(j.verdict), interval(&j)),
        (Standing::Behind, Some(j)) => format!("{more} ({})", interval(&j)),
        (Standing::Tied, None) => format!("{more} tied, too few samples to judge"),
        (Standing::Behind, None) => format!("{more} by medians alone"),
        (Standing::MayNotWin, _) => format!("{more} may not win: needs host counts"),
    };
    text + warned
}

fn interval(judgement: &Judgement) -> String {
    format!("{} .. {}", units::percent_more(judgement.interval.low), units::percent_more(judgement.interval.high))
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same => "same",
        Verdict::Uncertain => "uncertain",
    }
}
