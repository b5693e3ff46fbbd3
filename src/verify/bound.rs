//! How far an honest output may be from the exact answer.
//!
//! # One element
//! A kernel sums in some arithmetic, ending `a` away from the exact answer `r`, and rounds the sum to bf16, to nearest.
//! Hence `|output - r| <= half ulp + |a|`, where the ulp is that of the binade in which the sum lies. Any `|a| <= A` may
//! have moved the sum up one binade, so the ulp is taken at `|r| + A`. Outputs below the smallest normal number may be
//! flushed to zero, so no bound is smaller than that number, 2^-126.
//!
//! # The accumulation term A
//! `A = c * sqrt(K) * u * sum|a*b|` for f32, with [`Accumulation`] saying what arithmetic it is. A factor K in place of
//! its root, which the worst case would need, lets whole percents through at K = 6144; the root is what roundings with
//! independent signs need:
//!
//! * Summing one after another, the roundings are at most `u * |partial sum|` each. If every product has the same sign,
//!   partial sums grow evenly to S = sum|a*b| and the roundings have a standard deviation of
//!   `0.41 * u * S * sqrt(K / 3) = 0.24 * sqrt(K) * u * S` (0.41 is the root mean square of a uniform error over the
//!   binade). The largest of 10^8 such elements is 6 of these away: 1.4 `sqrt(K) u S`. Other orders round less.
//! * Products of both signs, which is what quantised normal data give, have partial sums of about `sqrt(K)` products
//!   instead of K, so that the same roundings are `sqrt(K)`, some 50 times, smaller.
//! * Tensor cores do not round but truncate: products and accumulator are aligned to the largest exponent among them and
//!   cut to 24 or 25 fraction bits, and the sum is cut to f32, once for each 8 to 64 values of k (MMA-Sim,
//!   arXiv:2511.10909, equal bit for bit to Volta, Ampere, Hopper and both Blackwells). The cuts go towards zero, so they
//!   drift. Simulated on bf16 normal data, the largest of 1.6 million errors is A / 10, their root mean square A / 57.
//! * Scales and globals are applied in a handful of f32 multiplications: `3u * |r|`, `|r| <= S`.
//!
//! So c = 2 holds for every order that a GEMM uses, and at K = 6144 A is about a tenth of the bf16 rounding of a typical
//! output. It is no bound on contrived data: truncating products of one sign drifts beyond it.
//!
//! # FP8 on sm_90
//! wgmma keeps 13 fraction bits: the products of one instruction (32 values of k) and the accumulator are aligned to the
//! largest exponent among them and cut to 13 fraction bits, and so is the sum (MMA-Sim; the DeepSeek-V3 report,
//! arXiv:2412.19437, section 3.5.2, found 14 bits with the leading one; SageAttention 2, arXiv:2411.10958, an accumulator
//! of 1 + 8 + 13 bits). Kernels therefore add the accumulator into f32 every `promotion` (P) values of k: 128 in DeepGEMM
//! and in CUTLASS unless fast accumulation is asked for. The two parts are bounded apart and added:
//!
//! * f32 over the promotions: as above, with K / P summands.
//! * 13 bits between them: `2^-13 * S * (sqrt(P / K) + 7 P / K)`. A window of P values holds S P / K of the magnitudes. At
//!   worst its partial sums reach that: then 4 cuts of the accumulator lose up to 1 each, and 128 products cut at
//!   random 6.5 in root mean square, in units of `2^-13 S P / K`. Seven allows one such window. The others err
//!   independently, by 0.15 of `2^-13 S sqrt(P / K)` together in root mean square, as simulating the arithmetic bit for bit
//!   shows for every K; one allows 6.9 of these. The largest of 2 million elements at K = 128 was 0.3 of the whole.
//!   Without promotion, P = K, this is several percent of a typical output: such a kernel is that inexact.

use crate::shape::GemmShape;

/// Half the distance of neighbouring f32 numbers just above 1.
const F32_UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// The 13th fraction bit.
const FP8_SM90_UNIT: f64 = 1.0 / (1u64 << 13) as f64;

