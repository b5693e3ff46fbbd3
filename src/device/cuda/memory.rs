//! Device memory: plain allocations, checked against what is free before they are made.

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, DevicePtr};

use super::{Cuda, DeviceError};

/// Bytes of guard region before and after a buffer that asks for them.
pub const GUARD_BYTES: usize = 4096;

/// Memory that stays free for the driver, the kernels' images and local memory.
const RESERVE_BYTES: u64 = 512 << 20;

/// A buffer in device memory. The start is aligned to 256 bytes at least (the driver's allocation granularity).
pub struct Buffer {
    slice: CudaSlice<u8>,
}

impl Buffer {
    /// Allocates `bytes` (at least one), leaving them uninitialised.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] naming `what`.
    pub fn new(cuda: &Cuda, bytes: u64, what: &str) -> Result<Self, DeviceError> {
        let free = cuda.free_bytes()?;
        let out_of_memory = || DeviceError::OutOfMemory {
            what: what.to_owned(),
            wanted_mib: bytes >> 20,
            free_mib: free.saturating_sub(RESERVE_BYTES) >> 20,
        };
        if bytes.saturating_add(RESERVE_BYTES) > free {
            return Err(out_of_memory());
        }
        // SAFETY: u8 has no invalid values, and every reader of device memory is a kernel or a copy that comes after a write.
        let slice = unsafe { cuda.stream.alloc::<u8>(bytes.max(1) as usize) }.map_err(|_| out_of_memory())?;
        Ok(Buffer { slice })
    }

    /// Allocates and uploads.
    ///
    /// # Errors
    /// As [`Buffer::new`], or the copy failed.
    pub fn from_host(cuda: &Cuda, data: &[u8], what: &str) -> Result<Self, DeviceError> {
        let mut buffer = Buffer::new(cuda, data.len() as u64, what)?;
        buffer.upload(cuda, 0, data)?;
        Ok(buffer)
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// A buffer is never empty; kept for the lint's sake by being true to its name.
    pub fn is_empty(&self) -> bool {
        self.slice.is_empty()
    }

    /// Copies `data` to byte `offset`.
    ///
    /// # Errors
    /// The range lies outside the buffer, or the copy failed.
    pub fn upload(&mut self, cuda: &Cuda, offset: usize, data: &[u8]) -> Result<(), DeviceError> {
        let len = self.len();
        let mut view = self
            .slice
            .try_slice_mut(offset..offset.saturating_add(data.len()))
            .ok_or_else(|| DeviceError::Kernel(format!("upload of {} bytes at {offset} of {len}", data.len())))?;
        cuda.stream.memcpy_htod(data, &mut view).map_err(DeviceError::driver("copying to the device"))?;
        // The copy reads pageable memory of the caller, who may free it at once.
        cuda.synchronize()
    }

    /// Copies `len` bytes from byte `offset` to the host, after all work on the stream.
    ///
    /// # Errors
    /// The range lies outside the buffer, or the work or the copy failed.
    pub fn download(&self, cuda: &Cuda, offset: usize, len: usize) -> Result<Vec<u8>, DeviceError> {
        let have = self.len();
        let view = self
            .slice
            .try_slice(offset..offset.saturating_add(len))
            .ok_or_else(|| DeviceError::Kernel(format!("download of {len} bytes at {offset} of {have}")))?;
        let data = cuda.stream.clone_dtoh(&view).map_err(DeviceError::driver("copying from the device"))?;
        cuda.synchronize()?;
        Ok(data)
    }

    /// Fills the whole buffer with a repeated 16-bit pattern, on the stream.
    ///
    /// # Errors
    /// The driver refused.
    pub fn fill_u16(&mut self, cuda: &Cuda, pattern: u16) -> Result<(), DeviceError> {
        cuda.bind()?;
        let words = self.len() / 2;
        // SAFETY: the pointer is to `len` bytes of this buffer, 256-byte aligned, and `words` 2-byte words fit in it.
        unsafe { cudarc::driver::sys::cuMemsetD16Async(self.address(cuda), pattern, words, cuda.raw_stream()) }
            .result()
            .map_err(DeviceError::driver("filling a buffer"))
    }

    /// Copies all of another buffer of the same size, on the stream.
    ///
    /// # Errors
    /// The sizes differ, or the driver refused.
    pub fn copy_from(&mut self, cuda: &Cuda, source: &Buffer) -> Result<(), DeviceError> {
        if source.len() != self.len() {
            return Err(DeviceError::Kernel(format!("copy of {} bytes into {}", source.len(), self.len())));
        }
        cuda.stream.memcpy_dtod(&source.slice, &mut self.slice).map_err(DeviceError::driver("copying on the device"))
    }

    /// The device address, for arguments of kernels. Valid as long as the buffer.
    pub fn address(&self, cuda: &Cuda) -> CUdeviceptr {
        // The guard of cudarc records an event on drop only when tracking is on; it is off.
        let (pointer, _guard) = self.slice.device_ptr(&cuda.stream);
        pointer
    }
}
