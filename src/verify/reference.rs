//! The answer to compare with: exact operands, products summed in f64.

use std::ops::Range;

use rayon::prelude::*;

use crate::operands::{Activations, Weights};
use crate::shape::GemmShape;

use super::columns::{Columns, SampledColumns};
use super::decode;
use super::dots_simd::{COLUMNS, LANES, Product, multiply_f32, multiply_f64};

/// The right answer of one case and scheme, on all output columns or on sampled ones.
///
/// Operands are decoded exactly. Products and their sum are taken in f64, whose own error, at most `K * 2^-53` of the sum
/// of magnitudes, is a billionth of the smallest bound that an answer is held to. One reference serves every kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    shape: GemmShape,
    rows: usize,
    columns: Columns,
    /// `[rows][held columns]`
    values: Vec<f64>,
    /// `[rows][held columns]`
    abs_sums: Vec<f32>,
}

/// Why there is no reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The offsets do not describe rows sorted by expert.
    #[error("offsets must be {experts} + 1 ascending numbers from 0; found {found}")]
    Offsets {
        /// Experts of the shape.
        experts: u32,
        /// What was found instead.
        found: String,
    },
    /// An operand has not the size that the shape asks for.
    #[error("{operand} has {found} entries, the shape needs {needed}")]
    Length {
        /// Which array.
        operand: &'static str,
        /// Entries it has.
        found: usize,
        /// Entries it must have.
        needed: usize,
    },
    /// K is not a multiple of what one scale or byte covers.
    #[error("K {k} is not a multiple of {group}, the values under one scale")]
    Group {
        /// Length of the reduction.
        k: u32,
        /// Values under one scale.
        group: u32,
    },
    /// An operand holds NaN, or the answer is beyond bf16.
    #[error(
        "the answer at row {row}, held column {place} is {value}: the operands hold a NaN or are too large for bf16"
    )]
    NotRepresentable {
        /// Row.
        row: usize,
        /// Place among the held columns.
        place: usize,
        /// The answer.
        value: String,
    },
    /// There is nothing to compute with.
    #[error("the shape {experts} x {n} x {k} (experts, N, K) has a zero")]
    Empty {
        /// Experts of the shape.
        experts: u32,
        /// Output columns.
        n: u32,
        /// Length of the reduction.
        k: u32,
    },
    /// The case is too large to be addressed.
    #[error("the case has more elements than this machine can address")]
    TooLarge,
}

/// The f32 sums of magnitudes are raised by this factor, so that they never fall short of the true ones: each is made of
/// operands rounded to f32 (2 * 2^-24) and of at most 20 f32 additions before the sum goes on in f64 (20 * 2^-24), and
/// is stored as f32 (2^-24).
const ABS_SUM_MARGIN: f64 = 1.0 + 24.0 / (1u32 << 24) as f64;

/// Bytes of decoded weights that are multiplied at a time: they share L2 with the activations.
const PANEL_BYTES: usize = 512 << 10;

/// Panels that one thread takes at a time.
const STRIPE: usize = 8;

impl Reference {
    /// Computes every output column.
    ///
    /// `offsets` holds the first row of each expert, `experts + 1` entries. Runs on the current rayon pool.
    ///
    /// # Errors
    /// When offsets or operands do not fit the shape, or the answer is not representable.
    pub fn compute(
        shape: GemmShape,
        offsets: &[u32],
        weights: &Weights,
        activations: &Activations,
    ) -> Result<Self, ReferenceError> {
        Self::compute_held(shape, offsets, weights, activations, Columns::All)
    }

    /// Computes sampled output columns of every expert that has rows.
    ///
    /// # Errors
    /// As [`Reference::compute`].
    pub fn compute_columns(
        shape: GemmShape,
        offsets: &[u32],
        weights: &Weights,
        activations: &Activations,
        columns: SampledColumns,
    ) -> Result<Self, ReferenceError> {
        Self::compute_held(shape, offsets, weights, activations, Columns::Sampled(columns))
    }

    /// Computes the given columns from operands that are made on demand, so that a whole layer need not be in memory.
    ///
    /// `weight(expert, column, line)` and `activation(row, expert, line)` fill `line`, K values.
    ///
    /// # Errors
    /// When the offsets do not fit the shape, or the answer is not representable.
    pub fn compute_with(
        shape: GemmShape,
        offsets: &[u32],
        columns: Columns,
        weight: impl Fn(usize, usize, &mut [f64]) + Sync,
        activation: impl Fn(usize, usize, &mut [f64]) + Sync,
    ) -> Result<Self, ReferenceError> {
        check_shape(shape)?;
        let rows = check_offsets(shape.experts, offsets)?;
        if let Columns::Sampled(sampled) = &columns {
            sampled.check(shape)?;
        }
        let width = columns.per_expert(shape.n as usize);
        let elements = rows.checked_mul(width).ok_or(ReferenceError::TooLarge)?;
        let (mut values, mut abs_sums) = (vec![0.0; elements], vec![0.0; elements]);

        let mut groups = Vec::new();
        let (mut values_left, mut sums_left) = (values.as_mut_slice(), abs_sums.as_mut_slice());
        for (expert, pair) in offsets.windows(2).enumerate() {
            let (first, count) = (pair[0] as usize, (pair[1] - pair[0]) as usize);
            let (group_values, rest) = values_left.split_at_mut(count * width);
            values_left = rest;
            let (group_sums, rest) = sums_left.split_at_mut(count * width);
            sums_left = rest;
            if count > 0 {
                groups.push(Group { expert, first, count, values: group_values, abs_sums: group_sums });
            }
        }
        let k = shape.k as usize;
        groups.into_par_iter().for_each(|group| {
            let (expert, first) = (group.expert, group.first);
            let mut activations = Lines::new(group.count, k);
            activations.decode(group.count, |r, line| activation(first + r, expert, line));
            let weight = |place: usize, line: &mut [f64]| weight(expert, columns.column(expert, place), line);
            group.compute(k, width, &activations, weight);
        });
        Self::from_parts(shape, rows, columns, values, abs_sums)
    }

