//! third_party/pins.toml: what the build may fetch.

use serde::Deserialize;

/// The pinned sets of packages.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pins {
    /// The CUDA toolkit.
    pub cuda: Set,
    /// The cuRAND headers.
    pub curand: Set,
    /// FlashInfer with CUTLASS.
    pub flashinfer: Set,
}

/// Packages that are unpacked over one another into one folder.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// Version of the whole.
    pub version: String,
    /// Least CUDA version that the driver must support to run what this toolkit makes.
    pub least_driver_cuda: Option<String>,
    /// What pip downloads.
    pub packages: Vec<Package>,
    /// Which files are kept.
    pub unpack: Vec<Unpack>,
}

/// One package.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Name in the package index.
    pub name: String,
    /// Exact version.
    pub version: String,
    /// SHA-256 of every wheel that may be used.
    pub sha256: Vec<String>,
}

/// Files of the wheels that are kept.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unpack {
    /// Prefix inside the wheel.
    pub from: String,
    /// Prefix in the unpacked folder.
    pub to: String,
}

/// Reads pins.toml.
///
/// # Errors
/// A sentence with the place of the mistake.
pub fn parse(text: &str) -> Result<Pins, String> {
    toml::from_str(text)
        .map_err(|e| format!("third_party/pins.toml cannot be read: {}", super::one_line(&e.to_string())))
}

impl Set {
    /// The lines of a pip requirements file with hashes.
    pub fn requirements(&self) -> String {
        let mut lines = String::new();
        for package in &self.packages {
            lines += &format!("{}=={}", package.name, package.version);
            for hash in &package.sha256 {
                lines += &format!(" --hash=sha256:{hash}");
            }
            lines.push('\n');
        }
        lines
    }
}
