//! Which output columns a reference holds.

use crate::shape::GemmShape;

use super::random::SplitMix;

/// Which output columns a reference holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// All `n`.
    All,
    /// A few of each expert.
    Sampled(SampledColumns),
}

/// The same number of columns for each expert, but other ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledColumns {
    per_expert: usize,
    /// `[experts][per_expert]`, ascending within an expert.
    indices: Vec<u32>,
}

impl SampledColumns {
    /// Draws `per_expert` columns for each expert (all of them when `n` is smaller): the first and the last, where tiles
    /// end, and one at random from each of equal parts of the rest.
    pub fn draw(shape: GemmShape, per_expert: usize, seed: u64) -> Self {
        let per_expert = per_expert.max(2).min(shape.n as usize);
        let mut random = SplitMix::new(seed);
        let mut indices = Vec::with_capacity(shape.experts as usize * per_expert);
        for _ in 0..shape.experts {
            if per_expert == shape.n as usize {
                indices.extend(0..shape.n);
                continue;
            }
            indices.push(0);
            let (inner, parts) = (u64::from(shape.n - 2), per_expert as u64 - 2);
            for part in 0..parts {
                let (start, end) = (part * inner / parts, (part + 1) * inner / parts);
                indices.push(1 + (start + random.below(end - start)) as u32);
            }
            indices.push(shape.n - 1);
        }
        SampledColumns { per_expert, indices }
    }

    /// Columns held for each expert.
    pub fn per_expert(&self) -> usize {
        self.per_expert
    }

    /// The columns of one expert, ascending; none for an expert that does not exist.
    pub fn of(&self, expert: usize) -> &[u32] {
        self.indices.get(expert * self.per_expert..(expert + 1) * self.per_expert).unwrap_or_default()
    }
}

impl Columns {
    /// Columns held for each expert.
    pub fn per_expert(&self, n: usize) -> usize {
        match self {
            Columns::All => n,
            Columns::Sampled(sampled) => sampled.per_expert,
        }
    }

    /// The output column behind place `place` of an expert's held columns.
    pub fn column(&self, expert: usize, place: usize) -> usize {
        match self {
            Columns::All => place,
            Columns::Sampled(sampled) => sampled.of(expert).get(place).map_or(place, |&c| c as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_ascending_columns_with_both_ends() {
        for n in [1, 2, 3, 15, 16, 17, 512, 6144] {
            let shape = GemmShape { experts: 5, n, k: 16 };
            let columns = SampledColumns::draw(shape, 16, 7);
            assert_eq!(columns.per_expert(), 16.min(n as usize));
            for expert in 0..5 {
                let of = columns.of(expert);
                assert!(of.is_sorted_by(|a, b| a < b), "{of:?}");
                assert_eq!((of[0], of[of.len() - 1]), (0, n - 1));
            }
        }
        let shape = GemmShape { experts: 5, n: 512, k: 16 };
        let columns = SampledColumns::draw(shape, 16, 7);
        assert_ne!(columns.of(0), columns.of(1));
        assert_eq!(columns, SampledColumns::draw(shape, 16, 7));
        assert_ne!(columns, SampledColumns::draw(shape, 16, 8));
    }
}
