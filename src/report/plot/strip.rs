//! The winner strip: for each scheme a row, for each batch a field in the colours of its winners.

use super::charts::block;
use super::scene::{Anchor, Ink, Mark, Scene, TEXT_SIZE};
use crate::analyse::{Cell, SchemeSweep, Sweep, units};
use crate::kernel::KernelId;
use crate::report::columns::shortened;

const WIDTH: f32 = 440.0;
/// Characters of a name that fit beneath.
const NAME_LENGTH: usize = 64;
const FIELD_HEIGHT: f32 = 26.0;

/// The strip of a sweep, with the names of its winners; none when nothing has a winner.
pub(in crate::report) fn strip(sweep: &Sweep<'_>) -> Option<Scene> {
    let schemes: Vec<_> = sweep.schemes.iter().filter(|s| s.cells.iter().any(|c| c.best().is_some())).collect();
    let count = schemes.iter().map(|s| s.cells.len()).max()?;
    let mut scene = Scene::new(WIDTH, 0.0, "winners by batch, with the margin to the next best".to_string());
    for scheme in schemes {
        draw_scheme(&mut scene, scheme, WIDTH / count as f32);
    }
    Some(scene)
}

/// Adds a scheme below what is there: its name, a field for each batch, and the winners by name.
fn draw_scheme(scene: &mut Scene, scheme: &SchemeSweep<'_>, field: f32) {
    let top = scene.height;
    scene.text((1.0, top + 13.0), Anchor::Start, Ink::Text, scheme.scheme.to_string());
    let block = block(scheme);
    let mut seen: Vec<usize> = Vec::new();
    let mut end = f32::NEG_INFINITY;
    let mut bottom = top + 62.0;
    for (column, cell) in scheme.cells.iter().enumerate() {
        let left = field * column as f32;
        let place = |id: &KernelId| block.series.iter().position(|s| s.kernel == *id);
        let winners: Vec<usize> = cell.winners().filter_map(|r| place(&r.row.kernel.id)).collect();
        let height = FIELD_HEIGHT / winners.len().max(1) as f32;
        for (row, &series) in winners.iter().enumerate() {
            scene.marks.push(Mark::Rect {
                at: (left + 1.0, top + 19.0 + height * row as f32),
                size: (field - 2.0, height),
                ink: Ink::Series(series),
                title: title(cell),
            });
            if !seen.contains(&series) {
                seen.push(series);
            }
        }
        let middle = left + field / 2.0;
        let half = TEXT_SIZE * 1.05;
        // Texts of narrow fields would run into each other.
        if middle - half >= end {
            end = middle + half;
            scene.text((middle, top + 58.0), Anchor::Middle, Ink::Text, cell.batch.to_string());
            let margin = cell.next_best().map_or(String::new(), |n| units::percent_more(n.ratio).replace(' ', ""));
            if margin.len() as f32 * TEXT_SIZE * 0.6 < field.max(2.0 * half) {
                scene.text((middle, top + 72.0), Anchor::Middle, Ink::Muted, margin);
                bottom = top + 76.0;
            }
        }
    }
    let mut y = bottom + 16.0;
    for series in seen {
        scene.marks.push(Mark::Rect {
            at: (1.0, y - 9.0),
            size: (10.0, 10.0),
            ink: Ink::Series(series),
            title: String::new(),
        });
        let name = block.series.get(series).map_or(String::new(), |s| shortened(s.kernel.as_str(), NAME_LENGTH));
        scene.text((16.0, y), Anchor::Start, Ink::Muted, name);
        y += 16.0;
    }
    scene.height = y + 4.0;
}

fn title(cell: &Cell<'_>) -> String {
    let names: Vec<&str> = cell.winners().map(|r| r.row.kernel.id.as_str()).collect();
    let tie = if names.len() > 1 { "tie: " } else { "" };
    let time = cell.best().map_or(String::new(), |b| format!(", {}", units::duration(b.time.median_ns)));
    format!("batch {}: {tie}{}{time}", cell.batch, names.join(", "))
}
