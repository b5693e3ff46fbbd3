//! Seeded layers in every scheme, with a quantiser of their own, and honest ways of summing them.
//!
//! Nothing here uses the decoder or the quantiser of the library: the decoded values come from the encoder that made the
//! codes, so a mistake on either side shows.
#![allow(dead_code, reason = "each test binary uses a part")]

use half::bf16;
use moebius::kernel::Scheme;
use moebius::operands::{Activations, Nvfp4Weights, Weights};
use moebius::shape::GemmShape;

/// SplitMix64 and normal numbers from it.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0xA076_1D64_78BD_642F))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Box and Muller.
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        (radius * (std::f64::consts::TAU * self.uniform()).cos()) as f32
    }

    pub fn normals(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.normal() * scale).collect()
    }
}

/// First row of each expert.
pub fn offsets(rows: &[u32]) -> Vec<u32> {
    let mut offsets = vec![0];
    for &rows in rows {
        offsets.push(offsets[offsets.len() - 1] + rows);
    }
    offsets
}

/// The e2m1 code nearest to `x`, and its value.
fn e2m1(x: f32) -> (u8, f32) {
    let sign = if x < 0.0 { 8 } else { 0 };
    let (code, value) = match x.abs() {
        m if m <= 0.25 => (0, 0.0),
        m if m < 0.75 => (1, 0.5),
        m if m <= 1.25 => (2, 1.0),
        m if m < 1.75 => (3, 1.5),
        m if m <= 2.5 => (4, 2.0),
        m if m < 3.5 => (5, 3.0),
        m if m <= 5.0 => (6, 4.0),
        _ => (7, 6.0),
    };
    (code | sign, if sign == 0 { value } else { -value })
}

/// The e4m3 code nearest to `x`, and its value. Saturates.
fn e4m3(x: f32) -> (u8, f32) {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let m = x.abs().min(448.0);
    let exponent = if m < 1.0 / 64.0 { -6 } else { m.log2().floor() as i32 };
    let step = 2f32.powi(exponent - 3);
    let value = ((m / step).round_ties_even() * step).min(448.0);
    let code = if value < 1.0 / 64.0 {
        (value * 512.0) as u8
    } else {
        let exponent = value.log2().floor() as i32;
        (((exponent + 7) as u8) << 3) | ((value / 2f32.powi(exponent) - 1.0) * 8.0) as u8
    };
    (code | sign, if sign == 0 { value } else { -value })
}

/// Codes, scales and decoded values of one operand, `lines` of `k`; the decoded values are without the globals and the
/// f32 block scales, which honest kernels apply to sums.
struct Operand {
    codes: Vec<u8>,
    scales: Vec<u8>,
    decoded: Vec<f32>,
}

fn pack(codes: &[u8]) -> Vec<u8> {
    codes.chunks(2).map(|pair| pair[0] | pair[1] << 4).collect()
}

/// FP4 with a ue4m3 scale per 16 values; `global` multiplies.
fn nvfp4(values: &[f32], global: f32) -> Operand {
    let (mut codes, mut scales, mut decoded) = (Vec::new(), Vec::new(), Vec::new());
    for block in values.chunks(16) {
        let amax = block.iter().fold(0f32, |m, x| m.max(x.abs()));
        let (code, scale) = e4m3((amax / (6.0 * global)).max(1.0 / 512.0));
        scales.push(code);
        for &x in block {
            let (code, value) = e2m1(x / (scale * global));
            codes.push(code);
            decoded.push(value * scale);
        }
    }
    Operand { codes: pack(&codes), scales, decoded }
}

/// The largest exponent of a block as ue8m0, so that the block fits `largest_exponent` (2 for e2m1, 8 for e4m3).
fn ue8m0(block: &[f32], largest_exponent: i32) -> (u8, f32) {
    let amax = block.iter().fold(f32::MIN_POSITIVE, |m, x| m.max(x.abs()));
    let exponent = amax.log2().floor() as i32 - largest_exponent;
    ((exponent + 127) as u8, 2f32.powi(exponent))
}

fn mx(values: &[f32], encode: fn(f32) -> (u8, f32), largest_exponent: i32) -> Operand {
    let (mut codes, mut scales, mut decoded) = (Vec::new(), Vec::new(), Vec::new());
    for block in values.chunks(32) {
        let (code, scale) = ue8m0(block, largest_exponent);
        scales.push(code);
        for &x in block {
            let (code, value) = encode(x / scale);
            codes.push(code);
            decoded.push(value * scale);
        }
    }
    Operand { codes, scales, decoded }
}

