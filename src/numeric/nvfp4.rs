//! NVFP4: e2m1 values, one ue4m3 scale per 16 values of k, one f32 global per tensor or expert.
//!
//! value = e2m1 x scale x global. A block with largest magnitude `amax` gets
//! `scale = ue4m3((amax / 6) / global)` and each of its values `x` the code `e2m1(x / (scale * global))`, every operation
//! rounded once to f32 and both encodings to nearest even with saturation. A block whose scale encodes to 0 keeps only
//! the signs.

use super::error::{check_finite_bits, check_group, check_len};
use super::{GlobalMultiplier, QuantiseError, amax, amax_bits, e2m1, ue4m3, widest};

/// Values of k that share a scale.
pub const BLOCK: usize = 16;

/// One quantised tensor: rows of `k` values, canonical layout.
#[derive(Clone, Debug, PartialEq)]
pub struct Nvfp4Tensor {
    /// `[rows][k/2]`, the lower k in the low nibble.
    pub values: Vec<u8>,
    /// `[rows][k/16]`, ue4m3.
    pub scales: Vec<u8>,
    /// Shared by all.
    pub global: GlobalMultiplier,
}

/// Quantises rows of length `k` with the global that their largest magnitude asks for.
///
/// # Errors
/// When `k` is not a multiple of 16, `x` is not whole rows, or a value is not finite.
pub fn quantise(x: &[f32], k: usize) -> Result<Nvfp4Tensor, QuantiseError> {
    check_group("NVFP4", k, BLOCK)?;
    if k == 0 || !x.len().is_multiple_of(k) {
        return Err(QuantiseError::Length { what: "a matrix", found: x.len(), expected: x.len() / k.max(1) * k });
    }
    let global = GlobalMultiplier::from_amax(amax(x)?)?;
    let mut values = vec![0; x.len() / 2];
    let mut scales = vec![0; x.len() / BLOCK];
    quantise_into(x, global, &mut values, &mut scales)?;
    Ok(Nvfp4Tensor { values, scales, global })
}

/// Quantises whole blocks under a given global: `x.len()` is a multiple of 16, `values` has half and `scales` a
/// sixteenth of its length.
///
/// # Errors
/// When the lengths do not fit or a value is not finite; the outputs then hold no meaning.
pub fn quantise_into(
    x: &[f32],
    global: GlobalMultiplier,
    values: &mut [u8],
    scales: &mut [u8],
) -> Result<(), QuantiseError> {
    check_group("NVFP4", x.len(), BLOCK)?;
    check_len("the values", values.len(), x.len() / 2)?;
    check_len("the scales", scales.len(), x.len() / BLOCK)?;
    let worst = widest(
        #[inline(always)]
        || quantise_blocks(x, global.get(), values, scales),
    );
    check_finite_bits(worst, x)
}

/// Returns the bits of the largest magnitude.
#[inline(always)]
fn quantise_blocks(x: &[f32], global: f32, values: &mut [u8], scales: &mut [u8]) -> u32 {
    let (blocks, _) = x.as_chunks::<BLOCK>();
    let (codes, _) = values.as_chunks_mut::<8>();
    let mut worst = 0;
    for ((block, codes), scale) in blocks.iter().zip(codes).zip(scales) {
        let bits = amax_bits(block);
        worst = worst.max(bits);
        *scale = ue4m3::encode(f32::from_bits(bits) / e2m1::MAX / global);
        let step = ue4m3::decode(*scale) * global;
        // Dividing by infinity makes a zero of every finite value.
        *codes = e2m1::encode_sixteen(block, if step == 0.0 { f32::INFINITY } else { step });
    }
    worst
}

