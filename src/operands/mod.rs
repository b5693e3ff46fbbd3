//! Operands: seeded numbers in the formats of a scheme, and the slots that keep the cache cold.

mod host;

pub use host::{Activations, Nvfp4Weights, Weights};
