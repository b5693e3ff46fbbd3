//! Dot products of every row of one panel with every row of another: the inner loop of the reference.
//!
//! Plain Rust, compiled twice: for any machine, and for AVX-512. A panel holds its lines one after another, each padded
//! with zeros to `stride` values; `stride` is a multiple of [`LANES`] and the second panel has a multiple of [`COLUMNS`]
//! lines, so the inner loops have no remainders.

use std::ops::Range;

/// Lines of a panel are padded to a multiple of this many values.
pub(super) const LANES: usize = 16;

/// The second panel has a multiple of this many lines.
pub(super) const COLUMNS: usize = 8;

/// Values of each line that are kept close while all pairs of lines go over them: 4 lines of f64 fill a third of L1.
const DEPTH: usize = 512;

/// Lines of the first panel that are taken together, so that they stay in L2.
const ROWS: usize = 64;

/// f32 or f64.
pub(super) trait Element: Copy + Into<f64> {
    /// Zero.
    const ZERO: Self;
    /// `self * b + c`, with one rounding where `FUSED`.
    fn multiply_add<const FUSED: bool>(self, b: Self, c: Self) -> Self;
}

macro_rules! element {
    ($t:ty) => {
        impl Element for $t {
            const ZERO: Self = 0.0;

            #[inline(always)]
            fn multiply_add<const FUSED: bool>(self, b: Self, c: Self) -> Self {
                if FUSED { self.mul_add(b, c) } else { self * b + c }
            }
        }
    };
}
element!(f32);
element!(f64);

/// Two panels of `stride` values a line, and where the dot products of their lines go.
pub(super) struct Product<'a, T> {
    /// Lines that run down the output.
    pub a: &'a [T],
    /// Lines that run along the output.
    pub b: &'a [T],
    /// Values of a line, padding included; a multiple of [`LANES`].
    pub stride: usize,
    /// `[lines of a][lines of b]`; the dot products are added.
    pub out: &'a mut [f64],
}

/// Dot products of `R` lines with `C` lines, in `L` partial sums each, added up in f64.
#[inline(always)]
fn tile<T: Element, const L: usize, const R: usize, const C: usize, const FUSED: bool>(
    a: [&[T]; R],
    b: [&[T]; C],
) -> [[f64; C]; R] {
    let a = a.map(|line| line.as_chunks::<L>().0);
    let b = b.map(|line| line.as_chunks::<L>().0);
    let steps = a.iter().chain(&b).map(|line| line.len()).min().unwrap_or(0);
    let (a, b) = (a.map(|line| &line[..steps]), b.map(|line| &line[..steps]));
    let mut sums = [[[T::ZERO; L]; C]; R];
    for step in 0..steps {
        for r in 0..R {
            let x = a[r][step];
            for c in 0..C {
                let y = b[c][step];
                for lane in 0..L {
                    sums[r][c][lane] = x[lane].multiply_add::<FUSED>(y[lane], sums[r][c][lane]);
                }
            }
        }
    }
    sums.map(|row| row.map(|lanes| lanes.iter().map(|&x| x.into()).sum()))
}

/// Adds the dot products of `R` rows with `C` columns over part of their depth.
#[inline(always)]
fn add_tile<T: Element, const L: usize, const R: usize, const C: usize, const FUSED: bool>(
    p: &mut Product<'_, T>,
    row: usize,
    column: usize,
    depth: &Range<usize>,
) {
    let columns = p.b.len() / p.stride;
    let a = std::array::from_fn(|r| &p.a[(row + r) * p.stride..][depth.clone()]);
    let b = std::array::from_fn(|c| &p.b[(column + c) * p.stride..][depth.clone()]);
    for (r, sums) in tile::<T, L, R, C, FUSED>(a, b).into_iter().enumerate() {
        let out = &mut p.out[(row + r) * columns + column..][..C];
        for (out, sum) in out.iter_mut().zip(sums) {
            *out += sum;
        }
    }
}

#[inline(always)]
fn multiply<T: Element, const L: usize, const FUSED: bool>(mut p: Product<'_, T>) {
    let (rows, columns) = (p.a.len() / p.stride, p.b.len() / p.stride);
    for start in (0..p.stride).step_by(DEPTH) {
        let depth = start..(start + DEPTH).min(p.stride);
        for first in (0..rows).step_by(ROWS) {
            let last = (first + ROWS).min(rows);
            for column in (0..columns).step_by(COLUMNS) {
                let mut row = first;
                while row + 4 <= last {
                    add_tile::<T, L, 4, 4, FUSED>(&mut p, row, column, &depth);
                    add_tile::<T, L, 4, 4, FUSED>(&mut p, row, column + 4, &depth);
                    row += 4;
                }
                while row < last {
                    add_tile::<T, L, 1, 8, FUSED>(&mut p, row, column, &depth);
                    row += 1;
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn multiply_f64_avx512(p: Product<'_, f64>) {
    multiply::<f64, 8, true>(p);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn multiply_f32_avx512(p: Product<'_, f32>) {
    multiply::<f32, 16, true>(p);
}

/// `out += a * transposed b`, each dot product in f64.
pub(super) fn multiply_f64(p: Product<'_, f64>) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the one feature that the function needs was found on this machine.
        return unsafe { multiply_f64_avx512(p) };
    }
    multiply::<f64, 2, false>(p);
}

/// `out += a * transposed b`, in f32 partial sums of at most [`DEPTH`] / 16 values, which are added up in f64.
pub(super) fn multiply_f32(p: Product<'_, f32>) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the one feature that the function needs was found on this machine.
        return unsafe { multiply_f32_avx512(p) };
    }
    multiply::<f32, 4, false>(p);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integers, so that every order of summation gives the same sum.
    fn line(values: usize, stride: usize, seed: usize) -> Vec<f64> {
        (0..stride).map(|i| if i < values { ((i * 7 + seed * 13) % 17) as f64 - 8.0 } else { 0.0 }).collect()
    }

    #[test]
    fn both_compilations_agree_with_the_plain_sum() {
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
            let (mut best, mut best32, mut plain) = (fill(), fill(), fill());
            multiply_f64(Product { a: &a, b: &b, stride, out: &mut best });
            multiply_f32(Product { a: &a32, b: &b32, stride, out: &mut best32 });
            multiply::<f64, 2, false>(Product { a: &a, b: &b, stride, out: &mut plain });
            assert_eq!(best, want);
            assert_eq!(best32, want);
            assert_eq!(plain, want);
        }
    }
}
