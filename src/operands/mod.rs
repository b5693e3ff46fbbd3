//! Operands: seeded numbers in the formats of a scheme, and the slots that keep the cache cold.

pub mod bytes;
mod error;
mod generate;
mod host;
pub mod normal;
mod slots;
mod source;
pub mod stream;

pub use error::OperandError;
pub use generate::{
    ActivationGlobals, activation_values, bf16_weight, check_activations, check_weights, generate_activations,
    generate_weights, scheme_fits,
};
pub use host::{Activations, Nvfp4Weights, Weights};
pub use slots::{COLD_FACTOR, SlotLimits, SlotPlan, SlotRequest};
pub use source::{ActivationSource, ExpertSource, WeightSource};
