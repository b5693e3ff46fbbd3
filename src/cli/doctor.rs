//! `moebius doctor`

use serde::Serialize;

use super::args::DoctorArgs;
use super::error::{CliError, print, print_json};
use crate::device::{cpu, cuda};

/// One thing that was looked at.
#[derive(Serialize)]
struct Finding {
    /// What was found.
    found: String,
    /// What it does to numbers; empty when it is as it should be.
    #[serde(skip_serializing_if = "String::is_empty")]
    effect: String,
    /// How it is mended.
    #[serde(skip_serializing_if = "String::is_empty")]
    remedy: String,
}

fn good(found: impl Into<String>) -> Finding {
    Finding { found: found.into(), effect: String::new(), remedy: String::new() }
}

fn bad(found: impl Into<String>, effect: &str, remedy: &str) -> Finding {
    Finding { found: found.into(), effect: effect.to_owned(), remedy: remedy.to_owned() }
}

/// `moebius doctor`. Changes nothing.
///
/// # Errors
/// Standard output cannot be written.
pub fn doctor(args: &DoctorArgs) -> Result<u8, CliError> {
    let mut findings = processor();
    match cuda::gpus() {
        Ok(gpus) => findings.extend(gpus.iter().map(|gpu| {
            good(format!(
                "cuda:{} is a {} ({}), driver for CUDA {}",
                gpu.ordinal,
                gpu.name,
                gpu.arch(),
                gpu.cuda_version
            ))
        })),
        Err(reason) => {
            findings.push(bad(format!("no GPU: {reason}"), "only the CPU kernels can be measured", "see the sentence"))
        }
    }
    if args.json {
        print_json(&findings)?;
        return Ok(0);
    }
    for finding in &findings {
        let mark = if finding.effect.is_empty() { "ok " } else { "-> " };
        let tail = if finding.effect.is_empty() {
            String::new()
        } else {
            format!("\n     effect: {}\n     remedy: {}", finding.effect, finding.remedy)
        };
        print(&format!("{mark} {}{tail}\n", finding.found))?;
    }
    Ok(0)
}

fn processor() -> Vec<Finding> {
    let device = cpu::device();
    let mut findings = vec![good(format!("{}, {} threads", device.name, device.units))];
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    if let Some(load) = load.split_whitespace().next().and_then(|word| word.parse::<f64>().ok()) {
        findings.push(if load > 0.5 {
            bad(
                format!("the load average is {load}"),
                "other programs take cores and memory bandwidth: times grow and scatter",
                "stop them and wait a minute",
            )
        } else {
            good(format!("the load average is {load}"))
        });
    }
    let governor = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").unwrap_or_default();
    if !governor.is_empty() {
        findings.push(match governor.trim() {
            "performance" => good("the frequency governor is performance"),
            other => bad(
                format!("the frequency governor is {other}"),
                "the clock changes during a run",
                "cpupower frequency-set -g performance",
            ),
        });
    }
    findings
}
