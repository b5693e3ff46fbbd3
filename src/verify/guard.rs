//! Poisoned outputs with guard regions around them.
//!
//! Before each launch that is verified, the output and the guards are filled with [`POISON`]. What is still poison in the
//! output was not written; what is no longer poison in the guards was written past the start or the end.

use half::bf16;

/// The bf16 pattern of poison: a signalling NaN.
///
/// No arithmetic and no conversion gives a signalling NaN (IEEE 754-2019, 6.2: results are quiet), and what hardware
/// gives for an invalid operation is another pattern still (0x7FFF on NVIDIA GPUs, 0xFFC0 on x86), so a kernel writes it
/// only if it copies memory that it was not given. Doubled, it is a signalling NaN as f32 too.
pub const POISON: u16 = 0xFFA5;

/// The poison of two neighbouring elements, for 32-bit fills.
pub const POISON_PAIR: u32 = (POISON as u32) << 16 | POISON as u32;

/// Elements of each guard region for outputs of `n` columns: the rows of the largest tile (256), so that a kernel that
/// forgets to mask the last tile is caught, at most 2^21 elements (4 MiB), a multiple of 128 so that the output stays
/// aligned to 256 bytes.
pub fn guard_elements(n: u32) -> usize {
    (n as usize).saturating_mul(256).clamp(4096, 1 << 21)
}

/// Checks guard regions after a launch: the elements before and after the output.
///
/// # Errors
/// A sentence saying how many elements outside the output were written, and where the nearest is.
pub fn check_guards(before: &[bf16], after: &[bf16]) -> Result<(), String> {
    let written = |guard: &[bf16]| guard.iter().filter(|value| value.to_bits() != POISON).count();
    let is_written = |value: &bf16| value.to_bits() != POISON;
    if let Some(at) = after.iter().position(is_written) {
        return Err(format!(
            "{} elements past the end of the output were written, the first {at} behind it",
            written(after)
        ));
    }
    if let Some(at) = before.iter().rev().position(is_written) {
        return Err(format!(
            "{} elements before the start of the output were written, the last {} before it",
            written(before),
            at + 1
        ));
    }
    Ok(())
}

/// An output of a CPU kernel between two guard regions.
#[derive(Debug)]
pub struct GuardedOutput {
    buffer: Vec<bf16>,
    guard: usize,
}

impl GuardedOutput {
    /// Poisoned memory for `rows x n` elements and its guards.
    pub fn new(rows: usize, n: u32) -> Self {
        let guard = guard_elements(n);
        let poison = bf16::from_bits(POISON);
        GuardedOutput { buffer: vec![poison; rows * n as usize + 2 * guard], guard }
    }

    /// Fills the output and the guards with poison again.
    pub fn poison(&mut self) {
        self.buffer.fill(bf16::from_bits(POISON));
    }

    /// The output.
    pub fn output(&self) -> &[bf16] {
        &self.buffer[self.guard..self.buffer.len() - self.guard]
    }

    /// The output, to be written.
    pub fn output_mut(&mut self) -> &mut [bf16] {
        let end = self.buffer.len() - self.guard;
        &mut self.buffer[self.guard..end]
    }

    /// The whole memory and where the output starts in it, for what does not respect slices.
    pub fn parts_mut(&mut self) -> (&mut [bf16], usize) {
        (&mut self.buffer, self.guard)
    }

    /// Checks that nothing outside the output was written.
    ///
    /// # Errors
    /// As [`check_guards`].
    pub fn check(&self) -> Result<(), String> {
        check_guards(&self.buffer[..self.guard], &self.buffer[self.buffer.len() - self.guard..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poison_is_a_signalling_nan_in_both_widths() {
        assert!(bf16::from_bits(POISON).is_nan() && POISON & 0x40 == 0);
        assert!(f32::from_bits(POISON_PAIR).is_nan() && POISON_PAIR & 0x0040_0000 == 0);
        // Rounding to bf16 makes even this f32 quiet.
        assert_ne!(bf16::from_f32(f32::from_bits(POISON_PAIR)).to_bits(), POISON);
    }

    #[test]
    fn writes_outside_are_found_and_writes_inside_are_not() {
        let mut out = GuardedOutput::new(3, 5);
        assert_eq!(out.output().len(), 15);
        out.output_mut().fill(bf16::ONE);
        assert_eq!(out.check(), Ok(()));
        let (all, start) = out.parts_mut();
        all[start + 15] = bf16::ONE;
        all[start + 17] = bf16::NAN;
        let error = out.check().unwrap_err();
        assert!(error.contains("2 elements past the end") && error.contains("first 0 behind"), "{error}");
        out.poison();
        assert_eq!(out.check(), Ok(()));
        let (all, start) = out.parts_mut();
        all[start - 3] = bf16::ZERO;
        let error = out.check().unwrap_err();
        assert!(error.contains("before the start") && error.contains("3 before it"), "{error}");
    }
}
