//! AVX-512 F, BW and VL: f32 on 16 lanes.

use std::arch::x86_64::*;
use std::ops::Range;

use half::bf16;

use super::ahead::Ahead;
use super::chunk::Chunk;
use super::{BLOCKS, COLUMNS, FloatWeights, STEP, portable, row_groups};
use crate::kernel::cpu::codes::{BLOCK, E2M1};

/// Lanes of a vector: half a panel.
const VECTOR: usize = COLUMNS / 2;
/// Blocks in a cache line of packed values.
const LINE_BLOCKS: usize = 8;
/// Rows whose sums are kept in registers together: with two vectors of columns 24 of the 32 registers.
const ROWS: usize = 12;
/// Rows up to which weights are multiplied in the registers that they were decoded in. Above, each decoded weight is used
/// often enough to pay for going through the first-level cache, from where two vectors share each broadcast activation.
const FUSED_ROWS: usize = 4;

/// bf16 to f32.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub fn widen(values: &[bf16], to: &mut [f32]) {
    portable::widen(values, to);
}

/// `sums * global` to bf16, to nearest, ties to even; NaN stays NaN.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub fn round(sums: &[f32], global: f32, out: &mut [bf16]) {
    portable::round(sums, global, out);
}

/// NVFP4 without its global to f32: `values` and `scales` run along k.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub fn decode_row(values: &[u8], scales: &[u8], to: &mut [f32]) {
    let nibbles = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    let halves = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    let blocks = to.as_chunks_mut::<BLOCK>().0.iter_mut().zip(values.as_chunks::<8>().0).zip(scales);
    for ((to, values), &scale) in blocks {
        let packed = _mm512_castsi128_si512(_mm_cvtsi64_si128(i64::from_le_bytes(*values)));
        let codes = _mm512_srlv_epi32(_mm512_permutexvar_epi32(halves, packed), nibbles);
        let scale = ue4m3(_mm512_set1_epi32(i32::from(scale & 0x7f) << 20));
        let decoded = _mm512_mul_ps(_mm512_permutexvar_ps(codes, e2m1()), scale);
        // SAFETY: `to` is 16 floats.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), decoded) };
    }
}

/// Blocks of a chunk to f32: `to[i * stride + column]` for the `i`th value of k of them. Begins at a multiple of 8.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub fn decode_f32(chunk: Chunk<'_>, blocks: Range<usize>, to: &mut [f32], stride: usize) {
    let mut ahead = Ahead::of(chunk);
    decode(chunk, blocks, to, stride, || ahead.ask());
}

/// As [`decode_f32`]; calls `beside` with each block of each half of the columns.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn decode(chunk: Chunk<'_>, blocks: Range<usize>, to: &mut [f32], stride: usize, mut beside: impl FnMut()) {
    if blocks.is_empty() {
        return;
    }
    assert!(to.len() >= (blocks.len() * BLOCK - 1) * stride + COLUMNS);
    let first = blocks.start * BLOCK;
    for half in 0..2 {
        let scales = chunk_scales(chunk, half);
        let to = to.as_mut_ptr().wrapping_add(half * VECTOR);
        each_block(chunk, half, blocks.clone(), |block, words| {
            let scale = scale(&scales, block);
            beside();
            let mut to = to.wrapping_add((block * BLOCK - first) * stride);
            for mut word in words {
                for _ in 0..8 {
                    let weights = _mm512_mul_ps(_mm512_permutexvar_ps(word, e2m1()), scale);
                    // SAFETY: value `i` of `blocks.len() * 16`; the assert above keeps all of them inside `to`.
                    unsafe { _mm512_storeu_ps(to, weights) };
                    to = to.wrapping_add(stride);
                    word = _mm512_srli_epi32::<4>(word);
                }
            }
        });
    }
}