fn amax(values: &[f32]) -> f32 {
    values.iter().fold(f32::MIN_POSITIVE, |m, x| m.max(x.abs()))
}

/// Operands of one case, and what an honest kernel makes of them.
pub struct Layer {
    pub scheme: Scheme,
    pub shape: GemmShape,
    pub offsets: Vec<u32>,
    pub weights: Weights,
    pub activations: Activations,
    /// `[experts][n][k]`, without globals and f32 scales.
    w: Vec<f32>,
    /// `[rows][k]`, likewise.
    a: Vec<f32>,
    /// The values before quantisation, for the bf16 layer.
    pub original_w: Vec<f32>,
    pub original_a: Vec<f32>,
}

/// How an honest kernel adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// One after another, rounding each time.
    Sequential,
    /// Halves, recursively.
    Pairwise,
    /// Blocks one after another, block sums one after another.
    Blocked(usize),
    /// As many partial sums as given, of strided elements, as SIMD lanes do.
    Lanes(usize),
    /// Contiguous parts that are added at the end.
    SplitK(usize),
    /// Tensor cores: `step` products and the accumulator aligned and cut to `fraction` bits, the sum cut to `result`.
    TensorCore { step: usize, fraction: i32, result: i32 },
    /// As above with 32 products and 13 bits, into f32 every `promotion` values.
    Fp8Sm90 { promotion: usize },
}

/// `x` cut to `bits` fraction bits below the leading one.
fn cut(x: f64, bits: i32) -> f64 {
    if x == 0.0 {
        return 0.0;
    }
    let unit = 2f64.powi(exponent(x) - bits);
    (x / unit).trunc() * unit
}

fn exponent(x: f64) -> i32 {
    ((x.to_bits() >> 52) & 0x7FF) as i32 - 1023
}

/// One instruction: products and accumulator, aligned to the largest exponent and cut.
fn fused(a: &[f32], b: &[f32], accumulator: f64, fraction: i32, result: i32) -> f64 {
    let mut largest = if accumulator == 0.0 { -1000 } else { exponent(accumulator) };
    for (&x, &y) in a.iter().zip(b) {
        if x != 0.0 && y != 0.0 {
            largest = largest.max(exponent(f64::from(x)) + exponent(f64::from(y)));
        }
    }
    if largest == -1000 {
        return 0.0;
    }
    let unit = 2f64.powi(largest - fraction);
    let inverse = 1.0 / unit;
    let mut sum = (accumulator * inverse).trunc();
    for (&x, &y) in a.iter().zip(b) {
        sum += (f64::from(x) * f64::from(y) * inverse).trunc();
    }
    cut(sum * unit, result)
}

/// The sum of products as the order makes it.
pub fn sum(a: &[f32], b: &[f32], order: Order) -> f32 {
    match order {
        Order::Sequential => a.iter().zip(b).fold(0.0, |sum, (x, y)| x.mul_add(*y, sum)),
        Order::Pairwise => pairwise(a, b),
        Order::Blocked(size) => {
            a.chunks(size).zip(b.chunks(size)).fold(0.0, |s, (a, b)| s + sum(a, b, Order::Sequential))
        }
        Order::Lanes(lanes) => {
            let mut sums = vec![0f32; lanes];
            for (a, b) in a.chunks(lanes).zip(b.chunks(lanes)) {
                for ((sum, x), y) in sums.iter_mut().zip(a).zip(b) {
                    *sum = x.mul_add(*y, *sum);
                }
            }
            sums.iter().sum()
        }
        Order::SplitK(parts) => {
            let size = a.len().div_ceil(parts);
            a.chunks(size).zip(b.chunks(size)).fold(0.0, |s, (a, b)| s + sum(a, b, Order::Blocked(16)))
        }
        Order::TensorCore { step, fraction, result } => {
            let steps = a.chunks(step).zip(b.chunks(step));
            steps.fold(0.0, |s, (a, b)| fused(a, b, s, fraction, result)) as f32
        }
        Order::Fp8Sm90 { promotion } => {
            let window = Order::TensorCore { step: 32, fraction: 13, result: 13 };
            a.chunks(promotion).zip(b.chunks(promotion)).fold(0.0, |s, (a, b)| s + sum(a, b, window))
        }
    }
}

fn pairwise(a: &[f32], b: &[f32]) -> f32 {
    if a.len() <= 8 {
        return sum(a, b, Order::Sequential);
    }
    let half = a.len() / 2;
    pairwise(&a[..half], &b[..half]) + pairwise(&a[half..], &b[half..])
}

