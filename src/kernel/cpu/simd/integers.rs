//! NVFP4 by NVFP4 in integers: the operands, decoded.
//!
//! e2m1 is a whole number of halves, from -12 to 12. A weight in halves, plus 12, is an unsigned byte; an activation in
//! halves is a signed byte: what the byte dot products of x86-64 take. The sum over a block starts from -12 times the sum of
//! the block's activations, which takes the offset out again. It stays below 16 * 24 * 12 in size, so it is exact; then it is
//! scaled in f32 by both scales, and added to the sums of other blocks.

use super::LANES;

/// What makes the halves of a weight an unsigned byte.
pub const OFFSET: i8 = 12;

/// A block of an activation row.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct IntegerBlock {
    /// Signed bytes, in halves: those of even k in 0..8, of odd k in 0..8, of even k in 8..16, of odd k in 8..16, as the low
    /// and the high nibbles of 4 packed bytes come.
    pub quads: [[i8; 4]; 4],
    /// Minus [`OFFSET`] times the sum of the bytes.
    pub offset: i32,
    /// The scale, times the 1/4 that takes two factors in halves to their product.
    pub scale: f32,
}

/// A block of the 16 columns of a panel.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct IntegerWeights {
    /// Unsigned bytes: halves plus [`OFFSET`]. Four of each column, in the order of [`IntegerBlock::quads`].
    pub quads: [[u8; 4 * LANES]; 4],
    /// The scale of each column.
    pub scales: [f32; LANES],
}

impl Default for IntegerWeights {
    fn default() -> Self {
        IntegerWeights { quads: [[0; 4 * LANES]; 4], scales: [0.0; LANES] }
    }
}
