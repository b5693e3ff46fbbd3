//! moebius measures the GEMM kernels of mixture-of-experts (MoE) layers: which kernel is fastest for a model, on this
//! device, at each batch size, by how much, how far from the limit of the device, and whether its answer is right.
//!
//! Data flows one way: [`shape`] makes cases, [`operands`] fills them with numbers in the formats of [`numeric`],
//! [`kernel`]s compute them, [`verify`] judges the answers, [`measure`] the times, [`record`] keeps both, [`analyse`]
//! draws conclusions from records alone, [`report`] shows them, [`cli`] is the front door.

pub mod analyse;
pub mod bench;
pub mod cli;
pub mod device;
pub mod kernel;
pub mod measure;
pub mod numeric;
pub mod operands;
pub mod record;
pub mod report;
pub mod retarget;
pub mod shape;
pub mod sweep;
pub mod verify;
