//! Whether an answer is right: the reference, the bound on its error, and the judge.

pub mod bound;
mod columns;
mod decode;
mod dots_simd;
pub mod guard;
pub mod judge;
mod random;
mod reference;

pub use bound::{Accumulation, Bound};
pub use columns::{Columns, SampledColumns};
pub use guard::GuardedOutput;
pub use judge::{Judgement, judge};
pub use reference::{Reference, ReferenceError};
