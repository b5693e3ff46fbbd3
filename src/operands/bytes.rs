//! Bytes of operands in the canonical layouts: what any kernel must read at least, without padding.

use crate::kernel::Scheme;
use crate::shape::GemmShape;

/// Bytes of the weights of one expert: values, scales and its global.
pub fn weight_bytes_per_expert(scheme: Scheme, n: u32, k: u32) -> u64 {
    let (n, k) = (u64::from(n), u64::from(k));
    let values = n * k;
    match scheme {
        Scheme::Nvfp4W4a4 | Scheme::Nvfp4W4a16 => values / 2 + values / 16 + 4,
        Scheme::Mxfp4W4a8 => values / 2 + values / 32,
        Scheme::Fp8Block => values.saturating_add(4 * n.div_ceil(128) * k.div_ceil(128)),
        Scheme::Fp8 => values.saturating_add(4),
        Scheme::Bf16 => values.saturating_mul(2),
    }
}

/// Bytes of the weights of one layer copy.
pub fn layer_weight_bytes(scheme: Scheme, shape: GemmShape) -> u64 {
    u64::from(shape.experts).saturating_mul(weight_bytes_per_expert(scheme, shape.n, shape.k))
}

/// Bytes of the activations of `rows` rows, each once: values, scales, and one global where the scheme has it.
pub fn activation_bytes(scheme: Scheme, rows: u64, k: u32) -> u64 {
    let k = u64::from(k);
    let (per_row, once) = match scheme {
        Scheme::Nvfp4W4a4 => (k / 2 + k / 16, 4),
        Scheme::Mxfp4W4a8 => (k + k / 32, 0),
        Scheme::Fp8Block => (k + 4 * k.div_ceil(128), 0),
        Scheme::Fp8 => (k, 4),
        Scheme::Nvfp4W4a16 | Scheme::Bf16 => (k * 2, 0),
    };
    rows.saturating_mul(per_row).saturating_add(once)
}

/// Bytes of the bf16 output.
pub fn output_bytes(rows: u64, n: u32) -> u64 {
    rows.saturating_mul(2 * u64::from(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glm5_gemm1_layer_is_453_mb() {
        let shape = GemmShape { experts: 256, n: 512, k: 6144 };
        assert_eq!(layer_weight_bytes(Scheme::Nvfp4W4a4, shape), 452_984_832 + 256 * 4);
        assert_eq!(layer_weight_bytes(Scheme::Bf16, shape), 256 * 512 * 6144 * 2);
        assert_eq!(weight_bytes_per_expert(Scheme::Fp8Block, 129, 128), 129 * 128 + 8);
    }

    #[test]
    fn rows_and_globals() {
        assert_eq!(activation_bytes(Scheme::Nvfp4W4a4, 10, 32), 10 * 18 + 4);
        assert_eq!(activation_bytes(Scheme::Mxfp4W4a8, 10, 32), 10 * 33);
        assert_eq!(activation_bytes(Scheme::Fp8Block, 2, 129), 2 * (129 + 8));
        assert_eq!(activation_bytes(Scheme::Bf16, 2, 5), 20);
        assert_eq!(output_bytes(3, 5), 30);
    }
}
