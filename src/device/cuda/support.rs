//! The harness's own device code: the reference kernel, and what measures the ceilings. There only in builds with CUDA.

#[cfg(moebius_cuda)]
use super::unit::call;
use super::{Addresses, Cuda, UnitError};
use crate::device::abi;

/// Which matrix instruction's rate is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mma {
    /// bf16 operands.
    Bf16,
    /// e4m3 operands.
    Fp8,
    /// NVFP4 operands with block scales.
    Nvfp4,
}

/// Where a reference is written, device addresses.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceTarget {
    /// Scheme, as the ABI numbers it.
    pub scheme: u32,
    /// The most rows of one expert.
    pub max_rows: u32,
    /// Sampled columns of each expert; 0 for all.
    pub column_count: u32,
    /// `[experts][column_count]`, i32; 0 for all.
    pub columns: u64,
    /// `[rows][columns]`, f64.
    pub values: u64,
    /// `[rows][columns]`, f32.
    pub abs_sums: u64,
}

/// A number format of one operand, as the device code makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// bf16.
    Bf16,
    /// e2m1, a ue4m3 scale per 16 of k, a global per group of rows.
    Nvfp4,
    /// e2m1, a ue8m0 scale per 32 of k.
    Mxfp4,
    /// e4m3, a ue8m0 scale per 32 of k.
    Mxfp8,
    /// e4m3, one f32 per group of rows.
    Fp8,
    /// e4m3, an f32 scale per row and 128 of k.
    Fp8Group,
    /// e4m3, an f32 scale per 128 rows of a group and 128 of k.
    Fp8Block,
}

#[cfg(moebius_cuda)]
impl Format {
    fn raw(self) -> u32 {
        match self {
            Format::Bf16 => abi::MOEBIUS_FORMAT_BF16,
            Format::Nvfp4 => abi::MOEBIUS_FORMAT_NVFP4,
            Format::Mxfp4 => abi::MOEBIUS_FORMAT_MXFP4,
            Format::Mxfp8 => abi::MOEBIUS_FORMAT_MXFP8,
            Format::Fp8 => abi::MOEBIUS_FORMAT_FP8,
            Format::Fp8Group => abi::MOEBIUS_FORMAT_FP8_GROUP,
            Format::Fp8Block => abi::MOEBIUS_FORMAT_FP8_BLOCK,
        }
    }
}

/// A matrix of seeded numbers, device addresses; see `moebius_numbers` of csrc/support/support.h.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// Key of the stream of the elements.
    pub key: u64,
    /// The table of [`crate::operands::normal`], u16.
    pub table: u64,
    /// A factor for each `rows_per_factor` rows, f32.
    pub row_factors: u64,
    /// A factor for each column, f32; 0 when all are 1.
    pub column_factors: u64,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub k: u32,
    /// Rows that share a factor.
    pub rows_per_factor: u32,
    /// Groups of rows that share a global.
    pub groups: u32,
    /// First row of each group, i32, `groups + 1` entries.
    pub group_rows: u64,
}

/// The support code of this build on one device.
#[derive(Clone, Copy)]
pub struct Support<'a> {
    cuda: &'a Cuda,
}

#[cfg(moebius_cuda)]
impl<'a> Support<'a> {
    /// The support code, where the build has CUDA.
    pub fn new(cuda: &'a Cuda) -> Option<Self> {
        Some(Support { cuda })
    }

    fn stream(&self) -> abi::moebius_stream {
        self.cuda.raw_stream().cast()
    }

    /// Puts the reference kernel on the stream.
    ///
    /// # Errors
    /// It could not be launched.
    pub fn reference(
        &self,
        shape: &abi::moebius_shape,
        at: &Addresses,
        target: &ReferenceTarget,
    ) -> Result<(), UnitError> {
        let reference = abi::moebius_reference {
            scheme: target.scheme,
            max_rows: target.max_rows,
            column_count: target.column_count,
            columns: target.columns as *const i32,
            values: target.values as *mut f64,
            abs_sums: target.abs_sums as *mut f32,
        };
        // SAFETY: the addresses are of live buffers of the sizes that the shape asks for; the stream is of this context.
        call(|m| unsafe { abi::moebius_support_reference(shape, &at.raw(), &reference, self.stream(), m) })
    }