    /// Takes values that were computed elsewhere, such as by the reference kernel of a GPU.
    ///
    /// `values` and `abs_sums` are `[rows][held columns]`; `abs_sums` are sums of |a * b|, not less than the true ones.
    ///
    /// # Errors
    /// When the lengths do not fit, or a value is not representable in bf16.
    pub fn from_parts(
        shape: GemmShape,
        rows: usize,
        columns: Columns,
        values: Vec<f64>,
        abs_sums: Vec<f32>,
    ) -> Result<Self, ReferenceError> {
        check_shape(shape)?;
        let width = columns.per_expert(shape.n as usize);
        let needed = rows.checked_mul(width).ok_or(ReferenceError::TooLarge)?;
        check_length("reference values", values.len(), needed)?;
        check_length("reference sums of magnitudes", abs_sums.len(), needed)?;
        if let Columns::Sampled(sampled) = &columns {
            sampled.check(shape)?;
        }
        // The largest bf16 is (2 - 2^-7) * 2^127; from half an ulp above it, rounding gives infinity.
        const LIMIT: f64 = (2.0 - 1.0 / 256.0) * (1u128 << 127) as f64;
        let fits = |at: usize| values[at].abs() < LIMIT && abs_sums[at].is_finite();
        let unfit = (0..rows).into_par_iter().find_map_first(|row| {
            let all = (row * width..(row + 1) * width).fold(true, |all, at| all & fits(at));
            if all { None } else { (0..width).find(|place| !fits(row * width + place)).map(|place| (row, place)) }
        });
        if let Some((row, place)) = unfit {
            let value = format!("{:e}", values[row * width + place]);
            return Err(ReferenceError::NotRepresentable { row, place, value });
        }
        Ok(Reference { shape, rows, columns, values, abs_sums })
    }

    fn compute_held(
        shape: GemmShape,
        offsets: &[u32],
        weights: &Weights,
        activations: &Activations,
        columns: Columns,
    ) -> Result<Self, ReferenceError> {
        check_shape(shape)?;
        let rows = check_offsets(shape.experts, offsets)?;
        check_weights(shape, weights)?;
        check_activations(shape, rows, activations)?;
        let (n, k) = (shape.n as usize, shape.k as usize);
        Self::compute_with(
            shape,
            offsets,
            columns,
            |expert, column, line| decode::weight_column(weights, n, k, expert, column, line),
            |row, expert, line| decode::activation_row(activations, k, row, expert, line),
        )
    }

    /// The shape of the case.
    pub fn shape(&self) -> GemmShape {
        self.shape
    }

    /// Rows of all experts together.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Which output columns are held.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Columns held for each expert.
    pub fn width(&self) -> usize {
        self.columns.per_expert(self.shape.n as usize)
    }

    /// Answers and sums of magnitudes of one row, on the held columns.
    pub(super) fn row(&self, row: usize) -> (&[f64], &[f32]) {
        let width = self.width();
        (&self.values[row * width..][..width], &self.abs_sums[row * width..][..width])
    }

    /// The answer, `[rows][held columns]`.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Sums of |a * b| over k, never less than the true ones and at most 3 millionths more, `[rows][held columns]`.
    pub fn abs_sums(&self) -> &[f32] {
        &self.abs_sums
    }
}

/// Rows of one expert and where their answer goes.
struct Group<'a> {
    expert: usize,
    first: usize,
    count: usize,
    values: &'a mut [f64],
    abs_sums: &'a mut [f32],
}

