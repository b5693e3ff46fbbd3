//! From outcomes to rows.

use crate::kernel::KernelInfo;
use crate::measure::{Drift, Outcome};
use crate::operands::{COLD_FACTOR, SlotPlan};
use crate::record::{Conditions, Extra, KernelRecord, Row, Status, TimeRecord, VerifyRecord};
use crate::shape::Case;
use crate::verify::Judgement;

/// A row without verification or time.
pub(super) fn plain(
    case: &Case,
    info: &KernelInfo,
    conditions: Conditions,
    status: Status,
    reason: Option<String>,
) -> Row {
    Row {
        case: case.clone(),
        kernel: KernelRecord {
            id: info.id.clone(),
            scheme: info.scheme,
            needs_host_counts: info.needs_host_counts,
            image_sha256: info.image_sha256.clone(),
            version: info.version.clone(),
            extra: Extra::default(),
        },
        conditions,
        status,
        reason,
        verify: None,
        time: None,
        bound: None,
        telemetry: None,
        warnings: Vec::new(),
        extra: Extra::default(),
    }
}

/// What verification found, with what the scheme itself costs.
pub(super) fn verified(judgement: &Judgement, quantisation_error: Option<f64>) -> VerifyRecord {
    VerifyRecord { quantisation_error, ..judgement.record() }
}

/// Enters the samples of a verified row.
pub(super) fn enter_time(row: &mut Row, outcome: &Outcome) {
    if let Some(error) = &outcome.error {
        row.status = Status::Failed;
        row.reason = Some(error.to_string());
    }
    let (Some(median_ns), Some(ci)) = (outcome.median_ns, outcome.ci95_ns) else {
        if outcome.error.is_none() {
            row.status = Status::Unverified;
            row.reason = Some("the run was stopped before this kernel was timed".to_owned());
        }
        return;
    };
    row.time = Some(TimeRecord {
        median_ns,
        ci95_ns: [ci.low, ci.high],
        samples_ns: outcome.samples_ns.clone(),
        rounds: outcome.rounds.clone(),
        calls_per_sample: outcome.calls_per_sample,
        prepare_ns: None,
        raced_out: outcome.raced_out,
        extra: Extra::default(),
    });
    if let Some(Drift { ratio, significant: true, .. }) = outcome.drift
        && (ratio - 1.0).abs() > 0.01
    {
        row.warnings
            .push(format!("the second half of the samples took {ratio:.3} times the first: the device drifted"));
    }
    let throttled = outcome.throttled_samples();
    if throttled > 0 {
        row.warnings.push(format!("{throttled} of {} samples were taken while throttled", outcome.samples_ns.len()));
    }
}

/// Says that a plan is not as cold as asked.
pub(super) fn warm_warning(plan: &SlotPlan, cache_bytes: u64) -> String {
    format!(
        "the cache may have been warm: only {} MiB passed between two reads of a weight, {COLD_FACTOR} times the cache are {} MiB",
        plan.reuse_distance_bytes() >> 20,
        cache_bytes.saturating_mul(COLD_FACTOR) >> 20
    )
}
