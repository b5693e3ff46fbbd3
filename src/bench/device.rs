//! The device that is benchmarked.

use std::cell::RefCell;
use std::rc::Rc;

use super::variables::PREFIX;
use crate::device::cpu;
use crate::device::cuda::{Cuda, DeviceError};
use crate::kernel::{Kernel, cpu_kernels, cuda_kernels};
use crate::measure::{Settings, Subject, SubjectError};
use crate::record::{L2, Launch};
use crate::shape::Case;
use crate::sweep::{CpuRig, CudaRig, SweepSettings, Target, cpu_subjects, cuda_subjects};

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
/// Batches of a GPU: the ends, and where decoding and busy servers are.
const GPU_BATCHES: [u32; 4] = [1, 16, 64, 512];
/// Memory that operands may take on the processor.
const CPU_MEMORY: u64 = 2 << 30;

/// The device of this name; when none is named the first GPU that this build has kernels for, else the processor.
///
/// # Errors
/// There is no such device, or it cannot be opened.
pub(super) fn bench(name: Option<&str>) -> Result<Bench, String> {
    match Target::named(name).map_err(|reason| format!("{PREFIX}DEVICE {reason}"))? {
        Target::Cpu => Ok(processor()),
        Target::Cuda(ordinal) => gpu(ordinal).map_err(|e| format!("{PREFIX}DEVICE cuda:{ordinal}: {e}")),
    }
}

fn settings(memory_bytes: u64) -> SweepSettings {
    SweepSettings {
        timing: true,
        l2: L2::Cold,
        launch: Launch::Graph,
        precision: None,
        time_limit: None,
        exhaustive: false,
        seed: SEED,
        memory_bytes,
    }
}

fn processor() -> Bench {
    // One rig for all cases, so that weights outlive a case.
    let rig = RefCell::new(CpuRig::new(settings(CPU_MEMORY), cpu::device().cache_bytes));
    Bench {
        kernels: cpu_kernels(),
        settings: Settings::cpu(SEED),
        batches: &CPU_BATCHES,
        open: Rc::new(move |case, kernels| cpu_subjects(&mut rig.borrow_mut(), case, kernels)),
    }
}

fn gpu(ordinal: usize) -> Result<Bench, DeviceError> {
    // Subjects point into the context until the program ends.
    let cuda: &'static Cuda = Box::leak(Box::new(Cuda::open(ordinal)?));
    // Operands may take half of what is free.
    let memory_bytes = cuda.free_bytes()? / 2;
    let no_code = || DeviceError::Kernel("this build has no CUDA kernels".to_owned());
    let rig = RefCell::new(CudaRig::new(cuda, settings(memory_bytes)).ok_or_else(no_code)?);
    Ok(Bench {
        kernels: cuda_kernels(cuda.info()),
        settings: Settings::gpu(SEED),
        batches: &GPU_BATCHES,
        open: Rc::new(move |case, kernels| cuda_subjects(&mut rig.borrow_mut(), case, kernels)),
    })
}
