//! The charts of one scheme of a sweep.

use super::axis::Axis;
use super::palette::{Dash, dash, shape};
use super::scene::{Anchor, Ink, Mark, Scene, TEXT_SIZE};
use crate::analyse::{SchemeSweep, units};
use crate::kernel::KernelId;

/// Size of a chart. Small, so that its texts stay readable when it fills a phone's width.
const SIZE: (f32, f32) = (440.0, 290.0);

/// Room for the axes' texts: left, right, top, bottom.
const MARGIN: (f32, f32, f32, f32) = (58.0, 14.0, 10.0, 38.0);

/// One scheme's numbers, by kernel.
pub(in crate::report) struct Block {
    /// The scheme and its sweep, for titles.
    name: String,
    /// Kernels in the order of their ids; their place is the number of their series.
    pub(in crate::report) series: Vec<Series>,
    /// Batch and floor in nanoseconds.
    floor: Vec<(u32, f64)>,
}

/// One kernel's points.
pub(in crate::report) struct Series {
    /// The kernel.
    pub(in crate::report) kernel: KernelId,
    points: Vec<Point>,
}

struct Point {
    batch: u32,
    ns: f64,
    ci95_ns: [f64; 2],
    floor_ns: Option<f64>,
}

impl Block {
    /// Names of the series.
    pub(in crate::report) fn names(&self) -> Vec<String> {
        self.series.iter().map(|s| s.kernel.to_string()).collect()
    }
}

/// Gathers the numbers of a scheme.
pub(in crate::report) fn block(scheme: &SchemeSweep<'_>) -> Block {
    let mut series: Vec<Series> = Vec::new();
    let mut floor = Vec::new();
    for cell in &scheme.cells {
        for ranked in &cell.ranked {
            let kernel = &ranked.row.kernel.id;
            let point = Point {
                batch: cell.batch,
                ns: ranked.time.median_ns,
                ci95_ns: ranked.time.ci95_ns,
                floor_ns: ranked.row.bound.as_ref().map(|b| b.floor_ns),
            };
            match series.iter_mut().find(|s| s.kernel == *kernel) {
                Some(found) => found.points.push(point),
                None => series.push(Series { kernel: kernel.clone(), points: vec![point] }),
            }
        }
        let bounds = cell.ranked.iter().filter_map(|r| r.row.bound.as_ref());
        floor.extend(bounds.map(|b| (cell.batch, b.floor_ns)).next());
    }
    series.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    Block { name: scheme.scheme.to_string(), series, floor }
}

/// The charts of a scheme with their words for file names: none when nothing was timed.
pub(in crate::report) fn charts(block: &Block) -> Vec<(&'static str, Scene)> {
    [("time", time_chart(block)), ("share", share_chart(block)), ("against-floor", floor_chart(block))]
        .into_iter()
        .filter_map(|(word, scene)| Some((word, scene?)))
        .collect()
}

fn x_places() -> (f32, f32) {
    (MARGIN.0, SIZE.0 - MARGIN.1)
}

fn y_places() -> (f32, f32) {
    (SIZE.1 - MARGIN.3, MARGIN.2)
}

fn batches(block: &Block) -> Vec<u32> {
    let mut batches: Vec<u32> = block.series.iter().flat_map(|s| s.points.iter().map(|p| p.batch)).collect();
    batches.sort_unstable();
    batches.dedup();
    batches
}

/// Time over batch, both logarithmic, with 95% intervals, and the floor beneath.
fn time_chart(block: &Block) -> Option<Scene> {
    let batches = batches(block);
    let x = Axis::log(batches.iter().map(|&b| f64::from(b)), x_places())?;
    let times = block.series.iter().flat_map(|s| s.points.iter().flat_map(|p| p.ci95_ns));
    let y = Axis::log(times.chain(block.floor.iter().map(|f| f.1)), y_places())?;
    let mut scene = Scene::new(SIZE.0, SIZE.1, format!("{}: time over batch, 95% intervals", block.name));
    batch_axis(&mut scene, &x, &batches);
    y_axis(&mut scene, &y, units::duration);
    let floor: Vec<(f32, f32)> = block.floor.iter().map(|&(b, ns)| (x.place(f64::from(b)), y.place(ns))).collect();
    if let Some(&(fx, fy)) = floor.last() {
        scene.line(floor, Ink::Floor, 1.4, Dash::Short);
        scene.text((fx, fy + 15.0), Anchor::End, Ink::Muted, "floor");
    }
    draw_series(&mut scene, block, |p| {
        Some((x.place(f64::from(p.batch)), y.place(p.ns), p.ci95_ns.map(|ns| y.place(ns))))
    });
    Some(scene)
}

/// Share of the floor over batch.
fn share_chart(block: &Block) -> Option<Scene> {
    let batches = batches(block);
    let x = Axis::log(batches.iter().map(|&b| f64::from(b)), x_places())?;
    let share = |p: &Point, ns: f64| p.floor_ns.map(|floor| 100.0 * floor / ns);
    let most = block.series.iter().flat_map(|s| s.points.iter().filter_map(|p| share(p, p.ns))).reduce(f64::max)?;
    let y = Axis::linear(if most > 100.0 { 125.0 } else { 100.0 }, y_places());
    let mut scene = Scene::new(SIZE.0, SIZE.1, format!("{}: share of the floor", block.name));
    batch_axis(&mut scene, &x, &batches);
    y_axis(&mut scene, &y, |percent| format!("{percent:.0} %"));
    draw_series(&mut scene, block, |p| {
        let [low, high] = p.ci95_ns;
        let ends = [y.place(share(p, high)?), y.place(share(p, low)?)];
        Some((x.place(f64::from(p.batch)), y.place(share(p, p.ns)?), ends))
    });
    Some(scene)
}

