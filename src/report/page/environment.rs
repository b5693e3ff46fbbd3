//! What the numbers rest on: kernels and their resources, tool, host, device, ceilings, settings.

use std::collections::BTreeMap;

use serde_json::Value;

use super::table::{Column, table};
use crate::analyse::units;
use crate::measure::median;
use crate::record::{KernelRecord, Results};

/// Every kernel with what is known of it; the record's own numbers, such as registers, each get a column.
pub(super) fn resources(results: &Results) -> String {
    let mut kernels: BTreeMap<&str, &KernelRecord> = BTreeMap::new();
    for row in &results.rows {
        kernels.entry(row.kernel.id.as_str()).or_insert(&row.kernel);
    }
    let mut names: Vec<&str> = Vec::new();
    for name in
        kernels.values().flat_map(|kernel| kernel.extra.iter()).filter(|(_, v)| scalar(v).is_some()).map(|(n, _)| n)
    {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let own: Vec<String> = names.iter().map(|name| name.replace('_', " ")).collect();
    let known = ["kernel", "version", "may win", "machine code"].map(|name| (name, Column::Text));
    let columns: Vec<_> = known.into_iter().chain(own.iter().map(|name| (name.as_str(), Column::Number))).collect();
    let lines = kernels.iter().map(|(id, kernel)| {
        let known = [
            (*id).to_string(),
            kernel.version.clone().unwrap_or_else(|| "-".to_string()),
            if kernel.needs_host_counts { "no: needs host counts" } else { "yes" }.to_string(),
            kernel.image_sha256.as_deref().map_or("-".to_string(), |sha| sha.chars().take(12).collect()),
        ];
        let own = names.iter().map(|name| kernel.extra.get(*name).and_then(scalar).unwrap_or_else(|| "-".to_string()));
        known.into_iter().chain(own).collect()
    });
    let table = table("Kernels and their resources", &columns, lines);
    format!("<section id=\"resources\"><h2>Kernels</h2>{table}</section>\n")
}

/// Tool, host, device, ceilings, settings and the state of the device, as names and values.
pub(super) fn environment(results: &Results) -> String {
    let (tool, host, device) = (&results.tool, &results.host, &results.device);
    let optional = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_string());
    let mut lines = vec![
        ("moebius", tool.version.clone()),
        ("git revision", optional(&tool.git)),
        ("nvcc", optional(&tool.nvcc)),
        ("CUTLASS", optional(&tool.cutlass)),
        ("built for", if tool.archs.is_empty() { "-".to_string() } else { tool.archs.join(", ") }),
        ("operating system", host.os.clone()),
        ("processor", format!("{}, {} cores", host.cpu, host.cores)),
        ("memory", units::binary_bytes(host.memory_bytes)),
        ("started", date(host.started_unix)),
        ("device", format!("{} ({}), {} units", device.name, device.arch, device.units)),
        ("device memory", units::binary_bytes(device.memory_bytes)),
        ("last-level cache", units::binary_bytes(device.cache_bytes)),
        ("driver", optional(&device.driver)),
    ];
    lines.extend(ceilings(results));
    lines.extend(telemetry(results));
    let mut lines: Vec<Vec<String>> = lines.into_iter().map(|(name, value)| vec![name.to_string(), value]).collect();
    for (name, value) in &results.settings {
        lines.push(vec![format!("setting {name}"), scalar(value).unwrap_or_else(|| value.to_string())]);
    }
    format!(
        "<section id=\"environment\"><h2>Environment</h2>{}</section>\n",
        table("Environment", &[("what", Column::Text), ("value", Column::Text)], lines.into_iter())
    )
}

fn ceilings(results: &Results) -> Vec<(&'static str, String)> {
    let ceilings = &results.ceilings;
    let rate = |value: Option<f64>| value.map_or("not measured".to_string(), units::rate);
    let mut lines = vec![
        ("read ceiling", rate(ceilings.read_bytes_per_s)),
        ("write ceiling", rate(ceilings.write_bytes_per_s)),
        ("cache read ceiling", rate(ceilings.cache_read_bytes_per_s)),
        ("launch floor", ceilings.launch_ns.map_or("not measured".to_string(), units::duration)),
        ("data sheet read", ceilings.datasheet_read_bytes_per_s.map_or("-".to_string(), units::rate)),
        ("ceilings from", ceilings.source.clone().unwrap_or_else(|| "-".to_string())),
    ];
    for (what, map) in
        [("operations ceiling", &ceilings.flops_per_s), ("data sheet operations", &ceilings.datasheet_flops_per_s)]
    {
        lines.extend(map.iter().map(|(scheme, rate)| (what, format!("{scheme}: {:.3} TFLOP/s", rate / 1e12))));
    }
    lines
}

/// The state of the device over all rows: least, median and most.
fn telemetry(results: &Results) -> Vec<(&'static str, String)> {
    let states = || results.rows.iter().filter_map(|row| row.telemetry.as_ref());
    let ranges = [
        ("SM clock", "MHz", states().filter_map(|t| t.sm_clock_mhz.map(f64::from)).collect::<Vec<_>>()),
        ("memory clock", "MHz", states().filter_map(|t| t.memory_clock_mhz.map(f64::from)).collect()),
        ("temperature", "°C", states().filter_map(|t| t.temperature_c.map(f64::from)).collect()),
        ("power", "W", states().filter_map(|t| t.power_w).collect()),
    ];
    ranges
        .into_iter()
        .filter_map(|(name, unit, values)| {
            let least = values.iter().copied().reduce(f64::min)?;
            let most = values.iter().copied().reduce(f64::max)?;
            Some((name, format!("{least:.0} to {most:.0} {unit}, median {:.0}", median(&values)?)))
        })
        .collect()
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The UTC day and time of seconds since the epoch: the civil calendar by Howard Hinnant's `days` algorithm.
fn date(unix: u64) -> String {
    let (days, seconds) = (unix / 86_400, unix % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_790_000_000), "2026-09-21 14:13 UTC");
        assert_eq!(date(4_107_542_399), "2100-02-28 23:59 UTC");
    }
}
