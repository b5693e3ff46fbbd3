//! AVX-512 VNNI and VBMI: four products of bytes a lane and instruction. See [`integers`](super::integers).

use std::arch::x86_64::*;

use super::ahead::Ahead;
use super::avx512::{chunk_scales, each_block, scale};
use super::chunk::Chunk;
use super::integers::{IntegerBlock, IntegerColumns, IntegerWeights, LANES, OFFSET};
use super::{BLOCKS, COLUMNS, row_groups};
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

/// Adds to `sums` (`[rows][COLUMNS]`) the products of the first `blocks` blocks of a chunk and the activations from block
/// `first` on of each row of `row_blocks`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
pub fn stream_integers(
    chunk: Chunk<'_>,
    blocks: usize,
    activations: &[IntegerBlock],
    row_blocks: usize,
    first: usize,
    weights: &mut IntegerWeights,
    sums: &mut [f32],
) {
    let rows = sums.len() / COLUMNS;
    assert!(blocks <= BLOCKS && first + blocks <= row_blocks && activations.len() == rows * row_blocks);
    let mut ahead = Ahead::of(chunk);
    // With few rows decoding takes the most time, and memory sets the pace.
    decode(chunk, blocks, weights, || {
        if rows <= ROWS {
            ahead.ask();
        }
    });
    let weights = &weights[..blocks];
    row_groups(rows, ROWS, |row, count| {
        let activations = activations[row * row_blocks + first..].as_ptr();
        let sums = sums[row * COLUMNS..].as_mut_ptr();
        // SAFETY: `count` rows, `row_blocks` blocks of activations and `COLUMNS` sums apart, by the assert above.
        unsafe {
            match count {
                1 => multiply::<1>(weights, activations, row_blocks, sums, &mut ahead),
                2 => multiply::<2>(weights, activations, row_blocks, sums, &mut ahead),
                3 => multiply::<3>(weights, activations, row_blocks, sums, &mut ahead),
                _ => multiply::<ROWS>(weights, activations, row_blocks, sums, &mut ahead),
            }
        }
    });
    ahead.ask_all();
}

/// Decodes a chunk to unsigned bytes and f32 scales; calls `beside` with each block of each half of the columns.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
#[inline]
fn decode(chunk: Chunk<'_>, blocks: usize, to: &mut IntegerWeights, mut beside: impl FnMut()) {
    // The permutation looks at six bits of an index: four copies of the table make the upper two, bits of a neighbouring
    // nibble, not matter.
    // SAFETY: the table holds 16 bytes.
    let halves = _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(E2M1_HALVES.as_ptr().cast()) });
    let table = _mm512_add_epi8(halves, _mm512_set1_epi8(OFFSET));
    for half in 0..2 {
        let scales = chunk_scales(chunk, half);
        each_block(chunk, half, 0..blocks, |block, words| {
            beside();
            let to = &mut to[block][half];
            for (quads, word) in to.quads.as_chunks_mut::<2>().0.iter_mut().zip(words) {
                let even = _mm512_permutexvar_epi8(word, table);
                let odd = _mm512_permutexvar_epi8(_mm512_srli_epi16::<4>(word), table);
                // SAFETY: 64 bytes each.
                unsafe {
                    _mm512_storeu_si512(quads[0].as_mut_ptr().cast(), even);
                    _mm512_storeu_si512(quads[1].as_mut_ptr().cast(), odd);
                }
            }
            // SAFETY: 16 floats.
            unsafe { _mm512_storeu_ps(to.scales.as_mut_ptr(), scale(&scales, block)) };
        });
    }
}

/// Adds the products of decoded blocks and `R` rows.
///
/// # Safety
/// As many blocks as there are of weights at each of `activations + r * row_blocks`, and `COLUMNS` sums at each of
/// `sums + r * COLUMNS`, for `r < R`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")]
unsafe fn multiply<const R: usize>(
    weights: &[[IntegerColumns; 2]],
    activations: *const IntegerBlock,
    row_blocks: usize,
    sums: *mut f32,
    ahead: &mut Ahead,
) {
    let mut total = [[_mm512_setzero_ps(); 2]; R];
    for (block, weights) in weights.iter().enumerate() {
        ahead.ask();
        let [left, right] = weights;
        for (r, [total_left, total_right]) in total.iter_mut().enumerate() {
            // SAFETY: as this function demands.
            let activation = unsafe { &*activations.add(r * row_blocks + block) };
            let offset = _mm512_set1_epi32(activation.offset);
            let (mut dot_left, mut dot_right) = (offset, offset);
            for i in 0..4 {
                let quad = _mm512_set1_epi32(i32::from_ne_bytes(activation.quads[i].map(|byte| byte as u8)));
                dot_left = _mm512_dpbusd_epi32(dot_left, load_quad(left, i), quad);
                dot_right = _mm512_dpbusd_epi32(dot_right, load_quad(right, i), quad);
            }
            let scale = _mm512_set1_ps(activation.scale);
            let (scale_left, scale_right) =
                (_mm512_mul_ps(load_scales(left), scale), _mm512_mul_ps(load_scales(right), scale));
            *total_left = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot_left), scale_left, *total_left);
            *total_right = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot_right), scale_right, *total_right);
        }
    }
    for (r, total) in total.into_iter().enumerate() {
        for (half, total) in total.into_iter().enumerate() {
            // SAFETY: as this function demands.
            unsafe {
                let sums = sums.add(r * COLUMNS + half * LANES);
                _mm512_storeu_ps(sums, _mm512_add_ps(_mm512_loadu_ps(sums), total));
            }
        }
    }
}

/// Four unsigned bytes of each column.
#[target_feature(enable = "avx512f")]
#[inline]
fn load_quad(weights: &IntegerColumns, quad: usize) -> __m512i {
    // SAFETY: 64 bytes, aligned to as many.
    unsafe { _mm512_load_si512(weights.quads[quad].as_ptr().cast()) }
}

/// The scale of each column.
#[target_feature(enable = "avx512f")]
#[inline]
fn load_scales(weights: &IntegerColumns) -> __m512 {
    // SAFETY: 16 floats, aligned to 64 bytes.
    unsafe { _mm512_load_ps(weights.scales.as_ptr()) }
}
