//! HTML tables that scroll by themselves where they are wider than the screen.

use super::escape;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// Text, to the left.
    Text,
    /// Numbers, to the right.
    Number,
    /// Text that a phone does without.
    Minor,
    /// Numbers that a phone does without.
    MinorNumber,
}

impl Column {
    fn class(self) -> &'static str {
        match self {
            Column::Text => "",
            Column::Number => " class=\"r\"",
            Column::Minor => " class=\"x\"",
            Column::MinorNumber => " class=\"r x\"",
        }
    }
}

/// A table with a caption for those who do not see it.
pub(super) fn table(caption: &str, columns: &[(&str, Column)], lines: impl Iterator<Item = Vec<String>>) -> String {
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption>{0}</caption><thead><tr>",
        escape(caption)
    );
    out.extend(
        columns.iter().map(|(name, column)| format!("<th scope=\"col\"{}>{}</th>", column.class(), escape(name))),
    );
    out.push_str("</tr></thead><tbody>");
    for line in lines {
        out.push_str("<tr>");
        let cells = line.iter().zip(columns);
        out.extend(cells.map(|(text, (_, column))| format!("<td{}>{}</td>", column.class(), escape(text))));
        out.push_str("</tr>");
    }
    out + "</tbody></table></div>"
}
