//! Conclusions from records alone: floors, winners, comparisons, choices. Needs no device.

mod bytes;
mod compare;
mod floor;
mod gate;
mod impossible;
mod judge;
mod normal;
mod tpot;
pub mod units;
mod verdict;
mod winners;

pub use bytes::{Work, work};
pub use compare::{CellComparison, Change, CompareOptions, Comparison, compare};
pub use floor::{bind, floor, flop_ceiling, read_ceiling};
pub use gate::{Gate, GateCell, GateOptions, gate};
pub use impossible::{LEAST_SHARE, impossible, mark_impossible};
pub use judge::{judge_files, judge_rows};
pub use tpot::{TokenShare, token_shares};
pub use verdict::{VerdictRecord, VerdictWord};
pub use winners::{Cell, Ranked, SchemeSweep, Standing, Sweep, SweepKey, sweeps};