/// Time against the floor, both logarithmic, with lines of equal share.
fn floor_chart(block: &Block) -> Option<Scene> {
    let points = || block.series.iter().flat_map(|s| &s.points);
    let floors: Vec<f64> = points().filter_map(|p| p.floor_ns).collect();
    let x = Axis::log(floors.iter().copied(), x_places())?;
    let y = Axis::log(floors.iter().copied().chain(points().flat_map(|p| p.ci95_ns)), y_places())?;
    let mut scene = Scene::new(SIZE.0, SIZE.1, format!("{}: time against the floor", block.name));
    y_axis(&mut scene, &y, units::duration);
    let bottom = y_places().0;
    let mut end = 0.0;
    for tick in x.ticks() {
        let text = units::duration(tick);
        let place = x.place(tick);
        let half = text.chars().count() as f32 * TEXT_SIZE * 0.28;
        if place - half > end {
            scene.text((place, bottom + 15.0), Anchor::Middle, Ink::Muted, text);
            end = place + half + 4.0;
        }
    }
    scene.text(((x_places().0 + x_places().1) / 2.0, SIZE.1 - 5.0), Anchor::Middle, Ink::Muted, "floor");
    let (least, most) = (floors.iter().copied().reduce(f64::min)?, floors.iter().copied().reduce(f64::max)?);
    for share in [1.0, 0.5, 0.25] {
        // From a little before the first floor to a little after the last, or to where the line leaves the chart.
        let ends = [least / 1.02, (most * 1.02).min(y.end() * share)];
        if ends[0] < ends[1] {
            let [from, to] = ends.map(|floor| (x.place(floor), y.place(floor / share)));
            let (ink, dash) = if share == 1.0 { (Ink::Floor, Dash::Solid) } else { (Ink::Muted, Dash::Short) };
            scene.line(vec![from, to], ink, 1.0, dash);
            scene.text((to.0 - 6.0, to.1 + 4.0), Anchor::End, Ink::Muted, format!("{:.0} %", share * 100.0));
        }
    }
    draw_series(&mut scene, block, |p| Some((x.place(p.floor_ns?), y.place(p.ns), p.ci95_ns.map(|ns| y.place(ns)))));
    Some(scene)
}

/// A tick at each batch that has room.
fn batch_axis(scene: &mut Scene, x: &Axis, batches: &[u32]) {
    let (bottom, top) = y_places();
    let mut end = f32::NEG_INFINITY;
    for &batch in batches {
        let place = x.place(f64::from(batch));
        scene.line(vec![(place, bottom), (place, top)], Ink::Grid, 1.0, Dash::Solid);
        let text = batch.to_string();
        let half = text.len() as f32 * TEXT_SIZE * 0.3;
        if place - half > end {
            scene.text((place, bottom + 15.0), Anchor::Middle, Ink::Muted, text);
            end = place + half + 4.0;
        }
    }
    scene.text(((x_places().0 + x_places().1) / 2.0, SIZE.1 - 5.0), Anchor::Middle, Ink::Muted, "batch");
}

fn y_axis(scene: &mut Scene, y: &Axis, text: impl Fn(f64) -> String) {
    let (left, right) = x_places();
    for tick in y.ticks() {
        let place = y.place(tick);
        scene.line(vec![(left, place), (right, place)], Ink::Grid, 1.0, Dash::Solid);
        scene.text((left - 6.0, place + 4.0), Anchor::End, Ink::Muted, text(tick));
    }
}

/// Lines, intervals and symbols of every series; `place` gives x, y and the ends of the interval.
fn draw_series(scene: &mut Scene, block: &Block, place: impl Fn(&Point) -> Option<(f32, f32, [f32; 2])>) {
    for (index, series) in block.series.iter().enumerate() {
        let ink = Ink::Series(index);
        let placed: Vec<_> = series.points.iter().filter_map(|p| Some((p, place(p)?))).collect();
        if placed.len() > 1 {
            scene.line(placed.iter().map(|(_, (x, y, _))| (*x, *y)).collect(), ink, 1.6, dash(index));
        }
        for (point, (x, y, [low, high])) in placed {
            if (low - high).abs() > 1.0 {
                scene.line(vec![(x, low), (x, high)], ink, 1.2, Dash::Solid);
            }
            scene.marks.push(Mark::Symbol {
                at: (x, y),
                shape: shape(index),
                ink,
                title: point_title(&series.kernel, point),
            });
        }
    }
}

fn point_title(kernel: &KernelId, point: &Point) -> String {
    let [low, high] = point.ci95_ns;
    let interval = if low < high { format!(" {}", units::plus_minus(point.ns, point.ci95_ns)) } else { String::new() };
    let share = point.floor_ns.map_or(String::new(), |floor| format!(", {:.0} % of floor", 100.0 * floor / point.ns));
    format!("{kernel}, batch {}: {}{interval}{share}", point.batch, units::duration(point.ns))
}
