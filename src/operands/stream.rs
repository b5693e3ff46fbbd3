//! Random bits that depend on a key and a counter only, so that any element can be made anywhere in any order.
//!
//! Word `i` of a stream with key `s` is `mix(s + (i + 1) * GOLDEN)`, which is SplitMix64 started at `s` (Steele, Lea and
//! Flood, "Fast splittable pseudorandom number generators", 2014). All arithmetic wraps at 64 bits.

/// 2^64 divided by the golden ratio, odd.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64: a bijection of 64 bits in which every input bit moves about half of the output bits.
#[inline(always)]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of 64-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// The stream of a list of numbers: from `mix(seed + GOLDEN)`, each part is added, then GOLDEN, then mixed.
    pub fn new(seed: u64, parts: &[u64]) -> Self {
        let step = |h: u64, p: &u64| mix(h.wrapping_add(*p).wrapping_add(GOLDEN));
        Stream { key: parts.iter().fold(step(seed, &0), step) }
    }

    /// The key `s` of the formula above, for another implementation.
    pub fn key(self) -> u64 {
        self.key
    }

    /// Word `i`.
    #[inline(always)]
    pub fn word(self, i: u64) -> u64 {
        mix(self.key.wrapping_add(i.wrapping_add(1).wrapping_mul(GOLDEN)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of SplitMix64 seeded with 1234567, as widely published.
    #[test]
    fn is_splitmix64() {
        let s = Stream { key: 1_234_567 };
        assert_eq!(
            [0, 1, 2, 3].map(|i| s.word(i)),
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431
            ]
        );
    }

    #[test]
    fn every_part_matters() {
        let keys = [
            Stream::new(1, &[1, 2]),
            Stream::new(2, &[1, 2]),
            Stream::new(1, &[2, 1]),
            Stream::new(1, &[1, 3]),
            Stream::new(1, &[1]),
            Stream::new(1, &[1, 2, 0]),
        ];
        for (i, a) in keys.iter().enumerate() {
            assert!(keys[..i].iter().all(|b| b != a));
        }
    }
}
