//! The least time that a case and scheme can take on a device, whatever the kernel.

use super::bytes::work;
use crate::kernel::Scheme;
use crate::record::{BoundRecord, Ceilings, Device, L2, LimitedBy, Row};
use crate::shape::Case;

/// The floor of a case: `max(reads / read ceiling + writes / write ceiling, operations / MMA ceiling) + launch floor`.
///
/// A measured ceiling goes before the data sheet's. Where the write ceiling is unknown, the read ceiling stands for it.
/// With a warm cache, reads come at the cache's rate; what does not fit the cache must still come from memory. A missing
/// MMA ceiling or launch floor counts as nothing, so that the floor stays one.
///
/// `None` when the rows per expert are unknown, or no ceiling is known for the reads.
pub fn floor(case: &Case, scheme: Scheme, ceilings: &Ceilings, l2: L2, device: &Device) -> Option<BoundRecord> {
    let work = work(case, scheme)?;
    let read_bytes = work.weight_bytes + work.activation_bytes;
    let memory_rate = read_ceiling(ceilings);
    let read_s = match l2 {
        L2::Cold => read_bytes as f64 / memory_rate?,
        L2::Warm => {
            let beyond_cache = read_bytes.saturating_sub(device.cache_bytes) as f64;
            let from_memory = memory_rate.map_or(0.0, |rate| beyond_cache / rate);
            (read_bytes as f64 / ceilings.cache_read_bytes_per_s?).max(from_memory)
        }
    };
    let write_rate = match l2 {
        L2::Cold => ceilings.write_bytes_per_s.or(memory_rate)?,
        L2::Warm => ceilings.cache_read_bytes_per_s?,
    };
    let memory_ns = (read_s + work.write_bytes as f64 / write_rate) * 1e9;
    let compute_ns = flop_ceiling(ceilings, scheme).map_or(0.0, |rate| work.flops as f64 / rate * 1e9);
    let launch_ns = ceilings.launch_ns.unwrap_or(0.0);
    let limited_by = if launch_ns > memory_ns.max(compute_ns) {
        LimitedBy::Launch
    } else if compute_ns > memory_ns {
        LimitedBy::Compute
    } else {
        LimitedBy::Memory
    };
    Some(BoundRecord {
        read_bytes,
        weight_bytes: work.weight_bytes,
        write_bytes: work.write_bytes,
        flops: work.flops,
        kernel_bytes: None,
        kernel_flops: None,
        floor_ns: memory_ns.max(compute_ns) + launch_ns,
        limited_by,
        of_floor: None,
    })
}

/// Enters the floor of a row and, when it was timed, the share of it that the row reaches. What the row already says of
/// the kernel's own bytes and operations stays.
pub fn bind(row: &mut Row, ceilings: &Ceilings, device: &Device) {
    let kept = row.bound.take();
    row.bound = floor(&row.case, row.kernel.scheme, ceilings, row.conditions.l2, device).map(|bound| BoundRecord {
        kernel_bytes: kept.as_ref().and_then(|b| b.kernel_bytes),
        kernel_flops: kept.as_ref().and_then(|b| b.kernel_flops),
        of_floor: row.time.as_ref().map(|t| bound.floor_ns / t.median_ns),
        ..bound
    });
}

/// The rate of streaming reads, bytes per second: measured, else the data sheet's.
pub fn read_ceiling(ceilings: &Ceilings) -> Option<f64> {
    ceilings.read_bytes_per_s.or(ceilings.datasheet_read_bytes_per_s)
}

/// The rate of operations of a scheme: measured, else the data sheet's.
pub fn flop_ceiling(ceilings: &Ceilings, scheme: Scheme) -> Option<f64> {
    ceilings.flops_per_s.get(&scheme).or(ceilings.datasheet_flops_per_s.get(&scheme)).copied()
}
