//! What the makers say of their devices: dense rates, no sparsity.

use indexmap::IndexMap;

use crate::kernel::Scheme;
use crate::record::{Ceilings, Device, Extra};

/// A device by its data sheet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DataSheet {
    /// Every one of these words is in the device's name.
    words: &'static [&'static str],
    /// Architecture.
    pub arch: &'static str,
    /// Multiprocessors.
    pub units: u32,
    /// Memory in GiB.
    pub memory_gib: u32,
    /// Last-level cache in MiB.
    pub cache_mib: u32,
    /// Memory bandwidth in GB/s.
    pub read_gb_per_s: f64,
    /// TFLOP/s of FP4 with block scales, where the device has it.
    pub fp4: Option<f64>,
    /// TFLOP/s of FP8.
    pub fp8: Option<f64>,
    /// TFLOP/s of bf16 with f32 accumulation.
    pub bf16: Option<f64>,
}

/// Known devices, the more special name first.
///
/// Sources: aiconfigurator's systems/*.yaml (RTX PRO 6000 Server, B200, H200, H100); NVIDIA's product pages for SM
/// counts, cache and memory sizes; gau-nernst/learn-cuda for the workstation card and the RTX 5090, whose bf16 rate with
/// f32 accumulation is half.
const DEVICES: [DataSheet; 8] = [
    DataSheet {
        words: &["RTX PRO 6000", "Max-Q"],
        arch: "sm_120",
        units: 188,
        memory_gib: 96,
        cache_mib: 128,
        read_gb_per_s: 1792.0,
        fp4: Some(1762.0),
        fp8: None,
        bf16: None,
    },
    DataSheet {
        words: &["RTX PRO 6000", "Server"],
        arch: "sm_120",
        units: 188,
        memory_gib: 96,
        cache_mib: 128,
        read_gb_per_s: 1792.0,
        fp4: Some(1871.0),
        fp8: Some(936.0),
        bf16: Some(468.0),
    },
    DataSheet {
        words: &["RTX PRO 6000"],
        arch: "sm_120",
        units: 188,
        memory_gib: 96,
        cache_mib: 128,
        read_gb_per_s: 1792.0,
        fp4: Some(2015.0),
        fp8: Some(1008.0),
        bf16: Some(503.8),
    },
    DataSheet {
        words: &["RTX 5090"],
        arch: "sm_120",
        units: 170,
        memory_gib: 32,
        cache_mib: 96,
        read_gb_per_s: 1792.0,
        fp4: Some(1676.0),
        fp8: Some(838.0),
        bf16: Some(209.5),
    },
    DataSheet {
        words: &["GB10"],
        arch: "sm_121",
        units: 48,
        memory_gib: 128,
        cache_mib: 24,
        read_gb_per_s: 273.0,
        fp4: Some(500.0),
        fp8: None,
        bf16: None,
    },
    DataSheet {
        words: &["B200"],
        arch: "sm_100",
        units: 148,
        memory_gib: 180,
        cache_mib: 126,
        read_gb_per_s: 8000.0,
        fp4: Some(9000.0),
        fp8: Some(4500.0),
        bf16: Some(2250.0),
    },
    DataSheet {
        words: &["H200"],
        arch: "sm_90",
        units: 132,
        memory_gib: 141,
        cache_mib: 50,
        read_gb_per_s: 4800.0,
        fp4: None,
        fp8: Some(1978.0),
        bf16: Some(989.0),
    },
    DataSheet {
        words: &["H100"],
        arch: "sm_90",
        units: 132,
        memory_gib: 80,
        cache_mib: 50,
        read_gb_per_s: 3350.0,
        fp4: None,
        fp8: Some(1978.0),
        bf16: Some(989.0),
    },
];

/// The data sheet of a device, by its marketing name.
pub fn datasheet(device_name: &str) -> Option<&'static DataSheet> {
    DEVICES.iter().find(|sheet| sheet.words.iter().all(|word| device_name.contains(word)))
}

impl DataSheet {
    /// Operations per second of a scheme: by the arithmetic that it is computed in on a device that has it. Weights of
    /// four bits with wider activations are computed in the activations' format.
    pub fn flops_per_s(&self, scheme: Scheme) -> Option<f64> {
        let tera = match scheme {
            Scheme::Nvfp4W4a4 => self.fp4,
            Scheme::Mxfp4W4a8 | Scheme::Fp8Block | Scheme::Fp8 => self.fp8,
            Scheme::Nvfp4W4a16 | Scheme::Bf16 => self.bf16,
        };
        tera.map(|tera| tera * 1e12)
    }

    /// Enters the data sheet's numbers beside the measured ones.
    pub fn enter(&self, ceilings: &mut Ceilings) {
        ceilings.datasheet_read_bytes_per_s = Some(self.read_gb_per_s * 1e9);
        ceilings.datasheet_flops_per_s = Scheme::ALL
            .into_iter()
            .filter_map(|scheme| Some((scheme, self.flops_per_s(scheme)?)))
            .collect::<IndexMap<_, _>>();
    }

    /// The device as far as the data sheet tells.
    pub fn device(&self, name: &str) -> Device {
        Device {
            name: name.to_string(),
            arch: self.arch.to_string(),
            uuid: None,
            units: self.units,
            memory_bytes: u64::from(self.memory_gib) << 30,
            cache_bytes: u64::from(self.cache_mib) << 20,
            driver: None,
            extra: Extra::new(),
        }
    }
}
