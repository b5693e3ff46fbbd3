//! Every kernel with every instruction set of this machine, against a plain f64 loop over codes decoded by formula.

use half::bf16;
use proptest::prelude::*;

use super::{DecodeGemm, Isa, Stream};
use crate::kernel::{CpuCall, CpuKernel, Scheme};
use crate::operands::{Activations, Nvfp4Weights, Weights};
use crate::shape::GemmShape;

/// splitmix64.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// Any ue4m3 that is a number, subnormals and zero included, with and without the meaningless top bit.
    fn scales(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).map(|byte| if byte & 0x7f == 0x7f { 0x38 } else { byte }).collect()
    }

    fn globals(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| 0.001 * (1.0 + (self.next() % 1000) as f32)).collect()
    }

    fn bf16s(&mut self, count: usize) -> Vec<bf16> {
        (0..count).map(|_| bf16::from_f32((self.next() % 4001) as f32 / 500.0 - 4.0)).collect()
    }
}

/// A grouped GEMM with random operands.
struct Fixture {
    scheme: Scheme,
    shape: GemmShape,
    offsets: Vec<u32>,
    weights: Nvfp4Weights,
    activations: Activations,
}

impl Fixture {
    fn new(scheme: Scheme, n: u32, k: u32, rows: &[u32], global_per_expert: bool, seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let experts = rows.len();
        let mut offsets = vec![0];
        for &count in rows {
            offsets.push(offsets[offsets.len() - 1] + count);
        }
        let total = rows.iter().sum::<u32>() as usize;
        let (columns, depth) = (experts * n as usize, k as usize);
        let weights = Nvfp4Weights {
            values: numbers.bytes(columns * depth / 2),
            scales: numbers.scales(columns * depth / 16),
            globals: numbers.globals(experts),
        };
        let activations = match scheme {
            Scheme::Nvfp4W4a16 => Activations::Bf16(numbers.bf16s(total * depth)),
            _ => Activations::Nvfp4 {
                values: numbers.bytes(total * depth / 2),
                scales: numbers.scales(total * depth / 16),
                globals: numbers.globals(if global_per_expert { experts } else { 1 }),
            },
        };
        let shape = GemmShape { experts: experts as u32, n, k };
        Fixture { scheme, shape, offsets, weights, activations }
    }

    fn kernels(&self) -> Vec<(String, Box<dyn CpuKernel>)> {
        let mut kernels: Vec<(String, Box<dyn CpuKernel>)> = Vec::new();
        for isa in Isa::available() {
            kernels.push((format!("stream {}", isa.as_str()), Box::new(Stream::new(self.scheme, isa))));
            kernels.push((format!("decode-gemm {}", isa.as_str()), Box::new(DecodeGemm::new(self.scheme, isa))));
        }
        kernels
    }

    /// The exact product of each element, and the sum of the sizes of its terms.
    fn reference(&self) -> Vec<(f64, f64)> {
        let (n, k) = (self.shape.n as usize, self.shape.k as usize);
        let mut out = Vec::new();
        for (expert, bounds) in self.offsets.windows(2).enumerate() {
            for row in bounds[0] as usize..bounds[1] as usize {
                for column in expert * n..(expert + 1) * n {
                    let (mut sum, mut size) = (0.0, 0.0);
                    for i in 0..k {
                        let weight = nvfp4(&self.weights.values, &self.weights.scales, column, k, i);
                        let activation = match &self.activations {
                            Activations::Bf16(values) => values[row * k + i].to_f64(),
                            Activations::Nvfp4 { values, scales, .. } => nvfp4(values, scales, row, k, i),
                            _ => unreachable!(),
                        };
                        sum += weight * activation;
                        size += (weight * activation).abs();
                    }
                    let activation_global = match &self.activations {
                        Activations::Nvfp4 { globals, .. } => globals[if globals.len() == 1 { 0 } else { expert }],
                        _ => 1.0,
                    };
                    let global = f64::from(self.weights.globals[expert]) * f64::from(activation_global);
                    out.push((sum * global, size * global));
                }
            }
        }
        out
    }

