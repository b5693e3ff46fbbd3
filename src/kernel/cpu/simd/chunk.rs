//! Chunks of a panel, made whole where the panel ends.

use super::{BLOCKS, DEPTH, LANES};
use crate::kernel::cpu::codes::BLOCK;
use crate::kernel::cpu::problem::Panel;

/// Bytes of a column's values in a chunk.
const VALUE_BYTES: usize = DEPTH / 2;
/// Bytes of a padded copy: values, then scales.
pub const PADDED: usize = LANES * (VALUE_BYTES + BLOCKS);

/// 16 columns of 256 values, always whole: the loops need no masks.
///
/// Column `c` has its 128 bytes of values at `values[c * value_stride]`, its 16 scales at `scales[c * scale_stride]`; both
/// slices hold the last column's whole.
#[derive(Clone, Copy)]
pub struct Chunk<'a> {
    values: &'a [u8],
    value_stride: usize,
    scales: &'a [u8],
    scale_stride: usize,
}

impl<'a> Chunk<'a> {
    /// The values of k from `first` on of a panel: in place where there are 16 columns and 256 values, else copied into
    /// `padded` with zeros behind them.
    pub fn new(panel: Panel<'a>, first: usize, length: usize, padded: &'a mut [u8; PADDED]) -> Self {
        let (value_stride, scale_stride) = (panel.k / 2, panel.k / BLOCK);
        let (values, scales) = (&panel.values[first / 2..], &panel.scales[first / BLOCK..]);
        if panel.columns == LANES && length == DEPTH {
            return Chunk { values, value_stride, scales, scale_stride };
        }
        let (padded_values, padded_scales) = padded.split_at_mut(LANES * VALUE_BYTES);
        let (value_bytes, scale_bytes) = (length / 2, length / BLOCK);
        for column in 0..panel.columns {
            padded_values[column * VALUE_BYTES..][..value_bytes]
                .copy_from_slice(&values[column * value_stride..][..value_bytes]);
            padded_scales[column * BLOCKS..][..scale_bytes]
                .copy_from_slice(&scales[column * scale_stride..][..scale_bytes]);
        }
        Chunk { values: padded_values, value_stride: VALUE_BYTES, scales: padded_scales, scale_stride: BLOCKS }
    }

    /// The 128 bytes of values of a column.
    pub fn values(&self, column: usize) -> &'a [u8] {
        &self.values[column * self.value_stride..][..VALUE_BYTES]
    }

    /// The 16 scales of a column.
    pub fn scales(&self, column: usize) -> &'a [u8] {
        &self.scales[column * self.scale_stride..][..BLOCKS]
    }

    /// Where the values of all columns begin, and the bytes from one column to the next. 128 bytes of each are readable.
    pub fn values_by_column(&self) -> (*const u8, usize) {
        assert!(self.values.len() >= (LANES - 1) * self.value_stride + VALUE_BYTES, "a chunk is whole");
        (self.values.as_ptr(), self.value_stride)
    }

    /// Where the scales of all columns begin, and the bytes from one column to the next. 16 bytes of each are readable.
    pub fn scales_by_column(&self) -> (*const u8, usize) {
        assert!(self.scales.len() >= (LANES - 1) * self.scale_stride + BLOCKS, "a chunk is whole");
        (self.scales.as_ptr(), self.scale_stride)
    }
}
