//! Slots: the instances of a case that are launched one after another, so that weights are read from memory and not from
//! the cache.
//!
//! A slot is a layer copy and a relabelling of the case's (logical) experts to that copy's (physical) experts. All slots
//! have the same histogram; only which weights they touch differs.
//!
//! With T of E experts touched, one layer copy holds `E / T` (rounded down) slots that share no weight. A plan takes these
//! windows of a seeded order of the experts, layer copy after layer copy, until enough bytes lie between two reads of
//! the same weight, and cycles through them. No other cycle over as many layer copies reaches further: whatever the
//! cycle, slots that are all disjoint need their T experts each. Where a plan has fewer windows than the slots asked for,
//! the cycle is repeated with other relabellings inside each window, which leaves the distance as it is.
//!
//! The *reuse distance* counts the distinct other weight bytes touched in the slots strictly between two slots that
//! read the same weight, the least over the whole cycle, the way round included. What the two slots themselves read
//! before and after is left out, because the order inside a slot is the kernel's. Bytes are those of the canonical layout.

use super::error::OperandError;
use super::stream::Stream;
use crate::record::{L2, SlotPlanRecord};

/// A weight is cold when at least this many times the cache passed since it was last read.
pub const COLD_FACTOR: u64 = 3;

/// First parts of the streams that slots draw from; apart from those of the numbers.
const ORDER: u64 = 101;
const RELABEL: u64 = 102;

/// What a plan may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLimits {
    /// Slots to have at least, so that a sample averages over several relabellings.
    pub min_slots: u32,
    /// Slots to have at most: a captured graph holds one call of each.
    pub max_slots: u32,
    /// Layer copies that fit the memory, at least 1.
    pub max_layers: u32,
}

impl Default for SlotLimits {
    /// 4 to 512 slots, any number of layer copies.
    fn default() -> Self {
        SlotLimits { min_slots: 4, max_slots: 512, max_layers: u32::MAX }
    }
}

impl SlotLimits {
    /// The default slots with as many layer copies of `layer_bytes` as fit `memory_bytes`, at least one.
    pub fn within(memory_bytes: u64, layer_bytes: u64) -> Self {
        let layers = memory_bytes / layer_bytes.max(1);
        SlotLimits { max_layers: u32::try_from(layers).unwrap_or(u32::MAX).max(1), ..SlotLimits::default() }
    }
}

/// What slots are wanted.
#[derive(Clone, Copy, Debug)]
pub struct SlotRequest<'a> {
    /// Rows of each (logical) expert.
    pub rows: &'a [u32],
    /// Weight bytes of an expert in the canonical layout.
    pub bytes_per_expert: u64,
    /// Bytes of the last-level cache.
    pub cache_bytes: u64,
    /// Cold, or warm: one slot, relabelling nothing.
    pub l2: L2,
    /// Seed of the relabellings.
    pub seed: u64,
    /// What the plan may use.
    pub limits: SlotLimits,
}

/// The slots of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotPlan {
    rows: Vec<u32>,
    slots: Vec<Slot>,
    layers: u32,
    bytes_per_expert: u64,
    cache_bytes: u64,
    reuse_distance: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Slot {
    layer: u32,
    /// Physical expert of each logical one; a permutation.
    physical: Vec<u32>,
}

