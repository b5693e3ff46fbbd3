//! AVX-512 F, BW and VL: f32 on 16 lanes.

use std::arch::x86_64::*;

use half::bf16;

use super::chunk::Chunk;
use super::{BLOCKS, LANES, WIDE, portable};
use crate::kernel::cpu::codes::{BLOCK, E2M1};

/// Rows whose sums are kept in registers together: with two panels 16 of the 32 registers.
const ROWS: usize = 8;
/// Rows up to which weights are multiplied in the registers that they were decoded in. Above, each decoded weight is used
/// often enough to pay for going through the first-level cache, from where two panels share each broadcast activation.
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

/// The first `blocks` blocks of a chunk to f32: `to[i * stride + lane]` for value `i` of k.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub fn decode_f32(chunk: Chunk<'_>, blocks: usize, to: &mut [f32], stride: usize) {
    assert!(blocks <= BLOCKS && (blocks == 0 || to.len() >= (blocks * BLOCK - 1) * stride + LANES));
    let (values, value_stride) = chunk.values_by_column();
    let scales = chunk_scales(chunk);
    let mut to = to.as_mut_ptr();
    for pair in 0..blocks.div_ceil(2) {
        // SAFETY: a chunk has 8 times 16 bytes of values in each column.
        let dwords = unsafe { four_dwords(values.add(16 * pair), value_stride) };
        for block in 2 * pair..blocks.min(2 * pair + 2) {
            let scale = scale(&scales, block);
            for mut dword in [dwords[block % 2 * 2], dwords[block % 2 * 2 + 1]] {
                for _ in 0..8 {
                    // SAFETY: value `i` of `blocks * 16`; the assert above keeps all of them inside `to`.
                    unsafe {
                        _mm512_storeu_ps(to, _mm512_mul_ps(_mm512_permutexvar_ps(dword, e2m1()), scale));
                        to = to.wrapping_add(stride);
                    }
                    dword = _mm512_srli_epi32::<4>(dword);
                }
            }
        }
    }
}

/// Adds to `sums` (`[rows][WIDE]`) the products of one or two panels, cut into chunks of `length` values from `first` on,
/// and the activations of each row of `k`. `weights` is scratch, `[DEPTH][WIDE]`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
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
    let blocks = length / BLOCK;
    if rows <= FUSED_ROWS {
        for (i, chunk) in chunks.iter().enumerate() {
            let (activations, sums) = (activations[first..].as_ptr(), sums[i * LANES..].as_mut_ptr());
            // SAFETY: `rows` rows of `k` activations, of which `length` from `first` on are read, and as many rows of
            // `WIDE` sums, by the assert above.
            unsafe {
                match rows {
                    1 => fused::<1>(*chunk, blocks, activations, k, sums),
                    2 => fused::<2>(*chunk, blocks, activations, k, sums),
                    3 => fused::<3>(*chunk, blocks, activations, k, sums),
                    4 => fused::<4>(*chunk, blocks, activations, k, sums),
                    _ => {}
                }
            }
        }
        return;
    }
    for (i, chunk) in chunks.iter().enumerate() {
        decode_f32(*chunk, blocks, &mut weights[i * LANES..], WIDE);
    }
    let weights = weights[..length * WIDE].as_ptr();
    for row in (0..rows).step_by(ROWS) {
        let (activations, sums) = (activations[row * k + first..].as_ptr(), sums[row * WIDE..].as_mut_ptr());
        // SAFETY: at most the rows that are left, as above; `length` rows of `WIDE` weights.
        unsafe {
            match rows - row {
                1 => multiply::<1>(weights, length, activations, k, sums),
                2 => multiply::<2>(weights, length, activations, k, sums),
                3 => multiply::<3>(weights, length, activations, k, sums),
                4 => multiply::<4>(weights, length, activations, k, sums),
                5 => multiply::<5>(weights, length, activations, k, sums),
                6 => multiply::<6>(weights, length, activations, k, sums),
                7 => multiply::<7>(weights, length, activations, k, sums),
                _ => multiply::<ROWS>(weights, length, activations, k, sums),
            }
        }
    }
}

