//! The device layer: the only home of `unsafe` beside the FFI and the CPU SIMD files.

pub mod abi;
pub mod cpu;
pub mod cpu_ceilings;
pub mod cuda;
pub mod cuda_ceilings;
pub mod nvml;
