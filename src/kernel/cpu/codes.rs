//! The NVFP4 codes as tables, as the kernels need them. Deliberately not those of `numeric`: what verifies a kernel must
//! not share code with it.

/// Values of k that share a scale.
pub const BLOCK: usize = 16;

/// e2m1 by code: sign, two bits of exponent (bias 1), one bit of mantissa.
pub const E2M1: [f32; 16] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// e2m1 by code, in halves: an exact integer.
pub const E2M1_HALVES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// ue4m3 by byte: four bits of exponent (bias 7), three of mantissa, the top bit without meaning, 0x7f NaN.
pub const UE4M3: [f32; 256] = ue4m3_table();

const fn ue4m3_table() -> [f32; 256] {
    let mut table = [0.0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (exponent, mantissa) = ((byte as u32 >> 3) & 15, byte as u32 & 7);
        table[byte] = if exponent == 15 && mantissa == 7 {
            f32::NAN
        } else if exponent == 0 {
            mantissa as f32 / 512.0
        } else {
            // 1.mmm x 2^(exponent - 7), written as the bits of an f32.
            f32::from_bits(((exponent + 120) << 23) | (mantissa << 20))
        };
        byte += 1;
    }
    table
}
