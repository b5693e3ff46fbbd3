//! Sums over the elements of one row: the inner loop of the judge.
//!
//! Plain Rust, compiled twice: for any machine, and for AVX-512. Sums run in [`LANES`] lanes whatever the machine, so that
//! the result does not depend on it.

use half::bf16;

use super::bound::{Bound, nearest_bf16};

const LANES: usize = 8;

/// What is summed over elements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub elements: usize,
    /// Output times answer.
    pub cross: f64,
    /// Answer squared.
    pub square: f64,
    /// (Answer times bound) squared.
    pub weighted_bounds: f64,
    /// Error squared.
    pub error: f64,
    /// Error of the rounded answer squared.
    pub rounding: f64,
    /// Accumulation term squared.
    pub accumulation: f64,
    /// Largest error over bound.
    pub ratio: f64,
}

impl Sums {
    /// Takes more elements in.
    #[inline(always)]
    pub(super) fn add(&mut self, other: &Sums) {
        self.elements += other.elements;
        self.cross += other.cross;
        self.square += other.square;
        self.weighted_bounds += other.weighted_bounds;
        self.error += other.error;
        self.rounding += other.rounding;
        self.accumulation += other.accumulation;
        self.ratio = self.ratio.max(other.ratio);
    }

    /// What one element adds. `got` must be finite.
    #[inline(always)]
    pub(super) fn of(got: bf16, value: f64, abs_sum: f32, bound: Bound) -> Sums {
        let got = f64::from(f32::from_bits(u32::from(got.to_bits()) << 16));
        let limit = bound.of(value, f64::from(abs_sum));
        let error = got - value;
        let rounding = nearest_bf16(value) - value;
        let accumulation = bound.accumulation(f64::from(abs_sum));
        Sums {
            elements: 1,
            cross: got * value,
            square: value * value,
            weighted_bounds: (value * limit) * (value * limit),
            error: error * error,
            rounding: rounding * rounding,
            accumulation: accumulation * accumulation,
            ratio: error.abs() / limit,
        }
    }
}

#[inline(always)]
fn compare(got: &[bf16], values: &[f64], abs_sums: &[f32], bound: Bound) -> Sums {
    let (got, got_rest) = got.as_chunks::<LANES>();
    let (values, values_rest) = values.as_chunks::<LANES>();
    let (abs_sums, abs_sums_rest) = abs_sums.as_chunks::<LANES>();
    let mut lanes = [Sums::default(); LANES];
    for ((got, values), abs_sums) in got.iter().zip(values).zip(abs_sums) {
        for lane in 0..LANES {
            lanes[lane].add(&Sums::of(got[lane], values[lane], abs_sums[lane], bound));
        }
    }
    for ((lane, &got), (&value, &abs_sum)) in lanes.iter_mut().zip(got_rest).zip(values_rest.iter().zip(abs_sums_rest))
    {
        lane.add(&Sums::of(got, value, abs_sum, bound));
    }
    let mut sums = Sums::default();
    lanes.iter().for_each(|lane| sums.add(lane));
    sums
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
fn compare_avx512(got: &[bf16], values: &[f64], abs_sums: &[f32], bound: Bound) -> Sums {
    compare(got, values, abs_sums, bound)
}

/// Sums over the elements of a row, all of them finite: outputs, answers and sums of magnitudes.
pub(super) fn compare_row(got: &[bf16], values: &[f64], abs_sums: &[f32], bound: Bound) -> Sums {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
    {
        // SAFETY: the features that the function needs were found on this machine.
        return unsafe { compare_avx512(got, values, abs_sums, bound) };
    }
    compare(got, values, abs_sums, bound)
}
