//! The device that is benchmarked.

use std::cell::RefCell;
use std::rc::Rc;

use super::variables::PREFIX;
use crate::device::cpu;
use crate::kernel::{Kernel, cpu_kernels};
use crate::measure::{Settings, Subject, SubjectError};
use crate::record::{L2, Launch};
use crate::shape::Case;
use crate::sweep::{CpuRig, SweepSettings, cpu_subjects};

/// Makes the subjects of kernels on a case, in the order of the kernels.
pub(super) type Open =
    Rc<dyn Fn(&Case, &[Rc<Box<dyn Kernel>>]) -> Result<Vec<Result<Box<dyn Subject>, SubjectError>>, SubjectError>>;

/// What a device brings to a benchmark.
pub(super) struct Bench {
    /// Its kernels.
    pub kernels: Vec<Box<dyn Kernel>>,
    /// How they are sampled.
    pub settings: Settings,
    /// Batches when none are asked for.
    pub batches: &'static [u32],
    /// Loads and verifies.
    pub open: Open,
}

/// Seed of routing, operands, slots and order.
pub(super) const SEED: u64 = 0;

/// Batches that the processor gets through in a minute or two.
const CPU_BATCHES: [u32; 3] = [1, 8, 64];
/// Memory that operands may take on the processor.
const CPU_MEMORY: u64 = 2 << 30;

/// The device of this name; the processor when none is named.
///
/// # Errors
/// There is no such device.
pub(super) fn bench(name: Option<&str>) -> Result<Bench, String> {
    match name {
        None | Some("cpu") => Ok(processor()),
        Some(other) => Err(format!("{PREFIX}DEVICE {other:?} is no device that can be benchmarked here; give cpu")),
    }
}

fn processor() -> Bench {
    let settings = SweepSettings {
        timing: true,
        l2: L2::Cold,
        launch: Launch::Graph,
        precision: None,
        time_limit: None,
        exhaustive: false,
        seed: SEED,
        memory_bytes: CPU_MEMORY,
    };
    // One rig for all cases, so that weights outlive a case.
    let rig = RefCell::new(CpuRig::new(settings, cpu::device().cache_bytes));
    Bench {
        kernels: cpu_kernels(),
        settings: Settings::cpu(SEED),
        batches: &CPU_BATCHES,
        open: Rc::new(move |case, kernels| cpu_subjects(&mut rig.borrow_mut(), case, kernels)),
    }
}
