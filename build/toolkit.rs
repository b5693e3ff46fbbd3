//! Finds a CUDA toolkit: NVCC, CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda, and then the pinned one.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::archs::{Arch, Version};
use super::driver::Driver;
use super::pins::Pins;
use super::settings::Settings;

/// A CUDA toolkit that was found.
#[derive(Clone, Debug)]
pub struct Toolkit {
    /// The compiler.
    pub nvcc: PathBuf,
    /// The folder above its bin/.
    pub root: PathBuf,
    /// Its version in two numbers.
    pub version: Version,
    /// Its version in full, such as `13.0.88`.
    pub full_version: String,
}

/// A toolkit that compiles for every one of `archs`, and what should be said about the ones passed over.
///
/// # Errors
/// One sentence: nothing found (or nothing new enough) and why the pinned toolkit does not help.
pub fn find(
    settings: &Settings,
    archs: &[Arch],
    driver: Option<&Driver>,
    pins: &Pins,
) -> Result<(Toolkit, Option<String>), String> {
    let mut too_old = None;
    for (nvcc, source) in candidates(settings)? {
        let toolkit = match ask(&nvcc) {
            Ok(toolkit) => toolkit,
            Err(why) if source == "NVCC" => {
                return Err(format!("NVCC is {}, which {why}: set it to nvcc", nvcc.display()));
            }
            Err(_) => continue,
        };
        match archs.iter().find(|arch| toolkit.version < arch.least_nvcc()) {
            None => return Ok((toolkit, too_old)),
            Some(arch) => {
                let (major, minor) = arch.least_nvcc();
                too_old.get_or_insert(format!(
                    "nvcc {} at {} (from {source}) is too old for {arch}, which needs {major}.{minor} or newer",
                    toolkit.full_version,
                    nvcc.display()
                ));
            }
        }
    }
    let remedy =
        "set CUDA_HOME to a CUDA toolkit of 12.9 or newer, or MOEBIUS_ARCHS=none to build the CPU kernels alone";
    let fetched = driver_suffices(driver, pins)
        .and_then(|()| super::fetch::set(&pins.cuda, &format!("CUDA toolkit {}", pins.cuda.version), remedy, settings))
        .and_then(|root| {
            ask(&root.join("bin/nvcc")).map_err(|why| format!("the pinned nvcc in {} {why}: {remedy}", root.display()))
        });
    match (fetched, too_old) {
        (Ok(toolkit), too_old) => Ok((toolkit, too_old.map(|s| format!("{s}; the pinned toolkit is used")))),
        (Err(why), Some(too_old)) => Err(format!("{too_old}, and {why}")),
        (Err(why), None) => Err(why),
    }
}

/// Programs to try, in order, with the name of what pointed to each.
fn candidates(settings: &Settings) -> Result<Vec<(PathBuf, &'static str)>, String> {
    let mut found = Vec::new();
    if let Some(nvcc) = &settings.nvcc {
        if !nvcc.is_file() {
            return Err(format!("NVCC is {}, which is not a file: set it to nvcc or unset it", nvcc.display()));
        }
        found.push((nvcc.clone(), "NVCC"));
    }
    let homes = settings.cuda_homes.iter().map(|d| (d.join("bin/nvcc"), "CUDA_HOME or CUDA_PATH"));
    let path = settings.path.iter().map(|d| (d.join("nvcc"), "PATH"));
    let system = std::iter::once((settings.system_cuda.join("bin/nvcc"), "the system"));
    found.extend(homes.chain(path).chain(system).filter(|(nvcc, _)| nvcc.is_file()));
    Ok(found)
}

/// Asks a compiler for its version.
fn ask(nvcc: &Path) -> Result<Toolkit, String> {
    let output = Command::new(nvcc).arg("--version").output().map_err(|e| format!("could not be started ({e})"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let full_version = said
        .rsplit_once(", V")
        .map(|(_, rest)| rest.split_whitespace().next().unwrap_or_default().to_owned())
        .ok_or("does not say its version as nvcc does")?;
    let mut numbers = full_version.split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return Err(format!("says that its version is `{full_version}`"));
    };
    // A wrapper or a link in PATH still belongs to the toolkit of the real file.
    let real = std::fs::canonicalize(nvcc).unwrap_or_else(|_| nvcc.to_owned());
    let root = real.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned();
    Ok(Toolkit { nvcc: nvcc.to_owned(), root, version: (major, minor), full_version })
}

/// What the pinned toolkit makes must run on the driver of this machine, when it has one.
fn driver_suffices(driver: Option<&Driver>, pins: &Pins) -> Result<(), String> {
    let (Some(driver), Some(least)) = (driver, &pins.cuda.least_driver_cuda) else { return Ok(()) };
    let mut numbers = least.split('.').filter_map(|n| n.parse::<u32>().ok());
    let least_version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if driver.cuda >= least_version {
        return Ok(());
    }
    let (major, minor) = driver.cuda;
    Err(format!(
        "the driver supports CUDA {major}.{minor} but the pinned toolkit makes programs for {least}: update the driver to \
         580 or newer, or set CUDA_HOME to a CUDA {major}.{minor} toolkit"
    ))
}

impl Toolkit {
    /// The folder of libcudart_static.a.
    ///
    /// # Errors
    /// A sentence when the toolkit has none.
    pub fn library_dir(&self) -> Result<PathBuf, String> {
        ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"]
            .iter()
            .map(|d| self.root.join(d))
            .find(|d| d.join("libcudart_static.a").is_file())
            .ok_or_else(|| {
                format!(
                    "the CUDA toolkit at {} has no libcudart_static.a: install its runtime development files or set \
                     CUDA_HOME to another toolkit",
                    self.root.display()
                )
            })
    }

    /// The disassembler, when the toolkit has one.
    pub fn nvdisasm(&self) -> Option<PathBuf> {
        Some(self.root.join("bin/nvdisasm")).filter(|p| p.is_file())
    }
}
