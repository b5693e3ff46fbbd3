//! Drawing the experts of tokens. Every draw here was checked: `1 <= top_k <= experts`, at least one token.

use super::elementary::{exp, ln};
use super::rng::Rng;
use super::routing::Draw;

/// One in 32-bit fixed point, in which chances are counted so that they sum exactly.
const ONE: u64 = 1 << 32;
/// Ratio of the largest to the least popularity that the power law allows: 0.8 of 1024 tokens.
const POPULARITY_RANGE: f64 = 819.2;

/// Purposes of random streams.
const UNIFORM: u64 = 1;
const BALANCED: u64 = 2;
const SAME: u64 = 3;
const POPULARITY: u64 = 4;
const POWER_LAW: u64 = 5;
const WINDOW: u64 = 6;

fn in_order(experts: u32) -> Vec<u32> {
    (0..experts).collect()
}

fn room(draw: Draw) -> Vec<u32> {
    Vec::with_capacity(draw.tokens as usize * draw.top_k as usize)
}

/// Each token: `top_k` of all experts, every ordered choice with the same chance.
pub(super) fn uniform(draw: Draw) -> Vec<u32> {
    let mut rng = Rng::new(draw.seed, UNIFORM);
    let (mut order, mut ids) = (in_order(draw.experts), room(draw));
    for _ in 0..draw.tokens {
        // Whatever order the last token left behind: shuffling it again gives every choice the same chance.
        rng.shuffle_first(&mut order, draw.top_k as usize);
        ids.extend(order.iter().take(draw.top_k as usize));
    }
    ids
}

/// All experts in one seeded order, dealt out to the tokens, round and round.
pub(super) fn balanced(draw: Draw) -> Vec<u32> {
    let mut order = in_order(draw.experts);
    Rng::new(draw.seed, BALANCED).shuffle(&mut order);
    order.into_iter().cycle().take(draw.tokens as usize * draw.top_k as usize).collect()
}

/// The same experts for every token.
pub(super) fn same(draw: Draw) -> Vec<u32> {
    let mut order = in_order(draw.experts);
    Rng::new(draw.seed, SAME).shuffle_first(&mut order, draw.top_k as usize);
    order.truncate(draw.top_k as usize);
    order.repeat(draw.tokens as usize)
}

/// Each token: `top_k` distinct experts, each expert with a chance equal to its popularity.
pub(super) fn power_law(draw: Draw, alpha: f64) -> Vec<u32> {
    let chances = inclusion(&popularity(draw.experts, draw.seed, alpha), draw.top_k);
    let mut rng = Rng::new(draw.seed, POWER_LAW);
    let (mut order, mut ids) = (in_order(draw.experts), room(draw));
    for _ in 0..draw.tokens {
        rng.shuffle(&mut order);
        systematic(&chances, &order, rng.next_u64() % ONE, &mut ids);
    }
    ids
}

/// The first of `tokens` consecutive tokens out of `of`.
pub(super) fn window(of: u32, tokens: u32, seed: u64) -> u32 {
    Rng::new(seed, WINDOW).below(of.saturating_sub(tokens) + 1)
}

/// Popularity of each expert: density `x^-alpha` on [1, `POPULARITY_RANGE`], by inverting its distribution function.
fn popularity(experts: u32, seed: u64, alpha: f64) -> Vec<f64> {
    let mut rng = Rng::new(seed, POPULARITY);
    let beta = 1.0 - alpha;
    let log_range = ln(POPULARITY_RANGE);
    let inverse = |u: f64| {
        // At alpha 1 the law is uniform in the logarithm, and the general form divides by 0.
        if beta.abs() < 1e-6 { exp(u * log_range) } else { exp(ln(1.0 + u * (exp(beta * log_range) - 1.0)) / beta) }
    };
    (0..experts).map(|_| inverse(rng.unit())).collect()
}

