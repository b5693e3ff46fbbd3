//! Invented kernels with known times.

use moebius::measure::simulate::{Model, Noise, Wander, subjects};
use moebius::measure::{BenchCase, BenchGroup, BenchThroughput, NamedSubject, Settings};

/// Two groups of three batch sizes and three kernels, of which the last takes 2% and 50% longer than the first.
pub fn groups() -> Vec<BenchGroup> {
    ["gemm1", "gemm2"].iter().map(|stage| group(stage)).collect()
}

fn group(stage: &str) -> BenchGroup {
    let cases = [1u64, 8, 64].iter().map(|&batch| case(batch)).collect();
    BenchGroup { label: format!("simulated {stage}"), settings: Settings::gpu(0), cases }
}

fn case(batch: u64) -> BenchCase {
    const KERNELS: [(&str, f64); 3] = [("simulated/a", 1.0), ("simulated/b", 1.02), ("simulated/c", 1.5)];
    let base_ns = 10_000.0 * batch as f64;
    BenchCase {
        parameter: batch.to_string(),
        throughput: BenchThroughput { bytes: 14_000_000 * batch, flops: 50_000_000 * batch },
        kernels: KERNELS.iter().map(|(name, _)| (*name).to_owned()).collect(),
        open: Box::new(move |wanted| {
            let noise = Model { sd: 0.004, shared: Wander { sd: 0.01, rho: 0.9 }, ..Model::default() };
            let chosen: Vec<_> = KERNELS.iter().filter(|(name, _)| wanted.iter().any(|w| w == name)).collect();
            let times: Vec<f64> = chosen.iter().map(|(_, factor)| base_ns * factor).collect();
            let made = subjects(&Noise::Model(noise), &times, 24, batch);
            let named = |((name, _), subject): (&&(&str, f64), _)| NamedSubject {
                name: (*name).to_owned(),
                subject: Ok(subject),
            };
            Ok(chosen.iter().zip(made).map(named).collect())
        }),
    }
}
