//! The machine as results files describe it, and `moebius calibrate`.

use std::time::{SystemTime, UNIX_EPOCH};

use super::args::CalibrateArgs;
use super::error::{CliError, print, print_json};
use crate::analyse::units;
use crate::device::cuda::{Cuda, Support};
use crate::device::nvml::Telemetry;
use crate::device::{cpu, cpu_ceilings, cuda_ceilings};
use crate::record::{Ceilings, Device, Extra, Host, Tool};
use crate::sweep::Target;

/// Reads `--device`.
///
/// # Errors
/// Neither `cpu` nor `cuda:N`.
pub fn choose(flag: Option<&str>) -> Result<Target, CliError> {
    Target::named(flag).map_err(|reason| CliError::input(format!("--device {reason}")))
}

/// This program.
pub fn tool() -> Tool {
    Tool {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        git: named(env!("MOEBIUS_GIT_REVISION")),
        nvcc: named(env!("MOEBIUS_NVCC_VERSION")),
        cutlass: named(env!("MOEBIUS_CUTLASS_VERSION")),
        archs: env!("MOEBIUS_BUILD_TARGETS").split(',').filter(|t| !t.is_empty()).map(str::to_owned).collect(),
        extra: Extra::default(),
    }
}

/// What the build knew, if it did.
fn named(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

fn cuda_device(ordinal: usize) -> Result<(Cuda, Device), CliError> {
    let cuda = Cuda::open(ordinal).map_err(CliError::machine)?;
    let info = cuda.info();
    if Support::new(&cuda).is_none() {
        let arch = info.arch();
        return Err(CliError::machine(format!(
            "this build has no CUDA kernels: build it where the GPU is, or with MOEBIUS_ARCHS={}a, for this {} ({arch})",
            &arch[3..],
            info.name
        )));
    }
    let device = Device {
        name: info.name.clone(),
        arch: info.arch(),
        uuid: Some(info.uuid.clone()),
        units: info.sm_count,
        memory_bytes: info.memory_bytes,
        cache_bytes: info.l2_bytes,
        driver: Telemetry::open(&info.uuid).and_then(|t| t.driver_version()),
        extra: Extra::default(),
    };
    Ok((cuda, device))
}

/// Opens a device: the GPU, if it is one, and what results files say of it.
///
/// # Errors
/// No such device, or a build without CUDA code.
pub fn open(target: Target) -> Result<(Option<Cuda>, Device), CliError> {
    match target {
        Target::Cpu => Ok((None, cpu::device())),
        Target::Cuda(ordinal) => cuda_device(ordinal).map(|(cuda, device)| (Some(cuda), device)),
    }
}

/// Measures what a device can do: the GPU, if one was opened, else the processor.
///
/// # Errors
/// Too little memory on the GPU, or a kernel failed.
pub fn ceilings(cuda: Option<&Cuda>, device: &Device) -> Result<Ceilings, CliError> {
    match cuda.and_then(|cuda| Some((cuda, Support::new(cuda)?))) {
        Some((cuda, support)) => cuda_ceilings::measure(cuda, support).map_err(CliError::machine),
        None => Ok(cpu_ceilings::measure(device)),
    }
}

/// This machine, now.
pub fn host() -> Host {
    let started_unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    cpu::host(started_unix)
}

/// `moebius calibrate`
///
/// # Errors
/// No such device.
pub fn calibrate(args: &CalibrateArgs) -> Result<u8, CliError> {
    let (cuda, device) = open(choose(args.device.as_deref())?)?;
    let ceilings = ceilings(cuda.as_ref(), &device)?;
    if args.json {
        print_json(&serde_json::json!({ "device": device, "ceilings": ceilings }))?;
        return Ok(0);
    }
    let mut lines =
        vec![format!("{}, {} cores, last-level cache {} MiB", device.name, device.units, device.cache_bytes >> 20)];
    let mut rate = |what: &str, value: Option<f64>| {
        lines.extend(value.map(|v| format!("{what:<24} {}", units::rate(v))));
    };
    rate("streaming read", ceilings.read_bytes_per_s);
    rate("streaming write", ceilings.write_bytes_per_s);
    rate("cache read", ceilings.cache_read_bytes_per_s);
    for (scheme, flops) in &ceilings.flops_per_s {
        lines.push(format!("{:<24} {}", format!("arithmetic {scheme}"), format_args!("{:.2} TFLOP/s", flops / 1e12)));
    }
    lines.extend(ceilings.launch_ns.map(|ns| format!("{:<24} {}", "launch", units::duration(ns))));
    print(&(lines.join("\n") + "\n"))?;
    Ok(0)
}
