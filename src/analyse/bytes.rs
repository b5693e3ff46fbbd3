//! Bytes and operations that a case cannot do without, in each scheme.
//!
//! Weights of one expert of `n x k`, scales included, without padding:
//!
//! | scheme | values | scales |
//! |---|---|---|
//! | nvfp4-w4a4, nvfp4-w4a16 | n * ceil(k/2) | n * ceil(k/16) ue4m3 + one f32 |
//! | mxfp4-w4a8 | n * ceil(k/2) | n * ceil(k/32) ue8m0 |
//! | fp8-block | n * k | ceil(n/128) * ceil(k/128) f32 |
//! | fp8 | n * k | one f32 |
//! | bf16 | 2 * n * k | |
//!
//! One activation row of length `k`:
//!
//! | scheme | values | scales |
//! |---|---|---|
//! | nvfp4-w4a4 | ceil(k/2) | ceil(k/16) ue4m3, and one f32 for all rows |
//! | nvfp4-w4a16, bf16 | 2 * k | |
//! | mxfp4-w4a8 | k | ceil(k/32) ue8m0 |
//! | fp8-block | k | ceil(k/128) f32 |
//! | fp8 | k | one f32 for all rows |
//!
//! Each activation counts once: in gemm1 that is a token's hidden vector, however many experts it goes to; in gemm2 each
//! routed row is a vector of its own. The output is bf16: routed rows of gemm1 and gemm2, tokens of the whole layer. What
//! the routing itself takes (offsets, expert weights) is thousands of times smaller and left out.

use crate::kernel::Scheme;
use crate::shape::{Case, GemmShape, Stage};

/// Bytes and operations of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Weights and scales of the touched experts.
    pub weight_bytes: u64,
    /// Activations, each once.
    pub activation_bytes: u64,
    /// Output.
    pub write_bytes: u64,
    /// Useful operations.
    pub flops: u64,
}

/// What a case cannot do without; `None` when its rows per expert are unknown, as in somebody else's table.
pub fn work(case: &Case, scheme: Scheme) -> Option<Work> {
    let rows = case.total_rows();
    if rows == 0 {
        return None;
    }
    let touched = u64::from(case.touched_experts());
    let tokens = tokens(case);
    let GemmShape { n, k, .. } = case.shape;
    Some(match case.stage {
        Stage::Gemm1 => Work {
            weight_bytes: touched * expert_bytes(scheme, n, k),
            activation_bytes: activation_bytes(scheme, tokens, k),
            write_bytes: 2 * rows * u64::from(n),
            flops: case.useful_flops(),
        },
        Stage::Gemm2 => Work {
            weight_bytes: touched * expert_bytes(scheme, n, k),
            activation_bytes: activation_bytes(scheme, rows, k),
            write_bytes: 2 * rows * u64::from(n),
            flops: case.useful_flops(),
        },
        Stage::Ffn => {
            let down = down_shape(case.shape);
            Work {
                weight_bytes: touched * (expert_bytes(scheme, n, k) + expert_bytes(scheme, down.n, down.k)),
                // The layer takes and gives bf16; what lies between its steps need not leave the chip.
                activation_bytes: 2 * tokens * u64::from(k),
                write_bytes: 2 * tokens * u64::from(down.n),
                flops: case.useful_flops() + 2 * rows * u64::from(down.n) * u64::from(down.k),
            }
        }
    })
}

/// Shape of gemm2, given that of gemm1, of a gated layer. For a layer without a gate this is half of gemm2's K, and so
/// still no more than what must be read.
fn down_shape(gemm1: GemmShape) -> GemmShape {
    GemmShape { experts: gemm1.experts, n: gemm1.k, k: (gemm1.n / 2).max(1) }
}

/// Different tokens among the routed rows, at least: a token goes to an expert once, and to `top_k` experts at most.
fn tokens(case: &Case) -> u64 {
    let busiest = u64::from(case.rows.iter().copied().max().unwrap_or(0));
    busiest.max(case.total_rows().div_ceil(u64::from(case.top_k.max(1))))
}

fn expert_bytes(scheme: Scheme, n: u32, k: u32) -> u64 {
    let (n, k) = (u64::from(n), u64::from(k));
    match scheme {
        Scheme::Nvfp4W4a4 | Scheme::Nvfp4W4a16 => n * k.div_ceil(2) + n * k.div_ceil(16) + 4,
        Scheme::Mxfp4W4a8 => n * k.div_ceil(2) + n * k.div_ceil(32),
        Scheme::Fp8Block => n * k + 4 * n.div_ceil(128) * k.div_ceil(128),
        Scheme::Fp8 => n * k + 4,
        Scheme::Bf16 => 2 * n * k,
    }
}

fn activation_bytes(scheme: Scheme, vectors: u64, k: u32) -> u64 {
    let k = u64::from(k);
    match scheme {
        Scheme::Nvfp4W4a4 => vectors * (k.div_ceil(2) + k.div_ceil(16)) + 4,
        Scheme::Nvfp4W4a16 | Scheme::Bf16 => vectors * 2 * k,
        Scheme::Mxfp4W4a8 => vectors * (k + k.div_ceil(32)),
        Scheme::Fp8Block => vectors * (k + 4 * k.div_ceil(128)),
        Scheme::Fp8 => vectors * k + 4,
    }
}
