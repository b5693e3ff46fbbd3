//! The 128x4 scale-factor layout of block-scaled MMA (CUTLASS `Sm1xxBlockScaledConfig`).
//!
//! Atoms of 128 rows (of M or N) by 4 scale blocks of k hold 512 bytes: byte `(r % 32) * 16 + (r / 32) * 4 + b` of an
//! atom belongs to its row `r` and block `b`, so that the four scales that a lane feeds to one MMA are one aligned 32-bit
//! word. Atoms follow each other along k first, then along the rows. Rows are padded to 128, blocks to 4.

use super::QuantiseError;
use super::error::check_len;

/// Rows of an atom.
const ATOM_ROWS: usize = 128;
/// Scale blocks of an atom.
const ATOM_BLOCKS: usize = 4;
/// Bytes of an atom.
const ATOM: usize = ATOM_ROWS * ATOM_BLOCKS;

/// The scales of one matrix: `rows` rows of `blocks` scale blocks (k divided by the group).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleLayout {
    rows: usize,
    blocks: usize,
}

impl ScaleLayout {
    /// The layout of a plane of `rows` rows of `blocks` scales.
    pub fn new(rows: usize, blocks: usize) -> Self {
        ScaleLayout { rows, blocks }
    }

    /// Rows with their padding.
    pub fn padded_rows(self) -> usize {
        self.rows.next_multiple_of(ATOM_ROWS)
    }

    /// Scale blocks of a row with their padding.
    pub fn padded_blocks(self) -> usize {
        self.blocks.next_multiple_of(ATOM_BLOCKS)
    }

    /// Bytes of the plane, padding included.
    pub fn bytes(self) -> usize {
        self.padded_rows() * self.padded_blocks()
    }

    /// Byte of the scale of `row` and `block`; both may lie in the padding.
    pub fn offset(self, row: usize, block: usize) -> usize {
        let atom = row / ATOM_ROWS * (self.padded_blocks() / ATOM_BLOCKS) + block / ATOM_BLOCKS;
        let r = row % ATOM_ROWS;
        atom * ATOM + r % 32 * 16 + r / 32 * 4 + block % ATOM_BLOCKS
    }

    /// Canonical `[rows][blocks]` to this layout, zeros in the padding.
    ///
    /// # Errors
    /// When `scales` does not have `rows x blocks` elements.
    pub fn pack(self, scales: &[u8]) -> Result<Vec<u8>, QuantiseError> {
        check_len("the scales", scales.len(), self.rows * self.blocks)?;
        let mut packed = vec![0; self.bytes()];
        if self.blocks > 0 {
            for (row, line) in scales.chunks_exact(self.blocks).enumerate() {
                for (block, quad) in line.chunks(ATOM_BLOCKS).enumerate() {
                    let at = self.offset(row, block * ATOM_BLOCKS);
                    packed[at..at + quad.len()].copy_from_slice(quad);
                }
            }
        }
        Ok(packed)
    }

    /// This layout to canonical `[rows][blocks]`.
    ///
    /// # Errors
    /// When `packed` does not have [`ScaleLayout::bytes`] elements.
    pub fn unpack(self, packed: &[u8]) -> Result<Vec<u8>, QuantiseError> {
        check_len("the packed scales", packed.len(), self.bytes())?;
        let mut scales = vec![0; self.rows * self.blocks];
        if self.blocks > 0 {
            for (row, line) in scales.chunks_exact_mut(self.blocks).enumerate() {
                for (block, quad) in line.chunks_mut(ATOM_BLOCKS).enumerate() {
                    let at = self.offset(row, block * ATOM_BLOCKS);
                    quad.copy_from_slice(&packed[at..at + quad.len()]);
                }
            }
        }
        Ok(scales)
    }
}

/// First padded row of each expert's plane in grouped activation scales, `experts + 1` entries: each plane starts on a
/// 128-row boundary, so expert `e` starts at byte `starts[e] * padded_blocks`.
pub fn padded_row_starts(rows: &[u32]) -> Vec<u64> {
    let mut starts = Vec::with_capacity(rows.len() + 1);
    let mut at = 0;
    starts.push(at);
    for &r in rows {
        at += u64::from(r).next_multiple_of(ATOM_ROWS as u64);
        starts.push(at);
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_places() {
        let l = ScaleLayout::new(200, 9);
        assert_eq!((l.padded_rows(), l.padded_blocks(), l.bytes()), (256, 12, 3072));
        assert_eq!(l.offset(0, 3), 3);
        assert_eq!(l.offset(1, 0), 16);
        assert_eq!(l.offset(31, 0), 496);
        assert_eq!(l.offset(32, 0), 4);
        assert_eq!(l.offset(127, 3), 511);
        assert_eq!(l.offset(0, 4), 512);
        assert_eq!(l.offset(128, 0), 1536);
    }

    #[test]
    fn planes_start_on_128_rows() {
        assert_eq!(padded_row_starts(&[0, 1, 128, 129, 0]), [0, 0, 128, 256, 512, 512]);
        assert_eq!(padded_row_starts(&[]), [0]);
    }

    #[test]
    fn refusals() {
        let l = ScaleLayout::new(3, 5);
        assert!(l.pack(&[0; 14]).is_err());
        assert!(l.unpack(&[0; 15]).is_err());
        assert!(ScaleLayout::new(4, 0).pack(&[]).unwrap().is_empty());
        assert!(ScaleLayout::new(0, 4).unpack(&[]).unwrap().is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn bijection_onto_the_padded_plane(rows in 1usize..400, blocks in 1usize..40) {
            let l = ScaleLayout::new(rows, blocks);
            let mut seen = vec![false; l.bytes()];
            for row in 0..l.padded_rows() {
                for block in 0..l.padded_blocks() {
                    let seen = &mut seen[l.offset(row, block)];
                    prop_assert!(!*seen);
                    *seen = true;
                }
            }
            prop_assert!(seen.into_iter().all(|s| s));
        }

        #[test]
        fn round_trip_with_zero_padding(rows in 1usize..300, blocks in 1usize..40, seed: u8) {
            let l = ScaleLayout::new(rows, blocks);
            let scales: Vec<u8> = (0..rows * blocks).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed) | 1).collect();
            let packed = l.pack(&scales).unwrap();
            prop_assert_eq!(packed.iter().filter(|&&b| b != 0).count(), scales.len());
            prop_assert_eq!(packed[l.offset(rows - 1, blocks - 1)], scales[scales.len() - 1]);
            prop_assert_eq!(l.unpack(&packed).unwrap(), scales);
        }
    }
}
