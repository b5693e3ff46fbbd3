//! Prefetching of the panel that comes next.

use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

use super::COLUMNS;
use super::chunk::Chunk;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Lines of the values of a column in a chunk.
const VALUE_LINES: usize = 2;

/// The cache lines of the chunk that lies one panel after this one in memory: the same values of k of the next columns.
///
/// Hardware prefetchers do not follow as many columns at once. A core can only wait for a few lines at a time, so they are
/// asked for one by one while there is something to compute; asked for all at once they would hold up the loads of the chunk
/// itself.
pub struct Ahead {
    values: *const u8,
    value_stride: usize,
    scales: *const u8,
    scale_stride: usize,
    column: usize,
}

impl Ahead {
    /// What comes one panel after a chunk.
    #[inline]
    pub fn of(chunk: Chunk<'_>) -> Self {
        let (values, value_stride) = chunk.values_by_column();
        let (scales, scale_stride) = chunk.scales_by_column();
        Ahead {
            values: values.wrapping_add(COLUMNS * value_stride),
            value_stride,
            scales: scales.wrapping_add(COLUMNS * scale_stride),
            scale_stride,
            column: 0,
        }
    }

    /// Asks for the lines of one more column, while there is one.
    #[inline]
    pub fn ask(&mut self) {
        if self.column < COLUMNS {
            for line in 0..VALUE_LINES {
                prefetch(self.values.wrapping_add(self.column * self.value_stride + line * LINE));
            }
            // A line holds the scales of four chunks: only the first of them asks for it.
            let scales = self.scales.wrapping_add(self.column * self.scale_stride);
            if scales.addr() % LINE < LINE / 4 {
                prefetch(scales);
            }
            self.column += 1;
        }
    }

    /// Asks for all that is left.
    #[inline]
    pub fn ask_all(&mut self) {
        while self.column < COLUMNS {
            self.ask();
        }
    }
}

/// Asks for the line of `place`, into the second-level cache.
#[inline]
fn prefetch(place: *const u8) {
    // SAFETY: a prefetch accesses nothing, whatever its address.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(place.cast()) };
}
