//! What a GPU can do, measured in about a second by the support kernels.
//!
//! Reads and writes stream over a buffer well beyond L2; cache reads go over one of half the L2 again and again; matrix
//! rates come from operands in registers or shared memory; launch is the time of an empty kernel in a graph of many.
//! Times are medians of graph replays between event nodes.

use crate::device::cuda::{Buffer, Cuda, DeviceError, Event, Mma, Support, UnitError, capture};
use crate::kernel::Scheme;
use crate::record::{Ceilings, Extra};

/// The buffer of the memory ceilings, where that much is free.
const BYTES: u64 = 4 << 30;
const REPLAYS: usize = 9;
const EMPTY_CALLS: usize = 200;
const CACHE_PASSES: usize = 50;
const MMA_ITERATIONS: u32 = 4000;

/// Measures the ceilings.
///
/// # Errors
/// Too little memory, or a kernel failed.
pub fn measure(cuda: &Cuda, support: Support<'_>) -> Result<Ceilings, DeviceError> {
    let l2 = cuda.info().l2_bytes;
    let bytes = BYTES.min(cuda.free_bytes()? / 4).max(8 * l2) / 4096 * 4096;
    let buffer = Buffer::new(cuda, bytes, "the buffer of the memory ceilings")?;
    let sink = Buffer::new(cuda, 256, "a sink")?;
    let (at, sink) = (buffer.address(cuda), sink.address(cuda));
    // Written first: reads of memory that was never written need not leave the chip.
    let write = median_ns(cuda, support, || support.write(at, bytes))?;
    let read = median_ns(cuda, support, || support.read(at, bytes, sink))?;
    let cached = (l2 / 2) / 4096 * 4096;
    let cache = median_ns(cuda, support, || (0..CACHE_PASSES).try_for_each(|_| support.read(at, cached, sink)))?;
    let launch = median_ns(cuda, support, || (0..EMPTY_CALLS).try_for_each(|_| support.empty()))? / EMPTY_CALLS as f64;
    let rate = |kind: Mma| -> Result<Option<f64>, DeviceError> {
        let operations = match support.mma(kind, MMA_ITERATIONS, sink) {
            Ok(operations) => operations,
            Err(UnitError::Unsupported(_)) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let ns = median_ns(cuda, support, || support.mma(kind, MMA_ITERATIONS, sink).map(|_| ()))?;
        Ok(Some(operations / ns * 1e9))
    };
    let (bf16, fp8, nvfp4) = (rate(Mma::Bf16)?, rate(Mma::Fp8)?, rate(Mma::Nvfp4)?);
    let by_scheme = Scheme::ALL.into_iter().filter_map(|scheme| {
        // A scheme without an instruction of its own is computed in the next wider format.
        let rate = match scheme {
            Scheme::Nvfp4W4a4 => nvfp4.or(fp8).or(bf16),
            Scheme::Mxfp4W4a8 | Scheme::Fp8Block | Scheme::Fp8 => fp8.or(bf16),
            Scheme::Nvfp4W4a16 | Scheme::Bf16 => bf16,
        };
        rate.map(|rate| (scheme, rate))
    });
    let info = cuda.info();
    Ok(Ceilings {
        read_bytes_per_s: Some(bytes as f64 / read * 1e9),
        write_bytes_per_s: Some(bytes as f64 / write * 1e9),
        cache_read_bytes_per_s: Some((cached as usize * CACHE_PASSES) as f64 / cache * 1e9),
        flops_per_s: by_scheme.collect(),
        launch_ns: Some(launch),
        // Two transfers a clock.
        datasheet_read_bytes_per_s: (info.memory_clock_khz > 0)
            .then(|| 2.0 * f64::from(info.memory_clock_khz) * 1e3 * f64::from(info.memory_bus_bits) / 8.0),
        source: Some("measured at the start of the run".to_owned()),
        extra: Extra::default(),
        ..Ceilings::default()
    })
}

/// Median time of replays of a graph of `work`, after two that are thrown away.
fn median_ns(cuda: &Cuda, support: Support<'_>, work: impl Fn() -> Result<(), UnitError>) -> Result<f64, DeviceError> {
    let (start, end) = (Event::new(cuda)?, Event::new(cuda)?);
    let graph = capture(cuda, || {
        support.empty()?;
        start.record_in_graph(cuda)?;
        work()?;
        end.record_in_graph(cuda)
    })?;
    let mut times = Vec::new();
    for _ in 0..REPLAYS + 2 {
        graph.launch()?;
        cuda.synchronize()?;
        times.push(start.elapsed_ns(&end)?);
    }
    let mut times = times.split_off(2);
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