/// Values of k of one FP8 wgmma instruction.
const FP8_SM90_STEP: u32 = 32;

/// c of the f32 term.
const F32_MARGIN: f64 = 2.0;

/// Fewest values of k that one tensor core instruction adds before it cuts to f32 (`m16n8k8`).
const LEAST_STEP: f64 = 8.0;

/// The smallest normal bf16 and f32: smaller outputs may be flushed to zero.
pub(super) const SMALLEST_NORMAL: f64 = f32::MIN_POSITIVE as f64;

/// The arithmetic in which a kernel adds products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulation {
    /// f32, whether it rounds (FMA units) or truncates (tensor cores), or anything more exact.
    F32,
    /// FP8 tensor cores of sm_90: 13 fraction bits, truncated, added into f32 every `promotion` values of k (a multiple
    /// of 32; K or more when only the end result goes to f32).
    Fp8Sm90 {
        /// Values of k between two additions into f32.
        promotion: u32,
    },
}

impl Accumulation {
    /// `A / sum|a*b|`: how far accumulation may move an element of a reduction of length `k`.
    pub fn relative_error(self, k: u32) -> f64 {
        let f32_part = |terms: u32| F32_MARGIN * f64::from(terms).sqrt() * F32_UNIT;
        match self {
            Accumulation::F32 => f32_part(k),
            Accumulation::Fp8Sm90 { promotion } => {
                let window = window(promotion, k);
                let share = f64::from(window) / f64::from(k.max(window));
                // Four: the scales and globals need their multiplications even when there is one window.
                FP8_SM90_UNIT * (share.sqrt() + 7.0 * share) + f32_part(k.div_ceil(window).max(4))
            }
        }
    }

    /// The root mean square of accumulation errors over many elements, at most, relative to that of their sums of
    /// magnitudes. Several times what simulation finds: 0.017 A for f32 on tensor cores, where this is A / 4, and 0.15
    /// (0.28 without promotion) of `2^-13 sqrt(P / K)` for FP8 on sm_90, where this is half of it.
    pub fn relative_rms(self, k: u32) -> f64 {
        match self {
            Accumulation::F32 => self.relative_error(k) / 4.0,
            Accumulation::Fp8Sm90 { promotion } => {
                let window = window(promotion, k);
                let share = f64::from(window) / f64::from(k.max(window));
                FP8_SM90_UNIT * share.sqrt() / 2.0 + Accumulation::F32.relative_rms(k.div_ceil(window).max(4))
            }
        }
    }

    /// How much smaller than 1 the slope of output on exact answer may be, because truncation always goes towards zero.
    ///
    /// A cut to f32 takes away at most `2u` of the partial sum, `0.7 u` on average, and the partial sum's part in the final
    /// one grows evenly from 0 to 1: `0.36 u` a cut. This allows `u` a cut, and 4 for the scales and globals. The cuts of
    /// FP8 on sm_90 shorten products rather than partial sums, which have few enough bits: simulation finds a third of
    /// `2^-13` at 4 cuts a window and 1.4 of it at 192; this allows 1 and one more every 32.
    pub fn drift(self, k: u32) -> f64 {
        let f32_part = |cuts: f64| (cuts + 4.0) * F32_UNIT;
        match self {
            Accumulation::F32 => f32_part(f64::from(k) / LEAST_STEP),
            Accumulation::Fp8Sm90 { promotion } => {
                let window = window(promotion, k);
                let cuts = f64::from(window / FP8_SM90_STEP);
                FP8_SM90_UNIT * (1.0 + cuts / 32.0) + f32_part(f64::from(k.div_ceil(window)))
            }
        }
    }
}

/// Values of k between promotions: whole instructions, no more than K needs.
fn window(promotion: u32, k: u32) -> u32 {
    promotion.clamp(FP8_SM90_STEP, k.next_multiple_of(FP8_SM90_STEP))
}

/// The bounds of the elements of one case and one arithmetic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    relative: f64,
    rms: f64,
    drift: f64,
}

