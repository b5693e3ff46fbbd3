//! The table of normal quantiles that random bits index.
//!
//! Entry `j` of 32,768 is the bf16 nearest to the magnitude that a standard normal number stays below with probability
//! `(j + 0.5) / 32768`. Sixteen random bits make one normal number: bit 15 is the sign, the low 15 bits the index. The
//! largest magnitude is 4.3; the table rises, so the largest index has the largest magnitude.
//!
//! Built with `+ - * /` in f64 only, no library function, so that every machine gets the same bits.

use std::sync::LazyLock;

/// Entries of the table.
pub const ENTRIES: usize = 1 << 15;

/// The bf16 bit patterns. A device that makes operands of its own gets a copy of these 64 KiB.
pub fn table() -> &'static [u16; ENTRIES] {
    &TABLE
}

static TABLE: LazyLock<Box<[u16; ENTRIES]>> = LazyLock::new(|| {
    let mut table = Box::new([0; ENTRIES]);
    // Instead of inverting the distribution at each probability, walk both upwards: `bits` is the nearest bf16 as long
    // as the boundary to the next one lies above the quantile, that is, has the larger probability.
    let mut bits = 0x3700u16;
    let mut boundary = below(middle_to_next(bits));
    for (j, entry) in table.iter_mut().enumerate() {
        let probability = (j as f64 + 0.5) / ENTRIES as f64;
        while boundary < probability {
            bits += 1;
            boundary = below(middle_to_next(bits));
        }
        *entry = bits;
    }
    table
});

/// The number half-way between a positive bf16 and the next.
fn middle_to_next(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16 | 0x8000))
}

/// Probability that the magnitude of a standard normal number is below `z`, for z up to about 6:
/// `sqrt(2/pi) exp(-z^2/2) (z + z^3/3 + z^5/(3*5) + ...)`, all of whose terms are positive
/// (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.11).
fn below(z: f64) -> f64 {
    let z2 = z * z;
    let (mut term, mut sum, mut odd) = (z, z, 1.0);
    let (mut power, mut exponential, mut n) = (1.0, 1.0, 0.0);
    while term > sum * 1e-18 || power > exponential * 1e-18 {
        odd += 2.0;
        term = term * z2 / odd;
        sum += term;
        n += 1.0;
        power = power * z2 / (2.0 * n);
        exponential += power;
    }
    const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;
    SQRT_2_OVER_PI * sum / exponential
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    fn value(j: usize) -> f64 {
        bf16::from_bits(table()[j]).to_f64()
    }

    #[test]
    fn known_quantiles() {
        // P(|Z| < z): textbook values.
        for (z, p) in
            [(1.0, 0.682_689_492_137), (1.959_963_984_54, 0.95), (3.0, 0.997_300_203_937), (0.5, 0.382_924_922_548)]
        {
            assert!((below(z) - p).abs() < 1e-11, "{z}");
            let j = (p * ENTRIES as f64) as usize;
            assert!((value(j) / z - 1.0).abs() < 1.0 / 256.0 + 1e-3, "{z}: {}", value(j));
        }
    }

    #[test]
    fn rises_from_the_smallest_to_the_largest() {
        assert!(table().windows(2).all(|w| w[0] <= w[1]));
        assert!(value(0) > 1.8e-5 && value(0) < 2e-5, "{}", value(0));
        assert!(value(ENTRIES - 1) > 4.1 && value(ENTRIES - 1) < 4.4, "{}", value(ENTRIES - 1));
    }

    #[test]
    fn moments_are_those_of_a_normal() {
        let moment = |p| (0..ENTRIES).map(|j| value(j).powi(p)).sum::<f64>() / ENTRIES as f64;
        assert!((moment(2) - 1.0).abs() < 2e-3, "{}", moment(2));
        assert!((moment(4) - 3.0).abs() < 2e-2, "{}", moment(4));
    }

    /// The same bits everywhere and always: results files name seeds, not numbers.
    #[test]
    fn bits_are_pinned() {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for b in table() {
            hash = (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
        assert_eq!(hash, 0x090b_86e7_ac5a_a702, "{hash:#x}");
    }
}
