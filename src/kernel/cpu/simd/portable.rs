//! Plain loops over lanes, which compilers turn into whatever vectors the target has.

use half::bf16;

use super::chunk::Chunk;
use super::integers::{IntegerBlock, IntegerWeights, OFFSET};
use super::{BLOCKS, LANES, WIDE};
use crate::kernel::cpu::codes::{BLOCK, E2M1, E2M1_HALVES, UE4M3};

/// Rows whose sums are kept in registers together.
const ROWS: usize = 2;

/// bf16 to f32.
#[inline(always)]
pub fn widen(values: &[bf16], to: &mut [f32]) {
    for (to, value) in to.iter_mut().zip(values) {
        *to = f32::from_bits(u32::from(value.to_bits()) << 16);
    }
}

/// NVFP4 without its global to f32: `values` and `scales` run along k.
pub fn decode_row(values: &[u8], scales: &[u8], to: &mut [f32]) {
    for ((to, values), &scale) in to.chunks_exact_mut(BLOCK).zip(values.chunks_exact(BLOCK / 2)).zip(scales) {
        let scale = UE4M3[usize::from(scale)];
        for (pair, &byte) in to.chunks_exact_mut(2).zip(values) {
            pair[0] = E2M1[usize::from(byte & 15)] * scale;
            pair[1] = E2M1[usize::from(byte >> 4)] * scale;
        }
    }
}

/// The first `blocks` blocks of a chunk to f32: `to[i * stride + lane]` for value `i` of k.
pub fn decode_f32(chunk: Chunk<'_>, blocks: usize, to: &mut [f32], stride: usize) {
    for lane in 0..LANES {
        let columns = chunk.values(lane).chunks_exact(BLOCK / 2).zip(chunk.scales(lane)).take(blocks);
        for (block, (values, &scale)) in columns.enumerate() {
            let scale = UE4M3[usize::from(scale)];
            for (i, &byte) in values.iter().enumerate() {
                let at = (block * BLOCK + 2 * i) * stride + lane;
                to[at] = E2M1[usize::from(byte & 15)] * scale;
                to[at + stride] = E2M1[usize::from(byte >> 4)] * scale;
            }
        }
    }
}

/// Adds to `sums` (`[rows][WIDE]`) the products of one or two panels, cut into chunks of `length` values from `first` on,
/// and the activations of each row of `k`. `weights` is scratch, `[DEPTH][WIDE]`.
pub fn stream_f32(
    chunks: &[Chunk<'_>],
    length: usize,
    activations: &[f32],
    k: usize,
    first: usize,
    weights: &mut [f32],
    sums: &mut [f32],
) {
    for (i, chunk) in chunks.iter().enumerate() {
        let lane = i * LANES;
        decode_f32(*chunk, length / BLOCK, &mut weights[lane..], WIDE);
        let weights = &weights[..length * WIDE];
        for (activations, sums) in activations.chunks(ROWS * k).zip(sums.chunks_mut(ROWS * WIDE)) {
            if activations.len() == ROWS * k {
                let rows: [&[f32]; ROWS] = std::array::from_fn(|r| &activations[r * k + first..][..length]);
                for (r, row) in columns(weights, lane, rows).iter().enumerate() {
                    add(&mut sums[r * WIDE + lane..], row);
                }
            } else {
                for (activations, sums) in activations.chunks(k).zip(sums.chunks_mut(WIDE)) {
                    let [row] = columns(weights, lane, [&activations[first..][..length]]);
                    add(&mut sums[lane..], &row);
                }
            }
        }
    }
}

/// Sums over k of a panel's weights and each of `R` rows.
fn columns<const R: usize>(weights: &[f32], lane: usize, rows: [&[f32]; R]) -> [[f32; LANES]; R] {
    let mut sums = [[0.0; LANES]; R];
    for (i, weights) in weights.chunks_exact(WIDE).enumerate() {
        let Some(weights) = weights[lane..].first_chunk::<LANES>() else { break };
        for (sums, row) in sums.iter_mut().zip(rows) {
            let activation = row[i];
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum += activation * weight;
            }
        }
    }
    sums
}

