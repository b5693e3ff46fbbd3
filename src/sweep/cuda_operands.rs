//! Operands and outputs in device memory, in the canonical layouts.
//!
//! Operands are made on the device, bit for bit as [`crate::operands::generate_weights`] and
//! [`crate::operands::generate_activations`] make them on the host: factors and keys come from the same sources, the
//! arithmetic is that of `csrc/support/operands.cu`.

use half::bf16;

use crate::device::cuda::{Addresses, Buffer, Cuda, DeviceError, Format, Numbers, Support};
use crate::kernel::Scheme;
use crate::numeric::{fp8, mx, nvfp4};
use crate::operands::{
    ActivationGlobals, ActivationSource, Activations, Nvfp4Weights, OperandError, WeightSource, Weights,
    check_activations, check_weights, normal,
};
use crate::shape::GemmShape;
use crate::verify::guard;

/// Weights of one layer copy.
pub struct DeviceWeights {
    format: Format,
    matrix: Matrix,
}

/// Activations of all rows.
pub struct DeviceActivations {
    format: Format,
    matrix: Matrix,
}

/// Values of one operand and what scales them.
struct Matrix {
    values: Buffer,
    scales: Option<Buffer>,
    globals: Option<Buffer>,
}

/// The matrix of numbers that an operand is made of.
struct Plain<'a> {
    key: u64,
    rows: u32,
    k: u32,
    row_factors: &'a [f32],
    rows_per_factor: u32,
    column_factors: Option<&'a [f32]>,
    group_rows: &'a [u32],
}

/// Bytes of a format for `rows` rows of `k` values in `groups` groups: values, scales, globals.
fn bytes(format: Format, rows: u64, k: u32, groups: u64) -> [u64; 3] {
    let (k, values) = (u64::from(k), rows * u64::from(k));
    let across = k.div_ceil(fp8::BLOCK as u64);
    match format {
        Format::Bf16 => [2 * values, 0, 0],
        Format::Nvfp4 => [values / 2, values / nvfp4::BLOCK as u64, 4 * groups],
        Format::Mxfp4 => [values / 2, values / mx::BLOCK as u64, 0],
        Format::Mxfp8 => [values, values / mx::BLOCK as u64, 0],
        Format::Fp8 => [values, 0, 4 * groups],
        Format::Fp8Group => [values, 4 * rows * across, 0],
        Format::Fp8Block => [values, 4 * groups * (rows / groups.max(1)).div_ceil(fp8::BLOCK as u64) * across, 0],
    }
}

fn float_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

fn refused(e: OperandError) -> DeviceError {
    DeviceError::Kernel(e.to_string())
}

/// Values, scales and globals on the host.
type Contents = (Vec<u8>, Vec<u8>, Vec<f32>);

impl Matrix {
    fn make(cuda: &Cuda, support: Support<'_>, format: Format, x: &Plain<'_>, what: &str) -> Result<Self, DeviceError> {
        let groups = (x.group_rows.len() - 1) as u32;
        let [values, scales, globals] = bytes(format, x.rows.into(), x.k, groups.into());
        let buffer = |bytes: u64| (bytes > 0).then(|| Buffer::new(cuda, bytes, what)).transpose();
        let matrix =
            Matrix { values: Buffer::new(cuda, values, what)?, scales: buffer(scales)?, globals: buffer(globals)? };
        let upload = |data: Vec<u8>| Buffer::from_host(cuda, &data, what);
        let table = upload(normal::table().iter().flat_map(|v| v.to_ne_bytes()).collect())?;
        let row_factors = upload(float_bytes(x.row_factors))?;
        let column_factors = x.column_factors.map(|factors| upload(float_bytes(factors))).transpose()?;
        let group_rows = upload(x.group_rows.iter().flat_map(|v| v.to_ne_bytes()).collect())?;
        let numbers = Numbers {
            key: x.key,
            table: table.address(cuda),
            row_factors: row_factors.address(cuda),
            column_factors: column_factors.as_ref().map_or(0, |b| b.address(cuda)),
            rows: x.rows,
            k: x.k,
            rows_per_factor: x.rows_per_factor,
            groups,
            group_rows: group_rows.address(cuda),
        };
        let [scales, globals] = [&matrix.scales, &matrix.globals].map(|b| b.as_ref().map_or(0, |b| b.address(cuda)));
        support.generate(format, &numbers, matrix.values.address(cuda), scales, globals)?;
        // Table and factors are freed when this returns.
        cuda.synchronize()?;
        Ok(matrix)
    }

