//! e2m1, the 4-bit float of NVFP4 and MXFP4: sign, two exponent bits of bias 1, one mantissa bit; no infinity, no NaN.
//!
//! Source: OCP Microscaling Formats (MX) specification 1.0, section 5.3.3.

use super::amax::MAGNITUDE;

/// Largest value.
pub const MAX: f32 = 6.0;

/// Exponent of the largest power of two: `emax` of the MX scale rule.
pub const EMAX: u32 = 2;

/// Value of each code; bit 3 is the sign.
pub const VALUES: [f32; 16] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Value of the low four bits of `code`.
#[inline(always)]
pub fn decode(code: u8) -> f32 {
    VALUES[usize::from(code & 15)]
}

/// Nearest code, ties to even, saturating at 6; the sign of zero is kept, infinities saturate. NaN gives +6, as
/// `cvt.rn.satfinite.e2m1x2.f32` does.
#[inline(always)]
pub fn encode(x: f32) -> u8 {
    if x.is_nan() {
        return 7;
    }
    (encode_magnitude(x.abs()) | ((x.to_bits() >> 31) << 3)) as u8
}

/// Code of a magnitude (not NaN): how many rounding boundaries lie below it. A boundary belongs to the neighbour whose
/// mantissa bit is 0.
#[inline(always)]
pub(crate) fn encode_magnitude(a: f32) -> u32 {
    u32::from(a > 0.25)
        + u32::from(a >= 0.75)
        + u32::from(a > 1.25)
        + u32::from(a >= 1.75)
        + u32::from(a > 2.5)
        + u32::from(a >= 3.5)
        + u32::from(a > 5.0)
}

/// Packs the codes of sixteen finite values divided by `step`, the first in the lowest nibble.
#[inline(always)]
pub(crate) fn encode_sixteen(x: &[f32; 16], step: f32) -> [u8; 8] {
    let mut packed = 0u64;
    for (i, v) in x.iter().enumerate() {
        let bits = v.to_bits();
        let code = encode_magnitude(f32::from_bits(bits & MAGNITUDE) / step) | (bits >> 31 << 3);
        packed |= u64::from(code) << (4 * i);
    }
    packed.to_le_bytes()
}

/// Both values of a packed byte, the low nibble (lower k) first.
#[inline(always)]
pub fn decode_pair(byte: u8) -> [f32; 2] {
    [decode(byte), decode(byte >> 4)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule in words: the nearest value, of two equally near the one with an even code.
    fn nearest(x: f32) -> u8 {
        let a = f64::from(x.abs()).min(1e3);
        let distance = |c: u8| (f64::from(decode(c)) - a).abs();
        let best = (0..8u8).min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1)))).unwrap();
        best | if x.is_sign_negative() { 8 } else { 0 }
    }

    #[test]
    fn values_follow_the_format() {
        for code in 0..16u8 {
            let (e, m) = (i32::from(code >> 1 & 3), f32::from(code & 1));
            let magnitude = if e == 0 { m * 0.5 } else { (1.0 + m * 0.5) * 2f32.powi(e - 1) };
            let sign = if code & 8 == 0 { 1.0 } else { -1.0f32 };
            assert_eq!(decode(code).to_bits(), (sign * magnitude).to_bits(), "code {code}");
        }
    }

    #[test]
    fn every_code_round_trips() {
        for code in 0..16u8 {
            assert_eq!(encode(decode(code)), code);
            assert_eq!(decode_pair(code << 4 | 5), [3.0, decode(code)]);
        }
    }

    #[test]
    fn midpoints_and_their_neighbours() {
        for c in 0..7u8 {
            let mid = (decode(c) + decode(c + 1)) / 2.0;
            let even = if c & 1 == 0 { c } else { c + 1 };
            for sign in [1.0f32, -1.0] {
                let s = if sign < 0.0 { 8 } else { 0 };
                assert_eq!(encode(sign * mid), even | s, "tie at {mid}");
                assert_eq!(encode(sign * mid.next_down()), c | s);
                assert_eq!(encode(sign * mid.next_up()), (c + 1) | s);
            }
        }
    }

    #[test]
    fn every_bf16_and_its_f32_neighbours() {
        for high in 0..=0xffffu32 {
            for low in [0, 1, 0x7fff, 0x8000, 0xffff] {
                let x = f32::from_bits(high << 16 | low);
                let expected = if x.is_nan() { 7 } else { nearest(x) };
                assert_eq!(encode(x), expected, "{x:e}");
            }
        }
    }

    #[test]
    fn hostile_values() {
        assert_eq!(encode(f32::NAN), 7);
        assert_eq!(encode(-f32::NAN), 7);
        assert_eq!(encode(f32::INFINITY), 7);
        assert_eq!(encode(f32::NEG_INFINITY), 15);
        assert_eq!(encode(f32::MAX), 7);
        assert_eq!(encode(0.0), 0);
        assert_eq!(encode(-0.0), 8);
        assert_eq!(encode(-f32::from_bits(1)), 8);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn any_bits_go_to_the_nearest(bits: u32) {
            let x = f32::from_bits(bits);
            prop_assume!(!x.is_nan());
            prop_assert_eq!(encode(x), nearest(x));
        }

        #[test]
        fn in_range_goes_to_the_nearest(x in -8f32..8.0) {
            prop_assert_eq!(encode(x), nearest(x));
        }
    }
}
