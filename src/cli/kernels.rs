//! From the words of the command line to kernels.

use super::args::KernelArgs;
use super::error::CliError;
use crate::kernel::{Kernel, Scheme, Selection, cpu_kernels};

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
