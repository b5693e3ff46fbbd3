//! A plot as marks on a plane: x to the right, y downwards, in units of about a CSS pixel.

use super::palette::Dash;

/// What a mark is drawn in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Ink {
    Text,
    Muted,
    Grid,
    Floor,
    Series(usize),
}

/// Symbols of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
}

/// Where the point of a text lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Anchor {
    Start,
    Middle,
    End,
}

/// One mark.
#[derive(Clone, Debug)]
pub(in crate::report) enum Mark {
    Line { points: Vec<(f32, f32)>, ink: Ink, width: f32, dash: Dash },
    Symbol { at: (f32, f32), shape: Shape, ink: Ink, title: String },
    Rect { at: (f32, f32), size: (f32, f32), ink: Ink, title: String },
    Text { at: (f32, f32), anchor: Anchor, ink: Ink, text: String },
}

/// A plot.
#[derive(Clone, Debug)]
pub(in crate::report) struct Scene {
    pub(in crate::report) width: f32,
    pub(in crate::report) height: f32,
    /// What it shows, for its heading and for those who do not see it.
    pub(in crate::report) title: String,
    pub(in crate::report) marks: Vec<Mark>,
}

/// Height of texts.
pub(in crate::report) const TEXT_SIZE: f32 = 12.0;

/// Size of symbols from their middle.
pub(in crate::report) const SYMBOL_RADIUS: f32 = 3.4;

impl Scene {
    pub(in crate::report) fn new(width: f32, height: f32, title: String) -> Self {
        Scene { width, height, title, marks: Vec::new() }
    }

    pub(in crate::report) fn line(&mut self, points: Vec<(f32, f32)>, ink: Ink, width: f32, dash: Dash) {
        self.marks.push(Mark::Line { points, ink, width, dash });
    }

    pub(in crate::report) fn text(&mut self, at: (f32, f32), anchor: Anchor, ink: Ink, text: impl Into<String>) {
        self.marks.push(Mark::Text { at, anchor, ink, text: text.into() });
    }

    /// Adds the title above and the names of the series below, for a plot that stands alone.
    pub(in crate::report) fn with_legend(
        mut self,
        names: &[String],
        dash: fn(usize) -> Dash,
        shape: fn(usize) -> Shape,
    ) -> Scene {
        const TITLE: f32 = 22.0;
        const LINE: f32 = 18.0;
        for mark in &mut self.marks {
            mark.shift(TITLE);
        }
        let title = self.title.clone();
        self.text((8.0, 16.0), Anchor::Start, Ink::Text, title);
        let mut y = self.height + TITLE + LINE / 2.0;
        for (series, name) in names.iter().enumerate() {
            let ink = Ink::Series(series);
            self.line(vec![(10.0, y), (34.0, y)], ink, 1.6, dash(series));
            self.marks.push(Mark::Symbol { at: (22.0, y), shape: shape(series), ink, title: String::new() });
            self.text((42.0, y + TEXT_SIZE / 3.0), Anchor::Start, Ink::Text, name);
            y += LINE;
        }
        self.height = y + 4.0;
        let widest = names.iter().chain([&self.title]).map(|n| n.chars().count()).max().unwrap_or(0);
        self.width = self.width.max(50.0 + widest as f32 * 0.65 * TEXT_SIZE);
        self
    }
}

impl Mark {
    fn shift(&mut self, down: f32) {
        match self {
            Mark::Line { points, .. } => points.iter_mut().for_each(|(_, y)| *y += down),
            Mark::Symbol { at, .. } | Mark::Rect { at, .. } | Mark::Text { at, .. } => at.1 += down,
        }
    }
}

/// Corners of a symbol that is no circle.
pub(in crate::report) fn corners(shape: Shape, (x, y): (f32, f32)) -> Vec<(f32, f32)> {
    let r = SYMBOL_RADIUS;
    match shape {
        Shape::Circle => Vec::new(),
        Shape::Square => vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
        Shape::Triangle => vec![(x, y - 1.25 * r), (x + 1.15 * r, y + r), (x - 1.15 * r, y + r)],
        Shape::Diamond => vec![(x, y - 1.4 * r), (x + 1.4 * r, y), (x, y + 1.4 * r), (x - 1.4 * r, y)],
    }
}
