//! Serde form of a ratio that may be infinite: a number, or `null` for infinity.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What `null` and an absent field stand for.
pub(super) fn infinity() -> f64 {
    f64::INFINITY
}

/// Writes a finite number as it is, anything else as `null`.
pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    value.is_finite().then_some(*value).serialize(serializer)
}

/// Reads a number, or `null` as infinity.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(infinity))
}
