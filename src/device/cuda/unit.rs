//! Compiled kernels behind the C ABI of `csrc/abi.h`.

use std::ffi::{CStr, c_char, c_void};

use super::{Cuda, DeviceError};
use crate::device::abi;

/// Why a unit did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitError {
    /// It cannot compute this shape by design.
    Unsupported(String),
    /// A status that should not have come.
    Failed(String),
}

impl From<UnitError> for DeviceError {
    fn from(e: UnitError) -> Self {
        match e {
            UnitError::Unsupported(m) | UnitError::Failed(m) => DeviceError::Kernel(m),
        }
    }
}

/// A compiled kernel.
#[derive(Clone, Copy)]
pub struct Unit {
    raw: &'static abi::moebius_unit,
}

// SAFETY: a moebius_unit is constant data: strings of static lifetime, and functions that hold no state but in the plans that
// they are given.
unsafe impl Send for Unit {}
// SAFETY: as above.
unsafe impl Sync for Unit {}

/// Device addresses of one slot of a case for one unit; zero where a scheme has no such operand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    /// Canonical weights.
    pub weights: u64,
    /// Their scales.
    pub weight_scales: u64,
    /// Their globals.
    pub weight_globals: u64,
    /// Canonical activations.
    pub activations: u64,
    /// Their scales.
    pub activation_scales: u64,
    /// Their globals.
    pub activation_globals: u64,
    /// First row of each expert, i32.
    pub offsets: u64,
    /// Output, bf16.
    pub out: u64,
    /// The unit's own layout of the weights.
    pub packed_weights: u64,
    /// The unit's own layout of the activations.
    pub packed_activations: u64,
    /// Workspace of this slot.
    pub workspace: u64,
}

impl Addresses {
    pub(crate) fn raw(&self) -> abi::moebius_operands {
        abi::moebius_operands {
            weights: self.weights as *const c_void,
            weight_scales: self.weight_scales as *const c_void,
            weight_globals: self.weight_globals as *const f32,
            activations: self.activations as *const c_void,
            activation_scales: self.activation_scales as *const c_void,
            activation_globals: self.activation_globals as *const f32,
            offsets: self.offsets as *const i32,
            out: self.out as *mut c_void,
            packed_weights: self.packed_weights as *const c_void,
            packed_activations: self.packed_activations as *const c_void,
            workspace: self.workspace as *mut c_void,
        }
    }
}

/// Which launches of a call to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Only what the kernel derives from the routing.
    Prepare,
    /// Everything.
    All,
}

/// Runs a call of the ABI and turns its code into a result.
pub(crate) fn call(f: impl FnOnce(*mut abi::moebius_message) -> i32) -> Result<(), UnitError> {
    let mut message = abi::moebius_message { text: [0; 256] };
    let code = f(&mut message);
    if code == abi::MOEBIUS_OK as i32 {
        return Ok(());
    }
    let bytes: Vec<u8> = message.text.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Err(if code == abi::MOEBIUS_UNSUPPORTED as i32 { UnitError::Unsupported(text) } else { UnitError::Failed(text) })
}

/// Text of a C string of static lifetime, empty when there is none.
fn text(pointer: *const c_char) -> &'static str {
    if pointer.is_null() {
        return "";
    }
    // SAFETY: every string of a moebius_unit is a literal of its translation unit, so it ends and stays.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap_or_default()
}

impl Unit {
    /// Wraps a unit that the build linked in.
    pub fn new(raw: &'static abi::moebius_unit) -> Self {
        Unit { raw }
    }

