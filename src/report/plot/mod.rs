//! Plots of results: drawn once as a scene of simple marks, then written as SVG or PNG.

mod axis;
mod charts;
mod palette;
mod png;
mod scene;
mod strip;
mod svg;

pub(super) use charts::{Block, block, charts};
pub(super) use palette::{css, dash, shape};
pub(super) use scene::Scene;
pub(super) use strip::strip;
pub(super) use svg::{inline_svg, symbol};

use crate::analyse::sweeps;
use crate::record::Results;

/// A plot that can be written to a file of its own.
#[derive(Clone, Debug)]
pub struct Plot {
    /// A name for files: lower case, digits and dashes.
    pub name: String,
    scene: Scene,
}

impl Plot {
    /// The plot as an SVG file that follows the light or dark preference of whoever shows it.
    pub fn svg(&self) -> String {
        svg::standalone_svg(&self.scene)
    }

    /// The plot as a PNG file: light colours, two pixels a unit.
    ///
    /// # Errors
    /// A sentence when the picture cannot be allocated or encoded.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        png::png(&self.scene)
    }
}

/// Every plot of a file: for each sweep the winner strip, and for each of its schemes the time over the batch, the share
/// of the floor, and the time against the floor. Each plot names its kernels.
pub fn plots(results: &Results) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (index, sweep) in sweeps(results).iter().enumerate() {
        let case = &sweep.key.case;
        let stem = file_stem(&format!(
            "{}-tp{}-ep{}-{}-{}-{}",
            case.model,
            case.tp,
            case.ep,
            case.stage,
            case.routing,
            sweep.key.conditions.l2.as_str()
        ));
        plots.extend(strip(sweep).map(|scene| Plot { name: format!("{index:02}-{stem}-winners"), scene }));
        for scheme in &sweep.schemes {
            let block = block(scheme);
            for (word, scene) in charts(&block) {
                let scene = scene.with_legend(&block.names(), dash, shape);
                plots.push(Plot { name: format!("{index:02}-{stem}-{}-{word}", scheme.scheme), scene });
            }
        }
    }
    plots
}

fn file_stem(text: &str) -> String {
    let mut stem = String::new();
    for c in text.to_lowercase().chars() {
        match c {
            c if c.is_ascii_alphanumeric() => stem.push(c),
            '.' => stem.push('.'),
            _ if !stem.ends_with('-') => stem.push('-'),
            _ => {}
        }
    }
    // Routing words may hold long lists of rows.
    stem.truncate(80);
    stem.trim_matches(['-', '.']).to_string()
}
