//! NVIDIA GPUs through the driver API, loaded at run time so that one binary starts on any machine.

mod context;
mod error;
mod event;
mod graph;
mod memory;
mod support;
mod unit;

pub use context::{Cuda, GpuInfo, gpus};
pub use error::DeviceError;
pub use event::Event;
pub use graph::{Graph, capture};
pub use memory::{Buffer, GUARD_BYTES};
pub use support::{Format, Mma, Numbers, ReferenceTarget, Support};
pub use unit::{Addresses, Parts, Plan, Unit, UnitError};
