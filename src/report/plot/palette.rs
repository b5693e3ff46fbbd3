//! Colours, dashes and symbols: eight colours that people with colour-blindness tell apart, then other symbols and
//! dashes.

use super::scene::{Ink, Shape};

/// Colours of series on a light and on a dark ground.
const SERIES: [(&str, &str); 8] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff9456"),
    ("#00855f", "#2fd3a2"),
    ("#b8468a", "#ee9ccb"),
    ("#6a4fb3", "#b9a2f2"),
    ("#8f6b00", "#e8b923"),
    ("#3c8fc4", "#a7d8f9"),
    ("#5b5b5b", "#c4c4c4"),
];

/// Colours that are no series: name, on light, on dark.
const OTHERS: [(&str, &str, &str); 5] = [
    ("bg", "#ffffff", "#14171a"),
    ("text", "#1b1f23", "#e8eaed"),
    ("muted", "#5a646e", "#a3adb7"),
    ("grid", "#dfe3e8", "#2d333a"),
    ("floor", "#1b1f23", "#e8eaed"),
];

/// How a line is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Dash {
    Solid,
    Long,
    Short,
}

impl Dash {
    /// Lengths of stroke and gap; none for a solid line.
    pub(in crate::report) fn lengths(self) -> Option<[f32; 2]> {
        match self {
            Dash::Solid => None,
            Dash::Long => Some([7.0, 4.0]),
            Dash::Short => Some([2.0, 3.0]),
        }
    }
}

/// Dash of a series.
pub(in crate::report) fn dash(series: usize) -> Dash {
    match series / SERIES.len() % 3 {
        0 => Dash::Solid,
        1 => Dash::Long,
        _ => Dash::Short,
    }
}

/// Symbol of a series.
pub(in crate::report) fn shape(series: usize) -> Shape {
    match (series + series / SERIES.len()) % 4 {
        0 => Shape::Circle,
        1 => Shape::Square,
        2 => Shape::Triangle,
        _ => Shape::Diamond,
    }
}

/// Class of an ink in SVG.
pub(super) fn class(ink: Ink) -> String {
    match ink {
        Ink::Text => "text".to_string(),
        Ink::Muted => "muted".to_string(),
        Ink::Grid => "grid".to_string(),
        Ink::Floor => "floor".to_string(),
        Ink::Series(series) => format!("s{}", series % SERIES.len()),
    }
}

/// Colour of an ink on a light ground.
pub(super) fn light(ink: Ink) -> &'static str {
    let named = |name: &str| OTHERS.iter().find(|(n, _, _)| *n == name).map_or("#000000", |(_, light, _)| light);
    match ink {
        Ink::Text => named("text"),
        Ink::Muted => named("muted"),
        Ink::Grid => named("grid"),
        Ink::Floor => named("floor"),
        Ink::Series(series) => SERIES.get(series % SERIES.len()).map_or("#000000", |(light, _)| light),
    }
}

/// Style sheet of plots: colours as variables of `root` for both grounds, and what wears them.
pub(in crate::report) fn css(root: &str) -> String {
    let variables = |dark: bool| -> String {
        let pick = |light: &'static str, on_dark: &'static str| if dark { on_dark } else { light };
        let series = SERIES.iter().enumerate().map(|(i, (l, d))| format!("--s{i}:{};", pick(l, d)));
        let others = OTHERS.iter().map(|(name, l, d)| format!("--{name}:{};", pick(l, d)));
        others.chain(series).collect()
    };
    let mut out = format!("{root}{{color-scheme:light dark;{}}}", variables(false));
    out += &format!("@media screen and (prefers-color-scheme:dark){{{root}{{{}}}}}", variables(true));
    let names = OTHERS.iter().map(|(name, _, _)| (*name).to_string()).chain((0..SERIES.len()).map(|i| format!("s{i}")));
    for name in names {
        out += &format!(".{name}{{--c:var(--{name})}}");
    }
    out + "svg .line{fill:none;stroke:var(--c)}svg .fill{fill:var(--c)}svg text{fill:var(--c);font-family:system-ui,sans-serif}"
}
