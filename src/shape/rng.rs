//! Random numbers that are the same on every machine and in every version.
//!
//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): a counter times
//! the golden ratio, then a finaliser. Written here because a recorded seed must give the same routing for ever, which
//! no library's default generator promises. Not for secrets.

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of a seed for one purpose; streams of different purposes are unrelated. Routing uses purposes 1 to 15.
    pub fn new(seed: u64, purpose: u64) -> Self {
        Rng(finalise(seed.wrapping_add(finalise(purpose.wrapping_add(GOLDEN)))))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        finalise(self.0)
    }

    /// A number below `n`, each with exactly the same chance (Lemire, "Fast random integer generation in an interval",
    /// 2019); 0 when `n` is 0.
    pub fn below(&mut self, n: u32) -> u32 {
        let n = u64::from(n);
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            let low = product as u64;
            // Low words below 2^64 mod n (itself below n) are the surplus that would favour some results.
            if low >= n || low >= n.wrapping_neg() % n {
                return (product >> 64) as u32;
            }
        }
    }

    /// A number in [0, 1), a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Brings `items` into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        self.shuffle_first(items, items.len());
    }

    /// Brings a random choice of `count` items, in random order, to the front.
    pub fn shuffle_first<T>(&mut self, items: &mut [T], count: usize) {
        for i in 0..count.min(items.len()) {
            let rest = (items.len() - i) as u32;
            items.swap(i, i + self.below(rest) as usize);
        }
    }
}

fn finalise(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_splitmix64() {
        // Published first outputs for the state 1234567.
        let mut rng = Rng(1234567);
        let got: Vec<u64> = (0..5).map(|_| rng.next_u64()).collect();
        assert_eq!(
            got,
            [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
        );
    }

    #[test]
    fn numbers_below_a_bound_are_even_and_stay_below() {
        let mut rng = Rng::new(1, 2);
        let mut seen = [0u32; 7];
        for _ in 0..70_000 {
            seen[rng.below(7) as usize] += 1;
        }
        // Standard deviation about 93.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 500), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn purposes_do_not_share_numbers() {
        assert_ne!(Rng::new(0, 0).next_u64(), Rng::new(0, 1).next_u64());
        assert_ne!(Rng::new(0, 1).next_u64(), Rng::new(1, 0).next_u64());
    }
}
