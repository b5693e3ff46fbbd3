//! The inner loops, one file per instruction set, and the choice between them. All `unsafe` of the kernels is here.
//!
//! A panel is [`LANES`] neighbouring columns of an expert's weights, one a vector lane: sums need no reduction across lanes,
//! and an activation is one broadcast. The loops work on chunks of [`DEPTH`] values of k ([`Chunk`]).

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
pub use self::integers::{IntegerBlock, IntegerWeights};
use super::codes::BLOCK;
use super::isa::Isa;
use super::problem::{Panel, Rows};

/// Columns side by side in a panel.
pub const LANES: usize = 16;
/// Values of k in a chunk: 256, so that a column's scales of a chunk are 16 bytes.
pub const DEPTH: usize = 256;
/// Blocks of a chunk.
pub const BLOCKS: usize = DEPTH / BLOCK;
/// Columns of a row of sums: two panels, so that a broadcast activation serves two vectors.
pub const WIDE: usize = 2 * LANES;

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

/// Decodes activations `rows` to f32, into `[rows][k]`: exactly, without the global.
pub fn activations_f32(isa: Isa, activations: Rows<'_>, k: usize, rows: Range<usize>, to: &mut [f32]) {
    match activations {
        Rows::Bf16(values) => dispatch!(isa, widen(&values[rows.start * k..rows.end * k], to)),
        Rows::Nvfp4 { values, scales, .. } => {
            let values = &values[rows.start * k / 2..rows.end * k / 2];
            let scales = &scales[rows.start * k / BLOCK..rows.end * k / BLOCK];
            dispatch!(isa, decode_row(values, scales, to))
        }
    }
}

/// Decodes values `range` of k of a panel to f32, exactly, without the global: `to[i * stride + lane]` for the `i`th of
/// them. Lanes past the last column get zeros.
pub fn decode_f32(isa: Isa, panel: Panel<'_>, range: Range<usize>, to: &mut [f32], stride: usize) {
    for (i, first) in range.clone().step_by(DEPTH).enumerate() {
        let length = DEPTH.min(range.end - first);
        let mut padded = [0; chunk::PADDED];
        let chunk = Chunk::new(panel, first, length, &mut padded);
        let to = &mut to[i * DEPTH * stride..];
        dispatch!(isa, decode_f32(chunk, length / BLOCK, to, stride))
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

/// Adds to `sums` (`[rows][WIDE]`) the products of one or two panels and f32 activations (`[rows][k]`). `weights` is
/// scratch.
pub fn stream_f32(isa: Isa, panels: &[Panel<'_>], activations: &[f32], weights: &mut Vec<f32>, sums: &mut [f32]) {
    let Some(k) = panels.first().map(|panel| panel.k) else { return };
    weights.resize(DEPTH * WIDE, 0.0);
    for first in (0..k).step_by(DEPTH) {
        let length = DEPTH.min(k - first);
        let (mut one, mut two) = ([0; chunk::PADDED], [0; chunk::PADDED]);
        match panels {
            [a] => {
                let chunks = [Chunk::new(*a, first, length, &mut one)];
                dispatch!(isa, stream_f32(&chunks, length, activations, k, first, weights, sums))
            }
            [a, b] => {
                let chunks = [Chunk::new(*a, first, length, &mut one), Chunk::new(*b, first, length, &mut two)];
                dispatch!(isa, stream_f32(&chunks, length, activations, k, first, weights, sums))
            }
            _ => {}
        }
    }
}

/// Adds to `sums` (`[rows][WIDE]`) the products of one or two panels and integer activations (`[rows][k/16]`). `weights` is
/// scratch.
pub fn stream_integers(
    isa: Isa,
    panels: &[Panel<'_>],
    activations: &[IntegerBlock],
    weights: &mut [IntegerWeights; BLOCKS],
    sums: &mut [f32],
) {
    for (i, panel) in panels.iter().enumerate() {
        let (lane, row_blocks) = (i * LANES, panel.k / BLOCK);
        for first in (0..panel.k).step_by(DEPTH) {
            let length = DEPTH.min(panel.k - first);
            let (blocks, first_block) = (length / BLOCK, first / BLOCK);
            let mut padded = [0; chunk::PADDED];
            let chunk = Chunk::new(*panel, first, length, &mut padded);
            match isa {
                // SAFETY: as in `dispatch`.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512Vnni => unsafe {
                    avx512_vnni::stream_integers(
                        chunk,
                        blocks,
                        activations,
                        row_blocks,
                        first_block,
                        weights,
                        sums,
                        lane,
                    )
                },
                // SAFETY: as in `dispatch`; AVX-512 comes with AVX2.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Avx2 => unsafe {
                    avx2::stream_integers(chunk, blocks, activations, row_blocks, first_block, weights, sums, lane)
                },
                _ => {
                    portable::stream_integers(chunk, blocks, activations, row_blocks, first_block, weights, sums, lane)
                }
            }
        }
    }
}
