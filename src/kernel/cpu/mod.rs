//! Kernels that run on the processor, of two ideas, each for both NVFP4 schemes.
//!
//! * [`decode_gemm`](DecodeGemm): an expert's weights are decoded to f32, a cache-sized panel at a time, and a GEMM library
//!   (crate `gemm`) multiplies the panel.
//! * [`stream`](Stream): the packed weights are read once and decoded in registers, 32 columns of the output side by
//!   side, and multiplied where they are decoded. With NVFP4 activations and integer dot products the codes themselves are
//!   multiplied (e2m1 is an integer number of halves), and each block of 16 is scaled once.
//!
//! Both split the work by expert, block of rows and block of columns over the threads of the current rayon pool, visit
//! only the experts that have rows, accumulate in f32, and apply the product of the two globals when they round to bf16.

mod codes;
mod decode_gemm;
mod isa;
mod problem;
mod simd;
mod stream;
mod tasks;
#[cfg(test)]
mod tests;

pub use decode_gemm::DecodeGemm;
pub use isa::Isa;
pub use stream::Stream;

use super::{Kernel, KernelId, KernelInfo, Scheme};
use crate::shape::{Case, Stage};

/// Every kernel of this family, for the best instruction set of this machine.
pub fn kernels() -> Vec<Box<dyn Kernel>> {
    let isa = Isa::detect();
    let mut all: Vec<Box<dyn Kernel>> = Vec::new();
    for scheme in [Scheme::Nvfp4W4a4, Scheme::Nvfp4W4a16] {
        all.push(Box::new(DecodeGemm::new(scheme, isa)));
        all.push(Box::new(Stream::new(scheme, isa)));
    }
    all
}

/// What is known of the kernel named `configuration`.
fn info(scheme: Scheme, configuration: &str, tile: String, version: &str) -> KernelInfo {
    KernelInfo {
        id: KernelId::new("cpu", "cpu", scheme, configuration),
        arch: "cpu".to_owned(),
        scheme,
        tile,
        needs_host_counts: false,
        version: Some(version.to_owned()),
        image_sha256: None,
    }
}

/// What every kernel of this family asks of a case.
///
/// # Errors
/// One sentence with the numbers.
fn supports(case: &Case) -> Result<(), String> {
    let shape = case.shape;
    if case.stage == Stage::Ffn {
        return Err("the kernel computes one GEMM, stage ffn has two and what lies between".to_owned());
    }
    if shape.k == 0 || !shape.k.is_multiple_of(16) {
        return Err(format!("K {} is not a multiple of 16, the block of an NVFP4 scale", shape.k));
    }
    Ok(())
}
