//! What a results file must satisfy beyond its types, so that nobody downstream meets an impossible number.

use super::file::{Ceilings, Results};
use super::row::{Row, Status, TimeRecord};

/// Most useful operations of a case: keeps every product of its sizes within 64 bits.
const MAX_PRODUCTS: u128 = 1 << 61;

/// Something in a file that its types allow and its meaning does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path of the field, such as `rows[3].time.median_ns`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "field `{}` {}", self.field, self.message)
    }
}

/// Checks what types cannot: sizes that fit, numbers that are finite, names that a terminal can show.
///
/// # Errors
/// The first fault found.
pub fn check(results: &Results) -> Result<(), Fault> {
    printable("device.name", &results.device.name)?;
    printable("device.arch", &results.device.arch)?;
    check_ceilings(&results.ceilings)?;
    for (index, row) in results.rows.iter().enumerate() {
        check_row(row).map_err(|(field, message)| Fault { field: format!("rows[{index}].{field}"), message })?;
    }
    Ok(())
}

fn printable(field: &str, text: &str) -> Result<(), Fault> {
    if text.chars().any(char::is_control) {
        return Err(Fault { field: field.to_string(), message: "holds control characters".to_string() });
    }
    Ok(())
}

fn check_ceilings(ceilings: &Ceilings) -> Result<(), Fault> {
    let single = [
        ("read_bytes_per_s", ceilings.read_bytes_per_s),
        ("write_bytes_per_s", ceilings.write_bytes_per_s),
        ("cache_read_bytes_per_s", ceilings.cache_read_bytes_per_s),
        ("datasheet_read_bytes_per_s", ceilings.datasheet_read_bytes_per_s),
    ];
    let by_scheme =
        [("flops_per_s", &ceilings.flops_per_s), ("datasheet_flops_per_s", &ceilings.datasheet_flops_per_s)]
            .into_iter()
            .flat_map(|(field, map)| map.values().map(move |&value| (field, Some(value))));
    for (field, value) in single.into_iter().chain(by_scheme) {
        if value.is_some_and(|v| !(v.is_finite() && v > 0.0)) {
            return Err(Fault { field: format!("ceilings.{field}"), message: "is not a positive number".to_string() });
        }
    }
    let spreads = [("launch_ns", ceilings.launch_ns), ("between_runs_sd_log", ceilings.between_runs_sd_log)];
    for (field, value) in spreads {
        if value.is_some_and(|v| !(v.is_finite() && v >= 0.0)) {
            return Err(Fault { field: format!("ceilings.{field}"), message: "is negative or not finite".to_string() });
        }
    }
    Ok(())
}

type RowFault = (&'static str, String);

fn check_row(row: &Row) -> Result<(), RowFault> {
    let case = &row.case;
    for (field, text) in [
        ("case.model", case.model.as_str()),
        ("case.routing", case.routing.as_str()),
        ("kernel.id", row.kernel.id.as_str()),
        ("reason", row.reason.as_deref().unwrap_or_default()),
    ] {
        if text.chars().any(char::is_control) {
            return Err((field, "holds control characters".to_string()));
        }
    }
    if row.kernel.id.as_str().split('/').count() != 4 {
        return Err(("kernel.id", format!("`{}` is not family/arch/scheme/configuration", row.kernel.id)));
    }
    for (field, value) in [
        ("case.tp", case.tp),
        ("case.ep", case.ep),
        ("case.pp", case.pp),
        ("case.batch", case.batch),
        ("case.top_k", case.top_k),
        ("case.shape.experts", case.shape.experts),
        ("case.shape.n", case.shape.n),
        ("case.shape.k", case.shape.k),
    ] {
        if value == 0 {
            return Err((field, "is 0".to_string()));
        }
    }
    // Somebody else's table may give times without the rows per expert.
    let rows_unknown = case.rows.is_empty() && matches!(row.status, Status::Imported | Status::Impossible);
    if case.rows.len() != case.shape.experts as usize && !rows_unknown {
        return Err(("case.rows", format!("has {} entries for {} experts", case.rows.len(), case.shape.experts)));
    }
    let rows: u128 = case.rows.iter().map(|&r| u128::from(r)).sum();
    let weights = u128::from(case.shape.n) * u128::from(case.shape.k) * u128::from(case.shape.experts);
    let products = rows * u128::from(case.shape.n) * u128::from(case.shape.k);
    if weights > MAX_PRODUCTS || products > MAX_PRODUCTS {
        return Err(("case.shape", "is larger than any computation".to_string()));
    }
    if let Some(time) = &row.time {
        check_time(time)?;
    }
    if let Some(bound) = &row.bound
        && !(bound.floor_ns.is_finite() && bound.floor_ns > 0.0)
    {
        return Err(("bound.floor_ns", "is not a positive number".to_string()));
    }
    Ok(())
}

fn check_time(time: &TimeRecord) -> Result<(), RowFault> {
    let positive = |v: f64| v.is_finite() && v > 0.0;
    if !positive(time.median_ns) {
        return Err(("time.median_ns", "is not a positive number".to_string()));
    }
    let [low, high] = time.ci95_ns;
    if !(positive(low) && positive(high) && low <= high) {
        return Err(("time.ci95_ns", "is not an interval of positive numbers".to_string()));
    }
    if !time.samples_ns.iter().copied().all(positive) {
        return Err(("time.samples_ns", "holds something that is not a positive number".to_string()));
    }
    if !time.rounds.is_empty() && time.rounds.len() != time.samples_ns.len() {
        return Err((
            "time.rounds",
            format!("has {} entries for {} samples", time.rounds.len(), time.samples_ns.len()),
        ));
    }
    Ok(())
}
