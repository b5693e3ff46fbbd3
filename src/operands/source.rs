//! Seeded bf16 numbers for weights and activations, before any quantisation.
//!
//! # Definition
//! Every element is `bf16(z * f)`: z is a standard normal number of [`super::normal`], f an f32 factor, the product one
//! f32 multiplication of two numbers of few bits (exact), then one rounding to bf16, nearest even. Element (row, column)
//! of a matrix with reduction length k takes sixteen bits: lane `column % 4` (lane 0 is the lowest) of word
//! `row * ceil(k/4) + column / 4` of the matrix's [`Stream`].
//!
//! **Weights** of layer copy `layer`: stream `(seed; 1, layer, n, k)`, row `expert * n + column of the output`. Experts
//! differ in scale: with w word `expert` of stream `(seed; 2, layer, n, k)`,
//! `f = (16 + w % 16) / 16 * 2^(w / 16 % 4) / 2^h` with `h = ceil(floor(log2 k) / 2)`, so that outputs stay
//! of the order of the activations.
//!
//! **Activations**: stream `(seed; 3, k)`; the factor of row r is `(16 + w % 16) / 16` with w word r of stream
//! `(seed; 4, k)`; columns whose word of stream `(seed; 5, k)` is a multiple of 128 are outliers, as transformers have
//! them, and count 8 times.

use std::ops::Range;

use half::bf16;

use super::normal;
use super::stream::Stream;
use crate::numeric::widest;
use crate::shape::GemmShape;

/// Which numbers a stream makes; the first part of its key.
#[derive(Clone, Copy)]
enum Domain {
    Weights = 1,
    ExpertFactors = 2,
    Activations = 3,
    RowFactors = 4,
    Outliers = 5,
}

/// Multiple of an outlier column.
const OUTLIER: f32 = 8.0;

/// Sixteen bits a column: the row's words, lane by lane. `lanes` is the row's length rounded up to 4.
#[inline(always)]
fn fill_lanes(stream: Stream, row: u64, lanes: &mut [u16]) {
    let (quads, _) = lanes.as_chunks_mut::<4>();
    let first = row.wrapping_mul(quads.len() as u64);
    for (i, quad) in quads.iter_mut().enumerate() {
        let w = stream.word(first.wrapping_add(i as u64));
        *quad = [w as u16, (w >> 16) as u16, (w >> 32) as u16, (w >> 48) as u16];
    }
}

/// Sixteen bits of one element.
fn lane(stream: Stream, row: u64, column: u32, k: u32) -> u16 {
    let words = u64::from(k.div_ceil(4));
    let w = stream.word(row.wrapping_mul(words).wrapping_add(u64::from(column / 4)));
    (w >> (16 * (column % 4))) as u16
}

/// z of sixteen bits.
#[inline(always)]
fn normal_value(table: &[u16; normal::ENTRIES], bits: u16) -> f32 {
    from_high(table[usize::from(bits & 0x7fff)] | (bits & 0x8000))
}

