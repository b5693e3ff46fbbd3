//! Scenes as SVG.

use std::fmt::Write;

use super::palette::{class, css};
use super::scene::{Anchor, Ink, Mark, SYMBOL_RADIUS, Scene, Shape, TEXT_SIZE, corners};
use crate::report::page::escape;

/// A scene as part of a page that holds [`css`].
pub(in crate::report) fn inline_svg(scene: &Scene) -> String {
    element(scene, "")
}

/// A scene as a file of its own, with its ground and its style.
pub(super) fn standalone_svg(scene: &Scene) -> String {
    let inside = format!("<style>{}</style><rect width=\"100%\" height=\"100%\" class=\"bg fill\"/>", css("svg"));
    element(scene, &inside).replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1)
}

/// A series' line and symbol, for a legend.
pub(in crate::report) fn symbol(series: usize) -> String {
    let mut scene = Scene::new(28.0, 12.0, String::new());
    scene.line(vec![(0.0, 6.0), (28.0, 6.0)], Ink::Series(series), 1.6, super::dash(series));
    let ink = Ink::Series(series);
    scene.marks.push(Mark::Symbol { at: (14.0, 6.0), shape: super::shape(series), ink, title: String::new() });
    format!("<svg viewBox=\"0 0 28 12\" width=\"28\" height=\"12\" aria-hidden=\"true\">{}</svg>", marks(&scene))
}

fn element(scene: &Scene, inside: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {:.0} {:.0}\" role=\"img\" aria-label=\"{}\">{inside}{}</svg>",
        scene.width,
        scene.height,
        escape(&scene.title),
        marks(scene)
    )
}

fn marks(scene: &Scene) -> String {
    let mut out = String::new();
    for mark in &scene.marks {
        // Writing to a string cannot fail.
        let _ = write_mark(&mut out, mark);
    }
    out
}

fn write_mark(out: &mut String, mark: &Mark) -> std::fmt::Result {
    match mark {
        Mark::Line { points, ink, width, dash } => {
            let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            write!(out, "<polyline class=\"line {}\"{} stroke-width=\"{width}\"", class(*ink), series(*ink))?;
            if let Some([stroke, gap]) = dash.lengths() {
                write!(out, " stroke-dasharray=\"{stroke} {gap}\"")?;
            }
            write!(out, " points=\"{}\"/>", path.join(" "))
        }
        Mark::Symbol { at: (x, y), shape, ink, title } => {
            let attributes = format!("class=\"fill {}\"{}", class(*ink), series(*ink));
            match shape {
                Shape::Circle => write!(out, "<circle {attributes} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{SYMBOL_RADIUS}\"")?,
                _ => {
                    let points: Vec<String> =
                        corners(*shape, (*x, *y)).iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
                    write!(out, "<polygon {attributes} points=\"{}\"", points.join(" "))?;
                }
            }
            let name = if *shape == Shape::Circle { "circle" } else { "polygon" };
            close(out, name, title)
        }
        Mark::Rect { at: (x, y), size: (width, height), ink, title } => {
            write!(
                out,
                "<rect class=\"fill {}\"{} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"",
                class(*ink),
                series(*ink)
            )?;
            close(out, "rect", title)
        }
        Mark::Text { at: (x, y), anchor, ink, text } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            write!(
                out,
                "<text class=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{TEXT_SIZE}\">{}</text>",
                class(*ink),
                escape(text)
            )
        }
    }
}

/// The number of a series, by which a page shows and hides it.
fn series(ink: Ink) -> String {
    match ink {
        Ink::Series(series) => format!(" data-k=\"{series}\""),
        _ => String::new(),
    }
}

fn close(out: &mut String, name: &str, title: &str) -> std::fmt::Result {
    if title.is_empty() { write!(out, "/>") } else { write!(out, "><title>{}</title></{name}>", escape(title)) }
}
