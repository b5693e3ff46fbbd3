//! From the words of the command line to kernels.

use super::args::KernelArgs;
use super::error::CliError;
use crate::device::cuda::Cuda;
use crate::kernel::{Kernel, Scheme, Selection, cpu_kernels, cuda_kernels, retargeted_kernels};

/// What the flags select among kernels.
///
/// # Errors
/// An unknown scheme.
pub fn selection(args: &KernelArgs) -> Result<Selection, CliError> {
    let schemes = args
        .scheme
        .iter()
        .map(|word| word.trim().parse::<Scheme>().map_err(|e| CliError::input(format!("--scheme: {e}"))))
        .collect::<Result<_, _>>()?;
    Ok(Selection { kernels: args.kernel.clone(), tiles: args.tile.clone(), schemes })
}

/// The wanted kernels of the processor.
///
/// # Errors
/// A glob or scheme that matches none.
pub fn on_cpu(args: &KernelArgs) -> Result<Vec<Box<dyn Kernel>>, CliError> {
    selection(args)?.select(cpu_kernels()).map_err(CliError::input)
}

/// The wanted kernels of this build that a GPU can run.
///
/// # Errors
/// A glob or scheme that matches none.
pub fn on_cuda(args: &KernelArgs, cuda: &Cuda) -> Result<Vec<Box<dyn Kernel>>, CliError> {
    let kernels = cuda_kernels(cuda.info());
    if kernels.is_empty() {
        let arch = cuda.info().arch();
        return Err(CliError::machine(format!("no kernel of this build runs on {arch}; see `moebius list kernels`")));
    }
    selection(args)?.select(kernels).map_err(CliError::input)
}

/// The wanted kernels of this build that were rewritten for a GPU.
///
/// # Errors
/// A glob or scheme that matches none, or a build without rewritten kernels.
pub fn retargeted(args: &KernelArgs, cuda: &Cuda) -> Result<Vec<Box<dyn Kernel>>, CliError> {
    let kernels = retargeted_kernels(cuda.info());
    if kernels.is_empty() {
        let arch = cuda.info().arch();
        return Err(CliError::machine(format!(
            "--retarget: this build holds no kernel rewritten for {arch}: on a Hopper GPU, build with \
             MOEBIUS_ARCHS=90a,120a MOEBIUS_RETARGET=90a"
        )));
    }
    selection(args)?.select(kernels).map_err(CliError::input)
}
