//! Kernels: the trait, the registry, one file per family.

pub mod cpu;
mod cuda;
pub mod cuda_units;
mod id;
mod registry;

pub use cuda::{abi_shape, cuda_kernels, retargeted_kernels};
pub use id::{KernelId, Scheme};
pub use registry::{Selection, cpu_kernels};

use half::bf16;

use crate::operands::{Activations, Weights};
use crate::shape::{Case, GemmShape};

/// One way to compute a case.
pub trait Kernel: Send + Sync {
    /// What is known of the kernel before it runs.
    fn info(&self) -> &KernelInfo;

    /// Whether this kernel can compute the case.
    ///
    /// # Errors
    /// One sentence that names the limit with its numbers, such as `K 256 < tile 512`.
    fn supports(&self, case: &Case) -> Result<(), String>;

    /// Where it runs, and how it is called there.
    fn engine(&self) -> Engine<'_>;
}

/// Where a kernel runs.
pub enum Engine<'a> {
    /// On the processor.
    Cpu(&'a dyn CpuKernel),
    /// On a GPU, through the C ABI.
    Cuda(crate::device::cuda::Unit),
    /// On a GPU that it was not made for, as a rewritten image: to be verified, never to be timed.
    Retargeted(crate::device::cuda::Unit),
    /// Nowhere: the reason is what cannot be emulated on this GPU.
    NotRetargetable(&'static str),
}

/// What is known of a kernel before it runs.
#[derive(Clone, Debug)]
pub struct KernelInfo {
    /// Its id.
    pub id: KernelId,
    /// Its architecture, the second part of the id: `cpu`, `sm90`, `sm120`, `sm80+`.
    pub arch: String,
    /// Its number formats.
    pub scheme: Scheme,
    /// Its tile, such as `128x32x128`, for `--tile`; the configuration part of the id when it has no tile.
    pub tile: String,
    /// Its grid or tile needs the per-expert counts on the host.
    pub needs_host_counts: bool,
    /// Source version, such as `CUTLASS 4.5.0`.
    pub version: Option<String>,
    /// SHA-256 of its machine code.
    pub image_sha256: Option<String>,
}

/// A kernel that runs on the processor, on the canonical layouts, over all threads of the current rayon pool.
pub trait CpuKernel: Send + Sync {
    /// Computes `out[r][n] = sum over k of activations[r][k] * weights[expert of r][n][k]` for every row and column.
    ///
    /// `out` has `rows x n` elements. Must write each of them. Shapes were accepted by [`Kernel::supports`].
    fn run(&self, call: &CpuCall<'_>, out: &mut [bf16]);
}

/// The arguments of one call of a [`CpuKernel`].
pub struct CpuCall<'a> {
    /// Experts, n and k.
    pub shape: GemmShape,
    /// First row of each expert, `experts + 1` entries.
    pub offsets: &'a [u32],
    /// Weights of one layer copy.
    pub weights: &'a Weights,
    /// Activations of all rows, sorted by expert.
    pub activations: &'a Activations,
}
