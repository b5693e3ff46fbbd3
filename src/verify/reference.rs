//! The answer to compare with: exact operands, products summed in f64.

use rayon::prelude::*;

use crate::operands::{Activations, Weights};
use crate::shape::GemmShape;

use super::columns::{Columns, SampledColumns};
use super::decode;
use super::fit::{
    ReferenceError, check_activations, check_columns, check_length, check_offsets, check_shape, check_weights,
};
use super::panels::{Group, Lines};

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
            check_columns(shape, sampled)?;
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
            check_columns(shape, sampled)?;
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