impl Layer {
    /// Normal data, quantised. Expert `e` is 1 + (e mod 5) times as large as the first.
    pub fn new(scheme: Scheme, shape: GemmShape, rows: &[u32], seed: u64) -> Self {
        let mut random = Random::new(seed);
        let offsets = offsets(rows);
        let (n, k, total) = (shape.n as usize, shape.k as usize, offsets[rows.len()] as usize);
        let mut original_w = Vec::new();
        for expert in 0..shape.experts {
            original_w.extend(random.normals(n * k, 0.02 * (1 + expert % 5) as f32));
        }
        let original_a = random.normals(total * k, 1.0);
        Layer::quantise(scheme, shape, offsets, original_w, original_a)
    }

    pub fn quantise(scheme: Scheme, shape: GemmShape, offsets: Vec<u32>, w: Vec<f32>, a: Vec<f32>) -> Self {
        let (n, k) = (shape.n as usize, shape.k as usize);
        let (original_w, original_a) = (w, a);
        let of_experts = || original_w.chunks(n * k);
        let round = |values: &[f32]| -> Vec<bf16> { values.iter().map(|&x| bf16::from_f32(x)).collect() };
        let exact = |values: &[bf16]| -> Vec<f32> { values.iter().map(|x| x.to_f32()).collect() };

        let (mut codes, mut scales, mut decoded, mut factors) = (vec![], vec![], vec![], vec![]);
        let mut take = |operand: Operand| {
            codes.extend(operand.codes);
            scales.extend(operand.scales);
            decoded.extend(operand.decoded);
        };
        let weights = match scheme {
            Scheme::Nvfp4W4a4 | Scheme::Nvfp4W4a16 => {
                for expert in of_experts() {
                    let global = amax(expert) / (6.0 * 448.0);
                    factors.push(global);
                    take(nvfp4(expert, global));
                }
                Weights::Nvfp4(Nvfp4Weights { values: codes, scales, globals: factors })
            }
            Scheme::Mxfp4W4a8 => {
                let operand = mx(&original_w, e2m1, 2);
                decoded = operand.decoded;
                Weights::Mxfp4 { values: pack(&operand.codes), scales: operand.scales }
            }
            Scheme::Fp8Block => {
                let mut block_scales = Vec::new();
                codes = vec![0; original_w.len()];
                decoded = vec![0.0; original_w.len()];
                for (e, expert) in of_experts().enumerate() {
                    for bn in (0..n).step_by(128) {
                        for bk in (0..k).step_by(128) {
                            let inside = |f: &mut dyn FnMut(usize)| {
                                for row in bn..(bn + 128).min(n) {
                                    (row * k + bk..row * k + (bk + 128).min(k)).for_each(&mut *f);
                                }
                            };
                            let mut largest = f32::MIN_POSITIVE;
                            inside(&mut |at| largest = largest.max(expert[at].abs()));
                            let scale = largest / 448.0;
                            block_scales.push(scale);
                            inside(&mut |at| {
                                let (code, value) = e4m3(expert[at] / scale);
                                codes[e * n * k + at] = code;
                                decoded[e * n * k + at] = value;
                            });
                        }
                    }
                }
                Weights::Fp8Block { values: codes, scales: block_scales }
            }
            Scheme::Fp8 => {
                for expert in of_experts() {
                    let scale = amax(expert) / 448.0;
                    factors.push(scale);
                    for &x in expert {
                        let (code, value) = e4m3(x / scale);
                        codes.push(code);
                        decoded.push(value);
                    }
                }
                Weights::Fp8 { values: codes, scales: factors }
            }
            Scheme::Bf16 => {
                let values = round(&original_w);
                decoded = exact(&values);
                Weights::Bf16(values)
            }
        };
        let w = decoded;
        let (activations, a) = match scheme {
            Scheme::Nvfp4W4a4 => {
                let global = amax(&original_a) / (6.0 * 448.0);
                let operand = nvfp4(&original_a, global);
                let (values, scales) = (operand.codes, operand.scales);
                (Activations::Nvfp4 { values, scales, globals: vec![global] }, operand.decoded)
            }
            Scheme::Mxfp4W4a8 => {
                let operand = mx(&original_a, e4m3, 8);
                (Activations::Mxfp8 { values: operand.codes, scales: operand.scales }, operand.decoded)
            }
            Scheme::Fp8Block => {
                let (mut values, mut scales, mut decoded) = (vec![], vec![], vec![]);
                for block in original_a.chunks(k).flat_map(|row| row.chunks(128)) {
                    let scale = amax(block) / 448.0;
                    scales.push(scale);
                    for &x in block {
                        let (code, value) = e4m3(x / scale);
                        values.push(code);
                        decoded.push(value);
                    }
                }
                (Activations::Fp8Group { values, scales }, decoded)
            }
            Scheme::Fp8 => {
                let scale = amax(&original_a) / 448.0;
                let pairs: Vec<(u8, f32)> = original_a.iter().map(|&x| e4m3(x / scale)).collect();
                let values = pairs.iter().map(|p| p.0).collect();
                (Activations::Fp8 { values, scale }, pairs.iter().map(|p| p.1).collect())
            }
            Scheme::Bf16 | Scheme::Nvfp4W4a16 => {
                let values = round(&original_a);
                let decoded = exact(&values);
                (Activations::Bf16(values), decoded)
            }
        };
        Layer { scheme, shape, offsets, weights, activations, w, a, original_w, original_a }
    }

