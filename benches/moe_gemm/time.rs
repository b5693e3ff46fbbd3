//! Criterion's measurement: nanoseconds of device or processor time per call, as the sampler took them.

use criterion::Throughput;
use criterion::measurement::{Measurement, ValueFormatter};

/// Time per call in nanoseconds. Its values come from recorded samples only; criterion itself times nothing.
pub struct CallTime;

impl Measurement for CallTime {
    type Intermediate = ();
    type Value = f64;

    fn start(&self) -> Self::Intermediate {}

    /// Nothing happens between start and end: every benchmark here hands its own times over.
    fn end(&self, (): Self::Intermediate) -> Self::Value {
        0.0
    }

    fn add(&self, v1: &f64, v2: &f64) -> f64 {
        v1 + v2
    }

    fn zero(&self) -> f64 {
        0.0
    }

    fn to_f64(&self, value: &f64) -> f64 {
        *value
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &Units
    }
}

/// Times in ns, us, ms or s; elements as floating-point operations and bytes, both per second.
struct Units;

/// The largest unit that `typical` reaches, or the smallest.
fn unit(typical: f64, units: &[(f64, &'static str)]) -> (f64, &'static str) {
    let reached = units.iter().rev().find(|(size, _)| typical >= *size);
    reached.or(units.first()).copied().unwrap_or((1.0, ""))
}

impl ValueFormatter for Units {
    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        let (size, name) = unit(typical, &[(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")]);
        values.iter_mut().for_each(|v| *v /= size);
        name
    }

    fn scale_throughputs(&self, typical: f64, throughput: &Throughput, values: &mut [f64]) -> &'static str {
        let (amount, units) = match *throughput {
            Throughput::Bytes(n) | Throughput::BytesDecimal(n) => {
                (n as f64, [(1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")])
            }
            Throughput::Bits(n) => (n as f64, [(1e6, "Mbit/s"), (1e9, "Gbit/s"), (1e12, "Tbit/s")]),
            Throughput::Elements(n) | Throughput::ElementsAndBytes { elements: n, .. } => {
                (n as f64, [(1e6, "MFLOP/s"), (1e9, "GFLOP/s"), (1e12, "TFLOP/s")])
            }
        };
        let (size, name) = unit(amount / typical * 1e9, &units);
        values.iter_mut().for_each(|v| *v = amount / *v * 1e9 / size);
        name
    }

    fn scale_for_machines(&self, _values: &mut [f64]) -> &'static str {
        "ns"
    }
}
