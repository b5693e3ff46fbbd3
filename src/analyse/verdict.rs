//! Verdicts as they are written to files and tables.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::{Judgement, Verdict};

/// How the first of two compares with the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VerdictWord {
    /// Takes less time, by more than 0.5%.
    Faster,
    /// Takes more time, by more than 0.5%.
    Slower,
    /// Within 1%.
    Same,
    /// The samples do not tell.
    Uncertain,
}

impl VerdictWord {
    /// The word used in files and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            VerdictWord::Faster => "faster",
            VerdictWord::Slower => "slower",
            VerdictWord::Same => "same",
            VerdictWord::Uncertain => "uncertain",
        }
    }
}

impl From<Verdict> for VerdictWord {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Faster => VerdictWord::Faster,
            Verdict::Slower => VerdictWord::Slower,
            Verdict::Same => VerdictWord::Same,
            Verdict::Uncertain => VerdictWord::Uncertain,
        }
    }
}

/// A verdict and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictRecord {
    /// The verdict of the first on the second.
    pub verdict: VerdictWord,
    /// Time of the first over time of the second.
    pub ratio: f64,
    /// Its 99.6% interval.
    pub interval: [f64; 2],
    /// Pairs of samples, or samples of the shorter side when they are not paired.
    pub pairs: usize,
}

impl From<Judgement> for VerdictRecord {
    fn from(judgement: Judgement) -> Self {
        VerdictRecord {
            verdict: judgement.verdict.into(),
            ratio: judgement.ratio,
            interval: [judgement.interval.low, judgement.interval.high],
            pairs: judgement.pairs,
        }
    }
}
