//! HTML tables that scroll by themselves where they are wider than the screen.

use super::escape;

/// A table with a caption for those who do not see it. Columns listed in `right` stand to the right.
pub(super) fn table(
    caption: &str,
    headings: &[&str],
    right: &[usize],
    lines: impl Iterator<Item = Vec<String>>,
) -> String {
    let class = |column: usize| if right.contains(&column) { " class=\"r\"" } else { "" };
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption>{0}</caption><thead><tr>",
        escape(caption)
    );
    out.extend(headings.iter().enumerate().map(|(i, h)| format!("<th scope=\"col\"{}>{}</th>", class(i), escape(h))));
    out.push_str("</tr></thead><tbody>");
    for line in lines {
        out.push_str("<tr>");
        out.extend(line.iter().enumerate().map(|(i, text)| format!("<td{}>{}</td>", class(i), escape(text))));
        out.push_str("</tr>");
    }
    out + "</tbody></table></div>"
}