    /// Puts the making of a matrix on the stream. `values`, `scales` and `globals` are device addresses of the sizes that
    /// the format asks for; 0 where it has none.
    ///
    /// # Errors
    /// It could not be launched.
    pub fn generate(
        &self,
        format: Format,
        numbers: &Numbers,
        values: u64,
        scales: u64,
        globals: u64,
    ) -> Result<(), UnitError> {
        let raw = abi::moebius_numbers {
            key: numbers.key,
            table: numbers.table as *const u16,
            row_factors: numbers.row_factors as *const f32,
            column_factors: numbers.column_factors as *const f32,
            rows: numbers.rows,
            k: numbers.k,
            rows_per_factor: numbers.rows_per_factor,
            groups: numbers.groups,
            group_rows: numbers.group_rows as *const i32,
        };
        let (values, scales, globals) = (values as *mut _, scales as *mut _, globals as *mut f32);
        // SAFETY: the addresses are of live buffers of the sizes that format and numbers ask for; the stream is of this
        // context.
        call(|m| unsafe {
            abi::moebius_support_generate(format.raw(), &raw, values, scales, globals, self.stream(), m)
        })
    }

    /// Puts an empty kernel on the stream.
    ///
    /// # Errors
    /// It could not be launched.
    pub fn empty(&self) -> Result<(), UnitError> {
        // SAFETY: the stream is of this context.
        call(|m| unsafe { abi::moebius_support_empty(self.stream(), m) })
    }

    /// Puts a streaming read of `bytes` from `source` on the stream; `sink` takes 4 bytes.
    ///
    /// # Errors
    /// It could not be launched.
    pub fn read(&self, source: u64, bytes: u64, sink: u64) -> Result<(), UnitError> {
        let sms = self.cuda.info().sm_count;
        // SAFETY: the caller owns both ranges; the stream is of this context.
        call(|m| unsafe { abi::moebius_support_read(source as *const _, bytes, sink as *mut _, sms, self.stream(), m) })
    }

    /// Puts a streaming write of `bytes` to `target` on the stream.
    ///
    /// # Errors
    /// It could not be launched.
    pub fn write(&self, target: u64, bytes: u64) -> Result<(), UnitError> {
        let sms = self.cuda.info().sm_count;
        // SAFETY: the caller owns the range; the stream is of this context.
        call(|m| unsafe { abi::moebius_support_write(target as *mut _, bytes, sms, self.stream(), m) })
    }

    /// Puts products of operands in registers on the stream, and says how many operations they are.
    ///
    /// # Errors
    /// The chip lacks the instruction, or it could not be launched.
    pub fn mma(&self, kind: Mma, iterations: u32, sink: u64) -> Result<f64, UnitError> {
        let kind = match kind {
            Mma::Bf16 => abi::MOEBIUS_MMA_BF16,
            Mma::Fp8 => abi::MOEBIUS_MMA_FP8,
            Mma::Nvfp4 => abi::MOEBIUS_MMA_NVFP4,
        };
        let (sms, mut operations) = (self.cuda.info().sm_count, 0.0);
        // SAFETY: the caller owns 4 bytes at `sink`; the stream is of this context.
        call(|m| unsafe {
            abi::moebius_support_mma(kind, iterations, sink as *mut _, sms, &mut operations, self.stream(), m)
        })?;
        Ok(operations)
    }
}

#[cfg(not(moebius_cuda))]
impl<'a> Support<'a> {
    /// A build without CUDA has no support code.
    pub fn new(_: &'a Cuda) -> Option<Self> {
        None
    }

    fn absent<T>(&self) -> Result<T, UnitError> {
        let device = self.cuda.info().ordinal;
        Err(UnitError::Failed(format!("this build has no code for cuda:{device}")))
    }

    /// See the build with CUDA.
    ///
    /// # Errors
    /// Always.
    pub fn reference(&self, _: &abi::moebius_shape, _: &Addresses, _: &ReferenceTarget) -> Result<(), UnitError> {
        self.absent()
    }

    /// See the build with CUDA.
    ///
    /// # Errors
    /// Always.
    pub fn generate(&self, _: Format, _: &Numbers, _: u64, _: u64, _: u64) -> Result<(), UnitError> {
        self.absent()
    }

    /// See the build with CUDA.
    ///
    /// # Errors
    /// Always.
    pub fn empty(&self) -> Result<(), UnitError> {
        self.absent()
    }

    /// See the build with CUDA.
    ///
    /// # Errors
    /// Always.
    pub fn read(&self, _: u64, _: u64, _: u64) -> Result<(), UnitError> {
        self.absent()
    }

    /// See the build with CUDA.
    ///
    /// # Errors
    /// Always.
    pub fn write(&self, _: u64, _: u64) -> Result<(), UnitError> {
        self.absent()
    }

    /// See the build with CUDA.
    ///
    /// # Errors
    /// Always.
    pub fn mma(&self, _: Mma, _: u32, _: u64) -> Result<f64, UnitError> {
        self.absent()
    }
}
