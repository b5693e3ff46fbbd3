//! A sweep: every kernel over every case, verified, then timed, one row each. Joins operands, kernels, verification and
//! measurement; what comes out are records.

mod cpu;
mod cuda;
mod cuda_operands;
mod cuda_subjects;
mod rows;
mod schemes;
mod target;

pub use cpu::{CaseSubject, CpuRig, cpu_subjects};
pub use cuda::CudaRig;
pub use cuda_subjects::cuda_subjects;
pub use target::Target;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::measure::Progress;
use crate::record::{L2, Launch, Row};
use crate::shape::Case;

/// How a sweep is run.
#[derive(Clone, Debug)]
pub struct SweepSettings {
    /// Verify only.
    pub timing: bool,
    /// Cache state before each call.
    pub l2: L2,
    /// How calls reach the device.
    pub launch: Launch,
    /// Asked half-width of the 95% interval over the median; `None` for the device's default.
    pub precision: Option<f64>,
    /// Longest sampling of one kernel in one case; `None` for the device's default.
    pub time_limit: Option<Duration>,
    /// Race nothing out.
    pub exhaustive: bool,
    /// Seed of operands, slots and order.
    pub seed: u64,
    /// Memory that operands may take, in bytes.
    pub memory_bytes: u64,
}

/// What a sweep is doing.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A case begins: its number, how many there are, and which.
    Case(usize, usize, &'a Case),
    /// Work that takes a while, in words.
    Doing(&'a str),
    /// A round of samples was taken.
    Sampling(&'a Progress),
}

/// What a sweep needs from its caller.
pub struct Control<'a> {
    /// Stops the sweep at the next chance; the rows so far have been handed over.
    pub cancel: &'a AtomicBool,
    /// Called with what is being done.
    pub step: &'a mut dyn FnMut(Step<'_>),
    /// Called with every finished row.
    pub row: &'a mut dyn FnMut(Row),
}

impl Control<'_> {
    /// Whether the sweep should stop.
    pub fn cancelled(&self) -> bool {
        self.cancel.load(std::sync::atomic::Ordering::Relaxed)
    }
}
