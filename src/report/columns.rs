//! Columns of text: aligned, two spaces apart, nothing else.

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// Columns, their headings and lines.
pub(super) struct Columns {
    headings: Vec<(&'static str, Align)>,
    lines: Vec<Vec<String>>,
}

impl Columns {
    pub(super) fn new(headings: Vec<(&'static str, Align)>) -> Self {
        Columns { headings, lines: Vec::new() }
    }

    /// Adds a line: one text for each heading.
    pub(super) fn push(&mut self, line: Vec<String>) {
        self.lines.push(line);
    }

    /// Whether there is no line but the heading.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Characters of the widest line, not more than what the last column needs.
    pub(super) fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
    }

    /// Shortens the texts of one column, in their middle, until the whole is at most `width` wide.
    pub(super) fn shorten(&mut self, column: usize, width: usize) {
        let excess = self.width().saturating_sub(width);
        let Some(&own) = self.widths().get(column) else { return };
        let room = own.saturating_sub(excess).max(8);
        for text in self.lines.iter_mut().filter_map(|line| line.get_mut(column)) {
            *text = shortened(text, room);
        }
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |i: usize, heading: &str| {
            let cells = self.lines.iter().filter_map(|line| line.get(i)).map(|text| length(text));
            cells.chain([length(heading)]).max().unwrap_or(0)
        };
        self.headings.iter().enumerate().map(|(i, (heading, _))| widest(i, heading)).collect()
    }

    /// The heading line and the others, without spaces at their ends.
    pub(super) fn render(&self) -> (String, Vec<String>) {
        let widths = self.widths();
        let render = |texts: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for ((text, &width), &(_, align)) in texts.zip(&widths).zip(&self.headings) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                let space = " ".repeat(width.saturating_sub(length(text)));
                match align {
                    Align::Left => line.extend([text, &space]),
                    Align::Right => line.extend([&space, text]),
                }
            }
            line.trim_end().to_string()
        };
        let heading = render(&mut self.headings.iter().map(|(heading, _)| *heading));
        let lines = self.lines.iter().map(|line| render(&mut line.iter().map(String::as_str))).collect();
        (heading, lines)
    }
}

impl Columns {
    /// The same as a Markdown table.
    pub(super) fn markdown(&self) -> String {
        let line = |texts: &mut dyn Iterator<Item = String>| format!("| {} |\n", texts.collect::<Vec<_>>().join(" | "));
        let mut out = line(&mut self.headings.iter().map(|(heading, _)| (*heading).to_string()));
        out += &line(&mut self.headings.iter().map(|(_, align)| match align {
            Align::Left => "---".to_string(),
            Align::Right => "---:".to_string(),
        }));
        for texts in &self.lines {
            out += &line(&mut texts.iter().map(|text| escaped(text)));
        }
        out
    }

    /// All lines, heading first, each ended.
    pub(super) fn text(&self) -> String {
        let (heading, lines) = self.render();
        std::iter::once(heading).chain(lines).flat_map(|line| [line, "\n".to_string()]).collect()
    }
}

/// A text in which Markdown sees no mark-up of a table, emphasis or HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '|' | '*' | '_' | '<' | '`' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(if c.is_control() { ' ' } else { c });
    }
    out
}

/// Characters of a text.
pub(super) fn length(text: &str) -> usize {
    text.chars().count()
}

/// The text with its middle left out when it has more than `room` characters; its end tells kernels apart, so more of
/// the end is kept.
pub(super) fn shortened(text: &str, room: usize) -> String {
    let count = length(text);
    if count <= room {
        return text.to_string();
    }
    let tail = (room - 2) * 2 / 3;
    let head = room - 2 - tail;
    text.chars().take(head).chain("..".chars()).chain(text.chars().skip(count - tail)).collect()
}

/// Breaks words into lines of at most `width` characters, where a single longer word stands alone.
pub(super) fn wrap(parts: &[String], separator: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if length(line) + length(separator) + length(part) <= width => {
                line.push_str(separator);
                line.push_str(part);
            }
            _ => lines.push(part.clone()),
        }
    }
    lines
}
