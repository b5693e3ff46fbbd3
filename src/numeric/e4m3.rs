//! e4m3 (the `fn` variant): sign, four exponent bits of bias 7, three mantissa bits; no infinity, one NaN a sign.
//!
//! Source: OCP 8-bit Floating Point (OFP8) specification 1.0.

/// Largest value.
pub const MAX: f32 = 448.0;

/// Exponent of the largest power of two: `emax` of the MX scale rule.
pub const EMAX: u32 = 8;

/// Code of the positive NaN.
pub const NAN: u8 = 0x7f;

/// Code of [`MAX`].
const MAX_CODE: u32 = 0x7e;

/// Smallest normal value, 2^-6.
const MIN_NORMAL: f32 = 0.015625;

/// Value of each code.
pub static VALUES: [f32; 256] = {
    let mut t = [0.0; 256];
    let mut c = 0;
    while c < 256 {
        t[c] = decode_bits(c as u32);
        c += 1;
    }
    t
};

const fn decode_bits(code: u32) -> f32 {
    let sign = (code & 0x80) << 24;
    let magnitude = match code & 0x7f {
        0x7f => f32::NAN,
        // Subnormal: multiples of 2^-9.
        m @ 0..8 => m as f32 * 0.001953125,
        m => f32::from_bits((m << 20) + ((127 - 7) << 23)),
    };
    f32::from_bits(magnitude.to_bits() | sign)
}

/// Value of a code.
#[inline(always)]
pub fn decode(code: u8) -> f32 {
    VALUES[usize::from(code)]
}

/// Nearest code, ties to even, saturating at 448, infinities too; the sign of zero is kept. NaN gives [`NAN`].
///
/// The steps, for another implementation: with `a` the magnitude and `b` its bits, normal results are
/// `min((b + 0x7ffff + (b >> 20 & 1) >> 20) - 960, 0x7e)`; below 2^-6 the code is the low byte of the bits of
/// `a * 512 + 8388608`, whose addition rounds to an integer.
#[inline(always)]
pub fn encode(x: f32) -> u8 {
    if x.is_nan() {
        return NAN;
    }
    (encode_magnitude(x.abs()) | (x.to_bits() >> 24 & 0x80)) as u8
}

/// Code of a magnitude (not NaN).
#[inline(always)]
pub(crate) fn encode_magnitude(a: f32) -> u32 {
    let b = a.to_bits();
    let normal = ((b + 0x7_ffff + (b >> 20 & 1)) >> 20).wrapping_sub(120 << 3).min(MAX_CODE);
    let subnormal = (a * 512.0 + 8_388_608.0).to_bits() & 0xff;
    if a >= MIN_NORMAL { normal } else { subnormal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nearest(x: f32) -> u8 {
        let a = f64::from(x.abs()).min(1e3);
        let distance = |c: u8| (f64::from(decode(c)) - a).abs();
        let best =
            (0..0x7fu8).min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1)))).unwrap();
        best | if x.is_sign_negative() { 0x80 } else { 0 }
    }

    #[test]
    fn values_follow_the_format() {
        for code in 0..=255u8 {
            let (e, m) = (i32::from(code >> 3 & 15), f64::from(code & 7));
            if code & 0x7f == 0x7f {
                assert!(decode(code).is_nan());
                continue;
            }
            let magnitude = if e == 0 { m / 8.0 * 2f64.powi(-6) } else { (1.0 + m / 8.0) * 2f64.powi(e - 7) };
            let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
            assert_eq!(decode(code).to_bits(), ((sign * magnitude) as f32).to_bits(), "code {code:#x}");
        }
        assert_eq!(decode(0x7e), MAX);
    }

    #[test]
    fn every_code_round_trips() {
        for code in 0..=255u8 {
            let expected = if code & 0x7f == 0x7f { NAN } else { code };
            assert_eq!(encode(decode(code)), expected);
        }
    }

    #[test]
    fn midpoints_and_their_neighbours() {
        for c in 0..0x7eu8 {
            let mid = (decode(c) + decode(c + 1)) / 2.0;
            let even = if c & 1 == 0 { c } else { c + 1 };
            for (sign, s) in [(1.0f32, 0), (-1.0, 0x80)] {
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
                let expected = if x.is_nan() { NAN } else { nearest(x) };
                assert_eq!(encode(x), expected, "{x:e}");
            }
        }
    }

    #[test]
    fn hostile_values() {
        assert_eq!(encode(f32::NAN), NAN);
        assert_eq!(encode(-f32::NAN), NAN);
        assert_eq!(encode(f32::INFINITY), 0x7e);
        assert_eq!(encode(f32::NEG_INFINITY), 0xfe);
        assert_eq!(encode(464.0), 0x7e);
        assert_eq!(encode(480.0), 0x7e);
        assert_eq!(encode(-f32::MAX), 0xfe);
        assert_eq!(encode(f32::from_bits(1)), 0);
        assert_eq!(encode(-f32::from_bits(1)), 0x80);
        assert_eq!(encode(-0.0), 0x80);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]
        #[test]
        fn any_bits_go_to_the_nearest(bits: u32) {
            let x = f32::from_bits(bits);
            prop_assume!(!x.is_nan());
            prop_assert_eq!(encode(x), nearest(x));
        }

        #[test]
        fn in_range_goes_to_the_nearest(x in -500f32..500.0, small in -0.02f32..0.02) {
            prop_assert_eq!(encode(x), nearest(x));
            prop_assert_eq!(encode(small), nearest(small));
        }
    }
}
