//! device
pub mod abi;
