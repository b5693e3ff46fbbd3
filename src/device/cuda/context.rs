//! Opening a device, and what it says of itself.

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{CudaContext, CudaStream, result, sys};

use super::DeviceError;

/// The CUDA version whose driver interface the binary uses (cudarc's feature in Cargo.toml).
const NEEDED_CUDA: i32 = 12080;

/// What a GPU says of itself.
#[derive(Clone, Debug)]
pub struct GpuInfo {
    /// Its number for the driver.
    pub ordinal: usize,
    /// Marketing name.
    pub name: String,
    /// UUID in the form of nvidia-smi.
    pub uuid: String,
    /// Compute capability.
    pub compute_capability: (u32, u32),
    /// Multiprocessors.
    pub sm_count: u32,
    /// L2 cache in bytes.
    pub l2_bytes: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Largest shared memory of a block, in bytes.
    pub shared_memory_per_block: u32,
    /// CUDA version of the driver, such as `13.0`.
    pub cuda_version: String,
    /// Highest memory clock in kHz and bus width in bits, for the data sheet's bandwidth.
    pub memory_clock_khz: u32,
    /// Width of the memory bus in bits.
    pub memory_bus_bits: u32,
}

impl GpuInfo {
    /// Architecture word such as `sm_90`.
    pub fn arch(&self) -> String {
        format!("sm_{}{}", self.compute_capability.0, self.compute_capability.1)
    }
}

fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Initialises the driver and returns its CUDA version.
fn init() -> Result<i32, DeviceError> {
    // SAFETY: only tries to load the library; cudarc panics on any later call when this says false.
    if !unsafe { sys::is_culib_present() } {
        return Err(DeviceError::NoDriver);
    }
    let mut version = 0;
    // SAFETY: cuDriverGetVersion writes one int and may be called before cuInit.
    unsafe { sys::cuDriverGetVersion(&mut version) }
        .result()
        .map_err(DeviceError::driver("reading the driver version"))?;
    if version < NEEDED_CUDA {
        return Err(DeviceError::DriverTooOld { found: version_text(version), needed: version_text(NEEDED_CUDA) });
    }
    match result::init() {
        Ok(()) => Ok(version),
        Err(e) if e.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => Err(DeviceError::NoDevice { wanted: 0, count: 0 }),
        Err(e) => Err(DeviceError::driver("initialising the driver")(e)),
    }
}

/// Describes every GPU that the driver shows.
///
/// # Errors
/// No driver, a driver too old, or no device.
pub fn gpus() -> Result<Vec<GpuInfo>, DeviceError> {
    let version = init()?;
    let count = result::device::get_count().map_err(DeviceError::driver("counting devices"))?;
    (0..count).map(|ordinal| describe(ordinal as usize, version)).collect()
}

fn describe(ordinal: usize, version: i32) -> Result<GpuInfo, DeviceError> {
    let failed = || DeviceError::driver("reading the device's attributes");
    let device = result::device::get(ordinal as i32).map_err(failed())?;
    // SAFETY: `device` was just returned by the driver.
    let attribute =
        |a: Attribute| unsafe { result::device::get_attribute(device, a) }.map_err(failed()).map(|v| v as u32);
    // SAFETY: as above.
    let memory_bytes = unsafe { result::device::total_mem(device) }.map_err(failed())? as u64;
    let uuid = result::device::get_uuid(device).map_err(failed())?;
    let hex: String = uuid.bytes.iter().map(|b| format!("{:02x}", *b as u8)).collect();
    Ok(GpuInfo {
        ordinal,
        name: result::device::get_name(device).map_err(failed())?,
        uuid: format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]),
        compute_capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        sm_count: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        l2_bytes: u64::from(attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
        memory_bytes,
        shared_memory_per_block: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        cuda_version: version_text(version),
        memory_clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
        memory_bus_bits: attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
    })
}

/// An opened GPU with one stream of its own, on which everything is measured.
pub struct Cuda {
    pub(crate) context: Arc<CudaContext>,
    pub(crate) stream: Arc<CudaStream>,
    info: GpuInfo,
}

impl Cuda {
    /// Opens GPU `ordinal`: retains its primary context, so that code built on the CUDA runtime shares it.
    ///
    /// # Errors
    /// No driver, a driver too old, or no such device.
    pub fn open(ordinal: usize) -> Result<Self, DeviceError> {
        let all = gpus()?;
        let count = all.len();
        let info = all.into_iter().nth(ordinal).ok_or(DeviceError::NoDevice { wanted: ordinal, count })?;
        let failed = || DeviceError::driver("opening the device");
        let context = CudaContext::new(ordinal).map_err(failed())?;
        // SAFETY: every buffer of this program is used on the one stream made below, or after a synchronisation; with
        // tracking on, each launch would wait for and record events, inside the measured time.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().map_err(failed())?;
        Ok(Cuda { context, stream, info })
    }

    /// What the device says of itself.
    pub fn info(&self) -> &GpuInfo {
        &self.info
    }

    /// Makes the device current on the calling thread.
    ///
    /// # Errors
    /// The driver refused.
    pub fn bind(&self) -> Result<(), DeviceError> {
        self.context.bind_to_thread().map_err(DeviceError::driver("binding the context"))
    }

    /// Waits for everything on the stream.
    ///
    /// # Errors
    /// The work on the stream failed, for example by an illegal address; the context is then unusable.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        self.stream.synchronize().map_err(DeviceError::driver("waiting for the device"))
    }

    /// Free memory in bytes.
    ///
    /// # Errors
    /// The driver refused.
    pub fn free_bytes(&self) -> Result<u64, DeviceError> {
        let (free, _) = self.context.mem_get_info().map_err(DeviceError::driver("reading free memory"))?;
        Ok(free as u64)
    }

    /// The stream for foreign code: valid as long as `self`.
    pub(crate) fn raw_stream(&self) -> sys::CUstream {
        self.stream.cu_stream()
    }
}