    /// # Panics
    /// When a kernel misses an element by more than rounding explains.
    fn check(&self) {
        let reference = self.reference();
        let weights = Weights::Nvfp4(Nvfp4Weights {
            values: self.weights.values.clone(),
            scales: self.weights.scales.clone(),
            globals: self.weights.globals.clone(),
        });
        let call =
            CpuCall { shape: self.shape, offsets: &self.offsets, weights: &weights, activations: &self.activations };
        for (name, kernel) in self.kernels() {
            let mut out = vec![bf16::NAN; reference.len()];
            kernel.run(&call, &mut out);
            for (i, (got, &(want, size))) in out.iter().zip(&reference).enumerate() {
                // Half an ulp of bf16, a few roundings of the globals, and the roundings of a sum in f32.
                let half_ulp = 2f64.powf(want.abs().max(1e-30).log2().floor() - 8.0);
                let bound = half_ulp * 1.001
                    + want.abs() * 2f64.powi(-22)
                    + 4.0 * f64::from(self.shape.k).sqrt() * 2f64.powi(-24) * size
                    + 1e-30;
                let error = (got.to_f64() - want).abs();
                assert!(error <= bound, "{name}, {:?}, element {i}: {got} is not {want} within {bound}", self.shape);
            }
        }
    }
}

/// Element `i` of a line of `k` NVFP4 values, by the formula of the format.
fn nvfp4(values: &[u8], scales: &[u8], line: usize, k: usize, i: usize) -> f64 {
    let code = values[line * k / 2 + i / 2] >> (4 * (i % 2)) & 15;
    let (exponent, mantissa) = (i32::from(code >> 1 & 3), f64::from(code & 1));
    let size = if exponent == 0 { mantissa / 2.0 } else { (1.0 + mantissa / 2.0) * 2f64.powi(exponent - 1) };
    let scale = scales[line * k / 16 + i / 16] & 0x7f;
    let (exponent, mantissa) = (i32::from(scale >> 3), f64::from(scale & 7));
    let scale = if exponent == 0 { mantissa / 512.0 } else { (1.0 + mantissa / 8.0) * 2f64.powi(exponent - 7) };
    if code >= 8 { -size * scale } else { size * scale }
}

const SCHEMES: [Scheme; 2] = [Scheme::Nvfp4W4a4, Scheme::Nvfp4W4a16];

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_shape(
        scheme in prop::sample::select(SCHEMES.to_vec()),
        n in 1u32..70,
        blocks in 1u32..40,
        rows in prop::collection::vec(prop_oneof![Just(0u32), 1u32..12], 1..5),
        global_per_expert: bool,
        seed: u64,
    ) {
        Fixture::new(scheme, n, 16 * blocks, &rows, global_per_expert, seed).check();
    }
}

#[test]
fn more_rows_than_a_task_takes() {
    for scheme in SCHEMES {
        Fixture::new(scheme, 33, 272, &[0, 131, 1], true, 7).check();
    }
}

#[test]
fn whole_tiles() {
    for scheme in SCHEMES {
        Fixture::new(scheme, 192, 512, &[16, 4, 8], false, 8).check();
    }
}

#[test]
fn no_rows_no_experts_no_columns() {
    for scheme in SCHEMES {
        Fixture::new(scheme, 16, 32, &[0, 0], false, 9).check();
        Fixture::new(scheme, 0, 32, &[3], false, 9).check();
        Fixture::new(scheme, 16, 32, &[], false, 9).check();
    }
}

#[test]
fn a_nan_scale_reaches_its_column_and_no_other() {
    for scheme in SCHEMES {
        let mut fixture = Fixture::new(scheme, 40, 512, &[6, 1], false, 10);
        // Block 19 of column 21 of expert 1.
        fixture.weights.scales[(40 + 21) * 32 + 19] = 0x7f;
        let shape = fixture.shape;
        let kernels = fixture.kernels();
        let weights = Weights::Nvfp4(fixture.weights);
        let call = CpuCall { shape, offsets: &fixture.offsets, weights: &weights, activations: &fixture.activations };
        for (name, kernel) in kernels {
            let mut out = vec![bf16::ZERO; 7 * 40];
            kernel.run(&call, &mut out);
            let nan: Vec<usize> = (0..out.len()).filter(|&i| out[i].is_nan()).collect();
            assert_eq!(nan, [6 * 40 + 21], "{name}");
        }
    }
}

#[test]
fn operands_of_another_scheme_or_length_give_nan() {
    let fixture = Fixture::new(Scheme::Nvfp4W4a4, 16, 32, &[2], false, 11);
    let weights = Weights::Nvfp4(fixture.weights);
    let call = CpuCall {
        shape: fixture.shape,
        offsets: &fixture.offsets,
        weights: &weights,
        activations: &fixture.activations,
    };
    let mut out = vec![bf16::ZERO; 32];
    Stream::new(Scheme::Nvfp4W4a16, Isa::detect()).run(&call, &mut out);
    assert!(out.iter().all(|value| value.is_nan()));
    let mut out = vec![bf16::ZERO; 31];
    DecodeGemm::new(Scheme::Nvfp4W4a4, Isa::detect()).run(&call, &mut out);
    assert!(out.iter().all(|value| value.is_nan()));
}