/// Decodes whole blocks: `out.len()` is a multiple of 16. e2m1 x scale is exact; the global rounds once.
///
/// # Errors
/// When the lengths do not fit.
pub fn dequantise_into(
    values: &[u8],
    scales: &[u8],
    global: GlobalMultiplier,
    out: &mut [f32],
) -> Result<(), QuantiseError> {
    check_group("NVFP4", out.len(), BLOCK)?;
    check_len("the values", values.len(), out.len() / 2)?;
    check_len("the scales", scales.len(), out.len() / BLOCK)?;
    let global = global.get();
    for ((out, values), &scale) in out.chunks_exact_mut(BLOCK).zip(values.chunks_exact(8)).zip(scales) {
        let scale = ue4m3::decode(scale);
        for (out, &byte) in out.chunks_exact_mut(2).zip(values) {
            let [low, high] = e2m1::decode_pair(byte);
            out.copy_from_slice(&[low * scale * global, high * scale * global]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code(values: &[u8], i: usize) -> u8 {
        values[i / 2] >> (4 * (i % 2)) & 15
    }

    /// The rule of the module's head, one value at a time.
    fn plain(x: &[f32], g: f32) -> (Vec<u8>, Vec<u8>) {
        let mut codes = Vec::new();
        let mut scales = Vec::new();
        for block in x.chunks(16) {
            let amax = block.iter().fold(0f32, |m, v| m.max(v.abs()));
            let scale = ue4m3::encode((amax / 6.0) / g);
            scales.push(scale);
            let step = ue4m3::decode(scale) * g;
            codes.extend(
                block.iter().map(|&v| if step == 0.0 { e2m1::encode(v * 0.0) } else { e2m1::encode(v / step) }),
            );
        }
        (codes, scales)
    }

    fn check_against_plain(x: &[f32], g: f32) {
        let mut values = vec![0; x.len() / 2];
        let mut scales = vec![0; x.len() / 16];
        quantise_into(x, GlobalMultiplier::new(g).unwrap(), &mut values, &mut scales).unwrap();
        let (codes, plain_scales) = plain(x, g);
        assert_eq!(scales, plain_scales);
        for (i, &c) in codes.iter().enumerate() {
            assert_eq!(code(&values, i), c, "element {i}: {} under {g}", x[i]);
        }
    }

    #[test]
    fn equal_blocks_use_the_top_code() {
        let x = [2688.0f32; 16];
        let q = quantise(&x, 16).unwrap();
        assert_eq!((q.global.get(), q.scales[0]), (1.0, 0x7e));
        assert_eq!(q.values, [0x77; 8]);
        let mut back = [0.0; 16];
        dequantise_into(&q.values, &q.scales, q.global, &mut back).unwrap();
        assert_eq!(back, x);
    }

    #[test]
    fn zeros_keep_their_signs() {
        let mut x = [0.0f32; 32];
        x[3] = -0.0;
        let q = quantise(&x, 32).unwrap();
        assert_eq!(q.global, GlobalMultiplier::ONE);
        assert_eq!(q.scales, [0, 0]);
        assert_eq!(code(&q.values, 3), 8);
        assert_eq!(code(&q.values, 2), 0);
    }

    #[test]
    fn a_block_below_the_smallest_scale_vanishes() {
        let mut x = [1e-3f32; 32];
        x[0] = 2688.0 * 4.0;
        x[20] = -1e-3;
        let q = quantise(&x, 32).unwrap();
        assert_eq!(q.scales[1], 0);
        assert_eq!(code(&q.values, 20), 8);
        assert_eq!(code(&q.values, 21), 0);
    }

    #[test]
    fn refusals_name_what_is_wrong() {
        let g = GlobalMultiplier::ONE;
        assert_eq!(
            quantise(&[0.0; 40], 20).unwrap_err().to_string(),
            "K 20 is not a multiple of 16, the scale block of NVFP4; choose a shape or a split whose K is"
        );
        assert!(quantise(&[0.0; 40], 16).is_err());
        assert!(quantise(&[0.0; 16], 0).is_err());
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = [1.0f32; 48];
            x[33] = bad;
            let e = quantise(&x, 16).unwrap_err();
            assert!(matches!(e, QuantiseError::NotFinite { index: 33, .. }), "{e}");
            assert!(quantise_into(&x, g, &mut [0; 24], &mut [0; 3]).is_err());
        }
        assert!(quantise_into(&[0.0; 16], g, &mut [0; 7], &mut [0; 1]).is_err());
        assert!(quantise_into(&[0.0; 16], g, &mut [0; 8], &mut [0; 2]).is_err());
        assert!(dequantise_into(&[0; 8], &[0; 1], g, &mut [0.0; 32]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn follows_the_rule(
            x in prop::collection::vec(-100f32..100.0, 64),
            tiny in prop::collection::vec(any::<u32>().prop_map(|b| f32::from_bits(b & 0x80ff_ffff)), 16),
            g in prop_oneof![Just(1.0f32), 1e-3f32..10.0, Just(f32::MIN_POSITIVE)],
        ) {
            check_against_plain(&x, g);
            check_against_plain(&tiny, g);
            check_against_plain(&tiny, f32::MIN_POSITIVE);
        }

        /// Any finite bits, whatever the global: no panic, the rule holds.
        #[test]
        fn any_finite_bits(bits in prop::collection::vec(any::<u32>(), 32), g in any::<u32>()) {
            let x: Vec<f32> =
                bits.into_iter().map(f32::from_bits).map(|v| if v.is_finite() { v } else { f32::MAX }).collect();
            let g = f32::from_bits(g & 0x7fff_ffff);
            prop_assume!(g.is_finite() && g > 0.0);
            check_against_plain(&x, g);
        }

        /// Under the tensor's own global, each value is within half a step of its block: the widest gap of e2m1 is 2
        /// steps, and the scale may round down by one part in 16.
        #[test]
        fn error_is_bounded(x in prop::collection::vec(-4f32..4.0, 64)) {
            let q = quantise(&x, 64).unwrap();
            let mut back = vec![0.0; 64];
            dequantise_into(&q.values, &q.scales, q.global, &mut back).unwrap();
            for (block, back) in x.chunks(16).zip(back.chunks(16)) {
                let amax = block.iter().fold(0f32, |m, v| m.max(v.abs()));
                for (a, b) in block.iter().zip(back) {
                    prop_assert!((a - b).abs() <= amax / 6.0 * 17.0 / 16.0 + 1e-6, "{a} became {b}, amax {amax}");
                }
            }
        }

        /// What was decoded quantises to itself under the same global.
        #[test]
        fn idempotent(x in prop::collection::vec(-4f32..4.0, 64)) {
            let q = quantise(&x, 64).unwrap();
            let mut back = vec![0.0; 64];
            dequantise_into(&q.values, &q.scales, q.global, &mut back).unwrap();
            let mut again = vec![0.0; 64];
            let (mut values, mut scales) = (vec![0; 32], vec![0; 4]);
            quantise_into(&back, q.global, &mut values, &mut scales).unwrap();
            dequantise_into(&values, &scales, q.global, &mut again).unwrap();
            for (block, pair) in q.values.chunks(8).zip(back.chunks(16).zip(again.chunks(16))) {
                // Only blocks that hold the top code find their scale again.
                if (0..16).any(|i| code(block, i) & 7 == 7) {
                    prop_assert_eq!(pair.0, pair.1);
                }
            }
        }
    }
}
