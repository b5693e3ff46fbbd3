//! AVX2 and FMA: f32 on 8 lanes.

use std::arch::x86_64::*;
use std::ops::Range;

use half::bf16;

use super::chunk::Chunk;
use super::integers::{IntegerBlock, IntegerWeights, LANES, OFFSET};
use super::{BLOCKS, COLUMNS, FloatWeights, STEP, portable, row_groups};
use crate::kernel::cpu::codes::{BLOCK, E2M1, E2M1_HALVES, UE4M3};

/// Rows whose sums are kept in registers together: with two vectors of columns 12 of the 16 registers.
const ROWS: usize = 6;
/// Lanes of a vector.
const VECTOR: usize = 8;

/// bf16 to f32.
#[target_feature(enable = "avx2,fma")]
pub fn widen(values: &[bf16], to: &mut [f32]) {
    portable::widen(values, to);
}

/// `sums * global` to bf16, to nearest, ties to even; NaN stays NaN.
#[target_feature(enable = "avx2,fma")]
pub fn round(sums: &[f32], global: f32, out: &mut [bf16]) {
    portable::round(sums, global, out);
}

/// NVFP4 without its global to f32: `values` and `scales` run along k.
#[target_feature(enable = "avx2,fma")]
pub fn decode_row(values: &[u8], scales: &[u8], to: &mut [f32]) {
    let nibbles = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    let blocks = to.as_chunks_mut::<BLOCK>().0.iter_mut().zip(values.as_chunks::<8>().0).zip(scales);
    for ((to, values), &scale) in blocks {
        let scale = ue4m3(_mm256_set1_epi32(i32::from(scale & 0x7f) << 20));
        for (to, values) in to.as_chunks_mut::<8>().0.iter_mut().zip(values.as_chunks::<4>().0) {
            let codes = _mm256_srlv_epi32(_mm256_set1_epi32(i32::from_le_bytes(*values)), nibbles);
            // SAFETY: `to` is 8 floats.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), _mm256_mul_ps(e2m1(codes), scale)) };
        }
    }
}

/// Blocks of a chunk to f32: `to[i * stride + column]` for the `i`th value of k of them. Begins at an even block.
#[target_feature(enable = "avx2,fma")]
pub fn decode_f32(chunk: Chunk<'_>, blocks: Range<usize>, to: &mut [f32], stride: usize) {
    if blocks.is_empty() {
        return;
    }
    assert!(blocks.start.is_multiple_of(2) && blocks.end <= BLOCKS);
    assert!(to.len() >= (blocks.len() * BLOCK - 1) * stride + COLUMNS);
    let (values, value_stride) = chunk.values_by_column();
    let (scales, scale_stride) = chunk.scales_by_column();
    for column in (0..COLUMNS).step_by(VECTOR) {
        // SAFETY: a chunk has 16 scales in each column.
        let scales = unsafe { four_dwords(scales.add(column * scale_stride), scale_stride) };
        let mut to = to.as_mut_ptr().wrapping_add(column);
        for pair in blocks.clone().step_by(2) {
            // SAFETY: a chunk has 16 times 8 bytes of values in each column.
            let dwords = unsafe { four_dwords(values.add(column * value_stride + 8 * pair), value_stride) };
            for block in pair..blocks.end.min(pair + 2) {
                let scale = scale(&scales, block);
                for mut dword in [dwords[block % 2 * 2], dwords[block % 2 * 2 + 1]] {
                    for _ in 0..8 {
                        // SAFETY: value `i` of `blocks.len() * 16`; the assert above keeps all of them inside `to`.
                        unsafe { _mm256_storeu_ps(to, _mm256_mul_ps(e2m1(dword), scale)) };
                        to = to.wrapping_add(stride);
                        dword = _mm256_srli_epi32::<4>(dword);
                    }
                }
            }
        }
    }
}

