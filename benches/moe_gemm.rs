//! `cargo bench`: the kernels of each case under criterion, over the sampler of the library.

#[path = "moe_gemm/arguments.rs"]
mod arguments;
#[path = "moe_gemm/runner.rs"]
mod runner;
#[path = "moe_gemm/simulated.rs"]
mod simulated;
#[path = "moe_gemm/time.rs"]
mod time;

use criterion::Criterion;

/// Resamples of criterion's statistics; its own 100,000 take longer than the sampling.
const RESAMPLES: usize = 10_000;

fn main() {
    let mut criterion =
        Criterion::default().with_measurement(time::CallTime).nresamples(RESAMPLES).configure_from_args();
    let arguments = arguments::Arguments::parse(std::env::args().skip(1));
    runner::run(&mut criterion, simulated::groups(), &arguments);
    criterion.final_summary();
}
