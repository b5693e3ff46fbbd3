//! The reference of a case, computed on the GPU.

use crate::device::abi::moebius_shape;
use crate::device::cuda::{Addresses, Buffer, Cuda, DeviceError, ReferenceTarget, Support};
use crate::kernel::Scheme;
use crate::shape::GemmShape;
use crate::verify::{Columns, Reference};

/// Computes the right answer for the operands and offsets at `at` with the plain kernel of `csrc/support/reference.cu`.
/// `max_rows` is the most rows of one expert, or more.
///
/// # Errors
/// Too little memory, a device that failed, or an answer that is not representable.
pub fn gpu_reference(
    cuda: &Cuda,
    support: Support<'_>,
    shape: &moebius_shape,
    scheme: Scheme,
    at: &Addresses,
    max_rows: u32,
    columns: Columns,
) -> Result<Reference, DeviceError> {
    let width = columns.per_expert(shape.n as usize);
    let list = match &columns {
        Columns::All => None,
        Columns::Sampled(sampled) => {
            let indices = (0..shape.experts as usize).flat_map(|e| sampled.of(e).iter());
            let bytes: Vec<u8> = indices.flat_map(|c| c.to_ne_bytes()).collect();
            Some(Buffer::from_host(cuda, &bytes, "the sampled columns")?)
        }
    };
    let elements = shape.rows as usize * width;
    let values = Buffer::new(cuda, elements as u64 * 8, "the reference")?;
    let abs_sums = Buffer::new(cuda, elements as u64 * 4, "the reference")?;
    support.reference(
        shape,
        at,
        &ReferenceTarget {
            scheme: Scheme::ALL.iter().position(|&s| s == scheme).unwrap_or_default() as u32,
            max_rows,
            column_count: if list.is_some() { width as u32 } else { 0 },
            columns: list.as_ref().map_or(0, |b| b.address(cuda)),
            values: values.address(cuda),
            abs_sums: abs_sums.address(cuda),
        },
    )?;
    let values = values.download(cuda, 0, elements * 8)?;
    let abs_sums = abs_sums.download(cuda, 0, elements * 4)?;
    let values = values.as_chunks::<8>().0.iter().map(|&b| f64::from_ne_bytes(b)).collect();
    let abs_sums = abs_sums.as_chunks::<4>().0.iter().map(|&b| f32::from_ne_bytes(b)).collect();
    let held = GemmShape { experts: shape.experts, n: shape.n, k: shape.k };
    Reference::from_parts(held, shape.rows as usize, columns, values, abs_sums)
        .map_err(|e| DeviceError::Kernel(e.to_string()))
}
