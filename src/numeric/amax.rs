//! Largest magnitude of a run of values.

use super::QuantiseError;
use super::error::check_finite_bits;

/// Bits of f32 without the sign.
pub(crate) const MAGNITUDE: u32 = 0x7fff_ffff;

/// Bit pattern of the largest magnitude in `x` (0 when empty); at least `0x7f80_0000` when any value is not finite.
#[inline(always)]
pub fn amax_bits(x: &[f32]) -> u32 {
    x.iter().fold(0, |m, v| m.max(v.to_bits() & MAGNITUDE))
}

/// Largest magnitude in `x`, 0 when empty.
///
/// # Errors
/// [`QuantiseError::NotFinite`] when a value is infinite or NaN.
pub fn amax(x: &[f32]) -> Result<f32, QuantiseError> {
    let bits = super::widest(
        #[inline(always)]
        || amax_bits(x),
    );
    check_finite_bits(bits, x)?;
    Ok(f32::from_bits(bits))
}