    /// Values, scales and globals, as they lie in memory.
    fn read(&self, cuda: &Cuda) -> Result<Contents, DeviceError> {
        let all = |b: &Buffer| b.download(cuda, 0, b.len());
        let some = |b: &Option<Buffer>| b.as_ref().map(all).transpose().map(Option::unwrap_or_default);
        Ok((all(&self.values)?, some(&self.scales)?, floats(&some(&self.globals)?)))
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_ne_bytes(b)).collect()
}

fn halves(bytes: &[u8]) -> Vec<bf16> {
    bytes.as_chunks::<2>().0.iter().map(|&b| bf16::from_bits(u16::from_ne_bytes(b))).collect()
}

impl DeviceWeights {
    /// Makes the weights of layer copy `layer`.
    ///
    /// # Errors
    /// As [`crate::operands::generate_weights`], or the device has too little memory or failed.
    pub fn generate(
        cuda: &Cuda,
        support: Support<'_>,
        shape: GemmShape,
        scheme: Scheme,
        seed: u64,
        layer: u32,
    ) -> Result<Self, DeviceError> {
        check_weights(shape, scheme).map_err(refused)?;
        let format = match scheme {
            Scheme::Nvfp4W4a4 | Scheme::Nvfp4W4a16 => Format::Nvfp4,
            Scheme::Mxfp4W4a8 => Format::Mxfp4,
            Scheme::Fp8Block => Format::Fp8Block,
            Scheme::Fp8 => Format::Fp8,
            Scheme::Bf16 => Format::Bf16,
        };
        let GemmShape { experts, n, k } = shape;
        let rows = experts.checked_mul(n).filter(|&rows| rows <= i32::MAX as u32).ok_or_else(|| {
            DeviceError::Kernel(format!("{experts} experts of {n} rows are too many rows of weights"))
        })?;
        let source = WeightSource::new(seed, layer, shape);
        let factors: Vec<f32> = (0..experts).map(|e| source.factor(e)).collect();
        let group_rows: Vec<u32> = (0..=experts).map(|e| e * n).collect();
        let plain = Plain {
            key: source.values().key(),
            rows,
            k,
            row_factors: &factors,
            rows_per_factor: n,
            column_factors: None,
            group_rows: &group_rows,
        };
        Ok(DeviceWeights { format, matrix: Matrix::make(cuda, support, format, &plain, "the weights")? })
    }

    /// Enters their addresses.
    pub fn enter(&self, cuda: &Cuda, at: &mut Addresses) {
        at.weights = self.matrix.values.address(cuda);
        at.weight_scales = self.matrix.scale_address(self.format, cuda);
        at.weight_globals = self.matrix.global_address(self.format, cuda);
    }

    /// Copies them to the host.
    ///
    /// # Errors
    /// The copy failed.
    pub fn download(&self, cuda: &Cuda) -> Result<Weights, DeviceError> {
        let (values, scales, globals) = self.matrix.read(cuda)?;
        Ok(match self.format {
            Format::Nvfp4 => Weights::Nvfp4(Nvfp4Weights { values, scales, globals }),
            Format::Mxfp4 => Weights::Mxfp4 { values, scales },
            Format::Fp8Block => Weights::Fp8Block { values, scales: floats(&scales) },
            Format::Fp8 => Weights::Fp8 { values, scales: globals },
            Format::Bf16 => Weights::Bf16(halves(&values)),
            Format::Mxfp8 | Format::Fp8Group => {
                return Err(DeviceError::Kernel(format!("{:?} is no format of weights", self.format)));
            }
        })
    }
}

impl Matrix {
    /// What the C ABI calls scales: one f32 per group belongs there for FP8.
    fn scale_address(&self, format: Format, cuda: &Cuda) -> u64 {
        let scales = if format == Format::Fp8 { &self.globals } else { &self.scales };
        scales.as_ref().map_or(0, |b| b.address(cuda))
    }

