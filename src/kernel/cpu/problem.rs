//! The operands of one call, checked once so that everything below can trust their lengths.

use half::bf16;

use super::codes::BLOCK;
use crate::kernel::{CpuCall, Scheme};
use crate::operands::{Activations, Weights};

/// A call whose operands are NVFP4 weights with activations of a known kind, every length checked.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// Output columns.
    pub n: usize,
    /// Length of the reduction, a multiple of 16.
    pub k: usize,
    /// First row of each expert, ascending, `experts + 1` entries.
    pub offsets: &'a [u32],
    /// Activations of all rows.
    pub activations: Rows<'a>,
    values: &'a [u8],
    scales: &'a [u8],
    globals: &'a [f32],
}

/// Activations of all rows.
#[derive(Clone, Copy)]
pub enum Rows<'a> {
    /// `[rows][k]`
    Bf16(&'a [bf16]),
    /// NVFP4.
    Nvfp4 {
        /// `[rows][k/2]`
        values: &'a [u8],
        /// `[rows][k/16]`
        scales: &'a [u8],
        /// one, or one for each expert
        globals: &'a [f32],
    },
}

/// Up to [`LANES`](super::simd::LANES) neighbouring columns of one expert's weights, packed.
#[derive(Clone, Copy)]
pub struct Panel<'a> {
    /// `[columns][k/2]`
    pub values: &'a [u8],
    /// `[columns][k/16]`
    pub scales: &'a [u8],
    /// Columns, at least 1.
    pub columns: usize,
    /// Length of a column, a multiple of 16.
    pub k: usize,
}

impl<'a> Problem<'a> {
    /// The problem that `call` poses to a kernel for `scheme`, with `out_len` elements of output; `None` when the operands
    /// are of another scheme or of other lengths than the shape says.
    pub fn new(scheme: Scheme, call: &CpuCall<'a>, out_len: usize) -> Option<Self> {
        let (experts, n, k) = (call.shape.experts as usize, call.shape.n as usize, call.shape.k as usize);
        let rows = *call.offsets.last()? as usize;
        let Weights::Nvfp4(weights) = call.weights else { return None };
        let activations = match call.activations {
            Activations::Bf16(values) if scheme == Scheme::Nvfp4W4a16 => {
                (values.len() == rows * k).then_some(Rows::Bf16(values))?
            }
            Activations::Nvfp4 { values, scales, globals } if scheme == Scheme::Nvfp4W4a4 => {
                let fits = values.len() == rows * k / 2
                    && scales.len() == rows * k / BLOCK
                    && (globals.len() == 1 || globals.len() == experts);
                fits.then_some(Rows::Nvfp4 { values, scales, globals })?
            }
            _ => return None,
        };
        let fits = k % BLOCK == 0
            && call.offsets.len() == experts + 1
            && call.offsets.first() == Some(&0)
            && call.offsets.is_sorted()
            && weights.values.len() == experts * n * k / 2
            && weights.scales.len() == experts * n * k / BLOCK
            && weights.globals.len() == experts
            && out_len == rows * n;
        fits.then_some(Problem {
            n,
            k,
            offsets: call.offsets,
            activations,
            values: &weights.values,
            scales: &weights.scales,
            globals: &weights.globals,
        })
    }

    /// Columns `first .. first + columns` of an expert's weights.
    pub fn panel(&self, expert: usize, first: usize, columns: usize) -> Panel<'a> {
        let (start, end) = (expert * self.n + first, expert * self.n + first + columns);
        let (value_bytes, scale_bytes) = (self.k / 2, self.k / BLOCK);
        Panel {
            values: &self.values[start * value_bytes..end * value_bytes],
            scales: &self.scales[start * scale_bytes..end * scale_bytes],
            columns,
            k: self.k,
        }
    }

    /// What every element of an expert's output is multiplied by: the globals of its weights and of its activations.
    pub fn global(&self, expert: usize) -> f32 {
        let activations = match self.activations {
            Rows::Bf16(_) => 1.0,
            Rows::Nvfp4 { globals: [one], .. } => *one,
            Rows::Nvfp4 { globals, .. } => globals[expert],
        };
        self.globals[expert] * activations
    }
}
