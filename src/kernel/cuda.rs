//! Compiled CUDA kernels as kernels: what the build knows of each, and its C side.

use super::cuda_units::{CompiledUnit, Image, UnitPlan, built};
use super::{Engine, Kernel, KernelId, KernelInfo, Scheme};
use crate::device::abi;
use crate::device::cuda::{GpuInfo, Unit, UnitError};
use crate::shape::Case;

/// A compiled kernel that a GPU of this machine can run, by itself or as a rewritten image.
struct CudaKernel {
    info: KernelInfo,
    unit: Unit,
    /// Absent for a kernel that runs here by itself.
    retargeted: Option<Result<Image, &'static str>>,
    sm_count: u32,
}

/// The kernels of this build that `gpu` can run.
pub fn cuda_kernels(gpu: &GpuInfo) -> Vec<Box<dyn Kernel>> {
    let runs = |unit: &&CompiledUnit| image_here(unit, gpu).is_some();
    built().iter().filter(runs).filter_map(|unit| kernel(unit, image_here(unit, gpu), None, gpu)).collect()
}

/// The kernels of this build that `gpu` cannot run by itself and that were rewritten for it, or could not be. They are for
/// verification: their engine is [`Engine::Retargeted`], which nothing times.
pub fn retargeted_kernels(gpu: &GpuInfo) -> Vec<Box<dyn Kernel>> {
    let (major, minor) = gpu.compute_capability;
    let rewritten = |unit: &'static CompiledUnit| {
        let outcome = unit.retargeted.filter(|_| image_here(unit, gpu).is_none())?;
        // A reason counts on the GPU that images are rewritten for.
        let here = outcome.map_or((major, minor) == (9, 0), |image| image.runs_on(major, minor));
        let image = unit.retargeted.as_ref().and_then(|outcome| outcome.as_ref().ok());
        here.then(|| kernel(unit, image, Some(outcome), gpu))?
    };
    built().iter().filter_map(rewritten).collect()
}

fn image_here(unit: &CompiledUnit, gpu: &GpuInfo) -> Option<&'static Image> {
    unit.image_for(gpu.compute_capability.0, gpu.compute_capability.1)
}

fn kernel(
    compiled: &'static CompiledUnit,
    image: Option<&Image>,
    retargeted: Option<Result<Image, &'static str>>,
    gpu: &GpuInfo,
) -> Option<Box<dyn Kernel>> {
    let unit = Unit::new(compiled.unit());
    let info = KernelInfo {
        version: Some(unit.version().to_owned()),
        image_sha256: image.map(|image| image.sha256.to_owned()),
        ..compiled.plan.info()?
    };
    Some(Box::new(CudaKernel { info, unit, retargeted, sm_count: gpu.sm_count }))
}

impl UnitPlan {
    /// What is known of the kernel without its code; none for a scheme that has no name here.
    pub fn info(&self) -> Option<KernelInfo> {
        let scheme: Scheme = self.scheme.parse().ok()?;
        let parts: Vec<&str> = self.id.split('/').collect();
        let [family, arch, _, configuration] = parts.as_slice() else { return None };
        let [m, n, k] = self.tile;
        Some(KernelInfo {
            id: KernelId::new(family, arch, scheme, configuration),
            arch: (*arch).to_owned(),
            scheme,
            tile: format!("{m}x{n}x{k}"),
            needs_host_counts: false,
            version: None,
            image_sha256: None,
        })
    }
}

impl Kernel for CudaKernel {
    fn info(&self) -> &KernelInfo {
        &self.info
    }

    fn supports(&self, case: &Case) -> Result<(), String> {
        self.unit.supports(&abi_shape(case, self.sm_count)?).map_err(|e| match e {
            UnitError::Unsupported(reason) | UnitError::Failed(reason) => reason,
        })
    }

    fn engine(&self) -> Engine<'_> {
        match self.retargeted {
            None => Engine::Cuda(self.unit),
            Some(Ok(_)) => Engine::Retargeted(self.unit),
            Some(Err(reason)) => Engine::NotRetargetable(reason),
        }
    }
}

/// A case as the C ABI describes it, with one activation global per layer.
///
/// # Errors
/// More rows than 32 bits count.
pub fn abi_shape(case: &Case, sm_count: u32) -> Result<abi::moebius_shape, String> {
    let rows = u32::try_from(case.total_rows()).map_err(|_| format!("{} rows are too many", case.total_rows()))?;
    Ok(abi::moebius_shape {
        experts: case.shape.experts,
        n: case.shape.n,
        k: case.shape.k,
        rows,
        sm_count,
        act_globals: 1,
    })
}