    fn global_address(&self, format: Format, cuda: &Cuda) -> u64 {
        let globals = self.globals.as_ref().filter(|_| format == Format::Nvfp4);
        globals.map_or(0, |b| b.address(cuda))
    }
}

impl DeviceActivations {
    /// Makes the activations of all rows. `globals` matters to NVFP4 activations only.
    ///
    /// # Errors
    /// As [`crate::operands::generate_activations`], or the device has too little memory or failed.
    pub fn generate(
        cuda: &Cuda,
        support: Support<'_>,
        rows: u32,
        k: u32,
        scheme: Scheme,
        seed: u64,
        globals: ActivationGlobals<'_>,
    ) -> Result<Self, DeviceError> {
        check_activations(rows, k, scheme, globals).map_err(refused)?;
        let format = match scheme {
            Scheme::Nvfp4W4a4 => Format::Nvfp4,
            Scheme::Mxfp4W4a8 => Format::Mxfp8,
            Scheme::Fp8Block => Format::Fp8Group,
            Scheme::Fp8 => Format::Fp8,
            Scheme::Nvfp4W4a16 | Scheme::Bf16 => Format::Bf16,
        };
        let source = ActivationSource::new(seed, k);
        let factors: Vec<f32> = (0..rows).map(|r| source.row_factor(r)).collect();
        let layer = [0, rows];
        let plain = Plain {
            key: source.values().key(),
            rows,
            k,
            row_factors: &factors,
            rows_per_factor: 1,
            column_factors: Some(source.column_factors()),
            group_rows: match globals {
                ActivationGlobals::PerExpert { offsets } if format == Format::Nvfp4 => offsets,
                _ => &layer,
            },
        };
        Ok(DeviceActivations { format, matrix: Matrix::make(cuda, support, format, &plain, "the activations")? })
    }

    /// Enters their addresses.
    pub fn enter(&self, cuda: &Cuda, at: &mut Addresses) {
        at.activations = self.matrix.values.address(cuda);
        at.activation_scales = self.matrix.scale_address(self.format, cuda);
        at.activation_globals = self.matrix.global_address(self.format, cuda);
    }

    /// Copies them to the host.
    ///
    /// # Errors
    /// The copy failed.
    pub fn download(&self, cuda: &Cuda) -> Result<Activations, DeviceError> {
        let (values, scales, globals) = self.matrix.read(cuda)?;
        Ok(match self.format {
            Format::Bf16 => Activations::Bf16(halves(&values)),
            Format::Nvfp4 => Activations::Nvfp4 { values, scales, globals },
            Format::Mxfp8 => Activations::Mxfp8 { values, scales },
            Format::Fp8Group => Activations::Fp8Group { values, scales: floats(&scales) },
            Format::Fp8 => Activations::Fp8 { values, scale: globals.first().copied().unwrap_or(1.0) },
            Format::Mxfp4 | Format::Fp8Block => {
                return Err(DeviceError::Kernel(format!("{:?} is no format of activations", self.format)));
            }
        })
    }
}

/// The output of all kernels of a case, between two guard regions.
pub struct Output {
    buffer: Buffer,
    guard: usize,
}

impl Output {
    /// Memory for `rows x n` elements and its guards.
    pub fn new(cuda: &Cuda, rows: u64, n: u32) -> Result<Self, DeviceError> {
        let guard = guard::guard_elements(n);
        let bytes = (rows * u64::from(n) + 2 * guard as u64) * 2;
        Ok(Output { buffer: Buffer::new(cuda, bytes, "the output")?, guard })
    }

    /// Elements of a guard region.
    pub fn guard(&self) -> usize {
        self.guard
    }

    /// Poisons output and guards.
    pub fn poison(&mut self, cuda: &Cuda) -> Result<(), DeviceError> {
        self.buffer.fill_u16(cuda, guard::POISON)
    }

    /// Guards and output.
    pub fn download(&self, cuda: &Cuda) -> Result<Vec<bf16>, DeviceError> {
        let bytes = self.buffer.download(cuda, 0, self.buffer.len())?;
        Ok(bytes.as_chunks::<2>().0.iter().map(|&b| bf16::from_bits(u16::from_ne_bytes(b))).collect())
    }

    /// Where the output begins.
    pub fn address(&self, cuda: &Cuda) -> u64 {
        self.buffer.address(cuda) + 2 * self.guard as u64
    }
}
