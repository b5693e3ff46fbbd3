//! The inner loops, one file per instruction set, and the choice between them. All `unsafe` of the kernels is here.
//!
//! A panel is [`COLUMNS`] neighbouring columns of an expert's weights, a column a vector lane: sums need no reduction across
//! lanes, and an activation is one broadcast for all of them. The loops work on chunks of [`DEPTH`] values of k ([`Chunk`]).

#[cfg(target_arch = "x86_64")]
mod ahead;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_vnni;
mod chunk;
mod gemm_f32;
mod integers;
mod portable;

use std::ops::Range;

use half::bf16;

use self::chunk::Chunk;
pub use self::gemm_f32::{GemmF32, gemm_f32};
pub use self::integers::{IntegerBlock, IntegerColumns, IntegerWeights};
use super::codes::BLOCK;
use super::isa::Isa;
use super::problem::{Panel, Rows};

/// Columns side by side in a panel.
pub const COLUMNS: usize = 32;
/// Values of k in a chunk: 256, so that a column's scales of a chunk are 16 bytes.
pub const DEPTH: usize = 256;
/// Blocks of a chunk.
pub const BLOCKS: usize = DEPTH / BLOCK;
/// Values of k that are decoded to f32 at a time: with [`COLUMNS`] columns 16 KiB, which leaves room in a first-level cache.
pub const STEP: usize = DEPTH / 2;

/// Begins at a cache line: vectors of 64 bytes that straddle two lines take twice the time, those that straddle two pages far
/// more.
#[repr(align(64))]
pub struct Aligned<T>(pub T);

/// Decoded weights on their way from the decoder to the multiplier: `[STEP][COLUMNS]`.
pub type FloatWeights = [[f32; COLUMNS]; STEP];

/// Calls the function of the instruction set `$isa`, which the caller knows this machine to have.
macro_rules! dispatch {
    ($isa:expr, $function:ident ( $($argument:expr),* )) => {
        match $isa {
            // SAFETY: an `Isa` other than the portable one is only made by `Isa::available`, which asks the processor for every
            // feature that the functions of these files enable.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx512Vnni => unsafe { avx512::$function($($argument),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { avx2::$function($($argument),*) },
            _ => portable::$function($($argument),*),
        }
    };
}

/// Cuts `rows` rows into as few groups of at most `most` as possible, alike in size, for a small group costs as many loads of
/// weights as a large one. Calls `group` with the first row and the number of rows of each.
#[inline(always)]
fn row_groups(rows: usize, most: usize, mut group: impl FnMut(usize, usize)) {
    let mut first = 0;
    for left in (1..=rows.div_ceil(most)).rev() {
        let size = (rows - first).div_ceil(left);
        group(first, size);
        first += size;
    }
}

/// From one row of f32 activations of length `k` to the next. Not a multiple of 4 KiB, where the rows that are multiplied
/// together would take the same few lines of a cache; 512 bytes off one, a different place for each of 8 rows.
pub fn row_stride(k: usize) -> usize {
    k.next_multiple_of(4096 / size_of::<f32>()) + 512 / size_of::<f32>()
}

/// Decodes activations `rows` to f32, exactly, without the global: into the first `k` of each [`row_stride`] of `to`.
pub fn activations_f32(isa: Isa, activations: Rows<'_>, k: usize, rows: Range<usize>, to: &mut [f32]) {
    for (row, to) in rows.zip(to.chunks_mut(row_stride(k))) {
        match activations {
            Rows::Bf16(values) => dispatch!(isa, widen(&values[row * k..(row + 1) * k], to)),
            Rows::Nvfp4 { values, scales, .. } => {
                let values = &values[row * k / 2..(row + 1) * k / 2];
                let scales = &scales[row * k / BLOCK..(row + 1) * k / BLOCK];
                dispatch!(isa, decode_row(values, scales, to))
            }
        }
    }
}

/// Decodes values `range` of k of a panel to f32, exactly, without the global: `to[i * stride + column]` for the `i`th of
/// them. `range` begins at a multiple of 16 and ends at one. Columns past the panel's last get zeros.
pub fn decode_f32(isa: Isa, panel: Panel<'_>, range: Range<usize>, to: &mut [f32], stride: usize) {
    for (i, first) in range.clone().step_by(DEPTH).enumerate() {
        let length = DEPTH.min(range.end - first);
        let mut padded = [0; chunk::PADDED];
        let chunk = Chunk::new(panel, first, length, &mut padded);
        dispatch!(isa, decode_f32(chunk, 0..length / BLOCK, &mut to[i * DEPTH * stride..], stride))
    }
}

/// Rounds `sums * global` to bf16, to nearest, ties to even.
pub fn round(isa: Isa, sums: &[f32], global: f32, out: &mut [bf16]) {
    dispatch!(isa, round(sums, global, out))
}

/// Decodes NVFP4 activations `rows` to integers, into `[rows][k/16]`.
pub fn activations_integers(
    isa: Isa,
    (values, scales): (&[u8], &[u8]),
    k: usize,
    rows: Range<usize>,
    to: &mut [IntegerBlock],
) {
    let values = &values[rows.start * k / 2..rows.end * k / 2];
    let scales = &scales[rows.start * k / BLOCK..rows.end * k / BLOCK];
    match isa {
        // SAFETY: as in `dispatch`.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Vnni => unsafe { avx512_vnni::integer_row(values, scales, to) },
        // SAFETY: as in `dispatch`; AVX-512 comes with AVX2.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx2 => unsafe { avx2::integer_row(values, scales, to) },
        _ => portable::integer_row(values, scales, to),
    }
}

/// Adds to `sums` (`[rows][COLUMNS]`) the products of a panel and f32 activations ([`row_stride`] apart).
pub fn stream_f32(isa: Isa, panel: Panel<'_>, activations: &[f32], weights: &mut FloatWeights, sums: &mut [f32]) {
    let k = panel.k;
    for first in (0..k).step_by(DEPTH) {
        let length = DEPTH.min(k - first);
        let mut padded = [0; chunk::PADDED];
        let chunk = Chunk::new(panel, first, length, &mut padded);
        dispatch!(isa, stream_f32(chunk, length / BLOCK, activations, row_stride(k), first, weights, sums))
    }
}

/// Adds to `sums` (`[rows][COLUMNS]`) the products of a panel and integer activations (`[rows][k/16]`).
pub fn stream_integers(
    isa: Isa,
    panel: Panel<'_>,
    activations: &[IntegerBlock],
    weights: &mut IntegerWeights,
    sums: &mut [f32],
) {
    let row_blocks = panel.k / BLOCK;
    for first in (0..row_blocks).step_by(BLOCKS) {
        let blocks = BLOCKS.min(row_blocks - first);
        let mut padded = [0; chunk::PADDED];
        let chunk = Chunk::new(panel, first * BLOCK, blocks * BLOCK, &mut padded);
        match isa {
            // SAFETY: as in `dispatch`.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni => unsafe {
                avx512_vnni::stream_integers(chunk, blocks, activations, row_blocks, first, weights, sums)
            },
            // SAFETY: as in `dispatch`; AVX-512 comes with AVX2.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx2 => unsafe {
                avx2::stream_integers(chunk, blocks, activations, row_blocks, first, weights, sums)
            },
            _ => portable::stream_integers(chunk, blocks, activations, row_blocks, first, weights, sums),
        }
    }
}
