//! Dot products of every row of one panel with every row of another: the inner loop of the reference.
//!
//! The loops are written once over [`Lanes`], of which there are two kinds: arrays, for any machine, and the registers of
//! AVX-512. A panel holds its lines one after another, each padded with zeros to `stride` values; `stride` is a multiple of
//! [`LANES`] and the second panel has a multiple of [`COLUMNS`] lines, so the inner loops have no remainders.

use std::ops::Range;

/// Lines of a panel are padded to a multiple of this many values.
pub(super) const LANES: usize = 16;

/// The second panel has a multiple of this many lines.
pub(super) const COLUMNS: usize = 8;

/// Values of each line that are kept close while all pairs of lines go over them: 12 lines of f64 fill half of L1.
const DEPTH: usize = 256;

/// Lines of the first panel that are taken together, so that they stay in L2.
const ROWS: usize = 64;

/// Several numbers that are worked on at once.
trait Lanes: Copy {
    /// f32 or f64.
    type Element: Copy + Into<f64>;
    /// How many; at most [`LANES`].
    const WIDTH: usize;
    /// All zero.
    fn zero() -> Self;
    /// The first [`Lanes::WIDTH`] of `values`.
    fn load(values: &[Self::Element]) -> Self;
    /// `self * b + c`.
    fn multiply_add(self, b: Self, c: Self) -> Self;
    /// The sum of all, pairwise.
    fn total(self) -> Self::Element;
}

/// Lanes of any machine.
#[derive(Clone, Copy)]
struct Plain<T, const L: usize>([T; L]);

macro_rules! plain_lanes {
    ($t:ty, $width:literal) => {
        impl Lanes for Plain<$t, $width> {
            type Element = $t;
            const WIDTH: usize = $width;

            #[inline(always)]
            fn zero() -> Self {
                Plain([0.0; $width])
            }

            #[inline(always)]
            fn load(values: &[$t]) -> Self {
                let mut lanes = [0.0; $width];
                lanes.copy_from_slice(&values[..$width]);
                Plain(lanes)
            }

            #[inline(always)]
            fn multiply_add(self, b: Self, mut c: Self) -> Self {
                for lane in 0..$width {
                    c.0[lane] += self.0[lane] * b.0[lane];
                }
                c
            }

            #[inline(always)]
            fn total(mut self) -> $t {
                let mut half = $width / 2;
                while half > 0 {
                    for lane in 0..half {
                        self.0[lane] += self.0[lane + half];
                    }
                    half /= 2;
                }
                self.0[0]
            }
        }
    };
}
plain_lanes!(f64, 4);
plain_lanes!(f32, 16);

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::Lanes;

    macro_rules! register_lanes {
        ($register:ty, $t:ty, $width:literal, $zero:ident, $load:ident, $multiply_add:ident, $total:ident) => {
            impl Lanes for $register {
                type Element = $t;
                const WIDTH: usize = $width;

                #[inline(always)]
                fn zero() -> Self {
                    // SAFETY: only `multiply_*_avx512` use this type, and they run where AVX-512 was found.
                    unsafe { $zero() }
                }

                #[inline(always)]
                fn load(values: &[$t]) -> Self {
                    let values = &values[..$width];
                    // SAFETY: as in `zero`; the slice holds as many values as the register, at any alignment.
                    unsafe { $load(values.as_ptr()) }
                }

                #[inline(always)]
                fn multiply_add(self, b: Self, c: Self) -> Self {
                    // SAFETY: as in `zero`.
                    unsafe { $multiply_add(self, b, c) }
                }

                #[inline(always)]
                fn total(self) -> $t {
                    // SAFETY: as in `zero`.
                    unsafe { $total(self) }
                }
            }
        };
    }
    register_lanes!(__m512d, f64, 8, _mm512_setzero_pd, _mm512_loadu_pd, _mm512_fmadd_pd, _mm512_reduce_add_pd);
    register_lanes!(__m512, f32, 16, _mm512_setzero_ps, _mm512_loadu_ps, _mm512_fmadd_ps, _mm512_reduce_add_ps);
}

/// Two panels of `stride` values a line, and where the dot products of their lines go.
pub(super) struct Product<'a, T> {
    /// Lines that run down the output.
    pub a: &'a [T],
    /// Lines that run along the output; a multiple of [`COLUMNS`].
    pub b: &'a [T],
    /// Values of a line, padding included; a multiple of [`LANES`].
    pub stride: usize,
    /// `[lines of a][lines of b]`; the dot products are added.
    pub out: &'a mut [f64],
}

