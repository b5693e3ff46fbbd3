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