/// Adds to `sums` (`[rows][COLUMNS]`) the products of the first `blocks` blocks of a chunk and the activations from `first`
/// on of each row of `row_stride`.
#[target_feature(enable = "avx2,fma")]
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
    assert!(first + blocks * BLOCK <= row_stride && activations.len() == rows * row_stride);
    for begin in (0..blocks).step_by(STEP / BLOCK) {
        let end = blocks.min(begin + STEP / BLOCK);
        decode_f32(chunk, begin..end, weights.as_flattened_mut(), COLUMNS);
        let weights = &weights[..(end - begin) * BLOCK];
        let first = first + begin * BLOCK;
        for lane in (0..COLUMNS).step_by(2 * VECTOR) {
            row_groups(rows, ROWS, |row, count| {
                let activations = activations[row * row_stride + first..].as_ptr();
                let sums = sums[row * COLUMNS + lane..].as_mut_ptr();
                // SAFETY: `count` rows, `row_stride` activations and `COLUMNS` sums apart, by the assert above.
                unsafe {
                    match count {
                        1 => multiply::<1>(weights, lane, activations, row_stride, sums),
                        2 => multiply::<2>(weights, lane, activations, row_stride, sums),
                        3 => multiply::<3>(weights, lane, activations, row_stride, sums),
                        4 => multiply::<4>(weights, lane, activations, row_stride, sums),
                        5 => multiply::<5>(weights, lane, activations, row_stride, sums),
                        _ => multiply::<ROWS>(weights, lane, activations, row_stride, sums),
                    }
                }
            });
        }
    }
}

/// Adds the products of 16 decoded columns from `lane` on and `R` rows.
///
/// # Safety
/// As many activations as there are lines of weights at each of `activations + r * row_stride`, and 16 sums at each of
/// `sums + r * COLUMNS`, for `r < R`.
#[target_feature(enable = "avx2,fma")]
unsafe fn multiply<const R: usize>(
    weights: &[[f32; COLUMNS]],
    lane: usize,
    activations: *const f32,
    row_stride: usize,
    sums: *mut f32,
) {
    assert!(lane + 2 * VECTOR <= COLUMNS);
    let mut total = [[_mm256_setzero_ps(); 2]; R];
    for (i, weights) in weights.iter().enumerate() {
        let weights = weights.as_ptr();
        // SAFETY: 16 weights from `lane` on are inside the line, by the assert.
        let (left, right) =
            unsafe { (_mm256_loadu_ps(weights.add(lane)), _mm256_loadu_ps(weights.add(lane + VECTOR))) };
        for (r, [total_left, total_right]) in total.iter_mut().enumerate() {
            // SAFETY: as this function demands.
            let activation = _mm256_set1_ps(unsafe { *activations.add(r * row_stride + i) });
            *total_left = _mm256_fmadd_ps(activation, left, *total_left);
            *total_right = _mm256_fmadd_ps(activation, right, *total_right);
        }
    }
    for (r, [left, right]) in total.into_iter().enumerate() {
        // SAFETY: as this function demands.
        unsafe {
            let sums = sums.add(r * COLUMNS);
            _mm256_storeu_ps(sums, _mm256_add_ps(_mm256_loadu_ps(sums), left));
            _mm256_storeu_ps(sums.add(VECTOR), _mm256_add_ps(_mm256_loadu_ps(sums.add(VECTOR)), right));
        }
    }
}