impl Bound {
    /// For a shape's K.
    pub fn new(shape: GemmShape, accumulation: Accumulation) -> Self {
        Bound {
            relative: accumulation.relative_error(shape.k),
            rms: accumulation.relative_rms(shape.k),
            drift: accumulation.drift(shape.k),
        }
    }

    /// A: how far accumulation may have moved an element with this sum of magnitudes.
    pub fn accumulation(self, abs_sum: f64) -> f64 {
        self.relative * abs_sum
    }

    /// Largest ratio of the root mean square of accumulation errors to that of their terms A, over many elements.
    pub fn rms_share(self) -> f64 {
        self.rms / self.relative
    }

    /// How far an output may be from the exact answer `value`.
    pub fn of(self, value: f64, abs_sum: f64) -> f64 {
        let accumulation = self.accumulation(abs_sum);
        (half_ulp(value.abs() + accumulation) + accumulation).max(SMALLEST_NORMAL)
    }

    /// How much smaller than 1 the slope of output on exact answer may be.
    pub fn drift(self) -> f64 {
        self.drift
    }
}

/// Half the distance between neighbouring bf16 numbers in the binade of `magnitude` (not negative).
///
/// bf16 has 7 fraction bits: `2^(e-8)` for a magnitude in `[2^e, 2^(e+1))`, and no less than that of subnormals, 2^-134.
pub fn half_ulp(magnitude: f64) -> f64 {
    let exponent = ((magnitude.to_bits() >> 52) & 0x7FF).max(1023 - 126);
    f64::from_bits((exponent - 8) << 52)
}

/// The bf16 number nearest to `value`, ties to even, without overflow.
pub fn nearest_bf16(value: f64) -> f64 {
    // Adding 1.5 * 2^52 ulps leaves no bit below one ulp in an f64, and f64 additions round to nearest, ties to even.
    let shift = half_ulp(value.abs()) * (3u64 << 52) as f64;
    (value + shift) - shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    #[test]
    fn half_ulp_is_half_the_distance_to_the_next_number() {
        for bits in 0..0x7F7Fu16 {
            let (this, next) = (bf16::from_bits(bits).to_f64(), bf16::from_bits(bits + 1).to_f64());
            assert_eq!(half_ulp(this), (next - this) / 2.0, "{bits:#06x}");
            assert_eq!(half_ulp(this + 0.99 * (next - this)), (next - this) / 2.0, "{bits:#06x}");
        }
    }

    #[test]
    fn nearest_bf16_is_the_nearest() {
        for bits in 0..0x7F7Fu16 {
            let (this, next) = (bf16::from_bits(bits).to_f64(), bf16::from_bits(bits + 1).to_f64());
            let middle = (this + next) / 2.0;
            let even = if bits % 2 == 0 { this } else { next };
            for (value, want) in [
                (this, this),
                (this + 0.499 * (next - this), this),
                (middle, even),
                (this + 0.501 * (next - this), next),
            ] {
                assert_eq!(nearest_bf16(value), want, "{value:e}");
                assert_eq!(nearest_bf16(-value), -want, "{value:e}");
            }
        }
    }

    #[test]
    fn a_result_just_over_a_binade_has_the_larger_ulp() {
        let bound = Bound::new(GemmShape { experts: 1, n: 1, k: 6144 }, Accumulation::F32);
        let (value, abs_sum) = (2.0 - 1e-6, 40.0);
        assert!(bound.accumulation(abs_sum) > 1e-6);
        assert_eq!(bound.of(value, abs_sum), half_ulp(2.0) + bound.accumulation(abs_sum));
        assert_eq!(bound.of(0.0, 0.0), SMALLEST_NORMAL);
    }

    #[test]
    fn the_f32_term_is_a_small_part_of_the_rounding_of_a_typical_output() {
        // Products of two normal numbers: magnitudes of 2 / pi, sums of sqrt(K).
        let k = 6144;
        let accumulation = Accumulation::F32.relative_error(k) * f64::from(k) * std::f64::consts::FRAC_2_PI;
        let typical = f64::from(k).sqrt();
        assert!(accumulation / typical < 0.0005, "{}", accumulation / typical);
        assert!(Accumulation::F32.drift(k) < 0.0001);
    }
}
