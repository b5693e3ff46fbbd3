//! What is computed: models, parallelism, routing and the cases they make. Knows no device.

mod case;
mod stage;

pub use case::{Case, GemmShape};
pub use stage::Stage;
