//! Models, parallelism, routing and cases as a user of the library meets them.

mod cases;
mod config;
mod golden;
mod hostile;
mod routing;
mod tables;
