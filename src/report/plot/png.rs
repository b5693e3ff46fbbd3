//! Scenes as PNG, in light colours.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster};
use tiny_skia::{Color, FillRule, Paint, PathBuilder, Pixmap, PremultipliedColorU8, Stroke, StrokeDash, Transform};

use super::palette::light;
use super::scene::{Anchor, Ink, Mark, SYMBOL_RADIUS, Scene, Shape, corners};

/// Pixels a unit.
const SCALE: f32 = 2.0;

/// Largest side in pixels: a scene is never near it.
const MAX_SIDE: f32 = 16_384.0;

/// Draws a scene and encodes it.
pub(super) fn png(scene: &Scene) -> Result<Vec<u8>, String> {
    let side = |units: f32| (units * SCALE).ceil().clamp(1.0, MAX_SIDE) as u32;
    let mut pixmap = Pixmap::new(side(scene.width), side(scene.height))
        .ok_or_else(|| format!("a picture of {} x {} cannot be allocated", scene.width, scene.height))?;
    pixmap.fill(Color::WHITE);
    for mark in &scene.marks {
        draw(&mut pixmap, mark);
    }
    pixmap.encode_png().map_err(|e| format!("the picture `{}` cannot be encoded ({e})", scene.title))
}

fn draw(pixmap: &mut Pixmap, mark: &Mark) {
    let scale = Transform::from_scale(SCALE, SCALE);
    match mark {
        Mark::Line { points, ink, width, dash } => {
            let dash = dash.lengths().and_then(|[stroke, gap]| StrokeDash::new(vec![stroke, gap], 0.0));
            let stroke = Stroke { width: *width, dash, ..Stroke::default() };
            if let Some(path) = path(points, false) {
                pixmap.stroke_path(&path, &paint(*ink), &stroke, scale, None);
            }
        }
        Mark::Symbol { at, shape, ink, .. } => {
            let outline = match shape {
                Shape::Circle => PathBuilder::from_circle(at.0, at.1, SYMBOL_RADIUS),
                _ => path(&corners(*shape, *at), true),
            };
            if let Some(outline) = outline {
                pixmap.fill_path(&outline, &paint(*ink), FillRule::Winding, scale, None);
            }
        }
        Mark::Rect { at, size, ink, .. } => {
            if let Some(rect) = tiny_skia::Rect::from_xywh(at.0, at.1, size.0, size.1) {
                pixmap.fill_rect(rect, &paint(*ink), scale, None);
            }
        }
        Mark::Text { at, anchor, ink, text } => draw_text(pixmap, *at, *anchor, *ink, text),
    }
}

fn path(points: &[(f32, f32)], closed: bool) -> Option<tiny_skia::Path> {
    let mut builder = PathBuilder::new();
    let (&(x, y), rest) = points.split_first()?;
    builder.move_to(x, y);
    rest.iter().for_each(|&(x, y)| builder.line_to(x, y));
    if closed {
        builder.close();
    }
    builder.finish()
}

fn paint(ink: Ink) -> Paint<'static> {
    let [red, green, blue] = rgb(ink);
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}

/// The colour of an ink from its `#rrggbb`.
fn rgb(ink: Ink) -> [u8; 3] {
    let hex = light(ink);
    [1, 3, 5].map(|at| hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).unwrap_or(0))
}

/// Draws text glyph by glyph; characters that the font lacks become question marks.
fn draw_text(pixmap: &mut Pixmap, at: (f32, f32), anchor: Anchor, ink: Ink, text: &str) {
    const HEIGHT: RasterHeight = RasterHeight::Size20;
    /// Of a glyph's rows, those above the line that texts stand on.
    const BASELINE: f32 = 16.0;
    let glyph =
        |c: char| get_raster(c, FontWeight::Regular, HEIGHT).or_else(|| get_raster('?', FontWeight::Regular, HEIGHT));
    let width: usize = text.chars().filter_map(glyph).map(|g| g.width()).sum();
    let shift = match anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => width as f32 / 2.0,
        Anchor::End => width as f32,
    };
    let mut left = (at.0 * SCALE - shift).round() as i64;
    let top = (at.1 * SCALE - BASELINE).round() as i64;
    let colour = rgb(ink);
    for glyph in text.chars().filter_map(glyph) {
        for (y, row) in (top..).zip(glyph.rows()) {
            for (x, &strength) in (left..).zip(row.iter()) {
                blend(pixmap, x, y, colour, strength);
            }
        }
        left += glyph.width() as i64;
    }
}

/// Lays a colour over a pixel with the strength of a glyph there. Outside the picture nothing happens.
fn blend(pixmap: &mut Pixmap, x: i64, y: i64, colour: [u8; 3], strength: u8) {
    let (width, height) = (i64::from(pixmap.width()), i64::from(pixmap.height()));
    if strength == 0 || !(0..width).contains(&x) || !(0..height).contains(&y) {
        return;
    }
    let Some(pixel) = usize::try_from(y * width + x).ok().and_then(|i| pixmap.pixels_mut().get_mut(i)) else { return };
    let mix = |new: u8, old: u8| {
        let (new, old, strength) = (u32::from(new), u32::from(old), u32::from(strength));
        ((new * strength + old * (255 - strength)) / 255) as u8
    };
    let [red, green, blue] = colour;
    let mixed = (mix(red, pixel.red()), mix(green, pixel.green()), mix(blue, pixel.blue()));
    if let Some(mixed) = PremultipliedColorU8::from_rgba(mixed.0, mixed.1, mixed.2, 255) {
        *pixel = mixed;
    }
}