impl SlotPlan {
    /// The plan with the fewest layer copies, and of these the fewest slots, whose reuse distance is at least
    /// [`COLD_FACTOR`] times the cache; when the limits forbid that, the one that reaches furthest within them
    /// ([`SlotPlan::is_cold`] then says no).
    ///
    /// # Errors
    /// When no expert has a row, or the rows exceed what 32-bit offsets count.
    pub fn new(request: &SlotRequest<'_>) -> Result<Self, OperandError> {
        let &SlotRequest { rows, bytes_per_expert, cache_bytes, l2, seed, limits } = request;
        let touched: Vec<u32> = (0..).zip(rows).filter(|&(_, &r)| r > 0).map(|(e, _)| e).collect();
        if touched.is_empty() {
            return Err(OperandError::NoRows);
        }
        let total = rows.iter().map(|&r| u64::from(r)).sum();
        let limit = i32::MAX as u64;
        if total > limit {
            return Err(OperandError::TooManyRows { rows: total, limit });
        }
        let (slots, layers) = match l2 {
            L2::Warm => (vec![Slot { layer: 0, physical: (0..rows.len() as u32).collect() }], 1),
            L2::Cold => {
                let cycle = Cycle::choose(touched.len(), rows.len(), bytes_per_expert, cache_bytes, limits);
                (cycle.slots(&touched, rows.len() as u32, seed), cycle.layers)
            }
        };
        let reuse_distance = reuse_distance(&slots, &touched, layers, rows.len(), bytes_per_expert);
        Ok(SlotPlan { rows: rows.to_vec(), slots, layers, bytes_per_expert, cache_bytes, reuse_distance })
    }

    /// Slots in the cycle, at least 1.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Never: a plan has at least one slot.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Layer copies used, numbered from 0.
    pub fn layers(&self) -> u32 {
        self.layers
    }

    /// Layer copy of a slot. Slots are counted round the cycle, so any number names one.
    pub fn layer(&self, slot: usize) -> u32 {
        self.slot(slot).layer
    }

    /// Physical expert of each logical expert.
    pub fn permutation(&self, slot: usize) -> &[u32] {
        &self.slot(slot).physical
    }

    /// Rows of each physical expert.
    pub fn rows(&self, slot: usize) -> Vec<u32> {
        let mut out = vec![0; self.rows.len()];
        for (&physical, &r) in self.slot(slot).physical.iter().zip(&self.rows) {
            if let Some(out) = out.get_mut(physical as usize) {
                *out = r;
            }
        }
        out
    }

    /// First row of each physical expert, `experts + 1` entries.
    pub fn offsets(&self, slot: usize) -> Vec<u32> {
        let mut at = 0;
        std::iter::once(0)
            .chain(self.rows(slot).into_iter().map(|r| {
                at += r;
                at
            }))
            .collect()
    }

    /// Least bytes of other weights touched between two reads of the same weight.
    pub fn reuse_distance_bytes(&self) -> u64 {
        self.reuse_distance
    }

    /// Whether every weight is cold when it is read.
    pub fn is_cold(&self) -> bool {
        self.reuse_distance >= self.cache_bytes.saturating_mul(COLD_FACTOR)
    }

    /// What a results file says of the plan.
    pub fn record(&self) -> SlotPlanRecord {
        SlotPlanRecord {
            slots: self.slots.len() as u32,
            layers: self.layers,
            weight_bytes: self
                .bytes_per_expert
                .saturating_mul(self.rows.len() as u64)
                .saturating_mul(u64::from(self.layers)),
            reuse_distance_bytes: self.reuse_distance,
            cache_bytes: self.cache_bytes,
        }
    }

    fn slot(&self, slot: usize) -> &Slot {
        &self.slots[slot % self.slots.len()]
    }
}

/// How many windows are cycled through, over how many layer copies, how often.
#[derive(Debug, PartialEq)]
struct Cycle {
    /// Disjoint windows of a layer copy.
    per_layer: u32,
    layers: u32,
    /// Windows in the cycle, all disjoint.
    windows: u32,
    /// Relabellings of each window.
    repeats: u32,
}