/// NVFP4 without its global to integers: `values` and `scales` run along k.
#[target_feature(enable = "avx2,fma")]
pub fn integer_row(values: &[u8], scales: &[u8], to: &mut [IntegerBlock]) {
    // SAFETY: the table holds 16 bytes.
    let halves = unsafe { _mm_loadu_si128(E2M1_HALVES.as_ptr().cast()) };
    let mask = _mm_set1_epi8(15);
    for ((to, values), &scale) in to.iter_mut().zip(values.as_chunks::<8>().0).zip(scales) {
        let packed = _mm_cvtsi64_si128(i64::from_le_bytes(*values));
        let even = _mm_shuffle_epi8(halves, _mm_and_si128(packed, mask));
        let odd = _mm_shuffle_epi8(halves, _mm_and_si128(_mm_srli_epi16::<4>(packed), mask));
        let quads = _mm_unpacklo_epi32(even, odd);
        let sums = _mm_madd_epi16(_mm_maddubs_epi16(_mm_set1_epi8(OFFSET), quads), _mm_set1_epi16(1));
        let sums = _mm_add_epi32(sums, _mm_shuffle_epi32::<0b01_00_11_10>(sums));
        let sums = _mm_add_epi32(sums, _mm_shuffle_epi32::<0b10_11_00_01>(sums));
        // SAFETY: 16 bytes.
        unsafe { _mm_storeu_si128(to.quads.as_mut_ptr().cast(), quads) };
        to.offset = -_mm_cvtsi128_si32(sums);
        to.scale = UE4M3[usize::from(scale)] * 0.25;
    }
}

/// Adds to `sums` (`[rows][COLUMNS]`) the products of the first `blocks` blocks of a chunk and the activations from block
/// `first` on of each row of `row_blocks`.
#[target_feature(enable = "avx2,fma")]
pub fn stream_integers(
    chunk: Chunk<'_>,
    blocks: usize,
    activations: &[IntegerBlock],
    row_blocks: usize,
    first: usize,
    weights: &mut IntegerWeights,
    sums: &mut [f32],
) {
    decode_integers(chunk, blocks, weights);
    let ones = _mm256_set1_epi16(1);
    for (activations, sums) in activations.chunks_exact(row_blocks).zip(sums.chunks_exact_mut(COLUMNS)) {
        for (vector, sums) in sums.as_chunks_mut::<VECTOR>().0.iter_mut().enumerate() {
            let (half, lane) = (vector / 2, vector % 2 * VECTOR);
            // SAFETY: 8 floats.
            let mut total = unsafe { _mm256_loadu_ps(sums.as_ptr()) };
            for (activation, weights) in activations[first..].iter().zip(&weights[..blocks]) {
                let weights = &weights[half];
                // Each 16-bit lane gets 8 products of at most 24 * 12: far from its limit.
                let mut dot = _mm256_setzero_si256();
                for (quad, activation) in weights.quads.iter().zip(activation.quads) {
                    let activation = _mm256_set1_epi32(i32::from_ne_bytes(activation.map(|byte| byte as u8)));
                    // SAFETY: 4 bytes of each of 16 columns, of which 8 from `lane` on are read.
                    let quad = unsafe { _mm256_loadu_si256(quad.as_ptr().add(4 * lane).cast()) };
                    dot = _mm256_add_epi16(dot, _mm256_maddubs_epi16(quad, activation));
                }
                let dot = _mm256_add_epi32(_mm256_madd_epi16(dot, ones), _mm256_set1_epi32(activation.offset));
                // SAFETY: 16 floats, of which 8 from `lane` on are read.
                let scales = unsafe { _mm256_loadu_ps(weights.scales.as_ptr().add(lane)) };
                let scales = _mm256_mul_ps(scales, _mm256_set1_ps(activation.scale));
                total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scales, total);
            }
            // SAFETY: 8 floats.
            unsafe { _mm256_storeu_ps(sums.as_mut_ptr(), total) };
        }
    }
}

