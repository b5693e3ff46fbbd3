//! Conclusions from records alone: floors, winners, comparisons, choices. Needs no device.

mod bytes;
mod floor;
mod impossible;
mod judge;
mod tpot;
pub mod units;
mod winners;

pub use bytes::{Work, work};
pub use floor::{bind, floor, flop_ceiling, read_ceiling};
pub use impossible::{LEAST_SHARE, impossible, mark_impossible};
pub use judge::{judge_files, judge_rows};
pub use tpot::{TokenShare, token_shares};
pub use winners::{Cell, Ranked, SchemeSweep, Standing, Sweep, SweepKey, sweeps};