impl Cycle {
    fn choose(touched: usize, experts: usize, bytes_per_expert: u64, cache_bytes: u64, limits: SlotLimits) -> Self {
        let max_slots = limits.max_slots.max(1);
        let per_layer = (experts / touched).max(1) as u32;
        let slot_bytes = bytes_per_expert.saturating_mul(touched as u64).max(1);
        // One window more than must lie between two reads.
        let between = cache_bytes.saturating_mul(COLD_FACTOR).div_ceil(slot_bytes);
        let wanted = u32::try_from(between.saturating_add(1)).unwrap_or(u32::MAX).min(max_slots);
        let layers = wanted.div_ceil(per_layer).min(limits.max_layers.max(1));
        let available = layers.saturating_mul(per_layer);
        let windows = wanted.max(limits.min_slots).min(available).min(max_slots);
        let repeats = limits.min_slots.div_ceil(windows).min(max_slots / windows).max(1);
        Cycle { per_layer, layers, windows, repeats }
    }

    fn slots(&self, touched: &[u32], experts: u32, seed: u64) -> Vec<Slot> {
        let orders: Vec<Vec<u32>> =
            (0..self.layers).map(|layer| shuffled((0..experts).collect(), seed, &[ORDER, layer.into()])).collect();
        let mut slots = Vec::with_capacity((self.windows * self.repeats) as usize);
        for index in 0..self.windows * self.repeats {
            let window = index % self.windows;
            let layer = window / self.per_layer;
            let first = (window % self.per_layer) as usize * touched.len();
            let order = &orders[layer as usize];
            let targets = shuffled(order[first..first + touched.len()].to_vec(), seed, &[RELABEL, index.into()]);
            let mut others = order.iter().filter(|e| !targets.contains(e));
            let mut physical: Vec<u32> = vec![0; experts as usize];
            let mut targets = targets.iter();
            for (logical, physical) in (0..).zip(&mut physical) {
                let next = if touched.binary_search(&logical).is_ok() { targets.next() } else { others.next() };
                // Both lists together have one entry for each logical expert.
                *physical = next.copied().unwrap_or_default();
            }
            slots.push(Slot { layer, physical });
        }
        slots
    }
}

/// A seeded shuffle (Fisher and Yates).
fn shuffled(mut items: Vec<u32>, seed: u64, parts: &[u64]) -> Vec<u32> {
    let stream = Stream::new(seed, parts);
    for i in (1..items.len()).rev() {
        let j = (u128::from(stream.word(i as u64)) * (i as u128 + 1)) >> 64;
        items.swap(i, j as usize);
    }
    items
}

