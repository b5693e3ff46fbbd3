//! Which experts each token visits, and how many rows that gives each expert.

/// The experts of every token, over all experts of the layer (before expert parallelism divides them).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    experts: u32,
    top_k: u32,
    ids: Vec<u32>,
}

impl Assignment {
    /// Takes `ids`, `top_k` of each token one after another.
    ///
    /// The makers of this module only pass distinct ids below `experts`, `top_k` at least 1 and whole tokens.
    pub(super) fn new(experts: u32, top_k: u32, ids: Vec<u32>) -> Self {
        debug_assert!(top_k > 0 && ids.len().is_multiple_of(top_k as usize));
        debug_assert!(ids.iter().all(|&id| id < experts));
        Assignment { experts, top_k, ids }
    }

    /// Experts of the layer.
    pub fn experts(&self) -> u32 {
        self.experts
    }

    /// Experts per token.
    pub fn top_k(&self) -> u32 {
        self.top_k
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.ids.len() / self.top_k as usize
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The experts of each token in turn: `top_k` distinct ids below [`Assignment::experts`].
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.ids.chunks_exact(self.top_k as usize)
    }

    /// Rows per expert of the layer.
    pub fn histogram(&self) -> Vec<u32> {
        let mut rows = vec![0; self.experts as usize];
        for &id in &self.ids {
            rows[id as usize] += 1;
        }
        rows
    }
}

/// The part of a histogram that an EP rank holds: experts `rank * E/ep` to `(rank + 1) * E/ep - 1`.
pub(super) fn rank_rows(histogram: &[u32], ep: u32, rank: u32) -> &[u32] {
    let experts = histogram.len() / ep.max(1) as usize;
    histogram.chunks(experts.max(1)).nth(rank as usize).unwrap_or_default()
}

/// The rank with most rows, the lowest of several.
pub(super) fn worst_rank(histogram: &[u32], ep: u32) -> u32 {
    let rows = |rank: u32| rank_rows(histogram, ep, rank).iter().map(|&r| u64::from(r)).sum::<u64>();
    (0..ep).rev().max_by_key(|&rank| rows(rank)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_rank_is_the_lowest_of_those_with_most_rows() {
        assert_eq!(worst_rank(&[1, 2, 3, 0, 0, 3, 2, 0], 4), 0);
        assert_eq!(worst_rank(&[1, 1, 3, 0, 0, 3, 2, 0], 4), 1);
        assert_eq!(worst_rank(&[0, 0, 0, 0], 2), 0);
        assert_eq!(rank_rows(&[1, 2, 3, 4], 2, 1), [3, 4]);
    }
}
