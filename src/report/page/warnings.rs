//! What speaks against the numbers, before the numbers.

use indexmap::IndexMap;

use super::escape;
use crate::record::{Results, Row, Status};
use crate::report::words::plural;

/// Items beyond these are counted only.
const SHOWN: usize = 12;

/// The list of warnings; empty when there are none.
pub(super) fn warnings(results: &Results) -> String {
    let mut items = Vec::new();
    if results.ceilings.read_bytes_per_s.is_none() {
        items.push(
            "The read ceiling was not measured: shares of the floor rest on the data sheet, or are missing."
                .to_string(),
        );
    }
    let throttled =
        results.rows.iter().filter(|r| r.telemetry.as_ref().is_some_and(|t| t.throttled_samples > 0)).count();
    if throttled > 0 {
        items.push(format!("{} have samples taken while the device was throttled.", plural(throttled, "row")));
    }
    for status in [Status::Wrong, Status::Impossible, Status::Failed, Status::Timeout] {
        items.extend(grouped(results, |row| {
            let reason = row.reason.as_deref().unwrap_or_default();
            if row.status == status { vec![format!("{}: {reason}", status.as_str())] } else { Vec::new() }
        }));
    }
    items.extend(grouped(results, |row| row.warnings.clone()));
    if items.is_empty() {
        return String::new();
    }
    let left = items.len().saturating_sub(SHOWN);
    let mut list: String = items.iter().take(SHOWN).map(|item| format!("<li>{}</li>", escape(item))).collect();
    if left > 0 {
        list += &format!("<li>and {} more; see the tables of every row.</li>", left);
    }
    format!("<section class=\"warnings\" aria-label=\"Warnings\"><h2>Warnings</h2><ul>{list}</ul></section>\n")
}

/// Texts of rows, each once, with the rows it stands for.
fn grouped(results: &Results, texts: impl Fn(&Row) -> Vec<String>) -> Vec<String> {
    let mut groups: IndexMap<String, Vec<String>> = IndexMap::new();
    for row in &results.rows {
        let place = format!("{} {} batch {}", row.kernel.id, row.case.stage, row.case.batch);
        for text in texts(row) {
            groups.entry(text).or_default().push(place.clone());
        }
    }
    let said = |(text, places): (String, Vec<String>)| match places.as_slice() {
        [first, _, ..] => format!("{text} ({first} and {} more)", places.len() - 1),
        _ => format!("{text} ({})", places.join("")),
    };
    groups.into_iter().map(said).collect()
}
