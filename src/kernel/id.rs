//! Kernel ids and the number formats of weights and activations.

use serde::{Deserialize, Serialize};

/// Number formats of weights and activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// NVFP4 weights and NVFP4 activations.
    #[serde(rename = "nvfp4-w4a4")]
    Nvfp4W4a4,
    /// NVFP4 weights, bf16 activations.
    #[serde(rename = "nvfp4-w4a16")]
    Nvfp4W4a16,
    /// MXFP4 weights, MXFP8 (e4m3) activations.
    #[serde(rename = "mxfp4-w4a8")]
    Mxfp4W4a8,
    /// e4m3 weights with 128x128 block scales, e4m3 activations with 1x128 scales.
    Fp8Block,
    /// e4m3 weights with one scale per expert, e4m3 activations with one scale.
    Fp8,
    /// bf16 weights and activations.
    Bf16,
}

impl Scheme {
    /// Every scheme, in the order of tables.
    pub const ALL: [Scheme; 6] =
        [Scheme::Nvfp4W4a4, Scheme::Nvfp4W4a16, Scheme::Mxfp4W4a8, Scheme::Fp8Block, Scheme::Fp8, Scheme::Bf16];

    /// The word used in ids, files and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Nvfp4W4a4 => "nvfp4-w4a4",
            Scheme::Nvfp4W4a16 => "nvfp4-w4a16",
            Scheme::Mxfp4W4a8 => "mxfp4-w4a8",
            Scheme::Fp8Block => "fp8-block",
            Scheme::Fp8 => "fp8",
            Scheme::Bf16 => "bf16",
        }
    }
}

impl std::fmt::Display for Scheme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Scheme {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Scheme::ALL
            .into_iter()
            .find(|k| k.as_str() == s)
            .ok_or_else(|| format!("unknown scheme `{s}`; known: {}", Scheme::ALL.map(Scheme::as_str).join(", ")))
    }
}

/// Name of a kernel: `family/arch/scheme/configuration`, such as `cutlass/sm120/nvfp4-w4a4/128x32x128-pingpong-swap`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct KernelId(String);

impl KernelId {
    /// Builds an id of its four parts, none of which may hold a slash.
    pub fn new(family: &str, arch: &str, scheme: Scheme, configuration: &str) -> Self {
        KernelId(format!("{family}/{arch}/{scheme}/{configuration}"))
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first part: who wrote it.
    pub fn family(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// The last part: tile and schedule.
    pub fn configuration(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }
}

impl std::fmt::Display for KernelId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