    pub fn rows(&self) -> usize {
        self.offsets[self.offsets.len() - 1] as usize
    }

    pub fn expert_of(&self, row: usize) -> usize {
        self.offsets.partition_point(|&first| first as usize <= row) - 1
    }

    /// What multiplies a whole sum, as a kernel's epilogue does.
    fn factor(&self, expert: usize) -> f32 {
        let w = match &self.weights {
            Weights::Nvfp4(w) => w.globals[expert],
            Weights::Fp8 { scales, .. } => scales[expert],
            _ => 1.0,
        };
        match &self.activations {
            Activations::Nvfp4 { globals, .. } => w * globals[if globals.len() == 1 { 0 } else { expert }],
            Activations::Fp8 { scale, .. } => w * scale,
            _ => w,
        }
    }

    /// One element before it is rounded to bf16, as an honest kernel has it.
    pub fn element(&self, row: usize, column: usize, order: Order) -> f32 {
        let (n, k, expert) = (self.shape.n as usize, self.shape.k as usize, self.expert_of(row));
        let a = &self.a[row * k..][..k];
        let w = &self.w[(expert * n + column) * k..][..k];
        if let (Weights::Fp8Block { scales: ws, .. }, Activations::Fp8Group { scales, .. }) =
            (&self.weights, &self.activations)
        {
            let blocks = k.div_ceil(128);
            let ws = &ws[(expert * n.div_ceil(128) + column / 128) * blocks..][..blocks];
            let parts = a.chunks(128).zip(w.chunks(128)).zip(ws.iter().zip(&scales[row * blocks..]));
            return parts.fold(0.0, |s, ((a, w), (x, y))| sum(a, w, order).mul_add(x * y, s));
        }
        sum(a, w, order) * self.factor(expert)
    }

    /// The whole output of an honest kernel.
    pub fn honest(&self, order: Order) -> Vec<bf16> {
        let n = self.shape.n as usize;
        (0..self.rows() * n).map(|at| bf16::from_f32(self.element(at / n, at % n, order))).collect()
    }

    /// One element in f64, from values and factors, and the sum of magnitudes.
    pub fn exact(&self, row: usize, column: usize) -> (f64, f64) {
        let (n, k, expert) = (self.shape.n as usize, self.shape.k as usize, self.expert_of(row));
        let a = &self.a[row * k..][..k];
        let w = &self.w[(expert * n + column) * k..][..k];
        let (mut value, mut magnitude) = (0.0, 0.0);
        for (at, (&x, &y)) in a.iter().zip(w).enumerate() {
            let scale = match (&self.weights, &self.activations) {
                (Weights::Fp8Block { scales: ws, .. }, Activations::Fp8Group { scales, .. }) => {
                    let blocks = k.div_ceil(128);
                    f64::from(ws[(expert * n.div_ceil(128) + column / 128) * blocks + at / 128])
                        * f64::from(scales[row * blocks + at / 128])
                }
                (Weights::Nvfp4(w), Activations::Nvfp4 { globals, .. }) => {
                    let global = globals[if globals.len() == 1 { 0 } else { expert }];
                    f64::from(w.globals[expert]) * f64::from(global)
                }
                (Weights::Nvfp4(w), _) => f64::from(w.globals[expert]),
                (Weights::Fp8 { scales, .. }, Activations::Fp8 { scale, .. }) => {
                    f64::from(scales[expert]) * f64::from(*scale)
                }
                _ => 1.0,
            };
            let product = f64::from(x) * f64::from(y) * scale;
            value += product;
            magnitude += product.abs();
        }
        (value, magnitude)
    }
}
