//! Results files: rows and what surrounds them.

mod file;
mod row;

pub use file::{Ceilings, Device, Host, Results, SCHEMA, Tool};
pub use row::{
    BoundRecord, Conditions, Extra, KernelRecord, L2, Launch, LimitedBy, Row, SlotPlanRecord, Status, TelemetryRecord,
    TimeRecord, VerifyRecord,
};
