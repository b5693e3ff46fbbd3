//! Exact decoding of operands to f64, from the definitions of the formats.
//!
//! Written apart from [`crate::numeric`] on purpose: the reference must not share a mistake with what it judges. Sources:
//! OCP Microscaling Formats (MX) 1.0 for e2m1 and ue8m0; OCP 8-bit Floating Point 1.0 for e4m3; the PTX ISA for ue4m3
//! (e4m3 without its sign bit). Every decoded value is exact: an element has at most 4 significant bits, a scale at most
//! 24, a global at most 24, and f64 holds 53.

use crate::operands::{Activations, Weights};

/// `2^exponent` for the small exponents of these formats.
const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// A minifloat without infinities: `exponent_bits` and `mantissa_bits` of `code` below an optional sign bit.
const fn minifloat(code: u8, exponent_bits: u32, mantissa_bits: u32, bias: i32) -> f64 {
    let mantissa = (code & ((1 << mantissa_bits) - 1)) as f64;
    let exponent = ((code >> mantissa_bits) & ((1 << exponent_bits) - 1)) as i32;
    let fraction = mantissa * power_of_two(-(mantissa_bits as i32));
    if exponent == 0 { fraction * power_of_two(1 - bias) } else { (1.0 + fraction) * power_of_two(exponent - bias) }
}

/// e2m1: sign, 2 exponent bits of bias 1, 1 mantissa bit. Values 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
const fn e2m1(code: u8) -> f64 {
    let magnitude = minifloat(code & 7, 2, 1, 1);
    if code & 8 == 0 { magnitude } else { -magnitude }
}

/// e4m3: sign, 4 exponent bits of bias 7, 3 mantissa bits; only `S.1111.111` is NaN, so the largest value is 448.
const fn e4m3(code: u8) -> f64 {
    if code & 0x7F == 0x7F {
        return f64::NAN;
    }
    let magnitude = minifloat(code & 0x7F, 4, 3, 7);
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// Both values of a byte of FP4: the low nibble is the lower k.
static E2M1_PAIRS: [[f64; 2]; 256] = {
    let mut table = [[0.0; 2]; 256];
    let mut code = 0;
    while code < 256 {
        table[code] = [e2m1(code as u8 & 15), e2m1(code as u8 >> 4)];
        code += 1;
    }
    table
};

/// e4m3 by code.
static E4M3: [f64; 256] = {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        table[code] = e4m3(code as u8);
        code += 1;
    }
    table
};

/// ue4m3 by code: e4m3 with the top bit unused. A set top bit is no ue4m3 and decodes to NaN, so that it is found.
static UE4M3: [f64; 256] = {
    let mut table = [f64::NAN; 256];
    let mut code = 0;
    while code < 128 {
        table[code] = e4m3(code as u8);
        code += 1;
    }
    table
};

/// ue8m0 by code: `2^(code - 127)`, 255 is NaN.
static UE8M0: [f64; 256] = {
    let mut table = [f64::NAN; 256];
    let mut code = 0;
    while code < 255 {
        table[code] = power_of_two(code as i32 - 127);
        code += 1;
    }
    table
};

/// FP4 with one scale (already decoded by `scale_table`) per `group` values of k, times `global`.
fn decode_fp4(values: &[u8], scales: &[u8], group: usize, scale_table: &[f64; 256], global: f64, out: &mut [f64]) {
    let groups = values.chunks_exact(group / 2).zip(scales);
    for ((bytes, &scale), out) in groups.zip(out.chunks_exact_mut(group)) {
        let scale = scale_table[usize::from(scale)] * global;
        for (&byte, pair) in bytes.iter().zip(out.as_chunks_mut::<2>().0) {
            let [low, high] = E2M1_PAIRS[usize::from(byte)];
            *pair = [low * scale, high * scale];
        }
    }
}

/// e4m3 with one multiplier per `group` values of k; the last group may be short.
fn decode_e4m3(values: &[u8], scales: impl Iterator<Item = f64>, group: usize, out: &mut [f64]) {
    for ((codes, scale), out) in values.chunks(group).zip(scales).zip(out.chunks_mut(group)) {
        for (&code, out) in codes.iter().zip(out) {
            *out = E4M3[usize::from(code)] * scale;
        }
    }
}

