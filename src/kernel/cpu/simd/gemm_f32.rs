//! The one call into the GEMM library.

use gemm_common::Parallelism;

/// `sums[row][column] (+)= sum over i of weights[i][column] * activations[row][i]`, all f32, on one thread.
pub struct GemmF32<'a> {
    /// Columns.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
    /// Length of the reduction.
    pub depth: usize,
    /// `[depth][weights_stride]`
    pub weights: &'a [f32],
    /// From one value of k to the next, at least `columns`.
    pub weights_stride: usize,
    /// `[rows][activations_stride]`
    pub activations: &'a [f32],
    /// From one row to the next, at least `depth`.
    pub activations_stride: usize,
    /// `[rows][sums_stride]`
    pub sums: &'a mut [f32],
    /// From one row to the next, at least `columns`.
    pub sums_stride: usize,
    /// Add to what `sums` holds instead of replacing it.
    pub add: bool,
}

/// Does what [`GemmF32`] says.
///
/// # Panics
/// When a slice is too short for its shape.
pub fn gemm_f32(call: GemmF32<'_>) {
    let GemmF32 { columns, rows, depth, .. } = call;
    let fits = |length: usize, lines: usize, stride: usize, width: usize| {
        lines == 0 || (stride >= width && length >= (lines - 1) * stride + width)
    };
    assert!(fits(call.weights.len(), depth, call.weights_stride, columns), "weights hold depth x columns");
    assert!(fits(call.activations.len(), rows, call.activations_stride, depth), "activations hold rows x depth");
    assert!(fits(call.sums.len(), rows, call.sums_stride, columns), "sums hold rows x columns");
    // SAFETY: the library reads and writes the elements at `i * row stride + j * column stride` of its three matrices; the
    // asserts above keep all of them inside the slices, and `sums` is borrowed mutably, so it overlaps nothing.
    unsafe {
        gemm_f32::gemm::f32::get_gemm_fn()(
            columns,
            rows,
            depth,
            call.sums.as_mut_ptr(),
            call.sums_stride as isize,
            1,
            call.add,
            call.weights.as_ptr(),
            call.weights_stride as isize,
            1,
            call.activations.as_ptr(),
            call.activations_stride as isize,
            1,
            1.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
