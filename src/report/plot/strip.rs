//! The winner strip: for each scheme a row, for each batch a field in the colours of its winners.

use super::charts::block;
use super::scene::{Anchor, Ink, Mark, Scene, TEXT_SIZE};
use crate::analyse::{Cell, Sweep, units};

const WIDTH: f32 = 440.0;
const FIELD_HEIGHT: f32 = 26.0;
const ROW_HEIGHT: f32 = 74.0;

/// The strip of a sweep; none when nothing has a winner.
pub(in crate::report) fn strip(sweep: &Sweep<'_>) -> Option<Scene> {
    let schemes: Vec<_> = sweep.schemes.iter().filter(|s| s.cells.iter().any(|c| c.best().is_some())).collect();
    let count = schemes.iter().map(|s| s.cells.len()).max()?;
    let mut scene = Scene::new(
        WIDTH,
        ROW_HEIGHT * schemes.len() as f32,
        "winners by batch, with the margin to the next best".to_string(),
    );
    let field = WIDTH / count as f32;
    for (row, scheme) in schemes.iter().enumerate() {
        let top = ROW_HEIGHT * row as f32;
        scene.text((0.0, top + 13.0), Anchor::Start, Ink::Text, scheme.scheme.to_string());
        let block = block(scheme);
        let mut end = f32::NEG_INFINITY;
        for (column, cell) in scheme.cells.iter().enumerate() {
            let left = field * column as f32;
            let winners: Vec<usize> =
                cell.winners().filter_map(|r| block.series.iter().position(|s| s.kernel == r.row.kernel.id)).collect();
            let height = FIELD_HEIGHT / winners.len().max(1) as f32;
            for (place, &series) in winners.iter().enumerate() {
                scene.marks.push(Mark::Rect {
                    at: (left + 1.0, top + 19.0 + height * place as f32),
                    size: (field - 2.0, height),
                    ink: Ink::Series(series),
                    title: title(cell),
                });
            }
            let middle = left + field / 2.0;
            let half = TEXT_SIZE * 1.05;
            // Texts of narrow fields would run into each other.
            if middle - half >= end {
                end = middle + half;
                scene.text((middle, top + 58.0), Anchor::Middle, Ink::Text, cell.batch.to_string());
                let margin =
                    cell.next_best().map_or(String::new(), |next| units::percent_more(next.ratio).replace(' ', ""));
                if margin.len() as f32 * TEXT_SIZE * 0.6 < field.max(2.0 * half) {
                    scene.text((middle, top + 71.0), Anchor::Middle, Ink::Muted, margin);
                }
            }
        }
    }
    Some(scene)
}

fn title(cell: &Cell<'_>) -> String {
    let names: Vec<&str> = cell.winners().map(|r| r.row.kernel.id.as_str()).collect();
    let tie = if names.len() > 1 { "tie: " } else { "" };
    let time = cell.best().map_or(String::new(), |b| format!(", {}", units::duration(b.time.median_ns)));
    format!("batch {}: {tie}{}{time}", cell.batch, names.join(", "))
}