/// The reuse distance as the head of this file defines it, from the slots alone.
fn reuse_distance(slots: &[Slot], touched: &[u32], layers: u32, experts: usize, bytes_per_expert: u64) -> u64 {
    let keys = |slot: usize| {
        let s = &slots[slot % slots.len()];
        touched.iter().map(move |&logical| s.layer as usize * experts + s.physical[logical as usize] as usize)
    };
    // Who marked a weight last: slot 2i for its own weights, 2i + 1 for those seen on the way from it.
    let mut mark = vec![usize::MAX; layers as usize * experts];
    let mut least = u64::MAX;
    for i in 0..slots.len() {
        keys(i).for_each(|key| mark[key] = 2 * i);
        let mut between = 0u64;
        for j in i + 1..=i + slots.len() {
            if keys(j).any(|key| mark[key] == 2 * i) {
                break;
            }
            for key in keys(j) {
                if mark[key] != 2 * i + 1 {
                    mark[key] = 2 * i + 1;
                    between += 1;
                }
            }
            if between.saturating_mul(bytes_per_expert) >= least {
                break;
            }
        }
        least = least.min(between.saturating_mul(bytes_per_expert));
    }
    least
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    const MB: u64 = 1_000_000;

    fn request(rows: &[u32], bytes_per_expert: u64, cache_bytes: u64) -> SlotRequest<'_> {
        SlotRequest { rows, bytes_per_expert, cache_bytes, l2: L2::Cold, seed: 7, limits: SlotLimits::default() }
    }

    fn touched_of(plan: &SlotPlan, slot: usize) -> HashSet<(u32, usize)> {
        let layer = plan.layer(slot);
        plan.rows(slot).iter().enumerate().filter(|(_, r)| **r > 0).map(|(e, _)| (layer, e)).collect()
    }

    /// Plays three cycles and looks, at each read, at what was read since the last one.
    fn simulate(plan: &SlotPlan) -> u64 {
        let mut last: HashMap<(u32, usize), usize> = HashMap::new();
        let mut least = u64::MAX;
        for at in 0..3 * plan.len() {
            for key in touched_of(plan, at) {
                if let Some(before) = last.insert(key, at) {
                    let seen: HashSet<_> = (before + 1..at).flat_map(|s| touched_of(plan, s)).collect();
                    assert!(!seen.contains(&key));
                    least = least.min(seen.len() as u64 * plan.bytes_per_expert);
                }
            }
        }
        least
    }

    #[test]
    fn one_glm5_layer_covers_batch_1_even_for_128_mb() {
        let mut rows = vec![0; 256];
        rows[40..48].fill(1);
        let plan = SlotPlan::new(&request(&rows, 512 * 6144 * 9 / 16, 128 * MB)).unwrap();
        assert_eq!(plan.layers(), 1);
        assert!(plan.is_cold());
        assert_eq!(plan.reuse_distance_bytes(), (plan.len() as u64 - 1) * 8 * 1_769_472);
        let record = plan.record();
        assert_eq!((record.weight_bytes, record.slots as usize), (452_984_832, plan.len()));
    }

    #[test]
    fn all_experts_touched_needs_layer_copies() {
        let rows = vec![16; 256];
        let plan = SlotPlan::new(&request(&rows, 1_769_472, 128 * MB)).unwrap();
        // One whole layer between two reads is 453 MB, more than 384 MB: two copies, relabelled twice each.
        assert_eq!((plan.layers(), plan.len()), (2, 4));
        assert_eq!(plan.reuse_distance_bytes(), 452_984_832);
        assert_ne!(plan.permutation(0), plan.permutation(2));
    }

    #[test]
    fn a_budget_too_small_is_used_fully_and_told() {
        let rows = vec![16; 256];
        let limits = SlotLimits::within(460 * MB, 453 * MB);
        let plan = SlotPlan::new(&SlotRequest { limits, ..request(&rows, 1_769_472, 128 * MB) }).unwrap();
        assert_eq!((plan.layers(), plan.reuse_distance_bytes(), plan.is_cold()), (1, 0, false));
        assert_eq!(SlotLimits::within(1, 453 * MB).max_layers, 1);
    }

    #[test]
    fn the_cap_on_slots_holds() {
        let mut rows = vec![0; 8];
        rows[3] = 5;
        let plan = SlotPlan::new(&request(&rows, 1000, 128 * MB)).unwrap();
        assert_eq!((plan.len(), plan.layers(), plan.is_cold()), (512, 64, false));
        assert_eq!(plan.reuse_distance_bytes(), 511_000);
    }

    #[test]
    fn warm_is_one_slot_as_it_comes() {
        let rows = [0, 3, 1, 0];
        let plan = SlotPlan::new(&SlotRequest { l2: L2::Warm, ..request(&rows, 1000, 128 * MB) }).unwrap();
        assert_eq!((plan.len(), plan.layers(), plan.reuse_distance_bytes()), (1, 1, 0));
        assert_eq!(plan.offsets(0), [0, 0, 3, 4, 4]);
    }

    #[test]
    fn refusals() {
        assert_eq!(SlotPlan::new(&request(&[0, 0], 1, 1)), Err(OperandError::NoRows));
        assert_eq!(SlotPlan::new(&request(&[], 1, 1)), Err(OperandError::NoRows));
        let e = SlotPlan::new(&request(&[u32::MAX, 1], 1, 1)).unwrap_err().to_string();
        assert!(e.starts_with("4294967296 rows are more than"), "{e}");
    }

    #[test]
    fn extreme_sizes_do_not_overflow() {
        for (bytes, cache) in [(u64::MAX, u64::MAX), (0, u64::MAX), (u64::MAX, 0), (0, 0)] {
            let limits = SlotLimits { min_slots: 0, max_slots: 0, max_layers: 0 };
            for limits in [limits, SlotLimits { max_slots: 9, ..SlotLimits::default() }] {
                let plan = SlotPlan::new(&SlotRequest { limits, ..request(&[1, 0, 2], bytes, cache) }).unwrap();
                assert!(!plan.is_empty() && plan.len() <= 9);
            }
        }
    }

    prop_compose! {
        fn any_rows()(experts in 1usize..24)(
            rows in prop::collection::vec(prop_oneof![2 => Just(0u32), 3 => 1u32..9], experts),
            one in 0..experts,
        ) -> Vec<u32> {
            let mut rows = rows;
            rows[one] = 3;
            rows
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn plans_hold_what_they_say(
            rows in any_rows(), bytes in 1u64..50, cache in 0u64..700, seed: u64,
            min_slots in 1u32..12, max_slots in 12u32..40, max_layers in 1u32..12,
        ) {
            let limits = SlotLimits { min_slots, max_slots, max_layers };
            let plan = SlotPlan::new(&SlotRequest {
                rows: &rows, bytes_per_expert: bytes, cache_bytes: cache, l2: L2::Cold, seed, limits,
            }).unwrap();
            let count = plan.len() as u32;
            prop_assert!(count <= max_slots && count >= min_slots.min(max_slots / 2));
            prop_assert!(plan.layers() <= max_layers);

            // The distance is what a simulation sees.
            prop_assert_eq!(plan.reuse_distance_bytes(), simulate(&plan));

            // Each slot is a relabelling of the same histogram.
            let mut histogram = rows.clone();
            histogram.sort_unstable();
            for s in 0..plan.len() {
                let mut p = plan.permutation(s).to_vec();
                for (logical, &physical) in p.iter().enumerate() {
                    prop_assert_eq!(plan.rows(s)[physical as usize], rows[logical]);
                }
                p.sort_unstable();
                prop_assert!(p.into_iter().eq(0..rows.len() as u32));
                let offsets = plan.offsets(s);
                let mut from_offsets: Vec<u32> = offsets.windows(2).map(|w| w[1] - w[0]).collect();
                from_offsets.sort_unstable();
                prop_assert_eq!(&from_offsets, &histogram);
                prop_assert!(plan.layer(s) < plan.layers());
            }

            // Cold, or at a limit; and no layer copy too many.
            let touched = rows.iter().filter(|&&r| r > 0).count();
            let per_layer = (rows.len() / touched) as u64;
            let reach = |layers: u64| (layers * per_layer).min(max_slots.into()).saturating_sub(1) * touched as u64 * bytes;
            if !plan.is_cold() {
                let full = u64::from(max_layers) * per_layer;
                prop_assert!(u64::from(plan.layers()) == u64::from(max_layers) || full >= u64::from(max_slots));
                prop_assert_eq!(plan.reuse_distance_bytes(), reach(plan.layers().into()));
            }
            if plan.layers() > 1 {
                prop_assert!(reach(u64::from(plan.layers()) - 1) < 3 * cache);
            }
        }

        #[test]
        fn the_same_seed_gives_the_same_plan(rows in any_rows(), seed: u64) {
            let with = |seed| SlotPlan::new(&SlotRequest { seed, ..request(&rows, 10, 300) }).unwrap();
            prop_assert_eq!(with(seed), with(seed));
        }
    }

    #[test]
    fn another_seed_gives_another_plan() {
        let rows: Vec<u32> = (0..32).map(|i| i % 3).collect();
        let with = |seed| SlotPlan::new(&SlotRequest { seed, ..request(&rows, 10, 300) }).unwrap();
        assert_ne!(with(1), with(2));
    }
}