/// Adds to `sums` (`[rows][COLUMNS]`) the products of the first `blocks` blocks of a chunk and the activations from `first`
/// on of each row of `row_stride`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub fn stream_f32(
    chunk: Chunk<'_>,
    blocks: usize,
    activations: &[f32],
    row_stride: usize,
    first: usize,
    weights: &mut FloatWeights,
    sums: &mut [f32],
) {
    let rows = sums.len() / COLUMNS;
    assert!(blocks <= BLOCKS && first + blocks * BLOCK <= row_stride && activations.len() == rows * row_stride);
    let mut ahead = Ahead::of(chunk);
    if rows <= FUSED_ROWS {
        let (activations, sums) = (activations[first.min(activations.len())..].as_ptr(), sums.as_mut_ptr());
        // SAFETY: `rows` rows of `row_stride` activations, of which `blocks * 16` from `first` on are read, and as many rows of
        // sums, by the assert above.
        unsafe {
            match rows {
                1 => fused::<1>(chunk, blocks, activations, row_stride, sums, &mut ahead),
                2 => fused::<2>(chunk, blocks, activations, row_stride, sums, &mut ahead),
                3 => fused::<3>(chunk, blocks, activations, row_stride, sums, &mut ahead),
                4 => fused::<4>(chunk, blocks, activations, row_stride, sums, &mut ahead),
                _ => {}
            }
        }
        return;
    }
    for begin in (0..blocks).step_by(STEP / BLOCK) {
        let end = blocks.min(begin + STEP / BLOCK);
        decode(chunk, begin..end, weights.as_flattened_mut(), COLUMNS, || ());
        let weights = &weights[..(end - begin) * BLOCK];
        let first = first + begin * BLOCK;
        row_groups(rows, ROWS, |row, count| {
            let (activations, sums) =
                (activations[row * row_stride + first..].as_ptr(), sums[row * COLUMNS..].as_mut_ptr());
            // SAFETY: `count` rows, `row_stride` activations and `COLUMNS` sums apart, by the assert above.
            unsafe {
                match count {
                    1 => multiply::<1>(weights, activations, row_stride, sums, &mut ahead),
                    2 => multiply::<2>(weights, activations, row_stride, sums, &mut ahead),
                    3 => multiply::<3>(weights, activations, row_stride, sums, &mut ahead),
                    4 => multiply::<4>(weights, activations, row_stride, sums, &mut ahead),
                    5 => multiply::<5>(weights, activations, row_stride, sums, &mut ahead),
                    6 => multiply::<6>(weights, activations, row_stride, sums, &mut ahead),
                    7 => multiply::<7>(weights, activations, row_stride, sums, &mut ahead),
                    8 => multiply::<8>(weights, activations, row_stride, sums, &mut ahead),
                    9 => multiply::<9>(weights, activations, row_stride, sums, &mut ahead),
                    10 => multiply::<10>(weights, activations, row_stride, sums, &mut ahead),
                    11 => multiply::<11>(weights, activations, row_stride, sums, &mut ahead),
                    _ => multiply::<ROWS>(weights, activations, row_stride, sums, &mut ahead),
                }
            }
        });
    }
}

/// Decodes a chunk and multiplies it with `R` rows, all in registers. A block is summed before it is scaled.
///
/// # Safety
/// `16 * blocks` activations at each of `activations + r * row_stride`, and `COLUMNS` sums at each of `sums + r * COLUMNS`, for
/// `r < R`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn fused<const R: usize>(
    chunk: Chunk<'_>,
    blocks: usize,
    activations: *const f32,
    row_stride: usize,
    sums: *mut f32,
    ahead: &mut Ahead,
) {
    for half in 0..2 {
        let sums = sums.wrapping_add(half * VECTOR);
        let scales = chunk_scales(chunk, half);
        // SAFETY: as this function demands.
        let mut total: [__m512; R] = std::array::from_fn(|r| unsafe { _mm512_loadu_ps(sums.add(r * COLUMNS)) });
        each_block(chunk, half, 0..blocks, |block, words| {
            ahead.ask();
            // Each half of the block has a sum of its own: with one sum a few rows would wait for its additions.
            let mut sum = [[_mm512_setzero_ps(); 2]; R];
            let [mut low, mut high] = words;
            for i in 0..8 {
                let (weight_low, weight_high) =
                    (_mm512_permutexvar_ps(low, e2m1()), _mm512_permutexvar_ps(high, e2m1()));
                for (r, [sum_low, sum_high]) in sum.iter_mut().enumerate() {
                    let at = r * row_stride + block * BLOCK + i;
                    // SAFETY: as this function demands.
                    let (activation_low, activation_high) = unsafe { (*activations.add(at), *activations.add(at + 8)) };
                    *sum_low = _mm512_fmadd_ps(_mm512_set1_ps(activation_low), weight_low, *sum_low);
                    *sum_high = _mm512_fmadd_ps(_mm512_set1_ps(activation_high), weight_high, *sum_high);
                }
                (low, high) = (_mm512_srli_epi32::<4>(low), _mm512_srli_epi32::<4>(high));
            }
            let scale = scale(&scales, block);
            for (total, [sum_low, sum_high]) in total.iter_mut().zip(sum) {
                *total = _mm512_fmadd_ps(_mm512_add_ps(sum_low, sum_high), scale, *total);
            }
        });
        for (r, total) in total.into_iter().enumerate() {
            // SAFETY: as this function demands.
            unsafe { _mm512_storeu_ps(sums.add(r * COLUMNS), total) };
        }
    }
}

/// Adds the products of decoded weights and `R` rows.
///
/// # Safety
/// As many activations as there are lines of weights at each of `activations + r * row_stride`, and `COLUMNS` sums at each of
/// `sums + r * COLUMNS`, for `r < R`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn multiply<const R: usize>(
    weights: &[[f32; COLUMNS]],
    activations: *const f32,
    row_stride: usize,
    sums: *mut f32,
    ahead: &mut Ahead,
) {
    let mut total = [[_mm512_setzero_ps(); 2]; R];
    for (i, weights) in weights.iter().enumerate() {
        if i % 4 == 0 {
            ahead.ask();
        }
        let weights = weights.as_ptr();
        // SAFETY: a line of weights is two vectors.
        let (left, right) = unsafe { (_mm512_loadu_ps(weights), _mm512_loadu_ps(weights.add(VECTOR))) };
        for (r, [total_left, total_right]) in total.iter_mut().enumerate() {
            // SAFETY: as this function demands.
            let activation = _mm512_set1_ps(unsafe { *activations.add(r * row_stride + i) });
            *total_left = _mm512_fmadd_ps(activation, left, *total_left);
            *total_right = _mm512_fmadd_ps(activation, right, *total_right);
        }
    }
    for (r, [left, right]) in total.into_iter().enumerate() {
        // SAFETY: as this function demands.
        unsafe {
            let sums = sums.add(r * COLUMNS);
            _mm512_storeu_ps(sums, _mm512_add_ps(_mm512_loadu_ps(sums), left));
            _mm512_storeu_ps(sums.add(VECTOR), _mm512_add_ps(_mm512_loadu_ps(sums.add(VECTOR)), right));
        }
    }
}