/// Adds the dot products of `R` rows with `C` columns over part of their depth.
#[inline(always)]
fn add_tile<V: Lanes, const R: usize, const C: usize>(
    p: &mut Product<'_, V::Element>,
    row: usize,
    column: usize,
    depth: &Range<usize>,
) {
    let columns = p.b.len() / p.stride;
    // All lines are cut to the same length, so that the checks of the loads fall away.
    let length = depth.len() / V::WIDTH * V::WIDTH;
    let (mut a, mut b) = ([&[] as &[V::Element]; R], [&[] as &[V::Element]; C]);
    for (r, line) in a.iter_mut().enumerate() {
        *line = &p.a[(row + r) * p.stride + depth.start..][..length];
    }
    for (c, line) in b.iter_mut().enumerate() {
        *line = &p.b[(column + c) * p.stride + depth.start..][..length];
    }
    let mut sums = [[V::zero(); C]; R];
    let mut at = 0;
    while at + V::WIDTH <= length {
        let mut y = [V::zero(); C];
        for c in 0..C {
            y[c] = V::load(&b[c][at..at + V::WIDTH]);
        }
        for r in 0..R {
            let x = V::load(&a[r][at..at + V::WIDTH]);
            for c in 0..C {
                sums[r][c] = x.multiply_add(y[c], sums[r][c]);
            }
        }
        at += V::WIDTH;
    }
    for (r, sums) in sums.iter().enumerate() {
        let out = &mut p.out[(row + r) * columns + column..][..C];
        for (out, sum) in out.iter_mut().zip(sums) {
            *out += sum.total().into();
        }
    }
}

#[inline(always)]
fn multiply<V: Lanes>(mut p: Product<'_, V::Element>) {
    let (rows, columns) = (p.a.len() / p.stride, p.b.len() / p.stride);
    for start in (0..p.stride).step_by(DEPTH) {
        let depth = start..(start + DEPTH).min(p.stride);
        for first in (0..rows).step_by(ROWS) {
            let last = (first + ROWS).min(rows);
            for column in (0..columns).step_by(COLUMNS) {
                let mut row = first;
                while row + 4 <= last {
                    add_tile::<V, 4, 4>(&mut p, row, column, &depth);
                    add_tile::<V, 4, 4>(&mut p, row, column + 4, &depth);
                    row += 4;
                }
                while row < last {
                    add_tile::<V, 1, 8>(&mut p, row, column, &depth);
                    row += 1;
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn multiply_f64_avx512(p: Product<'_, f64>) {
    multiply::<std::arch::x86_64::__m512d>(p);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn multiply_f32_avx512(p: Product<'_, f32>) {
    multiply::<std::arch::x86_64::__m512>(p);
}

/// `out += a * transposed b`, each dot product in f64.
pub(super) fn multiply_f64(p: Product<'_, f64>) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the one feature that the function needs was found on this machine.
        return unsafe { multiply_f64_avx512(p) };
    }
    multiply::<Plain<f64, 4>>(p);
}

/// `out += a * transposed b`, in f32 sums of at most [`DEPTH`] values, each through at most `DEPTH / 16 + 4` additions,
/// which are added up in f64.
pub(super) fn multiply_f32(p: Product<'_, f32>) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the one feature that the function needs was found on this machine.
        return unsafe { multiply_f32_avx512(p) };
    }
    multiply::<Plain<f32, 16>>(p);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integers, so that every order of summation gives the same sum.
    fn line(values: usize, stride: usize, seed: usize) -> Vec<f64> {
        (0..stride).map(|i| if i < values { ((i * 7 + seed * 13) % 17) as f64 - 8.0 } else { 0.0 }).collect()
    }

    #[test]
    fn both_kinds_of_lanes_agree_with_the_plain_sum() {
        for (rows, columns, depth) in [(1, 8, 16), (3, 8, 33), (4, 16, 512), (5, 8, 513), (70, 24, 1100)] {
            let stride = usize::next_multiple_of(depth, LANES);
            let a: Vec<f64> = (0..rows).flat_map(|r| line(depth, stride, r)).collect();
            let b: Vec<f64> = (0..columns).flat_map(|c| line(depth, stride, 100 + c)).collect();
            let want: Vec<f64> = a
                .chunks(stride)
                .flat_map(|x| b.chunks(stride).map(|y| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>()))
                .map(|sum| sum + 1.0)
                .collect();
            let (a32, b32): (Vec<f32>, Vec<f32>) =
                (a.iter().map(|&x| x as f32).collect(), b.iter().map(|&x| x as f32).collect());
            let fill = || vec![1.0; rows * columns];
            let (mut best, mut best32, mut plain, mut plain32) = (fill(), fill(), fill(), fill());
            multiply_f64(Product { a: &a, b: &b, stride, out: &mut best });
            multiply_f32(Product { a: &a32, b: &b32, stride, out: &mut best32 });
            multiply::<Plain<f64, 4>>(Product { a: &a, b: &b, stride, out: &mut plain });
            multiply::<Plain<f32, 16>>(Product { a: &a32, b: &b32, stride, out: &mut plain32 });
            assert_eq!(best, want);
            assert_eq!(best32, want);
            assert_eq!(plain, want);
            assert_eq!(plain32, want);
        }
    }
}
