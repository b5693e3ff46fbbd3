//! What can go wrong on a device, each in one sentence.

use cudarc::driver::DriverError;

/// An error of the device layer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DeviceError {
    /// libcuda cannot be loaded.
    #[error("no NVIDIA driver was found (libcuda cannot be loaded); install the driver, or use --device cpu")]
    NoDriver,
    /// The driver is older than the binary's CUDA interface.
    #[error(
        "the NVIDIA driver supports CUDA {found} but moebius needs {needed} or newer; update the driver (570 or newer), or use --device cpu"
    )]
    DriverTooOld {
        /// CUDA version of the driver.
        found: String,
        /// Least CUDA version.
        needed: String,
    },
    /// The driver works but shows no such device.
    #[error(
        "there is no CUDA device {wanted}: the driver shows {count}; choose another with --device cuda:N, or --device cpu"
    )]
    NoDevice {
        /// The ordinal asked for.
        wanted: usize,
        /// Devices present.
        count: usize,
    },
    /// An allocation that does not fit.
    #[error(
        "the GPU has too little free memory: {what} needs {wanted_mib} MiB and {free_mib} MiB are free; close other GPU programs, or choose fewer kernels, smaller batches or --l2 warm"
    )]
    OutOfMemory {
        /// What was to be allocated.
        what: String,
        /// Its size.
        wanted_mib: u64,
        /// What the driver says is free.
        free_mib: u64,
    },
    /// Any other error of the driver.
    #[error("CUDA failed while {doing}: {message}")]
    Driver {
        /// What was being done.
        doing: String,
        /// The driver's name and text for it.
        message: String,
    },
    /// A compiled kernel refused or failed.
    #[error("{0}")]
    Kernel(String),
}

impl DeviceError {
    /// Wraps a driver error with what was being done.
    pub(crate) fn driver(doing: &str) -> impl FnOnce(DriverError) -> DeviceError + '_ {
        move |e| {
            let name = e.error_name().ok().and_then(|n| n.to_str().ok()).unwrap_or("unknown error").to_owned();
            let text = e.error_string().ok().and_then(|n| n.to_str().ok()).unwrap_or_default().to_owned();
            DeviceError::Driver { doing: doing.to_owned(), message: format!("{name} ({text})") }
        }
    }
}