/// The f32 whose upper half is a bf16 bit pattern.
#[inline(always)]
fn from_high(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Bits of the nearest bf16, ties to even; `x` is finite.
#[inline(always)]
fn round_bf16(x: f32) -> u16 {
    let b = x.to_bits();
    ((b + 0x7fff + (b >> 16 & 1)) >> 16) as u16
}

/// `(16 + w % 16) / 16`.
fn sixteenths(w: u64) -> f32 {
    (16 + (w & 15)) as f32 / 16.0
}

/// Makes the weights of one layer copy.
#[derive(Clone, Copy, Debug)]
pub struct WeightSource {
    shape: GemmShape,
    values: Stream,
    factors: Stream,
}

impl WeightSource {
    /// The weights `[experts][n][k]` of layer copy `layer`.
    pub fn new(seed: u64, layer: u32, shape: GemmShape) -> Self {
        let stream = |d: Domain| Stream::new(seed, &[d as u64, layer.into(), shape.n.into(), shape.k.into()]);
        WeightSource { shape, values: stream(Domain::Weights), factors: stream(Domain::ExpertFactors) }
    }

    /// Experts, n and k.
    pub fn shape(&self) -> GemmShape {
        self.shape
    }

    /// Stream of the elements.
    pub fn values(&self) -> Stream {
        self.values
    }

    /// f of an expert.
    pub fn factor(&self, expert: u32) -> f32 {
        let w = self.factors.word(expert.into());
        let halved = self.shape.k.max(1).ilog2().div_ceil(2);
        sixteenths(w) * (1u32 << (w >> 4 & 3)) as f32 / (1u32 << halved) as f32
    }

    /// The weight of `expert`, output column `n`, position `k` of the reduction.
    pub fn value(&self, expert: u32, n: u32, k: u32) -> bf16 {
        let bits = lane(self.values, self.row(expert, n), k, self.shape.k);
        bf16::from_f32(normal_value(normal::table(), bits) * self.factor(expert))
    }

    /// What the rows of one expert are made with; worth its cost (one pass over the table) for more than a few rows.
    pub fn expert(&self, expert: u32) -> ExpertSource {
        let f = self.factor(expert);
        let mut magnitudes = Box::new(*normal::table());
        for m in magnitudes.iter_mut() {
            *m = round_bf16(from_high(*m) * f);
        }
        ExpertSource { values: self.values, first_row: self.row(expert, 0), magnitudes }
    }

    /// The row of the matrix that output column `n` of `expert` is.
    fn row(&self, expert: u32, n: u32) -> u64 {
        u64::from(expert) * u64::from(self.shape.n) + u64::from(n)
    }
}

/// Makes the rows of one expert. Rounding and scaling by a positive factor keep order, so both are in the table already.
pub struct ExpertSource {
    values: Stream,
    first_row: u64,
    magnitudes: Box<[u16; normal::ENTRIES]>,
}

impl ExpertSource {
    /// Writes output column `n`, `k` bf16 values as f32; k is the length of `out`. `scratch` is overwritten.
    pub fn fill_row(&self, n: u32, scratch: &mut Vec<u16>, out: &mut [f32]) {
        scratch.resize(out.len().next_multiple_of(4), 0);
        widest(
            #[inline(always)]
            || {
                fill_lanes(self.values, self.first_row + u64::from(n), scratch);
                for (out, &bits) in out.iter_mut().zip(scratch.iter()) {
                    *out = normal_value(&self.magnitudes, bits);
                }
            },
        );
    }

    /// Largest magnitude in some rows of length `k`. Looks nothing up: the table rises, so the largest index decides.
    pub fn amax(&self, rows: Range<u32>, k: u32, scratch: &mut Vec<u16>) -> f32 {
        let k = k as usize;
        scratch.resize(k.next_multiple_of(4), 0);
        let largest = widest(
            #[inline(always)]
            || {
                let mut largest = 0;
                for n in rows {
                    fill_lanes(self.values, self.first_row + u64::from(n), scratch);
                    largest = scratch.iter().take(k).fold(largest, |m, bits| m.max(bits & 0x7fff));
                }
                largest
            },
        );
        normal_value(&self.magnitudes, largest)
    }
}

/// Makes the activations `[rows][k]`.
#[derive(Clone, Debug)]
pub struct ActivationSource {
    values: Stream,
    row_factors: Stream,
    column_factors: Vec<f32>,
}

impl ActivationSource {
    /// Rows of length `k`.
    pub fn new(seed: u64, k: u32) -> Self {
        let stream = |d: Domain| Stream::new(seed, &[d as u64, k.into()]);
        let outliers = stream(Domain::Outliers);
        ActivationSource {
            values: stream(Domain::Activations),
            row_factors: stream(Domain::RowFactors),
            column_factors: (0..u64::from(k))
                .map(|c| if outliers.word(c).is_multiple_of(128) { OUTLIER } else { 1.0 })
                .collect(),
        }
    }

    /// Stream of the elements.
    pub fn values(&self) -> Stream {
        self.values
    }

    /// f of a row, without its outliers.
    pub fn row_factor(&self, row: u32) -> f32 {
        sixteenths(self.row_factors.word(row.into()))
    }

    /// 1, or 8 in an outlier column; k entries.
    pub fn column_factors(&self) -> &[f32] {
        &self.column_factors
    }

    /// Writes row `row`: k bf16 values as f32 (fewer when `out` is shorter). `scratch` is overwritten.
    pub fn fill_row(&self, row: u32, scratch: &mut Vec<u16>, out: &mut [f32]) {
        let (table, f) = (normal::table(), self.row_factor(row));
        scratch.resize(self.column_factors.len().next_multiple_of(4), 0);
        widest(
            #[inline(always)]
            || {
                fill_lanes(self.values, row.into(), scratch);
                for ((out, &bits), c) in out.iter_mut().zip(scratch.iter()).zip(&self.column_factors) {
                    *out = from_high(round_bf16(normal_value(table, bits) * (f * c)));
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: GemmShape = GemmShape { experts: 5, n: 7, k: 50 };

    /// The definition at the head of the module, word for word, with nothing shared but the table and the mixer.
    fn defined(seed: u64, domain: u64, parts: &[u64], row: u64, column: u64, k: u64, f: f32) -> bf16 {
        let w = Stream::new(seed, &[&[domain], parts].concat()).word(row * k.div_ceil(4) + column / 4);
        let bits = (w >> (16 * (column % 4)) & 0xffff) as u16;
        let z = bf16::from_bits(normal::table()[usize::from(bits & 0x7fff)] | bits & 0x8000);
        bf16::from_f32(z.to_f32() * f)
    }

    #[test]
    fn weights_follow_the_definition() {
        let source = WeightSource::new(11, 3, SHAPE);
        let mut scratch = Vec::new();
        for e in 0..SHAPE.experts {
            let w = Stream::new(11, &[2, 3, 7, 50]).word(e.into());
            let f = (16 + w % 16) as f32 / 16.0 * 2f32.powi((w / 16 % 4) as i32) / 8.0;
            assert_eq!(source.factor(e), f);
            let expert = source.expert(e);
            let mut amax = 0f32;
            for n in 0..SHAPE.n {
                let mut row = vec![0.0; 50];
                expert.fill_row(n, &mut scratch, &mut row);
                for (k, &v) in row.iter().enumerate() {
                    let expected = defined(11, 1, &[3, 7, 50], u64::from(e * 7 + n), k as u64, 50, f);
                    assert_eq!(v.to_bits(), expected.to_f32().to_bits());
                    assert_eq!(source.value(e, n, k as u32).to_bits(), expected.to_bits());
                    amax = amax.max(v.abs());
                }
            }
            assert_eq!(expert.amax(0..SHAPE.n, 50, &mut scratch), amax);
        }
    }

    #[test]
    fn activations_follow_the_definition() {
        let source = ActivationSource::new(11, 333);
        let mut scratch = Vec::new();
        let mut row = vec![0.0; 333];
        for r in 0..4u32 {
            source.fill_row(r, &mut scratch, &mut row);
            let f = (16 + Stream::new(11, &[4, 333]).word(r.into()) % 16) as f32 / 16.0;
            for (c, &v) in row.iter().enumerate() {
                let outlier = Stream::new(11, &[5, 333]).word(c as u64).is_multiple_of(128);
                let f = f * if outlier { 8.0 } else { 1.0 };
                let expected = defined(11, 3, &[333], r.into(), c as u64, 333, f);
                assert_eq!(v.to_bits(), expected.to_f32().to_bits(), "row {r} column {c}");
            }
        }
        let outliers = ActivationSource::new(1, 6144).column_factors().iter().filter(|&&c| c == OUTLIER).count();
        assert!((24..=80).contains(&outliers), "{outliers}");
    }

    #[test]
    fn layers_seeds_and_shapes_differ() {
        let first = |seed, layer, shape| {
            let s = WeightSource::new(seed, layer, shape);
            (0..16).map(|k| s.value(0, 0, k).to_f32() / s.factor(0)).collect::<Vec<_>>()
        };
        let base = first(1, 0, SHAPE);
        assert_ne!(base, first(2, 0, SHAPE));
        assert_ne!(base, first(1, 1, SHAPE));
        assert_ne!(base, first(1, 0, GemmShape { k: 52, ..SHAPE }));
        assert_ne!(base, first(1, 0, GemmShape { n: 8, ..SHAPE }));
        assert_eq!(base, first(1, 0, GemmShape { experts: 9, ..SHAPE }));
    }

    #[test]
    fn experts_differ_visibly_in_scale() {
        let source = WeightSource::new(1, 0, GemmShape { experts: 256, n: 1, k: 6144 });
        let mut factors: Vec<f32> = (0..256).map(|e| source.factor(e) * 64.0).collect();
        factors.sort_by(f32::total_cmp);
        assert!(factors[0] >= 1.0 && factors[0] < 1.2 && factors[255] > 14.0 && factors[255] < 16.0);
        factors.dedup();
        assert!(factors.len() > 40, "{}", factors.len());
    }

    #[test]
    fn elements_look_normal() {
        let source = WeightSource::new(3, 0, GemmShape { experts: 1, n: 64, k: 1024 });
        let expert = source.expert(0);
        let (mut scratch, mut row) = (Vec::new(), vec![0.0; 1024]);
        let mut sums = [0f64; 3];
        let mut previous = 0f64;
        for n in 0..64 {
            expert.fill_row(n, &mut scratch, &mut row);
            for &v in &row {
                let z = f64::from(v / source.factor(0));
                sums[0] += z;
                sums[1] += z * z;
                sums[2] += z * previous;
                previous = z;
            }
        }
        // 65,536 samples: five standard errors of the mean, of the variance and of the neighbours' correlation.
        let count = 65_536f64;
        assert!((sums[0] / count).abs() < 5.0 / 256.0, "{sums:?}");
        assert!((sums[1] / count - 1.0).abs() < 5.0 * 1.42 / 256.0 + 2e-3, "{sums:?}");
        assert!((sums[2] / count).abs() < 5.0 / 256.0, "{sums:?}");
    }
}
