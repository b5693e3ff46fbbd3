//! Whether operands fit their shape, so that nothing after it can go out of bounds.

use crate::operands::{Activations, Weights};
use crate::shape::GemmShape;

use super::columns::SampledColumns;

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

/// Every expert has its columns, and they exist.
pub(super) fn check_columns(shape: GemmShape, columns: &SampledColumns) -> Result<(), ReferenceError> {
    let experts = shape.experts as usize;
    let found = (0..experts).map(|e| columns.of(e)).filter(|c| c.iter().all(|&c| c < shape.n));
    check_length("sampled columns", found.map(<[u32]>::len).sum(), experts * columns.per_expert())
}

/// Nothing is zero.
pub(super) fn check_shape(GemmShape { experts, n, k }: GemmShape) -> Result<(), ReferenceError> {
    if experts > 0 && n > 0 && k > 0 { Ok(()) } else { Err(ReferenceError::Empty { experts, n, k }) }
}

/// An array has the entries that are needed.
pub(super) fn check_length(operand: &'static str, found: usize, needed: usize) -> Result<(), ReferenceError> {
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

/// Every array of the weights has the length that the shape needs.
pub(super) fn check_weights(shape: GemmShape, weights: &Weights) -> Result<(), ReferenceError> {
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

/// Every array of the activations has the length that the shape and the rows need.
pub(super) fn check_activations(
    shape: GemmShape,
    rows: usize,
    activations: &Activations,
) -> Result<(), ReferenceError> {
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