    /// The whole kernel id.
    pub fn id(&self) -> &'static str {
        text(self.raw.id)
    }

    /// Units with the same word share packed weights.
    pub fn weights_layout(&self) -> &'static str {
        text(self.raw.weights_layout)
    }

    /// Units with the same word share packed activations.
    pub fn activations_layout(&self) -> &'static str {
        text(self.raw.activations_layout)
    }

    /// Source version.
    pub fn version(&self) -> &'static str {
        text(self.raw.version)
    }

    /// Whether the unit can compute the shape.
    ///
    /// # Errors
    /// The limit that is missed.
    pub fn supports(&self, shape: &abi::moebius_shape) -> Result<(), UnitError> {
        let Some(f) = self.raw.supports else { return missing("supports") };
        // SAFETY: both pointers are valid for the call.
        call(|m| unsafe { f(shape, m) })
    }

    /// Bytes of the buffers that the unit needs.
    ///
    /// # Errors
    /// As the unit says.
    pub fn sizes(&self, shape: &abi::moebius_shape) -> Result<abi::moebius_sizes, UnitError> {
        let Some(f) = self.raw.sizes else { return missing("sizes") };
        let mut sizes = abi::moebius_sizes { packed_weights: 0, packed_activations: 0, workspace: 0 };
        // SAFETY: all pointers are valid for the call.
        call(|m| unsafe { f(shape, &mut sizes, m) })?;
        Ok(sizes)
    }

    /// Lays out canonical weights as the unit reads them.
    ///
    /// # Errors
    /// As the unit says.
    pub fn pack_weights(&self, cuda: &Cuda, shape: &abi::moebius_shape, at: &Addresses) -> Result<(), UnitError> {
        let Some(f) = self.raw.pack_weights else { return missing("pack_weights") };
        bind(cuda)?;
        // SAFETY: the addresses are of live buffers with the sizes that the ABI asks for; the stream is of this context.
        call(|m| unsafe { f(shape, &at.raw(), stream(cuda), m) })
    }

    /// Lays out canonical activations as the unit reads them.
    ///
    /// # Errors
    /// As the unit says.
    pub fn pack_activations(&self, cuda: &Cuda, shape: &abi::moebius_shape, at: &Addresses) -> Result<(), UnitError> {
        let Some(f) = self.raw.pack_activations else { return missing("pack_activations") };
        bind(cuda)?;
        // SAFETY: as for pack_weights.
        call(|m| unsafe { f(shape, &at.raw(), stream(cuda), m) })
    }

    /// Does everything that may not be captured.
    ///
    /// # Errors
    /// As the unit says.
    pub fn plan(&self, cuda: &Cuda, shape: &abi::moebius_shape, at: &Addresses) -> Result<Plan, UnitError> {
        let Some(f) = self.raw.plan else { return missing("plan") };
        bind(cuda)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: as for pack_weights; `raw` receives memory that the unit owns until destroy.
        call(|m| unsafe { f(shape, &at.raw(), stream(cuda), &mut raw, m) })?;
        Ok(Plan { unit: *self, raw })
    }

    /// What the kernel takes of a multiprocessor of the current device.
    ///
    /// # Errors
    /// The image does not run on this device, or the runtime refused.
    pub fn resources(&self, cuda: &Cuda) -> Result<abi::moebius_resources, UnitError> {
        let Some(f) = self.raw.resources else { return missing("resources") };
        bind(cuda)?;
        let mut resources = abi::moebius_resources {
            registers: 0,
            static_shared: 0,
            dynamic_shared: 0,
            local_bytes: 0,
            threads: 0,
            stages: 0,
        };
        // SAFETY: both pointers are valid for the call.
        call(|m| unsafe { f(&mut resources, m) })?;
        Ok(resources)
    }
}

/// A planned call. The buffers it was planned with must outlive its runs, which its owner sees to.
pub struct Plan {
    unit: Unit,
    raw: *mut c_void,
}

impl Plan {
    /// Puts the call on the stream.
    ///
    /// # Errors
    /// As the unit says.
    pub fn run(&self, cuda: &Cuda, parts: Parts, pdl: bool) -> Result<(), UnitError> {
        let Some(f) = self.unit.raw.run else { return missing("run") };
        let parts = match parts {
            Parts::Prepare => abi::MOEBIUS_RUN_PREPARE,
            Parts::All => abi::MOEBIUS_RUN_ALL,
        };
        // SAFETY: `raw` came from plan() of the same unit and is not destroyed yet; the stream is of its context.
        call(|m| unsafe { f(self.raw, parts, u32::from(pdl), stream(cuda), m) })
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        if let Some(destroy) = self.unit.raw.destroy {
            // SAFETY: `raw` came from plan() of the same unit and is destroyed once.
            unsafe { destroy(self.raw) };
        }
    }
}

fn missing<T>(name: &str) -> Result<T, UnitError> {
    Err(UnitError::Failed(format!("the unit has no {name}()")))
}

fn bind(cuda: &Cuda) -> Result<(), UnitError> {
    cuda.bind().map_err(|e| UnitError::Failed(e.to_string()))
}

fn stream(cuda: &Cuda) -> abi::moebius_stream {
    cuda.raw_stream().cast()
}
