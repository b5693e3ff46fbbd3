//! Whether an answer is right: the reference, the bound on its error, and the judge.

pub mod bound;
pub mod cases;
mod columns;
mod compare_simd;
pub mod cpu;
mod decode;
mod dots_simd;
pub mod guard;
pub mod judge;
pub mod quantisation;
mod random;
mod reference;

pub use bound::{Accumulation, Bound};
pub use cases::correctness_cases;
pub use columns::{Columns, SampledColumns};
pub use cpu::{judge_cpu, references, verify_cpu};
pub use guard::GuardedOutput;
pub use judge::{Judgement, judge};
pub use quantisation::quantisation_error;
pub use reference::{Reference, ReferenceError};
