//! What is sampled.

use std::fmt;

/// Something that can be timed.
pub trait Subject {
    /// Takes one sample: nanoseconds per call. For a GPU kernel this is one replay of a graph over all slots, divided
    /// by its calls; for a CPU kernel one or more calls on the next slots.
    ///
    /// # Errors
    /// A sentence when the device or the kernel failed; the subject is then sampled no more.
    fn sample(&mut self) -> Result<Sample, SubjectError>;
}

/// One sample of a subject.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Nanoseconds per call.
    pub ns_per_call: f64,
    /// Calls in the sample.
    pub calls: u32,
    /// Taken while the device was throttled.
    pub throttled: bool,
}

/// Why a subject could not be sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectError(pub String);

impl fmt::Display for SubjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SubjectError {}
