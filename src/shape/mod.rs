//! What is computed: models, parallelism, routing and the cases they make. Knows no device.

mod assignment;
mod axes;
mod case;
mod config;
mod draw;
mod elementary;
mod error;
mod file;
mod list;
mod model;
mod parallel;
mod presets;
mod rng;
mod routing;
mod spec;
mod stage;
mod trace;

pub use assignment::Assignment;
pub use axes::parse_list;
pub use case::{Case, GemmShape};
pub use config::{ModelConfig, QuantHint};
pub use error::Error;
pub use list::{ShapeRow, shape_rows};
pub use model::{
    Activation, Confidence, MAX_EXPERTS, MAX_LAYERS, MAX_WIDTH, Model, Quantised, Router, Score, SharedExperts,
};
pub use parallel::{Alignment, EpRank, Parallelism, PerGpu};
pub use rng::Rng;
pub use routing::{Draw, MAX_ALPHA, Routing};
pub use spec::{CaseSpec, DEFAULT_BATCHES, MAX_BATCH, MAX_ROWS};
pub use stage::Stage;
pub use trace::Trace;
