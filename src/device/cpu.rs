//! The processor as a device.

use crate::record::{Device, Extra, Host};

/// Last-level cache that is assumed where the system does not say.
const ASSUMED_CACHE: u64 = 32 << 20;

/// The processor, as results files describe it.
pub fn device() -> Device {
    Device {
        name: name(),
        arch: "cpu".to_owned(),
        uuid: None,
        units: cores(),
        memory_bytes: memory_bytes(),
        cache_bytes: cache_bytes(),
        driver: None,
        extra: Extra::default(),
    }
}

/// The machine, as results files describe it.
pub fn host(started_unix: u64) -> Host {
    Host {
        os: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        cpu: name(),
        cores: cores(),
        memory_bytes: memory_bytes(),
        started_unix,
        extra: Extra::default(),
    }
}

/// Threads that kernels run on.
fn cores() -> u32 {
    rayon::current_num_threads() as u32
}

fn name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |key: &str| {
        info.lines()
            .find_map(|line| line.split_once(':').filter(|(k, _)| k.trim() == key).map(|(_, v)| v.trim().to_owned()))
    };
    field("model name").or_else(|| field("Model")).unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH))
}

fn memory_bytes() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = info
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(0, |kib| kib * 1024)
}

/// The largest cache that the system shows for the first core.
fn cache_bytes() -> u64 {
    let size = |index: u32| -> Option<u64> {
        let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
        let text = text.trim();
        let (number, unit) = match text.as_bytes().last()? {
            b'K' => (&text[..text.len() - 1], 1 << 10),
            b'M' => (&text[..text.len() - 1], 1 << 20),
            _ => (text, 1),
        };
        Some(number.parse::<u64>().ok()? * unit)
    };
    (0..8).filter_map(size).max().unwrap_or(ASSUMED_CACHE)
}
