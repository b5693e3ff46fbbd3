//! Conclusions from records alone: floors, winners, comparisons, choices. Needs no device.

mod bytes;
mod choose;
mod compare;
mod crossover;
mod datasheet;
mod floor;
mod gate;
mod import;
mod impossible;
mod judge;
mod normal;
mod regret;
mod tpot;
mod tuned;
pub mod units;
mod verdict;
mod winners;

pub use bytes::{Work, work};
pub use choose::{
    AcrossChoice, AcrossOption, CHOICE_SCHEMA, ChoiceEntry, ChoiceTable, Choices, NextBest, SchemeChoice,
    choice_schema, choose,
};
pub use compare::{CellComparison, Change, CompareOptions, Comparison, compare};
pub use crossover::Crossover;
pub use datasheet::{DataSheet, datasheet};
pub use floor::{bind, floor, flop_ceiling, read_ceiling};
pub use gate::{Gate, GateCell, GateOptions, gate};
pub use import::{Imported, KnownModel, import_csv};
pub use impossible::{LEAST_SHARE, impossible, judge_again, mark_impossible};
pub use judge::{judge_files, judge_rows};
pub use regret::{Cost, OneKernel, RoutingRegret, Snapping};
pub use tpot::{TokenShare, token_shares};
pub use tuned::{TunedConfig, tuned_configs};
pub use verdict::{VerdictRecord, VerdictWord};
pub use winners::{Cell, Ranked, SchemeSweep, Standing, Sweep, SweepKey, sweeps};
