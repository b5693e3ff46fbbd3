//! AVX2 and FMA: f32 on 8 lanes, two vectors a panel.

use std::arch::x86_64::*;

use half::bf16;

use super::chunk::Chunk;
use super::integers::{IntegerBlock, IntegerWeights, OFFSET};
use super::{BLOCKS, LANES, WIDE, portable};
use crate::kernel::cpu::codes::{BLOCK, E2M1, E2M1_HALVES, UE4M3};

/// Rows whose sums are kept in registers together: with two vectors of a panel 12 of the 16 registers.
const ROWS: usize = 6;
/// Lanes of a vector.
const HALF: usize = LANES / 2;

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

/// The first `blocks` blocks of a chunk to f32: `to[i * stride + lane]` for value `i` of k.
#[target_feature(enable = "avx2,fma")]
pub fn decode_f32(chunk: Chunk<'_>, blocks: usize, to: &mut [f32], stride: usize) {
    assert!(blocks <= BLOCKS && (blocks == 0 || to.len() >= (blocks * BLOCK - 1) * stride + LANES));
    let (values, value_stride) = chunk.values_by_column();
    let (scales, scale_stride) = chunk.scales_by_column();
    for half in 0..2 {
        let column = half * HALF;
        // SAFETY: a chunk has 16 scales in each column.
        let scales = unsafe { four_dwords(scales.add(column * scale_stride), scale_stride) };
        let mut to = to.as_mut_ptr().wrapping_add(column);
        for pair in 0..blocks.div_ceil(2) {
            // SAFETY: a chunk has 8 times 16 bytes of values in each column.
            let dwords = unsafe { four_dwords(values.add(column * value_stride + 16 * pair), value_stride) };
            for block in 2 * pair..blocks.min(2 * pair + 2) {
                let scale = scale(&scales, block);
                for mut dword in [dwords[block % 2 * 2], dwords[block % 2 * 2 + 1]] {
                    for _ in 0..8 {
                        // SAFETY: value `i` of `blocks * 16`; the assert above keeps all of them inside `to`.
                        unsafe { _mm256_storeu_ps(to, _mm256_mul_ps(e2m1(dword), scale)) };
                        to = to.wrapping_add(stride);
                        dword = _mm256_srli_epi32::<4>(dword);
                    }
                }
            }
        }
    }
}

