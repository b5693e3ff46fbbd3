//! Runs a retargeted kernel on a Hopper GPU; the driver compiles the PTX.

#![allow(unsafe_code, reason = "kernels are launched through the driver")]

use std::ffi::{CString, c_void};

use cudarc::driver::{CudaContext, DevicePtr as _, DevicePtrMut as _, result, sys};

/// Runs a retargeted kernel over `blocks` blocks of a warp: `words` in, `count` words out.
pub fn run(ptx: &str, words: &[u32], count: usize, blocks: usize, parameter: u32) -> Vec<u32> {
    let rewritten = moebius::retarget::retarget(ptx, moebius::retarget::MARK).expect("it can be rewritten");
    let context = CudaContext::new(0).expect("these tests need a GPU");
    let stream = context.default_stream();
    let text = CString::new(rewritten.ptx).expect("PTX holds no zero byte");
    let from = stream.clone_htod(words).expect("operands reach the GPU");
    let mut to = stream.clone_htod(&vec![0xffff_ffffu32; count]).expect("there is room for the results");
    // SAFETY: the text ends with a zero byte; the module lives until the end of the function.
    let module = unsafe { result::module::load_data(text.as_ptr().cast::<c_void>()) }.expect("the driver compiles it");
    // SAFETY: the module is loaded.
    let function =
        unsafe { result::module::get_function(module, CString::new("k").expect("a name")) }.expect("it has the entry");
    {
        let (mut a, _read) = from.device_ptr(&stream);
        let (mut b, _write) = to.device_ptr_mut(&stream);
        let mut p = parameter;
        let mut arguments = [
            std::ptr::from_mut(&mut a).cast::<c_void>(),
            std::ptr::from_mut(&mut b).cast::<c_void>(),
            std::ptr::from_mut(&mut p).cast::<c_void>(),
        ];
        let stream: sys::CUstream = stream.cu_stream();
        // SAFETY: the arguments are those of the entry, and the buffers cover what its threads touch.
        unsafe { result::launch_kernel(function, (blocks as u32, 1, 1), (32, 1, 1), 0, stream, &mut arguments) }
            .expect("it is launched");
    }
    let out = stream.clone_dtoh(&to).expect("it ran");
    // SAFETY: nothing runs any more, and the module is not used again.
    unsafe { result::module::unload(module) }.expect("the module is unloaded");
    out
}

/// The 32 words of a map of bytes with this L2 promotion and extent of the box along dimension 1.
pub fn map_words(promotion: sys::CUtensorMapL2promotion, rows: u32) -> [u32; 32] {
    let context = CudaContext::new(0).expect("these tests need a GPU");
    let memory = context.default_stream().clone_htod(&vec![0u8; 1 << 16]).expect("there is room for a tensor");
    let stream = context.default_stream();
    let (address, _read) = memory.device_ptr(&stream);
    let mut map = sys::CUtensorMap { opaque: [0; 16] };
    // SAFETY: every array has an entry for each of the two dimensions (one less for strides), and outlives the call.
    unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut map,
            sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
            2,
            address as *mut c_void,
            [128, 256].as_ptr(),
            [128].as_ptr(),
            [128, rows].as_ptr(),
            [1, 1].as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            promotion,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    }
    .result()
    .expect("the driver makes the map");
    let mut words = [0; 32];
    for (pair, both) in words.chunks_mut(2).zip(map.opaque) {
        pair.copy_from_slice(&[both as u32, (both >> 32) as u32]);
    }
    words
}
