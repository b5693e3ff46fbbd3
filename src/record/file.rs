//! The results file: what surrounds the rows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::row::{Extra, Row};
use crate::kernel::Scheme;

/// The schema word of files that this version writes.
pub const SCHEMA: &str = "moebius.results/1";

/// A results file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// `moebius.results/1`
    pub schema: String,
    /// What wrote it.
    pub tool: Tool,
    /// Where.
    pub host: Host,
    /// On which device.
    pub device: Device,
    /// What that device was measured to do.
    pub ceilings: Ceilings,
    /// With which settings: the flags of the run, by name.
    pub settings: Extra,
    /// The outcomes.
    pub rows: Vec<Row>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The program that wrote a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Crate version.
    pub version: String,
    /// Git revision, with `-dirty` when the tree had changes; absent outside a checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    /// CUDA compiler version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvcc: Option<String>,
    /// CUTLASS version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cutlass: Option<String>,
    /// Architectures compiled for.
    #[serde(default)]
    pub archs: Vec<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Operating system.
    pub os: String,
    /// Processor name.
    pub cpu: String,
    /// Cores used.
    pub cores: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Seconds since the epoch when the run began.
    pub started_unix: u64,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The device that computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Marketing name, or the processor's.
    pub name: String,
    /// `cpu`, or the architecture such as `sm_90`.
    pub arch: String,
    /// Unique id of the device, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Multiprocessors, or cores.
    pub units: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Last-level cache in bytes.
    pub cache_bytes: u64,
    /// Driver version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What the device was measured to do, and what its data sheet says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceilings {
    /// Streaming read, bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_s: Option<f64>,
    /// Streaming write, bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_per_s: Option<f64>,
    /// Read bandwidth of the last-level cache, bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_bytes_per_s: Option<f64>,
    /// Operations per second by the arithmetic that a scheme is computed in.
    #[serde(default)]
    pub flops_per_s: indexmap::IndexMap<Scheme, f64>,
    /// Time of one empty launch, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_ns: Option<f64>,
    /// Read bandwidth of the data sheet, bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datasheet_read_bytes_per_s: Option<f64>,
    /// Operations per second of the data sheet.
    #[serde(default)]
    pub datasheet_flops_per_s: indexmap::IndexMap<Scheme, f64>,
    /// How much the median of one kernel wanders between runs on this device: standard deviation of its logarithm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_runs_sd_log: Option<f64>,
    /// Degrees of freedom that it was measured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_runs_degrees: Option<u32>,
    /// How and when they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}
