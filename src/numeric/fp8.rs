//! e4m3 with f32 scales: per tensor, per 1x128 group (activations), per 128x128 block (weights).
//!
//! A region with largest magnitude `amax` gets `scale = amax / 448`, at least 2^-126 and 1 when amax is 0; each of its
//! values `x` becomes `e4m3(x / scale)`, to nearest even with saturation. Scales multiply. Regions at the edge of a
//! matrix may be smaller.

use super::amax::MAGNITUDE;
use super::error::{check_finite_bits, check_len};
use super::{QuantiseError, amax, amax_bits, e4m3, widest};

/// Side of a block, and length of a group.
pub const BLOCK: usize = 128;

/// Scale of a region with this largest magnitude (finite, not negative).
#[inline(always)]
pub fn scale_of(amax: f32) -> f32 {
    if amax == 0.0 { 1.0 } else { (amax / e4m3::MAX).max(f32::MIN_POSITIVE) }
}

/// `codes[i] = e4m3(x[i] / scale)` for finite `x`.
#[inline(always)]
pub(crate) fn encode_run(x: &[f32], scale: f32, codes: &mut [u8]) {
    for (v, code) in x.iter().zip(codes) {
        let bits = v.to_bits();
        let magnitude = f32::from_bits(bits & MAGNITUDE) / scale;
        *code = (e4m3::encode_magnitude(magnitude) | (bits >> 24 & 0x80)) as u8;
    }
}

/// Quantises under one given scale (finite, positive).
///
/// # Errors
/// When the lengths differ, the scale cannot scale, or a value is not finite; `values` then holds no meaning.
pub fn quantise_into(x: &[f32], scale: f32, values: &mut [u8]) -> Result<(), QuantiseError> {
    check_len("the values", values.len(), x.len())?;
    if !(scale.is_finite() && scale > 0.0) {
        return Err(QuantiseError::Global(scale));
    }
    amax(x)?;
    widest(
        #[inline(always)]
        || encode_run(x, scale, values),
    );
    Ok(())
}

/// Quantises rows of length `k` with a scale per row and 128 values of k; `scales` is `[rows][ceil(k/128)]`.
///
/// # Errors
/// When the lengths do not fit or a value is not finite; the outputs then hold no meaning.
pub fn quantise_groups_into(x: &[f32], k: usize, values: &mut [u8], scales: &mut [f32]) -> Result<(), QuantiseError> {
    let rows = rows_of(x, k)?;
    check_len("the values", values.len(), x.len())?;
    check_len("the scales", scales.len(), rows * k.div_ceil(BLOCK))?;
    let worst = widest(
        #[inline(always)]
        || {
            let mut worst = 0;
            let mut scales = scales.iter_mut();
            for (row, codes) in x.chunks_exact(k).zip(values.chunks_exact_mut(k)) {
                // The group count was checked above: each row takes ceil(k/128) scales.
                for ((group, codes), scale) in row.chunks(BLOCK).zip(codes.chunks_mut(BLOCK)).zip(&mut scales) {
                    let bits = amax_bits(group);
                    worst = worst.max(bits);
                    *scale = scale_of(f32::from_bits(bits));
                    encode_run(group, *scale, codes);
                }
            }
            worst
        },
    );
    check_finite_bits(worst, x)
}

/// Quantises rows of length `k` with a scale per 128 rows and 128 values of k; `scales` is
/// `[ceil(rows/128)][ceil(k/128)]`.
///
/// # Errors
/// When the lengths do not fit or a value is not finite; the outputs then hold no meaning.
pub fn quantise_blocks_into(x: &[f32], k: usize, values: &mut [u8], scales: &mut [f32]) -> Result<(), QuantiseError> {
    let rows = rows_of(x, k)?;
    let across = k.div_ceil(BLOCK);
    check_len("the values", values.len(), x.len())?;
    check_len("the scales", scales.len(), rows.div_ceil(BLOCK) * across)?;
    let worst = widest(
        #[inline(always)]
        || {
            let mut worst = 0;
            let slabs = x.chunks(BLOCK * k).zip(values.chunks_mut(BLOCK * k)).zip(scales.chunks_exact_mut(across));
            for ((slab, codes), scales) in slabs {
                let mut bits = vec![0; across];
                for row in slab.chunks_exact(k) {
                    for (bits, group) in bits.iter_mut().zip(row.chunks(BLOCK)) {
                        *bits = amax_bits(group).max(*bits);
                    }
                }
                for (scale, &bits) in scales.iter_mut().zip(&bits) {
                    worst = worst.max(bits);
                    *scale = scale_of(f32::from_bits(bits));
                }
                for (row, codes) in slab.chunks_exact(k).zip(codes.chunks_exact_mut(k)) {
                    for ((group, codes), &scale) in row.chunks(BLOCK).zip(codes.chunks_mut(BLOCK)).zip(scales.iter()) {
                        encode_run(group, scale, codes);
                    }
                }
            }
            worst
        },
    );
    check_finite_bits(worst, x)
}

