//! What cannot be rewritten, and where it is.

use std::fmt;

/// Why a PTX text was not rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Line of the text, from 1.
    pub line: usize,
    /// The entry or function that holds it; empty outside of any.
    pub entry: String,
    /// The instruction, as it is written; empty when the text could not be parsed.
    pub instruction: String,
    /// What is wrong with it.
    pub why: String,
}

impl Refusal {
    /// A text that is no PTX.
    pub fn syntax(line: usize, why: &str) -> Self {
        Refusal { line, entry: String::new(), instruction: String::new(), why: why.to_owned() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.instruction.is_empty() {
            return write!(f, "line {} of the PTX: {}", self.line, self.why);
        }
        write!(f, "line {} of the PTX, in `{}`: `{}`: {}", self.line, self.entry, self.instruction, self.why)
    }
}

impl std::error::Error for Refusal {}