/// Decodes the `k` weights of one output column of one expert, scales and global included.
///
/// The lengths of `weights` must have been checked against the shape (`experts`, `n`, `k`).
pub(super) fn weight_column(weights: &Weights, n: usize, k: usize, expert: usize, column: usize, out: &mut [f64]) {
    let line = expert * n + column;
    match weights {
        Weights::Nvfp4(w) => {
            let values = &w.values[line * (k / 2)..][..k / 2];
            let scales = &w.scales[line * (k / 16)..][..k / 16];
            decode_fp4(values, scales, 16, &UE4M3, f64::from(w.globals[expert]), out);
        }
        Weights::Mxfp4 { values, scales } => {
            let values = &values[line * (k / 2)..][..k / 2];
            decode_fp4(values, &scales[line * (k / 32)..][..k / 32], 32, &UE8M0, 1.0, out);
        }
        Weights::Fp8Block { values, scales } => {
            let blocks = k.div_ceil(128);
            let scales = &scales[(expert * n.div_ceil(128) + column / 128) * blocks..][..blocks];
            decode_e4m3(&values[line * k..][..k], scales.iter().map(|&s| f64::from(s)), 128, out);
        }
        Weights::Fp8 { values, scales } => {
            decode_e4m3(&values[line * k..][..k], std::iter::once(f64::from(scales[expert])), k, out);
        }
        Weights::Bf16(values) => {
            for (&value, out) in values[line * k..][..k].iter().zip(out) {
                *out = value.to_f64();
            }
        }
    }
}

/// Decodes the `k` activations of one row, which belongs to `expert`, scales and global included.
///
/// The lengths of `activations` must have been checked against the rows and `k`.
pub(super) fn activation_row(activations: &Activations, k: usize, row: usize, expert: usize, out: &mut [f64]) {
    match activations {
        Activations::Bf16(values) => {
            for (&value, out) in values[row * k..][..k].iter().zip(out) {
                *out = value.to_f64();
            }
        }
        Activations::Nvfp4 { values, scales, globals } => {
            let global = if globals.len() == 1 { globals[0] } else { globals[expert] };
            let values = &values[row * (k / 2)..][..k / 2];
            decode_fp4(values, &scales[row * (k / 16)..][..k / 16], 16, &UE4M3, f64::from(global), out);
        }
        Activations::Mxfp8 { values, scales } => {
            let scales = scales[row * (k / 32)..][..k / 32].iter().map(|&s| UE8M0[usize::from(s)]);
            decode_e4m3(&values[row * k..][..k], scales, 32, out);
        }
        Activations::Fp8Group { values, scales } => {
            let blocks = k.div_ceil(128);
            let scales = scales[row * blocks..][..blocks].iter().map(|&s| f64::from(s));
            decode_e4m3(&values[row * k..][..k], scales, 128, out);
        }
        Activations::Fp8 { values, scale } => {
            decode_e4m3(&values[row * k..][..k], std::iter::once(f64::from(*scale)), k, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_the_values_of_their_definitions() {
        let positive: Vec<f64> = (0..8).map(e2m1).collect();
        assert_eq!(positive, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert_eq!(e2m1(15), -6.0);
        assert_eq!(E2M1_PAIRS[0xA7], [6.0, -1.0], "the low nibble comes first");
        assert_eq!(E4M3[0x7E], 448.0);
        assert_eq!(E4M3[0x01], 1.0 / 512.0);
        assert_eq!(E4M3[0x38], 1.0);
        assert_eq!(E4M3[0xB9], -1.125);
        assert!(E4M3[0x7F].is_nan() && E4M3[0xFF].is_nan());
        assert_eq!(UE4M3[0x7E], 448.0);
        assert!(UE4M3[0x7F].is_nan() && UE4M3[0x80].is_nan());
        assert_eq!(UE8M0[127], 1.0);
        assert_eq!(UE8M0[0], 2f64.powi(-127));
        assert_eq!(UE8M0[254], 2f64.powi(127));
        assert!(UE8M0[255].is_nan());
    }
}
