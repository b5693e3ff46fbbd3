//! MXFP4 and MXFP8: e2m1 or e4m3 values with one ue8m0 scale per 32 values of k, no global.
//!
//! A block with largest magnitude `amax` gets the scale of [`ue8m0::encode_block`]; each of its values `x` becomes the
//! code of `x / scale`, to nearest even with saturation. The division is by a power of two.
//!
//! Source: OCP Microscaling Formats (MX) specification 1.0, section 6.3.

use super::error::{check_finite_bits, check_group, check_len};
use super::{QuantiseError, amax_bits, e2m1, e4m3, ue8m0, widest};

/// Values of k that share a scale.
pub const BLOCK: usize = 32;

/// Quantises whole blocks to MXFP4: `x.len()` is a multiple of 32, `values` has half (lower k in the low nibble) and
/// `scales` a thirty-second of its length.
///
/// # Errors
/// When the lengths do not fit or a value is not finite; the outputs then hold no meaning.
pub fn quantise_fp4_into(x: &[f32], values: &mut [u8], scales: &mut [u8]) -> Result<(), QuantiseError> {
    check_group("MXFP4", x.len(), BLOCK)?;
    check_len("the values", values.len(), x.len() / 2)?;
    check_len("the scales", scales.len(), x.len() / BLOCK)?;
    let worst = widest(
        #[inline(always)]
        || {
            let mut worst = 0;
            let (blocks, _) = x.as_chunks::<BLOCK>();
            let (codes, _) = values.as_chunks_mut::<16>();
            for ((block, codes), scale) in blocks.iter().zip(codes).zip(scales) {
                let bits = amax_bits(block);
                worst = worst.max(bits);
                *scale = ue8m0::encode_block(f32::from_bits(bits), e2m1::EMAX);
                let step = ue8m0::decode(*scale);
                let (halves, _) = block.as_chunks::<16>();
                let (codes, _) = codes.as_chunks_mut::<8>();
                for (half, codes) in halves.iter().zip(codes) {
                    *codes = e2m1::encode_sixteen(half, step);
                }
            }
            worst
        },
    );
    check_finite_bits(worst, x)
}

/// Quantises whole blocks to MXFP8 (e4m3): `x.len()` is a multiple of 32, `values` has its length and `scales` a
/// thirty-second of it.
///
/// # Errors
/// When the lengths do not fit or a value is not finite; the outputs then hold no meaning.
pub fn quantise_fp8_into(x: &[f32], values: &mut [u8], scales: &mut [u8]) -> Result<(), QuantiseError> {
    check_group("MXFP8", x.len(), BLOCK)?;
    check_len("the values", values.len(), x.len())?;
    check_len("the scales", scales.len(), x.len() / BLOCK)?;
    let worst = widest(
        #[inline(always)]
        || {
            let mut worst = 0;
            for ((block, codes), scale) in x.chunks_exact(BLOCK).zip(values.chunks_exact_mut(BLOCK)).zip(scales) {
                let bits = amax_bits(block);
                worst = worst.max(bits);
                *scale = ue8m0::encode_block(f32::from_bits(bits), e4m3::EMAX);
                super::fp8::encode_run(block, ue8m0::decode(*scale), codes);
            }
            worst
        },
    );
    check_finite_bits(worst, x)
}

/// Decodes whole MXFP4 blocks: `out.len()` is a multiple of 32.
///
/// # Errors
/// When the lengths do not fit.
pub fn dequantise_fp4_into(values: &[u8], scales: &[u8], out: &mut [f32]) -> Result<(), QuantiseError> {
    check_group("MXFP4", out.len(), BLOCK)?;
    check_len("the values", values.len(), out.len() / 2)?;
    check_len("the scales", scales.len(), out.len() / BLOCK)?;
    for ((out, values), &scale) in out.chunks_exact_mut(BLOCK).zip(values.chunks_exact(BLOCK / 2)).zip(scales) {
        let scale = ue8m0::decode(scale);
        for (out, &byte) in out.chunks_exact_mut(2).zip(values) {
            let [low, high] = e2m1::decode_pair(byte);
            out.copy_from_slice(&[low * scale, high * scale]);
        }
    }
    Ok(())
}