/// e2m1 by code.
#[target_feature(enable = "avx512f")]
#[inline]
fn e2m1() -> __m512 {
    // SAFETY: the table holds 16 floats.
    unsafe { _mm512_loadu_ps(E2M1.as_ptr()) }
}

/// ue4m3 in bits 20 to 26 of each lane, every other bit zero, to f32.
#[target_feature(enable = "avx512f")]
#[inline]
pub fn ue4m3(bits: __m512i) -> __m512 {
    // Taken as an f32 the code has its value but for the bias of the exponent, subnormals included. 0x7f is NaN.
    let number = _mm512_cmpneq_epi32_mask(bits, _mm512_set1_epi32(0x7f << 20));
    let rebias = _mm512_set1_ps(f32::from_bits((127 + 127 - 7) << 23));
    _mm512_mask_mul_ps(_mm512_set1_ps(f32::NAN), number, _mm512_castsi512_ps(bits), rebias)
}

/// The scales of 16 columns of a chunk: byte `b % 4` of vector `b / 4` for block `b`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
pub fn chunk_scales(chunk: Chunk<'_>, half: usize) -> [__m512i; 4] {
    let (scales, stride) = chunk.scales_by_column();
    let scales = scales.wrapping_add(half * VECTOR * stride);
    // SAFETY: a chunk has 16 scales in each column.
    transpose(std::array::from_fn(|i| gather(|c| unsafe { _mm_loadu_si128(scales.add((4 * c + i) * stride).cast()) })))
}

/// The scales of block `block` of 16 columns, from what [`chunk_scales`] returns.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
pub fn scale(scales: &[__m512i; 4], block: usize) -> __m512 {
    let dword = scales[block / 4];
    let shifted = match block % 4 {
        0 => _mm512_slli_epi32::<20>(dword),
        1 => _mm512_slli_epi32::<12>(dword),
        2 => _mm512_slli_epi32::<4>(dword),
        _ => _mm512_srli_epi32::<4>(dword),
    };
    ue4m3(_mm512_and_si512(shifted, _mm512_set1_epi32(0x7f << 20)))
}

/// Calls `each` with every block of `blocks`, which begin at a multiple of 8, and the values of 16 columns of a chunk in it:
/// eight nibbles of each column, the lowest first, in the lane of the column, then eight more.
///
/// Reads whole cache lines, one a column and eight blocks. Generic over what is done with a block so that it becomes part
/// of the one loop that does it.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
pub fn each_block(chunk: Chunk<'_>, half: usize, blocks: Range<usize>, mut each: impl FnMut(usize, [__m512i; 2])) {
    let (values, stride) = chunk.values_by_column();
    assert!(half < 2 && blocks.end <= BLOCKS && blocks.start.is_multiple_of(LINE_BLOCKS));
    let values = values.wrapping_add(half * VECTOR * stride);
    for first in blocks.clone().step_by(LINE_BLOCKS) {
        let mut vectors = [[_mm512_setzero_si512(); 4]; LINE_BLOCKS / 2];
        for i in 0..4 {
            let columns: [*const u8; 4] =
                std::array::from_fn(|c| values.wrapping_add((4 * c + i) * stride + first * (BLOCK / 2)));
            for (pair, vectors) in vectors.iter_mut().enumerate() {
                // SAFETY: a chunk has two lines of 64 bytes, of eight blocks each, in each of twice 16 columns.
                vectors[i] = gather(|c| unsafe { _mm_loadu_si128(columns[c].add(16 * pair).cast()) });
            }
        }
        for (pair, vectors) in vectors.into_iter().enumerate() {
            let [a, b, c, d] = transpose(vectors);
            for (i, words) in [[a, b], [c, d]].into_iter().enumerate() {
                let block = first + 2 * pair + i;
                if block < blocks.end {
                    each(block, words);
                }
            }
        }
    }
}

/// Four times 16 bytes side by side.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn gather(load: impl Fn(usize) -> __m128i) -> __m512i {
    let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(load(0)), load(1));
    let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(load(2)), load(3));
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// Transposes 16 bytes of each of 16 columns: vector `d` of the result holds 32-bit word `d` of every column, a column a
/// lane. Vector `i` of the argument holds columns `i`, `4 + i`, `8 + i` and `12 + i`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn transpose([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}
