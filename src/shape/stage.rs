//! The stages of an MoE layer that can be measured.

use serde::{Deserialize, Serialize};

use super::error::{Error, quote};

/// Which part of an MoE layer a case computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The gate-up projection: N = 2I/tp (I/tp when not gated), K = H.
    Gemm1,
    /// The down projection: N = H, K = I/tp.
    Gemm2,
    /// The whole layer: quantise, gemm1, activation and requantise, gemm2, weighted combine.
    Ffn,
}

impl Stage {
    /// Every stage, in the order of tables.
    pub const ALL: [Stage; 3] = [Stage::Gemm1, Stage::Gemm2, Stage::Ffn];

    /// The word used in ids, files and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Gemm1 => "gemm1",
            Stage::Gemm2 => "gemm2",
            Stage::Ffn => "ffn",
        }
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Stage {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Stage::ALL
            .into_iter()
            .find(|stage| stage.as_str() == text)
            .ok_or_else(|| Error::value(format!("stage {}", quote(text)), "is not known", "use gemm1, gemm2 or ffn"))
    }
}
