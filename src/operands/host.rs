//! Operands in host memory, in the canonical layouts that every kernel's own layout is derived from.
//!
//! Canonical layouts, rows first: weights `[experts][n][k]`, activations `[rows][k]` sorted by expert, scales beside them
//! with `k` divided by the group, output `[rows][n]` in bf16. FP4 packs two values a byte, the lower k in the low nibble.

use half::bf16;

/// Weights of one layer copy, in one scheme.
#[derive(Debug)]
pub enum Weights {
    /// NVFP4.
    Nvfp4(Nvfp4Weights),
    /// MXFP4: e2m1 with ue8m0 scales per 32 values of k.
    Mxfp4 {
        /// `[experts][n][k/2]`
        values: Vec<u8>,
        /// `[experts][n][k/32]`, ue8m0
        scales: Vec<u8>,
    },
    /// e4m3 with one f32 scale per block of 128 x 128.
    Fp8Block {
        /// `[experts][n][k]`, e4m3
        values: Vec<u8>,
        /// `[experts][ceil(n/128)][ceil(k/128)]`, multipliers
        scales: Vec<f32>,
    },
    /// e4m3 with one f32 scale per expert.
    Fp8 {
        /// `[experts][n][k]`, e4m3
        values: Vec<u8>,
        /// `[experts]`, multipliers
        scales: Vec<f32>,
    },
    /// bf16.
    Bf16(Vec<bf16>),
}

/// NVFP4 weights: value = e2m1 x ue4m3 scale x global multiplier of the expert.
#[derive(Debug)]
pub struct Nvfp4Weights {
    /// `[experts][n][k/2]`
    pub values: Vec<u8>,
    /// `[experts][n][k/16]`, ue4m3
    pub scales: Vec<u8>,
    /// `[experts]`, multiplies
    pub globals: Vec<f32>,
}

/// Activations of all rows, in one scheme.
#[derive(Debug)]
pub enum Activations {
    /// `[rows][k]`
    Bf16(Vec<bf16>),
    /// NVFP4: value = e2m1 x ue4m3 scale x global multiplier (one per layer, or one per expert).
    Nvfp4 {
        /// `[rows][k/2]`
        values: Vec<u8>,
        /// `[rows][k/16]`, ue4m3
        scales: Vec<u8>,
        /// one entry (per layer) or `experts` entries (per expert), multiplies
        globals: Vec<f32>,
    },
    /// MXFP8: e4m3 with ue8m0 scales per 32 values of k.
    Mxfp8 {
        /// `[rows][k]`, e4m3
        values: Vec<u8>,
        /// `[rows][k/32]`, ue8m0
        scales: Vec<u8>,
    },
    /// e4m3 with one f32 scale per row and 128 values of k.
    Fp8Group {
        /// `[rows][k]`, e4m3
        values: Vec<u8>,
        /// `[rows][ceil(k/128)]`, multipliers
        scales: Vec<f32>,
    },
    /// e4m3 with one f32 scale.
    Fp8 {
        /// `[rows][k]`, e4m3
        values: Vec<u8>,
        /// multiplier
        scale: f32,
    },
}
