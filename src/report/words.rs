//! Phrases that several outputs share.

use indexmap::IndexMap;

use crate::analyse::{SweepKey, read_ceiling, units};
use crate::record::{CaseKey, ConditionsKey, Launch, Results, Status};
use crate::shape::Stage;

/// What a sweep computes: `GLM-5`, `tp 8`, `gemm1`, `N 512`, `K 6144`, `256 experts top-8`, `uniform`.
pub(super) fn case_words(case: &CaseKey) -> Vec<String> {
    let CaseKey { tp, ep, pp, ep_rank, experts, n, k, .. } = case;
    let mut words = vec![case.model.clone(), format!("tp {tp}")];
    if *ep > 1 {
        words.push(format!("ep {ep} rank {ep_rank}"));
    }
    if *pp > 1 {
        words.push(format!("pp {pp}"));
    }
    words.push(case.stage.to_string());
    if case.stage == Stage::Ffn {
        words.extend([format!("H {k}"), format!("N1 {n}")]);
    } else {
        words.extend([format!("N {n}"), format!("K {k}")]);
    }
    words.push(format!("{experts} experts top-{}", case.top_k));
    words.push(case.routing.clone());
    words
}

/// Conditions: `cold L2`, and what differs from graph replays without PDL.
pub(super) fn condition_words(ConditionsKey { l2, launch, pdl }: ConditionsKey) -> Vec<String> {
    let mut words = vec![match launch {
        Launch::Host => format!("{} cache", l2.as_str()),
        _ => format!("{} L2", l2.as_str()),
    }];
    if launch == Launch::Stream {
        words.push("stream launches".to_string());
    }
    if pdl {
        words.push("PDL".to_string());
    }
    words
}

/// The read ceiling and where it is from: `read ceiling 4.43 TB/s`.
pub(super) fn ceiling_words(results: &Results) -> String {
    match (read_ceiling(&results.ceilings), results.ceilings.read_bytes_per_s) {
        (Some(rate), Some(_)) => format!("read ceiling {}", units::rate(rate)),
        (Some(rate), None) => format!("data sheet {}", units::rate(rate)),
        (None, _) => "read ceiling unknown".to_string(),
    }
}

/// Heading of a sweep, in parts that may be broken into lines.
pub(super) fn heading(results: &Results, key: &SweepKey, several_seeds: bool) -> Vec<String> {
    let mut what = case_words(&key.case);
    if several_seeds {
        what.push(format!("seed {}", key.case.seed));
    }
    let device = [results.device.name.clone()].into_iter().chain(condition_words(key.conditions));
    vec![what.join("  "), device.collect::<Vec<_>>().join("  "), ceiling_words(results)]
}

/// Whether a file holds cases of more than one seed.
pub(super) fn several_seeds(results: &Results) -> bool {
    results.rows.windows(2).any(|pair| matches!(pair, [a, b] if a.case.seed != b.case.seed))
}

/// How many kernels and rows there are, and how the rows ended, with the commonest reasons.
pub(super) fn outcomes(results: &Results) -> Vec<String> {
    let kernels: std::collections::BTreeSet<&str> = results.rows.iter().map(|r| r.kernel.id.as_str()).collect();
    let mut counts: std::collections::BTreeMap<Status, (usize, IndexMap<&str, usize>)> = Default::default();
    for row in &results.rows {
        let (count, reasons) = counts.entry(row.status).or_default();
        *count += 1;
        if let Some(reason) = row.reason.as_deref().filter(|_| row.status != Status::Imported) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let mut parts = vec![format!("{}, {}:", plural(kernels.len(), "kernel"), plural(results.rows.len(), "row"))];
    let all = counts.len();
    for (index, (status, (count, reasons))) in counts.into_iter().enumerate() {
        let comma = if index + 1 < all { "," } else { "" };
        parts.push(format!("{count} {}{}{comma}", status.as_str(), in_brackets(reasons)));
    }
    parts
}

fn in_brackets(mut reasons: IndexMap<&str, usize>) -> String {
    reasons.sort_by(|_, a, _, b| b.cmp(a));
    // Two short reasons, or one long one.
    let room = if reasons.keys().take(2).any(|reason| reason.len() > 60) { 1 } else { 2 };
    let mut shown: Vec<String> = reasons.keys().take(room).map(ToString::to_string).collect();
    if reasons.len() > room {
        shown.push(format!("and {}", plural(reasons.len() - room, "other reason")));
    }
    if shown.is_empty() { String::new() } else { format!(" ({})", shown.join("; ")) }
}

/// A count and its noun.
pub(super) fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