/// How many rows of length `k` are in `x`.
fn rows_of(x: &[f32], k: usize) -> Result<usize, QuantiseError> {
    if k == 0 || !x.len().is_multiple_of(k) {
        return Err(QuantiseError::Length { what: "a matrix", found: x.len(), expected: x.len() / k.max(1) * k });
    }
    Ok(x.len() / k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matrix(rows: usize, k: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        (0..rows * k)
            .map(|i| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state as i32 as f32) * 1e-9 * (1 + i % 7) as f32
            })
            .collect()
    }

    /// Largest magnitude of a rectangle, cut at the edges.
    fn region_amax(x: &[f32], k: usize, rows: std::ops::Range<usize>, cols: std::ops::Range<usize>) -> f32 {
        let total = x.len() / k;
        let mut m = 0f32;
        for r in rows.start..rows.end.min(total) {
            for c in cols.start..cols.end.min(k) {
                m = m.max(x[r * k + c].abs());
            }
        }
        m
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn regions_have_their_own_scale(rows in 1usize..300, k in 1usize..300, seed: u32) {
            let x = matrix(rows, k, seed);
            let across = k.div_ceil(128);
            let (mut v, mut groups) = (vec![0; x.len()], vec![0.0; rows * across]);
            quantise_groups_into(&x, k, &mut v, &mut groups).unwrap();
            for (i, &code) in v.iter().enumerate() {
                let (r, g) = (i / k, i % k / 128);
                let scale = region_amax(&x, k, r..r + 1, g * 128..g * 128 + 128) / 448.0;
                prop_assert_eq!(groups[r * across + g], scale);
                prop_assert_eq!(code, e4m3::encode(x[i] / scale));
            }
            let mut blocks = vec![0.0; rows.div_ceil(128) * across];
            quantise_blocks_into(&x, k, &mut v, &mut blocks).unwrap();
            for r in (0..rows).step_by(37) {
                for c in (0..k).step_by(11) {
                    let (b, g) = (r / 128, c / 128);
                    let scale = region_amax(&x, k, b * 128..b * 128 + 128, g * 128..g * 128 + 128) / 448.0;
                    prop_assert_eq!(blocks[b * across + g], scale);
                    prop_assert_eq!(v[r * k + c], e4m3::encode(x[r * k + c] / scale));
                }
            }
        }
    }

    #[test]
    fn one_scale_for_all() {
        let x = [448.0f32, -448.0, 1.0, -0.0, 0.0, 1e9];
        let mut v = [0; 6];
        quantise_into(&x, 1.0, &mut v).unwrap();
        assert_eq!(v, [0x7e, 0xfe, 0x38, 0x80, 0, 0x7e]);
    }

    #[test]
    fn zeros_and_subnormals() {
        assert_eq!(scale_of(0.0), 1.0);
        assert_eq!(scale_of(f32::from_bits(1)), f32::MIN_POSITIVE);
        let (mut v, mut s) = ([9; 2], [0.0; 1]);
        quantise_groups_into(&[0.0, -0.0], 2, &mut v, &mut s).unwrap();
        assert_eq!((v, s), ([0, 0x80], [1.0]));
    }

    #[test]
    fn refusals() {
        assert!(quantise_into(&[1.0], 0.0, &mut [0]).is_err());
        assert!(quantise_into(&[1.0], f32::NAN, &mut [0]).is_err());
        assert!(quantise_into(&[f32::INFINITY], 1.0, &mut [0]).is_err());
        assert!(quantise_into(&[1.0], 1.0, &mut []).is_err());
        assert!(quantise_groups_into(&[1.0; 3], 2, &mut [0; 3], &mut [0.0; 1]).is_err());
        assert!(quantise_groups_into(&[1.0; 2], 0, &mut [0; 2], &mut [0.0; 1]).is_err());
        assert!(quantise_blocks_into(&[1.0, f32::NAN], 2, &mut [0; 2], &mut [0.0; 1]).is_err());
        assert!(quantise_blocks_into(&[1.0; 2], 2, &mut [0; 2], &mut [0.0; 2]).is_err());
    }
}
