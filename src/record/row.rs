//! A row: one case x kernel x conditions, with its outcome.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::unbounded;
use crate::kernel::{KernelId, Scheme};
use crate::shape::Case;

/// Fields that this version does not know, kept as they were read.
pub type Extra = IndexMap<String, serde_json::Value>;

/// One case computed by one kernel under stated conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// What was computed.
    pub case: Case,
    /// What computed it.
    pub kernel: KernelRecord,
    /// Under which conditions.
    pub conditions: Conditions,
    /// How it ended.
    pub status: Status,
    /// Why, in one sentence; always there unless the status is `ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How right the answer was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyRecord>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeRecord>,
    /// The least time that this case and scheme can take on this device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundRecord>,
    /// The state of the device while it was timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetryRecord>,
    /// Remarks that a reader of the time must know, such as drift or throttling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Which code ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelRecord {
    /// The kernel's id.
    pub id: KernelId,
    /// Number formats.
    pub scheme: Scheme,
    /// Grid or tile depends on the per-expert counts being known on the host, which a captured decode graph never has.
    #[serde(default)]
    pub needs_host_counts: bool,
    /// SHA-256 of the machine code, where there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_sha256: Option<String>,
    /// Source version, such as `CUTLASS 4.5.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// State of the last-level cache before each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum L2 {
    /// At least three times the cache of other touched bytes passed since the weights were last read.
    Cold,
    /// The same weights are read again at once.
    Warm,
}

impl L2 {
    /// The word used in files and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            L2::Cold => "cold",
            L2::Warm => "warm",
        }
    }
}

/// How a call reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Launch {
    /// Replays of a captured CUDA graph.
    Graph,
    /// Launches on a stream.
    Stream,
    /// A call on the CPU.
    Host,
}

impl Launch {
    /// The word used in files and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Launch::Graph => "graph",
            Launch::Stream => "stream",
            Launch::Host => "host",
        }
    }
}

/// Under which conditions a kernel was timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// Cache state.
    pub l2: L2,
    /// Launch kind.
    pub launch: Launch,
    /// Programmatic dependent launch.
    #[serde(default)]
    pub pdl: bool,
    /// How the cache state was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<SlotPlanRecord>,
}

/// The slots of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlotPlanRecord {
    /// Instances that are cycled through.
    pub slots: u32,
    /// Copies of the layer's weights.
    pub layers: u32,
    /// Bytes of those copies in the canonical layout.
    pub weight_bytes: u64,
    /// Least bytes of other touched weights between two reads of the same weight.
    pub reuse_distance_bytes: u64,
    /// Bytes of the last-level cache.
    pub cache_bytes: u64,
}

/// Outcome of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Right, and timed where times were asked for.
    Ok,
    /// This kernel cannot compute this case, by design.
    Unsupported,
    /// The build left this kernel out.
    #[serde(rename = "not built")]
    NotBuilt,
    /// The answer is wrong; never timed.
    Wrong,
    /// It could not be launched, or crashed.
    Failed,
    /// It did not end within its time limit.
    Timeout,
    /// Faster than the device can read the weights; never a winner.
    Impossible,
    /// Not run on the architecture it is made for.
    Unverified,
    /// It could be verified here only as a rewritten image, and what it does cannot be emulated on this architecture.
    #[serde(rename = "not retargetable")]
    NotRetargetable,
    /// Taken from somebody else's table.
    Imported,
}

impl Status {
    /// The word used in files and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Unsupported => "unsupported",
            Status::NotBuilt => "not built",
            Status::Wrong => "wrong",
            Status::Failed => "failed",
            Status::Timeout => "timeout",
            Status::Impossible => "impossible",
            Status::Unverified => "unverified",
            Status::NotRetargetable => "not retargetable",
            Status::Imported => "imported",
        }
    }
}

/// How right an answer was.
///
/// The three ratios are infinite when the output holds NaN or infinity; JSON has no such number, so it is written as
/// `null` and read back as infinity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyRecord {
    /// Worst element: its error over its bound; at most 1 when right.
    #[serde(default = "unbounded::infinity", with = "unbounded")]
    #[schemars(with = "Option<f64>")]
    pub max_error_over_bound: f64,
    /// Elements compared.
    pub elements: u64,
    /// Worst distance of an expert's slope (output on reference) from 1, over its limit.
    #[serde(default = "unbounded::infinity", with = "unbounded")]
    #[schemars(with = "Option<f64>")]
    pub max_slope_over_limit: f64,
    /// Worst Frobenius error of an expert over the limit that output rounding gives.
    #[serde(default = "unbounded::infinity", with = "unbounded")]
    #[schemars(with = "Option<f64>")]
    pub max_frobenius_over_limit: f64,
    /// Relative Frobenius error of this scheme against the bf16 layer on the same data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantisation_error: Option<f64>,
    /// Verified as a retargeted image on another architecture.
    #[serde(default)]
    pub retargeted: bool,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Time per call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeRecord {
    /// Median of the samples, in nanoseconds per call.
    pub median_ns: f64,
    /// 95% bootstrap interval of the median.
    pub ci95_ns: [f64; 2],
    /// Time per call of every sample, in the order of the rounds that they belong to.
    pub samples_ns: Vec<f64>,
    /// The round of each sample: samples of one case with the same round were taken next to each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<u32>,
    /// Calls in each sample.
    #[serde(default)]
    pub calls_per_sample: u32,
    /// Of it, what the kernel derives from the routing before its GEMM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare_ns: Option<f64>,
    /// Stopped early because it was far from the best.
    #[serde(default)]
    pub raced_out: bool,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What a floor consists of most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// Reads and writes.
    Memory,
    /// Operations.
    Compute,
    /// The launch.
    Launch,
}

impl LimitedBy {
    /// The word used in files and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            LimitedBy::Memory => "memory",
            LimitedBy::Compute => "compute",
            LimitedBy::Launch => "launch",
        }
    }
}

/// The least time a case and scheme can take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BoundRecord {
    /// Bytes that must be read: touched weights and scales without padding, each activation once.
    pub read_bytes: u64,
    /// Of these, weights and their scales.
    pub weight_bytes: u64,
    /// Bytes that must be written.
    pub write_bytes: u64,
    /// Useful operations.
    pub flops: u64,
    /// Bytes that this kernel moves, with its padding and its copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_bytes: Option<u64>,
    /// Operations that this kernel does, with its tile padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_flops: Option<u64>,
    /// The floor in nanoseconds, launch floor included.
    pub floor_ns: f64,
    /// Its largest part.
    pub limited_by: LimitedBy,
    /// floor / median time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_floor: Option<f64>,
}

/// State of the device while a row was timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TelemetryRecord {
    /// Median SM clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    /// Median memory clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_clock_mhz: Option<u32>,
    /// Highest temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<u32>,
    /// Median power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Throttle reasons that were seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttle_reasons: Vec<String>,
    /// Samples taken while the device was throttled.
    #[serde(default)]
    pub throttled_samples: u32,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}
