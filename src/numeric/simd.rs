//! Runs a loop compiled for the widest vector instructions of this processor.
//!
//! The loops themselves are ordinary safe code; only the instruction set that the compiler may use for them differs. The
//! results do not: Rust never contracts or reorders floating-point operations.

/// Calls `op`, compiled once for AVX-512 (F, BW, DQ, VL), once for AVX2 and once for the baseline, as the processor has it.
///
/// Mark the closure and the functions it calls `#[inline(always)]`: what is not inlined keeps the baseline instructions.
#[inline]
pub(crate) fn widest<R>(op: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the four features that `with_avx512` enables were just detected.
            return unsafe { with_avx512(op) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature that `with_avx2` enables was just detected.
            return unsafe { with_avx2(op) };
        }
    }
    op()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn with_avx512<R>(op: impl FnOnce() -> R) -> R {
    op()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<R>(op: impl FnOnce() -> R) -> R {
    op()
}
