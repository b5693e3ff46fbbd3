//! What the operand makers refuse.

use crate::numeric::QuantiseError;

/// Why operands or slots were not made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OperandError {
    /// The scheme cannot hold this shape.
    #[error(transparent)]
    Quantise(#[from] QuantiseError),
    /// A dimension is zero.
    #[error("a GEMM of {experts} experts, N {n}, K {k} has no weights; every dimension must be at least 1")]
    Empty {
        /// Experts.
        experts: u32,
        /// Output columns.
        n: u32,
        /// Reduction length.
        k: u32,
    },
    /// More than this machine can address.
    #[error("{what} of {bytes} bytes are more than the {limit} that are made in memory; choose a smaller shape")]
    TooLarge {
        /// Which operands.
        what: &'static str,
        /// Their size.
        bytes: u128,
        /// The limit.
        limit: u128,
    },
    /// Offsets that are not a rising list from 0 to the rows.
    #[error("expert offsets must rise from 0 to the {rows} rows; they are {found}")]
    Offsets {
        /// Rows of all experts.
        rows: u32,
        /// What is wrong with them.
        found: String,
    },
    /// No expert has a row.
    #[error("no expert has a row, so there is nothing to launch")]
    NoRows,
    /// More rows than a 32-bit offset can count.
    #[error("{rows} rows are more than the {limit} that expert offsets can count; choose a smaller batch")]
    TooManyRows {
        /// Rows of all experts.
        rows: u64,
        /// The limit.
        limit: u64,
    },
}