/// Adds lane by lane.
fn add(to: &mut [f32], sums: &[f32; LANES]) {
    for (to, sum) in to.iter_mut().zip(sums) {
        *to += sum;
    }
}

/// NVFP4 without its global to integers: `values` and `scales` run along k.
pub fn integer_row(values: &[u8], scales: &[u8], to: &mut [IntegerBlock]) {
    for ((to, values), &scale) in to.iter_mut().zip(values.as_chunks::<8>().0).zip(scales) {
        for (i, &byte) in values.iter().enumerate() {
            to.quads[i / 4 * 2][i % 4] = E2M1_HALVES[usize::from(byte & 15)];
            to.quads[i / 4 * 2 + 1][i % 4] = E2M1_HALVES[usize::from(byte >> 4)];
        }
        let sum: i32 = to.quads.as_flattened().iter().map(|&half| i32::from(half)).sum();
        to.offset = -i32::from(OFFSET) * sum;
        to.scale = UE4M3[usize::from(scale)] * 0.25;
    }
}

/// Adds to `sums` (`[rows][WIDE]`, 16 lanes from `lane` on) the products of `blocks` blocks of a chunk and the activations
/// from block `first` on of each row of `row_blocks`. `weights` is scratch.
#[expect(clippy::too_many_arguments, reason = "plain numbers that say where to begin in each operand")]
pub fn stream_integers(
    chunk: Chunk<'_>,
    blocks: usize,
    activations: &[IntegerBlock],
    row_blocks: usize,
    first: usize,
    weights: &mut [IntegerWeights; BLOCKS],
    sums: &mut [f32],
    lane: usize,
) {
    let weights = &mut weights[..blocks];
    for column in 0..LANES {
        let values = chunk.values(column).as_chunks::<8>().0;
        for ((to, values), &scale) in weights.iter_mut().zip(values).zip(chunk.scales(column)) {
            let bytes = |byte: u8| [byte & 15, byte >> 4].map(|code| (E2M1_HALVES[usize::from(code)] + OFFSET) as u8);
            for (i, &byte) in values.iter().enumerate() {
                let at = 4 * column + i % 4;
                [to.quads[i / 4 * 2][at], to.quads[i / 4 * 2 + 1][at]] = bytes(byte);
            }
            to.scales[column] = UE4M3[usize::from(scale)];
        }
    }
    for (activations, sums) in activations.chunks_exact(row_blocks).zip(sums.chunks_exact_mut(WIDE)) {
        let sums = &mut sums[lane..lane + LANES];
        for (activation, weights) in activations[first..].iter().zip(weights.iter()) {
            let mut dots = [activation.offset; LANES];
            for (quad, columns) in activation.quads.iter().zip(&weights.quads) {
                for (dot, column) in dots.iter_mut().zip(columns.as_chunks::<4>().0) {
                    for (&activation, &weight) in quad.iter().zip(column) {
                        *dot += i32::from(activation) * i32::from(weight);
                    }
                }
            }
            for ((sum, dot), scale) in sums.iter_mut().zip(dots).zip(weights.scales) {
                *sum += dot as f32 * (scale * activation.scale);
            }
        }
    }
}

/// `sums * global` to bf16, to nearest, ties to even; NaN stays NaN.
#[inline(always)]
pub fn round(sums: &[f32], global: f32, out: &mut [bf16]) {
    for (out, sum) in out.iter_mut().zip(sums) {
        let value = sum * global;
        let bits = value.to_bits();
        // Adding just under half of the last place kept carries into it exactly when it has to be rounded up.
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        *out = bf16::from_bits(if value.is_nan() { 0x7fc0 } else { rounded as u16 });
    }
}
