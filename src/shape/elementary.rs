//! Logarithm and exponential from additions, multiplications and divisions only.
//!
//! Those four are exact to the last bit on every machine; the standard library's `ln` and `exp` are whatever the
//! platform has, and a seed must not mean one routing here and another there.

use std::f64::consts::{LN_2, SQRT_2};

/// Natural logarithm of a positive normal number, to a few units in the last place.
pub(super) fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits((bits & MANTISSA) | 1.0f64.to_bits());
    if m > SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    // ln m = 2 artanh s, |s| <= 0.172: twelve terms leave 0.0295^12 / 25 < 1e-19.
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let series = (0..12).rev().fold(0.0, |sum, i| sum * square + 1.0 / f64::from(2 * i + 1));
    2.0 * s * series + exponent as f64 * LN_2
}

/// Exponential of a number between -700 and 700, to a few units in the last place.
pub(super) fn exp(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    let n = (x / LN_2).round();
    let r = x - n * LN_2;
    // |r| <= 0.347: sixteen terms leave 0.347^16 / 16! < 1e-20.
    let series = (1..16).rev().fold(1.0, |sum, i| 1.0 + sum * r / f64::from(i));
    series * f64::from_bits(((n as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_agree_with_the_platform() {
        for i in 1..20_000 {
            let x = f64::from(i) * 0.05;
            assert!((ln(x) - x.ln()).abs() <= 4e-16 * x.ln().abs().max(1.0), "ln {x}");
            let y = f64::from(i) * 0.0699 - 699.0;
            assert!((exp(y) / y.exp() - 1.0).abs() < 1e-13, "exp {y}");
        }
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(exp(0.0), 1.0);
    }
}
