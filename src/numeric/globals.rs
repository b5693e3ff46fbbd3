//! The f32 that a whole NVFP4 tensor, or one expert of it, shares; the type says which way it is applied.

use serde::{Deserialize, Serialize};

use super::{QuantiseError, e2m1, ue4m3};

/// A global that multiplies: value = e2m1 x ue4m3 x global. Finite and positive.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f32", into = "f32")]
pub struct GlobalMultiplier(f32);

/// A global that divides: value = e2m1 x ue4m3 / global, as some checkpoints store it. Finite and positive.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f32", into = "f32")]
pub struct GlobalDivisor(f32);

impl GlobalMultiplier {
    /// A multiplier of 1, for tensors that have none or hold only zeros.
    pub const ONE: GlobalMultiplier = GlobalMultiplier(1.0);

    /// # Errors
    /// [`QuantiseError::Global`] unless `g` is finite and positive.
    pub fn new(g: f32) -> Result<Self, QuantiseError> {
        if g.is_finite() && g > 0.0 { Ok(GlobalMultiplier(g)) } else { Err(QuantiseError::Global(g)) }
    }

    /// The multiplier that puts a largest magnitude `amax` at the top of both formats: `amax / (6 * 448)`, one f32
    /// division by 2688. Never below 2^-126, so that it has all its digits; 1 for an amax of zero.
    ///
    /// # Errors
    /// [`QuantiseError::Global`] when `amax` is negative or not finite.
    pub fn from_amax(amax: f32) -> Result<Self, QuantiseError> {
        if amax == 0.0 {
            return Ok(GlobalMultiplier::ONE);
        }
        if !(amax.is_finite() && amax > 0.0) {
            return Err(QuantiseError::Global(amax));
        }
        Ok(GlobalMultiplier((amax / (e2m1::MAX * ue4m3::MAX)).max(f32::MIN_POSITIVE)))
    }

    /// The number.
    pub fn get(self) -> f32 {
        self.0
    }
}

impl GlobalDivisor {
    /// # Errors
    /// [`QuantiseError::Global`] unless `d` is finite and positive.
    pub fn new(d: f32) -> Result<Self, QuantiseError> {
        if d.is_finite() && d > 0.0 { Ok(GlobalDivisor(d)) } else { Err(QuantiseError::Global(d)) }
    }

    /// The number.
    pub fn get(self) -> f32 {
        self.0
    }
}

/// The reciprocal, rounded once; refused where it leaves the finite numbers.
impl TryFrom<GlobalDivisor> for GlobalMultiplier {
    type Error = QuantiseError;

    fn try_from(d: GlobalDivisor) -> Result<Self, QuantiseError> {
        GlobalMultiplier::new(1.0 / d.0)
    }
}

/// The reciprocal, rounded once; refused where it leaves the finite numbers.
impl TryFrom<GlobalMultiplier> for GlobalDivisor {
    type Error = QuantiseError;

    fn try_from(m: GlobalMultiplier) -> Result<Self, QuantiseError> {
        GlobalDivisor::new(1.0 / m.0)
    }
}

impl TryFrom<f32> for GlobalMultiplier {
    type Error = QuantiseError;

    fn try_from(g: f32) -> Result<Self, QuantiseError> {
        GlobalMultiplier::new(g)
    }
}

impl TryFrom<f32> for GlobalDivisor {
    type Error = QuantiseError;

    fn try_from(d: f32) -> Result<Self, QuantiseError> {
        GlobalDivisor::new(d)
    }
}

impl From<GlobalMultiplier> for f32 {
    fn from(g: GlobalMultiplier) -> f32 {
        g.0
    }
}

impl From<GlobalDivisor> for f32 {
    fn from(d: GlobalDivisor) -> f32 {
        d.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amax_lands_on_the_top_of_both_formats() {
        assert_eq!(GlobalMultiplier::from_amax(2688.0).unwrap().get(), 1.0);
        assert_eq!(GlobalMultiplier::from_amax(0.0).unwrap(), GlobalMultiplier::ONE);
        assert_eq!(GlobalMultiplier::from_amax(f32::from_bits(1)).unwrap().get(), f32::MIN_POSITIVE);
        for bad in [f32::NAN, f32::INFINITY, -1.0] {
            assert!(GlobalMultiplier::from_amax(bad).is_err());
        }
    }

    #[test]
    fn divisor_is_the_other_way_round() {
        let m = GlobalMultiplier::try_from(GlobalDivisor::new(2688.0).unwrap()).unwrap();
        assert_eq!(m.get(), 1.0 / 2688.0);
        assert_eq!(GlobalDivisor::try_from(GlobalMultiplier::new(0.25).unwrap()).unwrap().get(), 4.0);
        assert!(GlobalMultiplier::try_from(GlobalDivisor::new(f32::from_bits(1)).unwrap()).is_err());
    }

    #[test]
    fn refuses_what_cannot_scale() {
        for bad in [0.0, -0.0, -2.0, f32::NAN, f32::INFINITY] {
            assert!(GlobalMultiplier::new(bad).is_err(), "{bad}");
            assert!(GlobalDivisor::new(bad).is_err(), "{bad}");
            assert!(serde_json::from_value::<GlobalMultiplier>(serde_json::json!(bad)).is_err());
        }
        assert_eq!(serde_json::to_string(&GlobalMultiplier::new(0.5).unwrap()).unwrap(), "0.5");
    }
}
