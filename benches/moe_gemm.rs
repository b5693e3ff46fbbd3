//! `cargo bench`: the kernels of each case under criterion, over the sampler of the library. Which cases and kernels these are
//! the variables `MOEBIUS_BENCH_*` say; see [`moebius::bench`].

#[path = "moe_gemm/arguments.rs"]
mod arguments;
#[path = "moe_gemm/runner.rs"]
mod runner;
#[path = "moe_gemm/time.rs"]
mod time;

use std::process::ExitCode;

use criterion::Criterion;

/// Resamples of criterion's statistics; its own 100,000 take longer than the sampling.
const RESAMPLES: usize = 10_000;

fn main() -> ExitCode {
    let groups = match moebius::bench::groups(std::env::vars_os(), &mut |note| eprintln!("moebius: {note}")) {
        Ok(groups) => groups,
        Err(sentence) => {
            eprintln!("moebius: {sentence}");
            return ExitCode::from(2);
        }
    };
    let mut criterion =
        Criterion::default().with_measurement(time::CallTime).nresamples(RESAMPLES).configure_from_args();
    let arguments = arguments::Arguments::parse(std::env::args().skip(1));
    runner::run(&mut criterion, groups, &arguments);
    criterion.final_summary();
    ExitCode::SUCCESS
}
