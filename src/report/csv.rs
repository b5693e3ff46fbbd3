//! Rows as comma-separated values: one line a row, for spreadsheets and data frames.

use crate::record::{Results, Row};

/// Columns of the export. Times in nanoseconds; empty where a row has no such number.
const HEADING: [&str; 34] = [
    "model",
    "tp",
    "ep",
    "pp",
    "ep_rank",
    "stage",
    "batch",
    "top_k",
    "experts",
    "n",
    "k",
    "routing",
    "seed",
    "rows",
    "touched_experts",
    "kernel",
    "scheme",
    "l2",
    "launch",
    "pdl",
    "status",
    "reason",
    "median_ns",
    "ci95_low_ns",
    "ci95_high_ns",
    "samples",
    "floor_ns",
    "of_floor",
    "limited_by",
    "read_bytes",
    "write_bytes",
    "flops",
    "max_error_over_bound",
    "sm_clock_mhz",
];

/// All rows of a file as CSV with a heading.
///
/// # Errors
/// A sentence when the text cannot be put together, which memory alone can cause.
pub fn csv(results: &Results) -> Result<String, String> {
    let failed = |e: &dyn std::fmt::Display| format!("the CSV text cannot be written ({e})");
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADING).map_err(|e| failed(&e))?;
    for row in &results.rows {
        writer.write_record(fields(row)).map_err(|e| failed(&e))?;
    }
    let bytes = writer.into_inner().map_err(|e| failed(&e))?;
    String::from_utf8(bytes).map_err(|e| failed(&e))
}

fn fields(row: &Row) -> [String; 34] {
    let case = &row.case;
    let time = row.time.as_ref();
    let bound = row.bound.as_ref();
    let text = |value: Option<String>| value.unwrap_or_default();
    [
        case.model.clone(),
        case.tp.to_string(),
        case.ep.to_string(),
        case.pp.to_string(),
        case.ep_rank.to_string(),
        case.stage.to_string(),
        case.batch.to_string(),
        case.top_k.to_string(),
        case.shape.experts.to_string(),
        case.shape.n.to_string(),
        case.shape.k.to_string(),
        case.routing.clone(),
        case.seed.to_string(),
        case.total_rows().to_string(),
        case.touched_experts().to_string(),
        row.kernel.id.to_string(),
        row.kernel.scheme.to_string(),
        row.conditions.l2.as_str().to_string(),
        row.conditions.launch.as_str().to_string(),
        row.conditions.pdl.to_string(),
        row.status.as_str().to_string(),
        text(row.reason.clone()),
        text(time.map(|t| t.median_ns.to_string())),
        text(time.map(|t| t.ci95_ns[0].to_string())),
        text(time.map(|t| t.ci95_ns[1].to_string())),
        text(time.map(|t| t.samples_ns.len().to_string())),
        text(bound.map(|b| b.floor_ns.to_string())),
        text(bound.and_then(|b| b.of_floor).map(|share| share.to_string())),
        text(bound.map(|b| b.limited_by.as_str().to_string())),
        text(bound.map(|b| b.read_bytes.to_string())),
        text(bound.map(|b| b.write_bytes.to_string())),
        text(bound.map(|b| b.flops.to_string())),
        text(row.verify.as_ref().map(|v| v.max_error_over_bound.to_string())),
        text(row.telemetry.as_ref().and_then(|t| t.sm_clock_mhz).map(|mhz| mhz.to_string())),
    ]
}
