//! What of a scheme concerns a sweep.

use crate::kernel::Scheme;
use crate::verify::Accumulation;

/// Values of k between two additions into f32 in the FP8 kernels of sm_90: CUTLASS promotes every four wgmma of 32, and
/// once a scale block of 128.
const FP8_SM90_PROMOTION: u32 = 128;

/// Schemes with the same weights share them.
pub(super) fn weights_scheme(scheme: Scheme) -> Scheme {
    match scheme {
        Scheme::Nvfp4W4a4 => Scheme::Nvfp4W4a16,
        other => other,
    }
}

/// The arithmetic in which a GPU of this compute capability adds the products of a scheme.
pub fn accumulation(scheme: Scheme, compute_capability: (u32, u32)) -> Accumulation {
    match (scheme, compute_capability.0) {
        (Scheme::Fp8 | Scheme::Fp8Block, 9) => Accumulation::Fp8Sm90 { promotion: FP8_SM90_PROMOTION },
        _ => Accumulation::F32,
    }
}
