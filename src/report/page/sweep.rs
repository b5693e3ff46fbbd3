//! One sweep on the page: the winner strip, then for each scheme its winners, charts and rows.

use super::escape;
use super::table::{Column, table};
use crate::analyse::{Cell, SchemeSweep, Sweep, units};
use crate::record::Results;
use crate::report::plot::{Block, block, charts, inline_svg, strip, symbol};
use crate::report::table::{
    id_text, limited_by, of_floor, rest_word, scheme_line, standing_text, time_text, winner_text,
};
use crate::report::words::{case_words, condition_words, heading};

/// A short title: model, parallelism, stage, routing, conditions.
pub(super) fn title(sweep: &Sweep<'_>, several_seeds: bool) -> String {
    let case = &sweep.key.case;
    let sizes = [format!("N {}", case.n), format!("K {}", case.k), format!("H {}", case.k), format!("N1 {}", case.n)];
    let mut words: Vec<String> = case_words(case).into_iter().filter(|word| !sizes.contains(word)).collect();
    if several_seeds {
        words.push(format!("seed {}", case.seed));
    }
    words.extend(condition_words(sweep.key.conditions));
    words.join(" · ")
}

/// The section of a sweep.
pub(super) fn section(results: &Results, sweep: &Sweep<'_>, index: usize, several_seeds: bool) -> String {
    let mut out = format!(
        "<section id=\"sweep{index}\"><h2>{}</h2><p class=\"m\">{}</p>",
        escape(&title(sweep, several_seeds)),
        escape(&heading(results, &sweep.key, several_seeds).join(" | "))
    );
    if let Some(scene) = strip(sweep) {
        out += &format!(
            "<figure class=\"strip\"><figcaption>{}</figcaption>{}</figure>",
            escape(&scene.title),
            inline_svg(&scene)
        );
    }
    out.extend(sweep.schemes.iter().map(scheme_part));
    out + "</section>\n"
}

fn scheme_part(scheme: &SchemeSweep<'_>) -> String {
    let block = block(scheme);
    let figures: String = charts(&block)
        .iter()
        .map(|(_, scene)| {
            format!("<figure><figcaption>{}</figcaption>{}</figure>", escape(&scene.title), inline_svg(scene))
        })
        .collect();
    [
        format!("<div class=\"scheme\"><h3>{}</h3>", escape(&scheme_line(scheme))),
        winners(scheme),
        legend(&block),
        format!("<div class=\"charts\">{figures}</div>"),
        rows(scheme),
        "</div>".to_string(),
    ]
    .concat()
}

/// The names of the series; each can be switched off in the charts.
fn legend(block: &Block) -> String {
    let entry = |(series, name): (usize, String)| {
        format!(
            "<li><label><input type=\"checkbox\" checked data-toggle=\"{series}\">{}<span>{}</span></label></li>",
            symbol(series),
            escape(&name)
        )
    };
    let entries: String = block.names().into_iter().enumerate().map(entry).collect();
    if entries.is_empty() {
        String::new()
    } else {
        format!("<ul class=\"legend\" aria-label=\"Kernels shown in the charts\">{entries}</ul>")
    }
}

fn winners(scheme: &SchemeSweep<'_>) -> String {
    let lines = scheme.cells.iter().map(|cell| {
        let best = cell.best();
        vec![
            cell.batch.to_string(),
            experts(cell),
            winner_text(cell, false),
            best.map_or("-".to_string(), |b| pretty(&time_text(b))),
            best.map_or("-".to_string(), |b| of_floor(b.row)),
            best.map_or("-", |b| limited_by(b.row)).to_string(),
            cell.next_best().map_or("-".to_string(), |next| {
                format!("{} {}", units::percent_more(next.ratio), id_text(&next.row.kernel.id, false))
            }),
        ]
    });
    let caption = format!("{}: the winner of each batch", scheme.scheme);
    let columns = [
        ("batch", Column::Number),
        ("experts", Column::MinorNumber),
        ("winner", Column::Text),
        ("time", Column::Text),
        ("of floor", Column::Number),
        ("limited by", Column::Minor),
        ("next best", Column::Text),
    ];
    table(&caption, &columns, lines)
}

fn rows(scheme: &SchemeSweep<'_>) -> String {
    let timed = scheme.cells.iter().flat_map(|cell| {
        cell.ranked.iter().map(move |ranked| {
            vec![
                cell.batch.to_string(),
                ranked.row.kernel.id.to_string(),
                pretty(&time_text(ranked)),
                of_floor(ranked.row),
                standing_text(ranked),
                ranked.row.warnings.join("; "),
            ]
        })
    });
    let rest = scheme.cells.iter().flat_map(|cell| {
        cell.rest.iter().map(move |row| {
            vec![
                cell.batch.to_string(),
                row.kernel.id.to_string(),
                row.time.as_ref().map_or("-".to_string(), |t| units::duration(t.median_ns)),
                "-".to_string(),
                rest_word(row.status).to_string(),
                row.reason.clone().unwrap_or_default(),
            ]
        })
    });
    let caption = format!("{}: every row", scheme.scheme);
    let columns = [
        ("batch", Column::Number),
        ("kernel", Column::Text),
        ("time", Column::Text),
        ("of floor", Column::Number),
        ("against best", Column::Text),
        ("remarks", Column::Text),
    ];
    let rows = table(&caption, &columns, timed.chain(rest));
    format!("<details><summary>{}</summary>{rows}</details>", escape(&caption))
}

fn experts(cell: &Cell<'_>) -> String {
    if cell.case.rows.is_empty() { "?".to_string() } else { cell.case.touched_experts().to_string() }
}

/// Type for print: a plus-minus sign.
fn pretty(text: &str) -> String {
    text.replace("+-", "±")
}
