//! The machine as results files describe it, and `moebius calibrate`.

use std::time::{SystemTime, UNIX_EPOCH};

use super::args::CalibrateArgs;
use super::error::{CliError, print, print_json};
use crate::analyse::units;
use crate::device::cuda::{Cuda, DeviceError, Support};
use crate::device::nvml::Telemetry;
use crate::device::{cpu, cuda_ceilings};
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

/// Opens a GPU and measures what it can do.
///
/// # Errors
/// No such device, a build without CUDA code, too little memory.
pub fn cuda_device(ordinal: usize) -> Result<(Cuda, Device, Ceilings), CliError> {
    let cuda = Cuda::open(ordinal).map_err(CliError::machine)?;
    let info = cuda.info();
    let no_code = || {
        let arch = info.arch();
        CliError::machine(format!(
            "this build has no CUDA kernels: build it where the GPU is, or with MOEBIUS_ARCHS={}a, for this {} ({arch})",
            &arch[3..],
            info.name
        ))
    };
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
    let support = Support::new(&cuda).ok_or_else(no_code)?;
    let ceilings = cuda_ceilings::measure(&cuda, support).map_err(|e: DeviceError| CliError::machine(e))?;
    Ok((cuda, device, ceilings))
}

/// This machine, now.
pub fn host() -> Host {
    let started_unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    cpu::host(started_unix)
}

/// The processor as a device, and what it was measured to do.
pub fn cpu_device() -> (Device, Ceilings) {
    let device = cpu::device();
    let ceilings = crate::device::cpu_ceilings::measure(&device);
    (device, ceilings)
}

/// `moebius calibrate`
///
/// # Errors
/// No such device.
pub fn calibrate(args: &CalibrateArgs) -> Result<u8, CliError> {
    let (device, ceilings) = match choose(args.device.as_deref())? {
        Target::Cpu => cpu_device(),
        Target::Cuda(ordinal) => {
            let (_, device, ceilings) = cuda_device(ordinal)?;
            (device, ceilings)
        }
    };
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
