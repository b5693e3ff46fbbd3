//! Decoded operands and their products: what the reference is made of.

use std::ops::Range;

use rayon::prelude::*;

use super::dots_simd::{COLUMNS, LANES, Product, multiply_f32, multiply_f64};

/// The f32 sums of magnitudes are raised by this factor, so that they never fall short of the true ones: each is made of
/// operands rounded to f32 (2 * 2^-24) and of at most 20 f32 additions before the sum goes on in f64 (20 * 2^-24), and
/// is stored as f32 (2^-24).
const ABS_SUM_MARGIN: f64 = 1.0 + 24.0 / (1u32 << 24) as f64;

/// Bytes of decoded weights that are multiplied at a time: they share L2 with the activations.
const PANEL_BYTES: usize = 512 << 10;

/// Panels that one thread takes at a time.
const STRIPE: usize = 8;

/// Rows of one expert and where their answer goes.
pub(super) struct Group<'a> {
    /// The expert.
    pub expert: usize,
    /// Its first row.
    pub first: usize,
    /// Its rows.
    pub count: usize,
    /// `[rows][width]`
    pub values: &'a mut [f64],
    /// `[rows][width]`
    pub abs_sums: &'a mut [f32],
}

impl Group<'_> {
    /// `weight(place, line)` fills the weights of one held column.
    pub(super) fn compute(self, k: usize, width: usize, rows: &Lines, weight: impl Fn(usize, &mut [f64]) + Sync) {
        let panel = (PANEL_BYTES / (k * (size_of::<f64>() + size_of::<f32>()))).clamp(COLUMNS, 64);
        let panel = panel.next_multiple_of(COLUMNS);
        let starts: Vec<usize> = (0..width).step_by(STRIPE * panel).collect();
        let stripe = |start| self.stripe(rows, start..width.min(start + STRIPE * panel), panel, &weight);
        let stripes: Vec<_> = starts.into_par_iter().map(stripe).collect();
        for block in stripes.into_iter().flatten() {
            for r in 0..self.count {
                let (from, to) = (r * block.padded, r * width + block.start);
                let (from, to) = (from..from + block.count, to..to + block.count);
                self.values[to.clone()].copy_from_slice(&block.values[from.clone()]);
                for (out, sum) in self.abs_sums[to].iter_mut().zip(&block.abs_sums[from]) {
                    *out = (sum * ABS_SUM_MARGIN) as f32;
                }
            }
        }
    }

    /// The answer on some held columns, `panel` of them at a time.
    fn stripe(
        &self,
        rows: &Lines,
        columns: Range<usize>,
        panel: usize,
        weight: impl Fn(usize, &mut [f64]),
    ) -> Vec<Block> {
        let mut lines = Lines::new(panel.min(columns.len().next_multiple_of(COLUMNS)), rows.k);
        columns
            .clone()
            .step_by(panel)
            .map(|start| {
                let count = panel.min(columns.end - start);
                let padded = count.next_multiple_of(COLUMNS);
                lines.decode(count, |c, line| weight(start + c, line));
                let (values, abs_sums) = rows.multiply(&lines, padded);
                Block { start, count, padded, values, abs_sums }
            })
            .collect()
    }
}

/// The answer of the rows of one expert on neighbouring held columns.
struct Block {
    start: usize,
    count: usize,
    /// `count` as a multiple of [`COLUMNS`].
    padded: usize,
    /// `[rows][padded]`
    values: Vec<f64>,
    /// `[rows][padded]`
    abs_sums: Vec<f64>,
}

/// Decoded lines of operands, and their magnitudes, padded as [`super::dots_simd`] wants them.
pub(super) struct Lines {
    k: usize,
    stride: usize,
    values: Vec<f64>,
    magnitudes: Vec<f32>,
}

impl Lines {
    /// `lines` of zeros.
    pub(super) fn new(lines: usize, k: usize) -> Self {
        let stride = k.next_multiple_of(LANES);
        Lines { k, stride, values: vec![0.0; lines * stride], magnitudes: vec![0.0; lines * stride] }
    }

    /// Fills the first `count` lines.
    pub(super) fn decode(&mut self, count: usize, decode: impl Fn(usize, &mut [f64])) {
        let stride = self.stride;
        let both = self.values.chunks_exact_mut(stride).zip(self.magnitudes.chunks_exact_mut(stride));
        for (at, (values, magnitudes)) in both.take(count).enumerate() {
            decode(at, &mut values[..self.k]);
            for (magnitude, value) in magnitudes.iter_mut().zip(values) {
                *magnitude = value.abs() as f32;
            }
        }
    }

    /// `[lines][other lines]`, of the first `others` lines of the other: the dot products, and those of the magnitudes.
    fn multiply(&self, other: &Lines, others: usize) -> (Vec<f64>, Vec<f64>) {
        let (stride, lines) = (self.stride, self.values.len() / self.stride);
        let fill = || vec![0.0; lines * others];
        let (mut values, mut sums) = (fill(), fill());
        let b = &other.values[..others * stride];
        multiply_f64(Product { a: &self.values, b, stride, out: &mut values });
        let b = &other.magnitudes[..others * stride];
        multiply_f32(Product { a: &self.magnitudes, b, stride, out: &mut sums });
        (values, sums)
    }
}
