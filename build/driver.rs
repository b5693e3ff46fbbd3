//! Asks the NVIDIA driver of this machine, when there is one, for its GPUs. The driver library is opened at run time: the
//! build script must start without it.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::archs::Version;

/// The driver of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The newest CUDA that it supports: 13.0 from driver 580 on, 12.8 and 12.9 from 570 to 579.
    pub cuda: Version,
    /// Compute capability of each GPU.
    pub capabilities: Vec<(u32, u32)>,
}

const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;
const RTLD_NOW: c_int = 2;

unsafe extern "C" {
    fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

/// The driver, or none when the machine has no driver or no GPU that can be used.
pub fn probe() -> Option<Driver> {
    // SAFETY: dlopen takes a NUL-terminated name. The library stays open for the rest of this short process.
    let library = unsafe { dlopen(c"libcuda.so.1".as_ptr(), RTLD_NOW) };
    if library.is_null() {
        return None;
    }
    let find = |name: &CStr| {
        // SAFETY: `library` is the open handle from above and `name` ends with a NUL.
        let symbol = unsafe { dlsym(library, name.as_ptr()) };
        (!symbol.is_null()).then_some(symbol)
    };
    type OneOut = extern "C" fn(*mut c_int) -> c_int;
    type Attribute = extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
    // SAFETY: the driver API documents `CUresult cuInit(unsigned)`.
    let init = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(u32) -> c_int>(find(c"cuInit")?) };
    // SAFETY: the driver API documents `CUresult cuDriverGetVersion(int *)`.
    let version = unsafe { std::mem::transmute::<*mut c_void, OneOut>(find(c"cuDriverGetVersion")?) };
    // SAFETY: the driver API documents `CUresult cuDeviceGetCount(int *)`.
    let count = unsafe { std::mem::transmute::<*mut c_void, OneOut>(find(c"cuDeviceGetCount")?) };
    // SAFETY: the driver API documents `CUresult cuDeviceGetAttribute(int *, CUdevice_attribute, CUdevice)`, of int size.
    let attribute = unsafe { std::mem::transmute::<*mut c_void, Attribute>(find(c"cuDeviceGetAttribute")?) };
    let (mut number, mut gpus) = (0, 0);
    if init(0) != 0 || version(&mut number) != 0 || count(&mut gpus) != 0 || gpus == 0 {
        return None;
    }
    let mut capabilities = Vec::new();
    for gpu in 0..gpus {
        let (mut major, mut minor) = (0, 0);
        // A CUdevice of the driver API is its ordinal.
        if attribute(&mut major, CAPABILITY_MAJOR, gpu) == 0 && attribute(&mut minor, CAPABILITY_MINOR, gpu) == 0 {
            capabilities.push((major as u32, minor as u32));
        }
    }
    Some(Driver { cuda: ((number / 1000) as u32, (number % 1000 / 10) as u32), capabilities })
}