/// Decodes a panel and multiplies it with `R` rows, all in registers. A block is summed before it is scaled.
///
/// # Safety
/// `16 * blocks` activations at each of `activations + r * k`, and 16 sums at each of `sums + r * WIDE`, for `r < R`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn fused<const R: usize>(chunk: Chunk<'_>, blocks: usize, activations: *const f32, k: usize, sums: *mut f32) {
    let (values, value_stride) = chunk.values_by_column();
    let scales = chunk_scales(chunk);
    // SAFETY: as this function demands.
    let mut total: [__m512; R] = std::array::from_fn(|r| unsafe { _mm512_loadu_ps(sums.add(r * WIDE)) });
    for pair in 0..blocks.div_ceil(2) {
        // SAFETY: a chunk has 8 times 16 bytes of values in each column.
        let dwords = unsafe { four_dwords(values.add(16 * pair), value_stride) };
        for block in 2 * pair..blocks.min(2 * pair + 2) {
            let mut sum = [_mm512_setzero_ps(); R];
            for half in 0..2 {
                let mut dword = dwords[block % 2 * 2 + half];
                for i in 0..8 {
                    let weight = _mm512_permutexvar_ps(dword, e2m1());
                    for (r, sum) in sum.iter_mut().enumerate() {
                        // SAFETY: as this function demands.
                        let activation = unsafe { *activations.add(r * k + block * BLOCK + half * 8 + i) };
                        *sum = _mm512_fmadd_ps(_mm512_set1_ps(activation), weight, *sum);
                    }
                    dword = _mm512_srli_epi32::<4>(dword);
                }
            }
            let scale = scale(&scales, block);
            for (total, sum) in total.iter_mut().zip(sum) {
                *total = _mm512_fmadd_ps(sum, scale, *total);
            }
        }
    }
    for (r, total) in total.into_iter().enumerate() {
        // SAFETY: as this function demands.
        unsafe { _mm512_storeu_ps(sums.add(r * WIDE), total) };
    }
}

/// Adds the products of `length` values of `WIDE` decoded columns and `R` rows.
///
/// # Safety
/// `length * WIDE` weights, `length` activations at each of `activations + r * k`, and `WIDE` sums at each of
/// `sums + r * WIDE`, for `r < R`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn multiply<const R: usize>(
    weights: *const f32,
    length: usize,
    activations: *const f32,
    k: usize,
    sums: *mut f32,
) {
    let mut total = [[_mm512_setzero_ps(); 2]; R];
    for i in 0..length {
        // SAFETY: as this function demands.
        let (left, right) =
            unsafe { (_mm512_loadu_ps(weights.add(i * WIDE)), _mm512_loadu_ps(weights.add(i * WIDE + LANES))) };
        for (r, [total_left, total_right]) in total.iter_mut().enumerate() {
            // SAFETY: as this function demands.
            let activation = _mm512_set1_ps(unsafe { *activations.add(r * k + i) });
            *total_left = _mm512_fmadd_ps(activation, left, *total_left);
            *total_right = _mm512_fmadd_ps(activation, right, *total_right);
        }
    }
    for (r, [left, right]) in total.into_iter().enumerate() {
        // SAFETY: as this function demands.
        unsafe {
            let sums = sums.add(r * WIDE);
            _mm512_storeu_ps(sums, _mm512_add_ps(_mm512_loadu_ps(sums), left));
            _mm512_storeu_ps(sums.add(LANES), _mm512_add_ps(_mm512_loadu_ps(sums.add(LANES)), right));
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

/// The scales of a chunk: byte `b % 4` of vector `b / 4` for block `b`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
pub fn chunk_scales(chunk: Chunk<'_>) -> [__m512i; 4] {
    let (scales, stride) = chunk.scales_by_column();
    // SAFETY: a chunk has 16 scales in each column.
    unsafe { four_dwords(scales, stride) }
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

/// Transposes 16 bytes of each of 16 columns: vector `d` holds 32-bit word `d` of every column, a column a lane.
///
/// # Safety
/// 16 bytes are readable at each of `first + c * stride` for `c < 16`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
pub unsafe fn four_dwords(first: *const u8, stride: usize) -> [__m512i; 4] {
    // Vector i takes columns i, 4 + i, 8 + i and 12 + i, so that transposing 4 x 4 words inside each 128 bits puts all
    // columns in order.
    let load = |i: usize| {
        // SAFETY: as this function demands.
        let column = |c: usize| unsafe { _mm_loadu_si128(first.add((4 * c + i) * stride).cast()) };
        let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(column(0)), column(1));
        let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(column(2)), column(3));
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
    };
    let (a, b, c, d) = (load(0), load(1), load(2), load(3));
    let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}
