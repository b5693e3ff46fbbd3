//! Operands and outputs in device memory, in the canonical layouts.

use half::bf16;

use crate::device::cuda::{Addresses, Buffer, Cuda, DeviceError};
use crate::operands::{Activations, Weights};
use crate::verify::guard;

/// Weights of one layer copy.
pub(super) struct DeviceWeights {
    values: Buffer,
    scales: Option<Buffer>,
    globals: Option<Buffer>,
}

/// Activations of all rows.
pub(super) struct DeviceActivations {
    values: Buffer,
    scales: Option<Buffer>,
    globals: Option<Buffer>,
}

fn float_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

/// bf16 as the two bytes that a device of the same byte order reads.
fn half_bytes(values: &[bf16]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_bits().to_ne_bytes()).collect()
}

fn upload(cuda: &Cuda, data: &[u8], what: &str) -> Result<Buffer, DeviceError> {
    Buffer::from_host(cuda, data, what)
}

impl DeviceWeights {
    /// Copies weights to the device.
    pub(super) fn upload(cuda: &Cuda, weights: &Weights) -> Result<Self, DeviceError> {
        let floats = |v: &[f32]| upload(cuda, &float_bytes(v), "weight scales").map(Some);
        let bytes = |v: &[u8], what: &str| upload(cuda, v, what);
        Ok(match weights {
            Weights::Nvfp4(w) => DeviceWeights {
                values: bytes(&w.values, "NVFP4 weights")?,
                scales: Some(bytes(&w.scales, "NVFP4 weight scales")?),
                globals: floats(&w.globals)?,
            },
            Weights::Mxfp4 { values, scales } => DeviceWeights {
                values: bytes(values, "MXFP4 weights")?,
                scales: Some(bytes(scales, "MXFP4 weight scales")?),
                globals: None,
            },
            Weights::Fp8Block { values, scales } | Weights::Fp8 { values, scales } => {
                DeviceWeights { values: bytes(values, "FP8 weights")?, scales: floats(scales)?, globals: None }
            }
            Weights::Bf16(values) => {
                DeviceWeights { values: bytes(&half_bytes(values), "bf16 weights")?, scales: None, globals: None }
            }
        })
    }

    /// Enters their addresses.
    pub(super) fn enter(&self, cuda: &Cuda, at: &mut Addresses) {
        at.weights = self.values.address(cuda);
        at.weight_scales = self.scales.as_ref().map_or(0, |b| b.address(cuda));
        at.weight_globals = self.globals.as_ref().map_or(0, |b| b.address(cuda));
    }
}

impl DeviceActivations {
    /// Copies activations to the device.
    pub(super) fn upload(cuda: &Cuda, activations: &Activations) -> Result<Self, DeviceError> {
        let floats = |v: &[f32]| upload(cuda, &float_bytes(v), "activation scales").map(Some);
        let bytes = |v: &[u8]| upload(cuda, v, "activations");
        Ok(match activations {
            Activations::Bf16(values) => {
                DeviceActivations { values: bytes(&half_bytes(values))?, scales: None, globals: None }
            }
            Activations::Nvfp4 { values, scales, globals } => {
                DeviceActivations { values: bytes(values)?, scales: Some(bytes(scales)?), globals: floats(globals)? }
            }
            Activations::Mxfp8 { values, scales } => {
                DeviceActivations { values: bytes(values)?, scales: Some(bytes(scales)?), globals: None }
            }
            Activations::Fp8Group { values, scales } => {
                DeviceActivations { values: bytes(values)?, scales: floats(scales)?, globals: None }
            }
            Activations::Fp8 { values, scale } => {
                DeviceActivations { values: bytes(values)?, scales: floats(&[*scale])?, globals: None }
            }
        })
    }

    /// Enters their addresses.
    pub(super) fn enter(&self, cuda: &Cuda, at: &mut Addresses) {
        at.activations = self.values.address(cuda);
        at.activation_scales = self.scales.as_ref().map_or(0, |b| b.address(cuda));
        at.activation_globals = self.globals.as_ref().map_or(0, |b| b.address(cuda));
    }
}

/// The output of all kernels of a case, between two guard regions.
pub(super) struct Output {
    buffer: Buffer,
    guard: usize,
}

impl Output {
    /// Memory for `rows x n` elements and its guards.
    pub(super) fn new(cuda: &Cuda, rows: u64, n: u32) -> Result<Self, DeviceError> {
        let guard = guard::guard_elements(n);
        let bytes = (rows * u64::from(n) + 2 * guard as u64) * 2;
        Ok(Output { buffer: Buffer::new(cuda, bytes, "the output")?, guard })
    }

    /// Elements of a guard region.
    pub(super) fn guard(&self) -> usize {
        self.guard
    }

    /// Poisons output and guards.
    pub(super) fn poison(&mut self, cuda: &Cuda) -> Result<(), DeviceError> {
        self.buffer.fill_u16(cuda, guard::POISON)
    }

    /// Guards and output.
    pub(super) fn download(&self, cuda: &Cuda) -> Result<Vec<bf16>, DeviceError> {
        let bytes = self.buffer.download(cuda, 0, self.buffer.len())?;
        Ok(bytes.as_chunks::<2>().0.iter().map(|&b| bf16::from_bits(u16::from_ne_bytes(b))).collect())
    }

    /// Where the output begins.
    pub(super) fn address(&self, cuda: &Cuda) -> u64 {
        self.buffer.address(cuda) + 2 * self.guard as u64
    }
}