/// Adds to `sums` (`[rows][WIDE]`) the products of one or two panels, cut into chunks of `length` values from `first` on,
/// and the activations of each row of `k`. `weights` is scratch, `[DEPTH][WIDE]`.
#[target_feature(enable = "avx2,fma")]
pub fn stream_f32(
    chunks: &[Chunk<'_>],
    length: usize,
    activations: &[f32],
    k: usize,
    first: usize,
    weights: &mut [f32],
    sums: &mut [f32],
) {
    let rows = sums.len() / WIDE;
    assert!(chunks.len() * LANES <= WIDE && first + length <= k && activations.len() == rows * k);
    for (i, chunk) in chunks.iter().enumerate() {
        let lane = i * LANES;
        decode_f32(*chunk, length / BLOCK, &mut weights[lane..], WIDE);
        let weights = weights[lane..(length - 1) * WIDE + lane + LANES].as_ptr();
        for row in (0..rows).step_by(ROWS) {
            let (activations, sums) = (activations[row * k + first..].as_ptr(), sums[row * WIDE + lane..].as_mut_ptr());
            // SAFETY: at most the rows that are left, `k` activations and `WIDE` sums apart, by the assert above; `length`
            // times 16 weights, `WIDE` apart.
            unsafe {
                match rows - row {
                    1 => multiply::<1>(weights, length, activations, k, sums),
                    2 => multiply::<2>(weights, length, activations, k, sums),
                    3 => multiply::<3>(weights, length, activations, k, sums),
                    4 => multiply::<4>(weights, length, activations, k, sums),
                    5 => multiply::<5>(weights, length, activations, k, sums),
                    _ => multiply::<ROWS>(weights, length, activations, k, sums),
                }
            }
        }
    }
}

/// Adds the products of `length` values of 16 decoded columns and `R` rows.
///
/// # Safety
/// 16 weights at each of `weights + i * WIDE`, `length` activations at each of `activations + r * k`, and 16 sums at each
/// of `sums + r * WIDE`, for `i < length` and `r < R`.
#[target_feature(enable = "avx2,fma")]
unsafe fn multiply<const R: usize>(
    weights: *const f32,
    length: usize,
    activations: *const f32,
    k: usize,
    sums: *mut f32,
) {
    let mut total = [[_mm256_setzero_ps(); 2]; R];
    for i in 0..length {
        // SAFETY: as this function demands.
        let (left, right) =
            unsafe { (_mm256_loadu_ps(weights.add(i * WIDE)), _mm256_loadu_ps(weights.add(i * WIDE + HALF))) };
        for (r, [total_left, total_right]) in total.iter_mut().enumerate() {
            // SAFETY: as this function demands.
            let activation = _mm256_set1_ps(unsafe { *activations.add(r * k + i) });
            *total_left = _mm256_fmadd_ps(activation, left, *total_left);
            *total_right = _mm256_fmadd_ps(activation, right, *total_right);
        }
    }
    for (r, [left, right]) in total.into_iter().enumerate() {
        // SAFETY: as this function demands.
        unsafe {
            let sums = sums.add(r * WIDE);
            _mm256_storeu_ps(sums, _mm256_add_ps(_mm256_loadu_ps(sums), left));
            _mm256_storeu_ps(sums.add(HALF), _mm256_add_ps(_mm256_loadu_ps(sums.add(HALF)), right));
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

/// Adds to `sums` (`[rows][WIDE]`, 16 lanes from `lane` on) the products of `blocks` blocks of a chunk and the activations
/// from block `first` on of each row of `row_blocks`. `weights` is scratch.
#[target_feature(enable = "avx2,fma")]
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
    decode_integers(chunk, blocks, weights);
    let ones = _mm256_set1_epi16(1);
    for (activations, sums) in activations.chunks_exact(row_blocks).zip(sums.chunks_exact_mut(WIDE)) {
        let sums = &mut sums[lane..lane + LANES];
        let (left, right) = sums.split_at_mut(HALF);
        for (half, sums) in [left, right].into_iter().enumerate() {
            // SAFETY: 8 floats.
            let mut total = unsafe { _mm256_loadu_ps(sums.as_ptr()) };
            for (activation, weights) in activations[first..].iter().zip(&weights[..blocks]) {
                // Each 16-bit lane gets 8 products of at most 24 * 12: far from its limit.
                let mut dot = _mm256_setzero_si256();
                for (quad, activation) in weights.quads.iter().zip(activation.quads) {
                    let activation = _mm256_set1_epi32(i32::from_ne_bytes(activation.map(|byte| byte as u8)));
                    // SAFETY: `quad` is 64 bytes, 32 a half.
                    let quad = unsafe { _mm256_loadu_si256(quad.as_ptr().add(half * 4 * HALF).cast()) };
                    dot = _mm256_add_epi16(dot, _mm256_maddubs_epi16(quad, activation));
                }
                let dot = _mm256_add_epi32(_mm256_madd_epi16(dot, ones), _mm256_set1_epi32(activation.offset));
                // SAFETY: 16 floats, 8 a half.
                let scales = unsafe { _mm256_loadu_ps(weights.scales.as_ptr().add(half * HALF)) };
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
fn decode_integers(chunk: Chunk<'_>, blocks: usize, to: &mut [IntegerWeights; BLOCKS]) {
    let (values, value_stride) = chunk.values_by_column();
    let (scales, scale_stride) = chunk.scales_by_column();
    // SAFETY: the table holds 16 bytes.
    let halves = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(E2M1_HALVES.as_ptr().cast()) });
    let table = _mm256_add_epi8(halves, _mm256_set1_epi8(OFFSET));
    let mask = _mm256_set1_epi8(15);
    for half in 0..2 {
        let column = half * HALF;
        // SAFETY: a chunk has 16 scales in each column.
        let scales = unsafe { four_dwords(scales.add(column * scale_stride), scale_stride) };
        for pair in 0..blocks.div_ceil(2) {
            // SAFETY: a chunk has 8 times 16 bytes of values in each column.
            let dwords = unsafe { four_dwords(values.add(column * value_stride + 16 * pair), value_stride) };
            for block in 2 * pair..blocks.min(2 * pair + 2) {
                let to = &mut to[block];
                for word in 0..2 {
                    let dword = dwords[block % 2 * 2 + word];
                    let even = _mm256_shuffle_epi8(table, _mm256_and_si256(dword, mask));
                    let odd = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(dword), mask));
                    // SAFETY: 64 bytes each, 32 a half.
                    unsafe {
                        _mm256_storeu_si256(to.quads[2 * word].as_mut_ptr().add(4 * column).cast(), even);
                        _mm256_storeu_si256(to.quads[2 * word + 1].as_mut_ptr().add(4 * column).cast(), odd);
                    }
                }
                // SAFETY: 16 floats, 8 a half.
                unsafe { _mm256_storeu_ps(to.scales.as_mut_ptr().add(column), scale(&scales, block)) };
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
