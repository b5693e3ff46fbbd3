//! Times that a cold cache does not allow.

use super::bytes::work;
use super::floor::{bind, read_ceiling};
use super::units::{binary_bytes, bytes as show_bytes, duration, rate};
use crate::record::{Ceilings, Device, L2, Results, Row, Status};

/// How much of the time that reading the weights takes a cold row must need at least. The rest is the uncertainty of the
/// ceiling.
pub const LEAST_SHARE: f64 = 0.97;

/// Why a timed cold row cannot be true, with the likely cause; `None` when it can, or nothing is known against it.
pub fn impossible(row: &Row, ceilings: &Ceilings, device: &Device) -> Option<String> {
    if row.conditions.l2 != L2::Cold {
        return None;
    }
    let time = row.time.as_ref()?;
    let weights = work(&row.case, row.kernel.scheme)?.weight_bytes;
    let ceiling = read_ceiling(ceilings)?;
    let least_ns = LEAST_SHARE * weights as f64 / ceiling * 1e9;
    if time.median_ns >= least_ns {
        return None;
    }
    let source = if ceilings.read_bytes_per_s.is_some() { "measured" } else { "data sheet" };
    Some(format!(
        "{} is too fast: the touched weights, {}, need {} at {} ({source}); {}",
        duration(time.median_ns),
        show_bytes(weights),
        duration(weights as f64 / ceiling * 1e9),
        rate(ceiling),
        cause(row, weights, device)
    ))
}

fn cause(row: &Row, weights: u64, device: &Device) -> String {
    let cache = binary_bytes(device.cache_bytes);
    match &row.conditions.plan {
        Some(plan) if plan.reuse_distance_bytes < device.cache_bytes.saturating_mul(3) => format!(
            "likely the weights were still in the {cache} cache, as only {} passed between two reads of them",
            show_bytes(plan.reuse_distance_bytes)
        ),
        None if weights <= device.cache_bytes => {
            format!("likely the weights were read from the {cache} cache, which they fit")
        }
        None if weights < device.cache_bytes.saturating_mul(3) => {
            format!("likely a part of the weights was still in the {cache} cache")
        }
        _ => "likely work was skipped, or the ceiling was measured too low".to_string(),
    }
}

/// Marks a row `impossible` when it is. Rows that ended otherwise than with a time that counts stay as they are.
pub fn mark_impossible(row: &mut Row, ceilings: &Ceilings, device: &Device) {
    if matches!(row.status, Status::Ok | Status::Imported)
        && let Some(reason) = impossible(row, ceilings, device)
    {
        row.status = Status::Impossible;
        row.reason = Some(reason);
    }
}

/// Raises a file's ceilings to a second measurement where that was better, and judges every row by them: what else ran on
/// the machine can lower a ceiling, never raise it.
pub fn judge_again(results: &mut Results, measured_again: &Ceilings) {
    let Results { ceilings, device, rows, .. } = results;
    raise(ceilings, measured_again);
    for row in rows {
        if row.status == Status::Impossible && row.time.is_some() {
            row.status = Status::Ok;
            row.reason = None;
        }
        bind(row, ceilings, device);
        mark_impossible(row, ceilings, device);
    }
}

fn raise(ceilings: &mut Ceilings, again: &Ceilings) {
    for (rate, again) in [
        (&mut ceilings.read_bytes_per_s, again.read_bytes_per_s),
        (&mut ceilings.write_bytes_per_s, again.write_bytes_per_s),
        (&mut ceilings.cache_read_bytes_per_s, again.cache_read_bytes_per_s),
    ] {
        *rate = (*rate).into_iter().chain(again).reduce(f64::max);
    }
    for (&scheme, &again) in &again.flops_per_s {
        let rate = ceilings.flops_per_s.entry(scheme).or_insert(again);
        *rate = rate.max(again);
    }
    ceilings.launch_ns = ceilings.launch_ns.into_iter().chain(again.launch_ns).reduce(f64::min);
}
