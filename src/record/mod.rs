//! Results files: rows and what surrounds them, reading, writing, merging.

mod check;
mod error;
mod file;
mod key;
mod merge;
mod read;
mod row;
mod schema;
mod unbounded;
mod write;

pub use check::{Fault, check};
pub use error::FileError;
pub use file::{Ceilings, Device, Host, Results, SCHEMA, Tool};
pub use key::{CaseKey, CellKey, ConditionsKey};
pub use merge::{Merged, merge};
pub use read::{parse, read};
pub use row::{
    BoundRecord, Conditions, Extra, KernelRecord, L2, Launch, LimitedBy, Row, SlotPlanRecord, Status, TelemetryRecord,
    TimeRecord, VerifyRecord,
};
pub use schema::results_schema;
pub use write::{write, write_bytes, write_json, write_text};
