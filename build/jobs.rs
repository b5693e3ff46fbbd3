//! Runs compilers side by side, as many as the cores and the memory of the machine allow.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory that one compiler may take.
const BYTES_PER_JOB: u64 = 5 << 29;

/// Compilers at a time: as asked, else bounded by cores and free memory.
pub fn limit(asked: Option<usize>, cores: usize, free_bytes: u64) -> usize {
    asked.unwrap_or_else(|| cores.min((free_bytes / BYTES_PER_JOB) as usize)).max(1)
}

/// Memory that is free now, within the limit of the container.
pub fn free_memory() -> u64 {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
    });
    let in_container = number("/sys/fs/cgroup/memory.max")
        .zip(number("/sys/fs/cgroup/memory.current"))
        .map(|(most, used)| most.saturating_sub(used));
    available.unwrap_or(BYTES_PER_JOB).min(in_container.unwrap_or(u64::MAX))
}

/// Applies `work` to each item, `limit` at a time; results are in the order of the items. After a failure nothing new is
/// begun, what runs is finished (its result is kept in the cache), and the first failure in order is returned.
pub fn run<T: Sync, R: Send>(
    items: &[T],
    limit: usize,
    work: impl Fn(usize, &T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<R, String>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..limit.min(items.len()) {
            scope.spawn(|| {
                while failed.load(Ordering::Relaxed) == 0 {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(item), Some(slot)) = (items.get(index), results.get(index)) else { break };
                    let result = work(index, item);
                    failed.fetch_add(usize::from(result.is_err()), Ordering::Relaxed);
                    if let Ok(mut slot) = slot.lock() {
                        *slot = Some(result);
                    }
                }
            });
        }
    });
    results.into_iter().filter_map(|slot| slot.into_inner().ok().flatten()).collect()
}
