//! Clocks, power, temperature and throttling of a GPU through NVML, where its library is there.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};

use crate::record::TelemetryRecord;

/// A GPU as NVML sees it.
pub struct Telemetry {
    nvml: Nvml,
    uuid: String,
    readings: Vec<Reading>,
}

#[derive(Clone, Copy)]
struct Reading {
    sm_mhz: Option<u32>,
    memory_mhz: Option<u32>,
    celsius: Option<u32>,
    watts: Option<f64>,
    reasons: ThrottleReasons,
}

/// Reasons for which a clock falls below what the device would otherwise run at under this load.
fn spoiling() -> ThrottleReasons {
    ThrottleReasons::SW_POWER_CAP
        | ThrottleReasons::HW_SLOWDOWN
        | ThrottleReasons::HW_THERMAL_SLOWDOWN
        | ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN
        | ThrottleReasons::SW_THERMAL_SLOWDOWN
}

impl Telemetry {
    /// The GPU with this UUID; `None` where NVML or the GPU cannot be had, which only costs the telemetry.
    pub fn open(uuid: &str) -> Option<Self> {
        let nvml = Nvml::init().ok()?;
        nvml.device_by_uuid(uuid).ok()?;
        Some(Telemetry { nvml, uuid: uuid.to_owned(), readings: Vec::new() })
    }

    /// Version of the driver.
    pub fn driver_version(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }

    /// Takes a reading; true when the device is throttled.
    pub fn read(&mut self) -> bool {
        let Ok(device) = self.nvml.device_by_uuid(self.uuid.as_str()) else { return false };
        let reasons = device.current_throttle_reasons().unwrap_or(ThrottleReasons::empty());
        self.readings.push(Reading {
            sm_mhz: device.clock_info(Clock::SM).ok(),
            memory_mhz: device.clock_info(Clock::Memory).ok(),
            celsius: device.temperature(TemperatureSensor::Gpu).ok(),
            watts: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
            reasons,
        });
        reasons.intersects(spoiling())
    }

    /// What the readings since the last call say.
    pub fn take(&mut self) -> Option<TelemetryRecord> {
        let readings = std::mem::take(&mut self.readings);
        if readings.is_empty() {
            return None;
        }
        let middle = |values: Vec<u32>| {
            let mut values = values;
            values.sort_unstable();
            values.get(values.len() / 2).copied()
        };
        let mut watts: Vec<f64> = readings.iter().filter_map(|r| r.watts).collect();
        watts.sort_by(f64::total_cmp);
        let seen = readings.iter().fold(ThrottleReasons::empty(), |all, r| all | r.reasons) & spoiling();
        Some(TelemetryRecord {
            sm_clock_mhz: middle(readings.iter().filter_map(|r| r.sm_mhz).collect()),
            memory_clock_mhz: middle(readings.iter().filter_map(|r| r.memory_mhz).collect()),
            temperature_c: readings.iter().filter_map(|r| r.celsius).max(),
            power_w: watts.get(watts.len() / 2).copied(),
            throttle_reasons: seen.iter_names().map(|(name, _)| name.to_lowercase()).collect(),
            ..TelemetryRecord::default()
        })
    }
}
