//! ue8m0, the power-of-two scale of the MX formats: code c is 2^(c - 127), 255 is NaN; there is no zero.
//!
//! Source: OCP Microscaling Formats (MX) specification 1.0, sections 5.4.1 and 6.3.

/// Code of NaN.
pub const NAN: u8 = 255;

/// Value of a code. 0 is 2^-127, a subnormal f32.
#[inline(always)]
pub fn decode(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(0x0040_0000),
        NAN => f32::NAN,
        c => f32::from_bits(u32::from(c) << 23),
    }
}

/// Scale of a block whose largest magnitude is `amax`, for elements whose largest power of two is 2^`emax`: the MX rule
/// 2^(floor(log2(amax)) - emax), at least 2^-127. An amax of zero, or subnormal in f32, gives 2^-127; one that is not
/// finite gives NaN. The sign is ignored.
///
/// The rule rounds the scale down, so values in the top of the block's last octave may saturate; that is what it says.
#[inline(always)]
pub fn encode_block(amax: f32, emax: u32) -> u8 {
    match amax.to_bits() >> 23 & 0xff {
        0xff => NAN,
        exponent => exponent.saturating_sub(emax) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code() {
        for code in 0..255u8 {
            assert_eq!(f64::from(decode(code)), 2f64.powi(i32::from(code) - 127));
        }
        assert!(decode(NAN).is_nan());
    }

    #[test]
    fn scale_rule_at_every_octave() {
        for emax in [2u32, 8] {
            for exponent in -126..=127i32 {
                let low = 2f64.powi(exponent) as f32;
                let high = f32::from_bits(low.to_bits() | 0x007f_ffff);
                let expected = (exponent - emax as i32 + 127).max(0) as u8;
                assert_eq!(encode_block(low, emax), expected);
                assert_eq!(encode_block(-high, emax), expected);
            }
        }
    }

    #[test]
    fn hostile_values() {
        assert_eq!(encode_block(0.0, 2), 0);
        assert_eq!(encode_block(f32::from_bits(1), 2), 0);
        assert_eq!(encode_block(f32::from_bits(0x007f_ffff), 8), 0);
        assert_eq!(encode_block(f32::INFINITY, 2), NAN);
        assert_eq!(encode_block(f32::NAN, 2), NAN);
    }
}
