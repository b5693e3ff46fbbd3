//! AVX-512 VNNI and VBMI: four products of bytes a lane and instruction. See [`integers`](super::integers).

use std::arch::x86_64::*;

use super::avx512::{chunk_scales, four_dwords, scale};
use super::chunk::Chunk;
use super::integers::{IntegerBlock, IntegerWeights, OFFSET};
use super::{BLOCKS, LANES, WIDE};
use crate::kernel::cpu::codes::{E2M1_HALVES, UE4M3};

/// Rows whose sums are kept in registers together.
const ROWS: usize = 4;

/// NVFP4 without its global to integers: `values` and `scales` run along k.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
pub fn integer_row(values: &[u8], scales: &[u8], to: &mut [IntegerBlock]) {
    // SAFETY: the table holds 16 bytes.
    let halves = unsafe { _mm_loadu_si128(E2M1_HALVES.as_ptr().cast()) };
    let mask = _mm_set1_epi8(15);
    for ((to, values), &scale) in to.iter_mut().zip(values.as_chunks::<8>().0).zip(scales) {
        let packed = _mm_cvtsi64_si128(i64::from_le_bytes(*values));
        let even = _mm_shuffle_epi8(halves, _mm_and_si128(packed, mask));
        let odd = _mm_shuffle_epi8(halves, _mm_and_si128(_mm_srli_epi16::<4>(packed), mask));
        let quads = _mm_unpacklo_epi32(even, odd);
        let sums = _mm_dpbusd_epi32(_mm_setzero_si128(), _mm_set1_epi8(OFFSET), quads);
        let sums = _mm_add_epi32(sums, _mm_shuffle_epi32::<0b01_00_11_10>(sums));
        let sums = _mm_add_epi32(sums, _mm_shuffle_epi32::<0b10_11_00_01>(sums));
        // SAFETY: 16 bytes.
        unsafe { _mm_storeu_si128(to.quads.as_mut_ptr().cast(), quads) };
        to.offset = -_mm_cvtsi128_si32(sums);
        to.scale = UE4M3[usize::from(scale)] * 0.25;
    }
}

/// Adds to `sums` (`[rows][WIDE]`, from lane `lane` on) the products of a chunk and the activations from block `first` on of
/// each row of `row_blocks`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
#[expect(clippy::too_many_arguments, reason = "the registers of one tile, kept apart for the compiler")]
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
    let rows = sums.len() / WIDE;
    assert!(blocks <= BLOCKS && first + blocks <= row_blocks && activations.len() == rows * row_blocks);
    assert!(lane + LANES <= WIDE);
    decode(chunk, blocks, weights);
    let weights = &weights[..blocks];
    for row in (0..rows).step_by(ROWS) {
        let (activations, sums) = (&activations[row * row_blocks + first..], &mut sums[row * WIDE + lane..]);
        let (activations, sums) = (activations.as_ptr(), sums.as_mut_ptr());
        // SAFETY: at most the rows that are left, `row_blocks` blocks of activations and `WIDE` sums apart, by the asserts.
        unsafe {
            match rows - row {
                1 => multiply::<1>(weights, activations, row_blocks, sums),
                2 => multiply::<2>(weights, activations, row_blocks, sums),
                3 => multiply::<3>(weights, activations, row_blocks, sums),
                _ => multiply::<ROWS>(weights, activations, row_blocks, sums),
            }
        }
    }
}

/// Decodes a chunk to unsigned bytes and f32 scales.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn decode(chunk: Chunk<'_>, blocks: usize, to: &mut [IntegerWeights; BLOCKS]) {
    let (values, value_stride) = chunk.values_by_column();
    let scales = chunk_scales(chunk);
    // The permutation looks at six bits of an index: four copies of the table make the upper two, bits of a neighbouring
    // nibble, not matter.
    // SAFETY: the table holds 16 bytes.
    let halves = _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(E2M1_HALVES.as_ptr().cast()) });
    let table = _mm512_add_epi8(halves, _mm512_set1_epi8(OFFSET));
    for pair in 0..blocks.div_ceil(2) {
        // SAFETY: a chunk has 8 times 16 bytes of values in each column.
        let dwords = unsafe { four_dwords(values.add(16 * pair), value_stride) };
        for block in 2 * pair..blocks.min(2 * pair + 2) {
            let to = &mut to[block];
            for half in 0..2 {
                let dword = dwords[block % 2 * 2 + half];
                let even = _mm512_permutexvar_epi8(dword, table);
                let odd = _mm512_permutexvar_epi8(_mm512_srli_epi16::<4>(dword), table);
                // SAFETY: 64 bytes each.
                unsafe {
                    _mm512_storeu_si512(to.quads[2 * half].as_mut_ptr().cast(), even);
                    _mm512_storeu_si512(to.quads[2 * half + 1].as_mut_ptr().cast(), odd);
                }
            }
            // SAFETY: 16 floats.
            unsafe { _mm512_storeu_ps(to.scales.as_mut_ptr(), scale(&scales, block)) };
        }
    }
}

/// Adds the products of decoded blocks of 16 columns and `R` rows.
///
/// # Safety
/// As many blocks as there are of weights at each of `activations + r * row_blocks`, and 16 sums at each of
/// `sums + r * WIDE`, for `r < R`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
unsafe fn multiply<const R: usize>(
    weights: &[IntegerWeights],
    activations: *const IntegerBlock,
    row_blocks: usize,
    sums: *mut f32,
) {
    // SAFETY: as this function demands.
    let mut total: [__m512; R] = std::array::from_fn(|r| unsafe { _mm512_loadu_ps(sums.add(r * WIDE)) });
    for (block, weights) in weights.iter().enumerate() {
        // SAFETY: 64 bytes each.
        let quads = weights.quads.each_ref().map(|quad| unsafe { _mm512_load_si512(quad.as_ptr().cast()) });
        // SAFETY: 16 floats.
        let scales = unsafe { _mm512_load_ps(weights.scales.as_ptr()) };
        for (r, total) in total.iter_mut().enumerate() {
            // SAFETY: as this function demands.
            let activation = unsafe { &*activations.add(r * row_blocks + block) };
            let mut dot = _mm512_set1_epi32(activation.offset);
            for (quad, activation) in quads.iter().zip(activation.quads) {
                let activation = i32::from_ne_bytes(activation.map(|byte| byte as u8));
                dot = _mm512_dpbusd_epi32(dot, *quad, _mm512_set1_epi32(activation));
            }
            let scales = _mm512_mul_ps(scales, _mm512_set1_ps(activation.scale));
            *total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scales, *total);
        }
    }
    for (r, total) in total.into_iter().enumerate() {
        // SAFETY: as this function demands.
        unsafe { _mm512_storeu_ps(sums.add(r * WIDE), total) };
    }
}
