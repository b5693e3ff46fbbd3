//! ue4m3, the unsigned e4m3 of NVFP4 block scales: codes 0 to 0x7e are those of e4m3, 0x7f is NaN, the top bit is 0.

use super::e4m3;

/// Largest value.
pub const MAX: f32 = e4m3::MAX;

/// Code of NaN.
pub const NAN: u8 = e4m3::NAN;

/// Value of a code; NaN for [`NAN`] and for every byte whose top bit is set, which is no ue4m3.
#[inline(always)]
pub fn decode(code: u8) -> f32 {
    if code < 0x80 { e4m3::decode(code) } else { f32::NAN }
}

/// Nearest code, ties to even, saturating at 448, infinity too. Negative values and both zeros give 0; NaN gives [`NAN`].
#[inline(always)]
pub fn encode(x: f32) -> u8 {
    if x.is_nan() {
        return NAN;
    }
    e4m3::encode_magnitude(x.max(0.0)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_round_trips() {
        for code in 0..0x80u8 {
            assert_eq!(encode(decode(code)), code);
            assert!(decode(code | 0x80).is_nan());
        }
    }

    #[test]
    fn midpoints_and_their_neighbours() {
        for c in 0..0x7eu8 {
            let mid = (decode(c) + decode(c + 1)) / 2.0;
            assert_eq!(encode(mid), if c & 1 == 0 { c } else { c + 1 });
            assert_eq!(encode(mid.next_down()), c);
            assert_eq!(encode(mid.next_up()), c + 1);
        }
    }

    #[test]
    fn hostile_values() {
        for (x, code) in [
            (f32::NAN, NAN),
            (f32::INFINITY, 0x7e),
            (f32::MAX, 0x7e),
            (480.0, 0x7e),
            (f32::NEG_INFINITY, 0),
            (-1.0, 0),
            (-0.0, 0),
            (f32::from_bits(1), 0),
        ] {
            assert_eq!(encode(x), code, "{x}");
        }
    }
}
