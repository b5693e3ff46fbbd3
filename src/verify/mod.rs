//! Whether an answer is right.
//!
//! [`Reference`] is the exact answer of one case and scheme; it serves every kernel, on whichever device. [`bound`] says
//! how far an honest output may be from it, [`judge()`] holds an output against it, [`guard`] finds what was not written or
//! written outside. [`cpu`] does all of it for a kernel on the processor, [`cases`] are the cases where kernels go wrong,
//! and [`quantisation`] says what the formats of a scheme cost by themselves.

pub mod bound;
pub mod cases;
mod columns;
mod compare_simd;
pub mod cpu;
mod decode;
mod dots_simd;
mod fit;
pub mod guard;
pub mod judge;
mod panels;
pub mod quantisation;
mod random;
mod reference;

pub use bound::{Accumulation, Bound};
pub use cases::correctness_cases;
pub use columns::{Columns, SampledColumns};
pub use cpu::{judge_cpu, references, verify_cpu};
pub use fit::ReferenceError;
pub use guard::GuardedOutput;
pub use judge::{Judgement, judge};
pub use quantisation::quantisation_error;
pub use reference::Reference;
