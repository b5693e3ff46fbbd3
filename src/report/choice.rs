//! Choices as text and as Markdown.

use super::columns::{Align, Columns, escaped};
use super::words::{case_words, condition_words};
use crate::analyse::{ChoiceEntry, ChoiceTable, Choices, Cost, Crossover, SchemeChoice, units};

/// The choices as text of at most `width` characters a line.
pub fn choices_text(choices: &Choices, width: usize) -> String {
    let mut out = String::new();
    for table in &choices.tables {
        out += &format!("{}  |  {}\n", case_words(&table.case).join("  "), device(choices, table));
        for scheme in &table.schemes {
            let mut columns = scheme_columns(scheme);
            columns.shorten(5, width);
            columns.shorten(KERNEL, width);
            out += &format!("{}\n{}", scheme_heading(scheme), columns.text());
            out.extend(remarks(scheme).iter().map(|remark| format!("  {remark}\n")));
        }
        if let Some(mut columns) = across_columns(table) {
            columns.shorten(1, width);
            out += &format!("across schemes, the most exact first\n{}", columns.text());
        }
        out.push('\n');
    }
    out.extend(routing_remarks(choices).iter().map(|remark| format!("{remark}\n")));
    out
}

/// The choices as Markdown.
pub fn choices_markdown(choices: &Choices) -> String {
    let mut out = format!("# Kernels for {}\n", escaped(&choices.device));
    for table in &choices.tables {
        out +=
            &format!("\n## {}\n\n{}\n", escaped(&case_words(&table.case).join(", ")), escaped(&device(choices, table)));
        for scheme in &table.schemes {
            out += &format!("\n### {}\n\n{}\n", escaped(&scheme_heading(scheme)), scheme_columns(scheme).markdown());
            out.extend(remarks(scheme).iter().map(|remark| format!("- {}\n", escaped(remark))));
        }
        if let Some(columns) = across_columns(table) {
            out += &format!("\n### Across schemes, the most exact first\n\n{}", columns.markdown());
        }
    }
    let remarks = routing_remarks(choices);
    if !remarks.is_empty() {
        out += "\n## Other routings\n\n";
        out.extend(remarks.iter().map(|remark| format!("- {}\n", escaped(remark))));
    }
    out
}

const KERNEL: usize = 1;

fn device(choices: &Choices, table: &ChoiceTable) -> String {
    [choices.device.clone()].into_iter().chain(condition_words(table.conditions)).collect::<Vec<_>>().join("  ")
}

fn scheme_heading(scheme: &SchemeChoice) -> String {
    match scheme.quantisation_error {
        Some(error) => format!("{}: quantisation error {:.1} %", scheme.scheme, error * 100.0),
        None => scheme.scheme.to_string(),
    }
}

fn scheme_columns(scheme: &SchemeChoice) -> Columns {
    let mut columns = Columns::new(vec![
        ("batch", Align::Right),
        ("kernel", Align::Left),
        ("time", Align::Left),
        ("of floor", Align::Right),
        ("margin", Align::Left),
        ("as good", Align::Left),
    ]);
    for entry in &scheme.entries {
        let others: Vec<&str> = entry.ties.iter().filter(|id| **id != entry.kernel).map(|id| id.as_str()).collect();
        columns.push(vec![
            entry.batch.to_string(),
            entry.kernel.to_string(),
            time(entry),
            entry.of_floor.map_or("-".to_string(), |share| format!("{:.0} %", share * 100.0)),
            margin(entry),
            if others.is_empty() { "-".to_string() } else { others.join(", ") },
        ]);
    }
    columns
}

fn time(entry: &ChoiceEntry) -> String {
    let [low, high] = entry.ci95_ns;
    let interval = if low < high { format!(" {}", units::plus_minus(entry.ns, entry.ci95_ns)) } else { String::new() };
    units::duration(entry.ns) + &interval
}

fn margin(entry: &ChoiceEntry) -> String {
    let Some(next) = &entry.next_best else { return "-".to_string() };
    match &next.verdict {
        Some(verdict) => {
            let [low, high] = verdict.interval.map(units::percent_more);
            format!("{} ({low} .. {high})", units::percent_more(next.ratio))
        }
        None => format!("{} by medians alone", units::percent_more(next.ratio)),
    }
}

fn remarks(scheme: &SchemeChoice) -> Vec<String> {
    let mut remarks: Vec<String> = scheme.crossovers.iter().map(crossover).collect();
    if let Some(one) = &scheme.one_kernel {
        remarks.push(format!("one kernel for all batches, {}, costs {}", one.kernel, cost(&one.cost)));
    }
    if let Some(snapping) = &scheme.snapping {
        remarks.push(format!("taking the nearest tuned batch's kernel costs {}", cost(&snapping.cost)));
    }
    remarks
}

fn crossover(crossover: &Crossover) -> String {
    let Crossover { from, to, after, before, batch, range } = crossover;
    let place = match (batch, range) {
        (Some(batch), Some([low, high])) if low < high => {
            format!(", about {} ({} to {})", two_digits(*batch), two_digits(*low), two_digits(*high))
        }
        (Some(batch), _) => format!(", about {}", two_digits(*batch)),
        _ => String::new(),
    };
    format!("from {from} to {to} between batch {after} and {before}{place}")
}

/// A batch between two batches: `2.8`, `43`.
fn two_digits(batch: f64) -> String {
    if batch < 9.95 { format!("{batch:.1}") } else { format!("{batch:.0}") }
}

fn cost(cost: &Cost) -> String {
    if cost.worst <= 1.0 {
        return format!("nothing: it is among the best at each of {} batches", cost.batches);
    }
    format!(
        "{} on average over {} batches, {} at worst (batch {})",
        units::percent_more(cost.mean),
        cost.batches,
        units::percent_more(cost.worst),
        cost.worst_batch
    )
}

/// The choice across schemes, where there is more than one scheme.
fn across_columns(table: &ChoiceTable) -> Option<Columns> {
    if table.schemes.len() < 2 {
        return None;
    }
    let mut columns = Columns::new(vec![("batch", Align::Right), ("options", Align::Left)]);
    for across in &table.across {
        let options: Vec<String> = across
            .options
            .iter()
            .map(|option| {
                let error = option.quantisation_error.map_or(String::new(), |e| format!(" (error {:.1} %)", e * 100.0));
                format!("{}{error} {} {}", option.scheme, units::duration(option.ns), option.kernel)
            })
            .collect();
        columns.push(vec![across.batch.to_string(), options.join("; ")]);
    }
    Some(columns)
}

fn routing_remarks(choices: &Choices) -> Vec<String> {
    let remark = |regret: &crate::analyse::RoutingRegret| {
        let case = &regret.case;
        format!(
            "{} tp {} ep {} {} {}: tuned on {} and run under {} costs {}",
            case.model,
            case.tp,
            case.ep,
            case.stage,
            regret.scheme,
            regret.tuned_on,
            case.routing,
            cost(&regret.cost)
        )
    };
    choices.routing_regret.iter().map(remark).collect()
}
