//! Numbers as people read them: three digits and a unit.

/// A time given in nanoseconds: `812 ns`, `8.10 us`, `1.25 ms`.
pub fn duration(ns: f64) -> String {
    scaled(ns, 1e3, &["ns", "us", "ms", "s"])
}

/// Bytes: `4.00 B`, `453 MB` (powers of ten, as bandwidths are).
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1e3, &["B", "kB", "MB", "GB", "TB"])
}

/// Bytes per second: `4.43 TB/s`.
pub fn rate(bytes_per_s: f64) -> String {
    scaled(bytes_per_s, 1e3, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"])
}

/// Cache sizes: `50 MiB` (powers of two, as caches are).
pub fn binary_bytes(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 => format!("{:.0} GiB", b as f64 / (1u64 << 30) as f64),
        b if b >= 1 << 20 => format!("{:.0} MiB", b as f64 / (1u64 << 20) as f64),
        b => format!("{:.0} KiB", b as f64 / 1024.0),
    }
}

/// A ratio as a signed difference in percent: 1.18 becomes `+18 %`, 1.004 becomes `+0.4 %`.
pub fn percent_more(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() < 9.95 { format!("{percent:+.1} %") } else { format!("{percent:+.0} %") }
}

/// Half of an interval over its middle, in percent: `+-1.2%`.
pub fn plus_minus(median: f64, interval: [f64; 2]) -> String {
    let half = (interval[1] - interval[0]) / 2.0 / median * 100.0;
    if half < 9.95 { format!("+-{half:.1}%") } else { format!("+-{half:.0}%") }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for &larger in units {
        // 999.5 and more would print as four digits.
        if value.abs() < 999.5 {
            break;
        }
        value /= step;
        unit = larger;
    }
    let digits = match value.abs() {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}