impl Group<'_> {
    /// `weight(place, line)` fills the weights of one held column.
    fn compute(self, k: usize, width: usize, rows: &Lines, weight: impl Fn(usize, &mut [f64]) + Sync) {
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
struct Lines {
    k: usize,
    stride: usize,
    values: Vec<f64>,
    magnitudes: Vec<f32>,
}

impl Lines {
    fn new(lines: usize, k: usize) -> Self {
        let stride = k.next_multiple_of(LANES);
        Lines { k, stride, values: vec![0.0; lines * stride], magnitudes: vec![0.0; lines * stride] }
    }

    /// Fills the first `count` lines.
    fn decode(&mut self, count: usize, decode: impl Fn(usize, &mut [f64])) {
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

impl SampledColumns {
    fn check(&self, shape: GemmShape) -> Result<(), ReferenceError> {
        let needed = shape.experts as usize * self.per_expert();
        let found = (0..shape.experts as usize).map(|e| self.of(e)).filter(|c| c.iter().all(|&c| c < shape.n));
        check_length("sampled columns", found.map(<[u32]>::len).sum(), needed)
    }
}

fn check_shape(GemmShape { experts, n, k }: GemmShape) -> Result<(), ReferenceError> {
    if experts > 0 && n > 0 && k > 0 { Ok(()) } else { Err(ReferenceError::Empty { experts, n, k }) }
}

fn check_length(operand: &'static str, found: usize, needed: usize) -> Result<(), ReferenceError> {
    if found == needed { Ok(()) } else { Err(ReferenceError::Length { operand, found, needed }) }
}

/// Rows of all experts together.
pub(super) fn check_offsets(experts: u32, offsets: &[u32]) -> Result<usize, ReferenceError> {
    let error = |found| Err(ReferenceError::Offsets { experts, found });
    if offsets.len() != experts as usize + 1 {
        return error(format!("{} numbers", offsets.len()));
    }
    if let Some(pair) = offsets.windows(2).find(|pair| pair[0] > pair[1]) {
        return error(format!("{} before {}", pair[0], pair[1]));
    }
    match (offsets.first(), offsets.last()) {
        (Some(0), Some(&rows)) => Ok(rows as usize),
        (first, _) => error(format!("{} first", first.copied().unwrap_or_default())),
    }
}

fn check_group(shape: GemmShape, group: u32) -> Result<(), ReferenceError> {
    if shape.k.is_multiple_of(group) { Ok(()) } else { Err(ReferenceError::Group { k: shape.k, group }) }
}

/// The product of sizes, or that it is too large.
fn size(factors: &[usize]) -> Result<usize, ReferenceError> {
    factors.iter().try_fold(1usize, |product, &f| product.checked_mul(f)).ok_or(ReferenceError::TooLarge)
}

fn check_weights(shape: GemmShape, weights: &Weights) -> Result<(), ReferenceError> {
    let (experts, n, k) = (shape.experts as usize, shape.n as usize, shape.k as usize);
    match weights {
        Weights::Nvfp4(w) => {
            check_group(shape, 16)?;
            check_length("NVFP4 weights", w.values.len(), size(&[experts, n, k / 2])?)?;
            check_length("NVFP4 weight scales", w.scales.len(), size(&[experts, n, k / 16])?)?;
            check_length("NVFP4 weight globals", w.globals.len(), experts)
        }
        Weights::Mxfp4 { values, scales } => {
            check_group(shape, 32)?;
            check_length("MXFP4 weights", values.len(), size(&[experts, n, k / 2])?)?;
            check_length("MXFP4 weight scales", scales.len(), size(&[experts, n, k / 32])?)
        }
        Weights::Fp8Block { values, scales } => {
            check_length("FP8 weights", values.len(), size(&[experts, n, k])?)?;
            let needed = size(&[experts, n.div_ceil(128), k.div_ceil(128)])?;
            check_length("FP8 weight block scales", scales.len(), needed)
        }
        Weights::Fp8 { values, scales } => {
            check_length("FP8 weights", values.len(), size(&[experts, n, k])?)?;
            check_length("FP8 weight scales", scales.len(), experts)
        }
        Weights::Bf16(values) => check_length("bf16 weights", values.len(), size(&[experts, n, k])?),
    }
}

fn check_activations(shape: GemmShape, rows: usize, activations: &Activations) -> Result<(), ReferenceError> {
    let (experts, k) = (shape.experts as usize, shape.k as usize);
    match activations {
        Activations::Bf16(values) => check_length("bf16 activations", values.len(), size(&[rows, k])?),
        Activations::Nvfp4 { values, scales, globals } => {
            check_group(shape, 16)?;
            check_length("NVFP4 activations", values.len(), size(&[rows, k / 2])?)?;
            check_length("NVFP4 activation scales", scales.len(), size(&[rows, k / 16])?)?;
            let needed = if globals.len() == 1 { 1 } else { experts };
            check_length("NVFP4 activation globals", globals.len(), needed)
        }
        Activations::Mxfp8 { values, scales } => {
            check_group(shape, 32)?;
            check_length("MXFP8 activations", values.len(), size(&[rows, k])?)?;
            check_length("MXFP8 activation scales", scales.len(), size(&[rows, k / 32])?)
        }
        Activations::Fp8Group { values, scales } => {
            check_length("FP8 activations", values.len(), size(&[rows, k])?)?;
            check_length("FP8 activation scales", scales.len(), size(&[rows, k.div_ceil(128)])?)
        }
        Activations::Fp8 { values, .. } => check_length("FP8 activations", values.len(), size(&[rows, k])?),
    }
}