/// Chances, in units of 1/[`ONE`], proportional to `weights` but none above one, that sum to exactly `top_k`.
fn inclusion(weights: &[f64], top_k: u32) -> Vec<u64> {
    let mut by_weight: Vec<usize> = (0..weights.len()).collect();
    by_weight.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));

    // The most popular take a whole chance as long as their share would exceed it.
    let mut chances = vec![0u64; weights.len()];
    let mut left = f64::from(top_k);
    let mut capped = 0;
    let mut rest: f64 = by_weight.iter().map(|&e| weights[e]).sum();
    while let Some(&e) = by_weight.get(capped)
        && left > 0.5
        && weights[e] * left >= rest
    {
        chances[e] = ONE;
        left -= 1.0;
        rest -= weights[e];
        capped += 1;
    }
    let open = by_weight.get(capped..).unwrap_or_default();
    for &e in open {
        chances[e] = ((weights[e] * left / rest * ONE as f64) as u64).min(ONE);
    }
    settle(&mut chances, open, u64::from(top_k) * ONE);
    chances
}

/// Makes up for the rounding: moves single units in turn until the chances sum to `total`.
fn settle(chances: &mut [u64], open: &[usize], total: u64) {
    let mut sum: u64 = chances.iter().sum();
    for &e in open.iter().cycle() {
        if sum < total && chances[e] < ONE {
            chances[e] += 1;
            sum += 1;
        } else if sum > total && chances[e] > 0 {
            chances[e] -= 1;
            sum -= 1;
        } else if sum == total {
            break;
        }
    }
}

/// Systematic sampling (Madow, 1949): lays the chances one after another in `order` and takes every expert on which a
/// multiple of [`ONE`] plus `start` falls. A chance of at most one is hit at most once, so the experts are distinct.
fn systematic(chances: &[u64], order: &[u32], start: u64, ids: &mut Vec<u32>) {
    let mut next = start;
    let mut end = 0;
    for &e in order {
        end += chances[e as usize];
        if next < end {
            ids.push(e);
            next += ONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_sum_to_k_exactly_and_none_exceeds_one() {
        for seed in 0..50 {
            for (experts, top_k) in [(1, 1), (8, 8), (8, 2), (256, 8), (512, 22), (4096, 1), (16, 15)] {
                for alpha in [0.01, 0.6, 1.0, 1.01, 1.2, 1.9, 2.0] {
                    let chances = inclusion(&popularity(experts, seed, alpha), top_k);
                    assert_eq!(chances.iter().sum::<u64>(), u64::from(top_k) * ONE);
                    assert!(chances.iter().all(|&c| c <= ONE));
                }
            }
        }
    }

    /// max/mean at 1024 tokens, 256 experts, top-8 as published for this law: 3.2, 6.7 and 10.9 (medians), and the
    /// load of the top fifth of the experts: 51, 74 and 84%.
    #[test]
    fn the_popularity_is_that_of_the_published_law() {
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        for (alpha, peak, fifth) in [(0.6, 3.2, 0.51), (1.01, 6.7, 0.74), (1.2, 10.9, 0.84)] {
            let (peaks, fifths) = (0..300)
                .map(|seed| {
                    let mut chances = inclusion(&popularity(256, seed, alpha), 8);
                    chances.sort_unstable();
                    let total = (8 * ONE) as f64;
                    let top: u64 = chances[256 - 51..].iter().sum();
                    (chances[255] as f64 * 256.0 / total, top as f64 / total)
                })
                .unzip();
            let (got_peak, got_fifth) = (median(peaks), median(fifths));
            assert!((got_peak / peak - 1.0).abs() < 0.1, "{alpha}: {got_peak} for {peak}");
            assert!((got_fifth - fifth).abs() < 0.03, "{alpha}: {got_fifth} for {fifth}");
        }
    }

    #[test]
    fn tokens_visit_each_expert_as_often_as_its_chance_says() {
        let draw = Draw { experts: 32, top_k: 4, tokens: 20_000, seed: 3 };
        let chances = inclusion(&popularity(32, 3, 1.2), 4);
        let mut rows = [0u32; 32];
        for id in power_law(draw, 1.2) {
            rows[id as usize] += 1;
        }
        for (e, &chance) in chances.iter().enumerate() {
            let p = chance as f64 / ONE as f64;
            let sigma = (20_000.0 * p * (1.0 - p)).sqrt();
            assert!((f64::from(rows[e]) - 20_000.0 * p).abs() <= 5.0 * sigma + 1.0, "{e}: {} for {p}", rows[e]);
        }
    }
}
