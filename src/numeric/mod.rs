//! Number formats of quantised GEMM operands: codecs, quantisers and the scale-factor layout. Knows no device.
//!
//! # Arithmetic contract
//! Everything here is plain f32 and integer arithmetic, so that another implementation (a CUDA kernel, say) gives the
//! same bits when it follows the same steps: each `+ - * /` is one IEEE 754 operation rounded to nearest even, subnormal
//! numbers are kept (no flush to zero), nothing is contracted into a fused multiply-add, and no division is replaced by
//! a multiplication with a reciprocal. In CUDA these are `__fmul_rn`, `__fadd_rn` and `__fdiv_rn` without
//! `-use_fast_math`. Largest magnitudes are taken over the bit patterns (sign bit cleared) as unsigned integers, which
//! needs no order of evaluation and lets infinities and NaN win, so that they are seen and refused.

mod amax;
pub mod e2m1;
pub mod e4m3;
mod error;
pub mod fp8;
mod fuse;
mod globals;
pub mod mx;
pub mod nvfp4;
mod scale_layout;
mod simd;
pub mod ue4m3;
pub mod ue8m0;

pub use amax::{amax, amax_bits};
pub use error::QuantiseError;
pub use fuse::{FusePolicy, FuseReport, fuse_gate_up};
pub use globals::{GlobalDivisor, GlobalMultiplier};
pub use scale_layout::{ScaleLayout, padded_row_starts};
pub(crate) use simd::widest;