/// Decodes whole MXFP8 blocks: `out.len()` is a multiple of 32.
///
/// # Errors
/// When the lengths do not fit.
pub fn dequantise_fp8_into(values: &[u8], scales: &[u8], out: &mut [f32]) -> Result<(), QuantiseError> {
    check_group("MXFP8", out.len(), BLOCK)?;
    check_len("the values", values.len(), out.len())?;
    check_len("the scales", scales.len(), out.len() / BLOCK)?;
    for ((out, values), &scale) in out.chunks_exact_mut(BLOCK).zip(values.chunks_exact(BLOCK)).zip(scales) {
        let scale = ue8m0::decode(scale);
        for (out, &code) in out.iter_mut().zip(values) {
            *out = e4m3::decode(code) * scale;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check_against_plain(x: &[f32]) {
        let (mut v4, mut s4) = (vec![0; x.len() / 2], vec![0; x.len() / 32]);
        let (mut v8, mut s8) = (vec![0; x.len()], vec![0; x.len() / 32]);
        quantise_fp4_into(x, &mut v4, &mut s4).unwrap();
        quantise_fp8_into(x, &mut v8, &mut s8).unwrap();
        for (i, &v) in x.iter().enumerate() {
            let amax = x[i / 32 * 32..][..32].iter().fold(0f64, |m, v| m.max(f64::from(v.abs())));
            // floor(log2) in f64 of an exact power-of-two search, not of the bit pattern.
            let floor = (-149..=127).rev().find(|&e| 2f64.powi(e) <= amax).unwrap_or(-149);
            for (emax, scale) in [(2, s4[i / 32]), (8, s8[i / 32])] {
                assert_eq!(i32::from(scale), (floor - emax + 127).max(0), "amax {amax}");
            }
            let exact = |scale: u8| (f64::from(v) / 2f64.powi(i32::from(scale) - 127)) as f32;
            assert_eq!(v4[i / 2] >> (4 * (i % 2)) & 15, e2m1::encode(exact(s4[i / 32])), "{v}");
            assert_eq!(v8[i], e4m3::encode(exact(s8[i / 32])), "{v}");
        }
    }

    #[test]
    fn the_top_of_an_octave_saturates() {
        let (mut v, mut s) = ([0; 16], [0; 1]);
        quantise_fp4_into(&[7.9; 32], &mut v, &mut s).unwrap();
        assert_eq!((v, s), ([0x77; 16], [127]));
        let mut back = [0.0; 32];
        dequantise_fp4_into(&v, &s, &mut back).unwrap();
        assert_eq!(back, [6.0; 32]);
    }

    #[test]
    fn fp8_decodes_what_it_encodes() {
        let x: Vec<f32> = (0..32).map(|i| (i as f32 - 16.0) * 0.25).collect();
        let (mut v, mut s, mut back) = ([0; 32], [0; 1], [0.0; 32]);
        quantise_fp8_into(&x, &mut v, &mut s).unwrap();
        dequantise_fp8_into(&v, &s, &mut back).unwrap();
        assert_eq!(back.as_slice(), x);
    }

    #[test]
    fn refusals() {
        assert!(quantise_fp4_into(&[0.0; 48], &mut [0; 24], &mut [0; 1]).is_err());
        assert!(quantise_fp8_into(&[f32::NAN; 32], &mut [0; 32], &mut [0; 1]).is_err());
        assert!(quantise_fp8_into(&[0.0; 32], &mut [0; 16], &mut [0; 1]).is_err());
        assert!(dequantise_fp8_into(&[0; 32], &[0; 2], &mut [0.0; 32]).is_err());
        assert!(dequantise_fp4_into(&[0; 32], &[0; 1], &mut [0.0; 32]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn follows_the_rule(
            x in prop::collection::vec(-100f32..100.0, 32),
            bits in prop::collection::vec(any::<u32>(), 32),
            tiny in prop::collection::vec(any::<u32>().prop_map(|b| f32::from_bits(b & 0x80ff_ffff)), 32),
        ) {
            check_against_plain(&x);
            check_against_plain(&tiny);
            let any: Vec<f32> = bits.into_iter().map(f32::from_bits).map(|v| if v.is_finite() { v } else { 0.0 }).collect();
            check_against_plain(&any);
            check_against_plain(&[0.0; 32]);
        }
    }
}