/// Decodes a chunk to unsigned bytes and f32 scales.
#[target_feature(enable = "avx2,fma")]
fn decode_integers(chunk: Chunk<'_>, blocks: usize, to: &mut IntegerWeights) {
    let (values, value_stride) = chunk.values_by_column();
    let (scales, scale_stride) = chunk.scales_by_column();
    // SAFETY: the table holds 16 bytes.
    let halves = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(E2M1_HALVES.as_ptr().cast()) });
    let table = _mm256_add_epi8(halves, _mm256_set1_epi8(OFFSET));
    let mask = _mm256_set1_epi8(15);
    for column in (0..COLUMNS).step_by(VECTOR) {
        let (half, lane) = (column / LANES, column % LANES);
        // SAFETY: a chunk has 16 scales in each column.
        let scales = unsafe { four_dwords(scales.add(column * scale_stride), scale_stride) };
        for pair in (0..blocks).step_by(2) {
            // SAFETY: a chunk has 16 times 8 bytes of values in each column.
            let dwords = unsafe { four_dwords(values.add(column * value_stride + 8 * pair), value_stride) };
            for block in pair..blocks.min(pair + 2) {
                let to = &mut to[block][half];
                for word in 0..2 {
                    let dword = dwords[block % 2 * 2 + word];
                    let even = _mm256_shuffle_epi8(table, _mm256_and_si256(dword, mask));
                    let odd = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(dword), mask));
                    // SAFETY: 4 bytes of each of 16 columns, of which 8 from `lane` on are written.
                    unsafe {
                        _mm256_storeu_si256(to.quads[2 * word].as_mut_ptr().add(4 * lane).cast(), even);
                        _mm256_storeu_si256(to.quads[2 * word + 1].as_mut_ptr().add(4 * lane).cast(), odd);
                    }
                }
                // SAFETY: 16 floats, of which 8 from `lane` on are written.
                unsafe { _mm256_storeu_ps(to.scales.as_mut_ptr().add(lane), scale(&scales, block)) };
            }
        }
    }
}

/// e2m1 in the low four bits of each lane, whatever the others are, to f32.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn e2m1(codes: __m256i) -> __m256 {
    // SAFETY: the table begins with the 8 values that are not negative.
    let table = unsafe { _mm256_loadu_ps(E2M1.as_ptr()) };
    let magnitude = _mm256_permutevar8x32_ps(table, codes);
    let sign = _mm256_and_si256(_mm256_slli_epi32::<28>(codes), _mm256_set1_epi32(i32::MIN));
    _mm256_or_ps(magnitude, _mm256_castsi256_ps(sign))
}

/// ue4m3 in bits 20 to 26 of each lane, every other bit zero, to f32.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn ue4m3(bits: __m256i) -> __m256 {
    // Taken as an f32 the code has its value but for the bias of the exponent, subnormals included. 0x7f is NaN, and all
    // bits set are one.
    let nan = _mm256_castsi256_ps(_mm256_cmpeq_epi32(bits, _mm256_set1_epi32(0x7f << 20)));
    let rebias = _mm256_set1_ps(f32::from_bits((127 + 127 - 7) << 23));
    _mm256_or_ps(_mm256_mul_ps(_mm256_castsi256_ps(bits), rebias), nan)
}

/// The scales of block `block` of 8 columns, from their transposed bytes.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn scale(scales: &[__m256i; 4], block: usize) -> __m256 {
    let dword = scales[block / 4];
    let shifted = match block % 4 {
        0 => _mm256_slli_epi32::<20>(dword),
        1 => _mm256_slli_epi32::<12>(dword),
        2 => _mm256_slli_epi32::<4>(dword),
        _ => _mm256_srli_epi32::<4>(dword),
    };
    ue4m3(_mm256_and_si256(shifted, _mm256_set1_epi32(0x7f << 20)))
}

/// Transposes 16 bytes of each of 8 columns: vector `d` holds 32-bit word `d` of every column, a column a lane.
///
/// # Safety
/// 16 bytes are readable at each of `first + c * stride` for `c < 8`.
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn four_dwords(first: *const u8, stride: usize) -> [__m256i; 4] {
    // Vector i takes columns i and 4 + i, so that transposing 4 x 4 words inside each 128 bits puts all columns in order.
    let load = |i: usize| {
        // SAFETY: as this function demands.
        let column = |c: usize| unsafe { _mm_loadu_si128(first.add((4 * c + i) * stride).cast()) };
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(column(0)), column(1))
    };
    let (a, b, c, d) = (load(0), load(1), load(2), load(3));
    let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab_low, cd_low),
        _mm256_unpackhi_epi64(ab_low, cd_low),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}
