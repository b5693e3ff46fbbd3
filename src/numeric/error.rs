//! What a quantiser refuses.

/// Why values were not quantised.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QuantiseError {
    /// The reduction length does not split into whole blocks.
    #[error("K {k} is not a multiple of {group}, the scale block of {format}; choose a shape or a split whose K is")]
    Group {
        /// The number format.
        format: &'static str,
        /// Reduction length.
        k: usize,
        /// Values that share a scale.
        group: usize,
    },
    /// An infinity or a NaN.
    #[error("element {index} is {value}; only finite values can be quantised")]
    NotFinite {
        /// Where, counted from the start of the values passed in.
        index: usize,
        /// What is there.
        value: f32,
    },
    /// Buffers that do not fit each other.
    #[error("{what} has {found} elements where {expected} belong")]
    Length {
        /// Which buffer.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The length that fits the others.
        expected: usize,
    },
    /// A global scale that is zero, negative or not finite.
    #[error("a global scale must be finite and positive, not {0}")]
    Global(f32),
    /// Gate and up cannot share a global without changing values.
    #[error(
        "gate and up of expert {expert} have globals {gate} and {up}, and {blocks} of their block scales cannot be \
         expressed under one; allow requantising"
    )]
    Fuse {
        /// The expert.
        expert: usize,
        /// Global of the gate matrix.
        gate: f32,
        /// Global of the up matrix.
        up: f32,
        /// Blocks that would change.
        blocks: usize,
    },
}

/// Refuses a largest magnitude that is not finite, naming the first such element of `x`.
pub(crate) fn check_finite_bits(amax_bits: u32, x: &[f32]) -> Result<(), QuantiseError> {
    if f32::from_bits(amax_bits).is_finite() {
        return Ok(());
    }
    let found = x.iter().enumerate().find(|(_, v)| !v.is_finite());
    let (index, value) = found.map_or((0, f32::from_bits(amax_bits)), |(i, v)| (i, *v));
    Err(QuantiseError::NotFinite { index, value })
}

/// Refuses a buffer of the wrong length.
pub(crate) fn check_len(what: &'static str, found: usize, expected: usize) -> Result<(), QuantiseError> {
    if found == expected { Ok(()) } else { Err(QuantiseError::Length { what, found, expected }) }
}

/// Refuses a reduction length that does not split into whole blocks.
pub(crate) fn check_group(format: &'static str, k: usize, group: usize) -> Result<(), QuantiseError> {
    if k.is_multiple_of(group) { Ok(()) } else { Err(QuantiseError::Group { format, k, group }) }
}
