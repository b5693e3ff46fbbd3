//! The CUDA part of the build: kernels.toml and csrc/ in, a library of kernels and a table of them out.
//!
//! `settings` reads the environment; `archs` and `driver` say what to build for; `toolkit`, `headers`, `pins` and `fetch` find
//! or fetch what that takes; `manifest` lists the kernels; `jobs` runs `compile`, which checks by `sass` what came out, and
//! `retarget` where images for Hopper are wanted beside; `emit` hands it to the crate. With no architecture wanted, nothing of CUDA is looked for.

pub mod archs;
pub mod compile;
pub mod driver;
pub mod emit;
pub mod fetch;
pub mod headers;
pub mod jobs;
pub mod manifest;
pub mod pins;
pub mod retarget;
pub mod sass;
pub mod settings;
pub mod toolkit;

/// The rewriting itself, which the library has too.
#[allow(dead_code, reason = "the build needs a part of what the library shows")]
#[path = "../src/retarget/mod.rs"]
pub mod rewriting;

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use archs::{Arch, Target};
use emit::NotBuilt;
use headers::Need;
use manifest::Unit;
use settings::{KernelSet, Settings};

/// What the crate is told through its environment and the linker.
#[derive(Debug, Default)]
pub struct Outcome {
    /// `90a,120f`: what the images are compiled for.
    pub targets: String,
    /// Version of nvcc, empty when none was used.
    pub nvcc: String,
    /// Version of CUTLASS, empty when none was used.
    pub cutlass: String,
    /// Version of FlashInfer, empty when none was used.
    pub flashinfer: String,
    /// Folder of the static CUDA runtime, when kernels were built.
    pub cudart_dir: Option<std::path::PathBuf>,
    /// Sentences for the user that stop nothing.
    pub notes: Vec<String>,
}

/// Builds what is wanted into `out_dir`.
///
/// # Errors
/// One sentence that says what is wrong and what to set; for a kernel that does not compile, its id and the compiler's lines.
pub fn run(root: &Path, out_dir: &Path, settings: &Settings) -> Result<Outcome, String> {
    let units = manifest::parse(&read(&root.join("kernels.toml"))?)?;
    let driver = driver::probe();
    let (archs, why_none) = match &settings.archs {
        Some(list) => (
            archs::parse(list)?,
            "built with MOEBIUS_ARCHS=none: name GPU architectures there, such as 90a,120a, and build again",
        ),
        None => {
            let capabilities = driver.iter().flat_map(|d| &d.capabilities);
            let mut archs: Vec<Arch> =
                capabilities.filter_map(|&(major, minor)| Arch::of_capability(major, minor)).collect();
            archs.sort_unstable();
            archs.dedup();
            (
                archs,
                "the machine that built this has no GPU that it knows: set MOEBIUS_ARCHS, such as 90a,120a, and build again",
            )
        }
    };
    if archs.is_empty() {
        let not_built: Vec<_> = units.iter().map(|unit| NotBuilt { unit, reason: why_none.to_owned() }).collect();
        write_if_changed(&out_dir.join("units.rs"), &emit::units_rs(&[], &not_built))?;
        return Ok(Outcome::default());
    }
    // Kernels for other machines do not have to run on the driver of this one.
    let driver = driver.filter(|driver| {
        let here = driver.capabilities.iter().filter_map(|&(major, minor)| Arch::of_capability(major, minor));
        here.into_iter().any(|arch| archs.contains(&arch))
    });
    build_for(root, out_dir, settings, &units, &archs, driver.as_ref())
}

fn build_for(
    root: &Path,
    out_dir: &Path,
    settings: &Settings,
    units: &[Unit],
    archs: &[Arch],
    driver: Option<&driver::Driver>,
) -> Result<Outcome, String> {
    let pins = pins::parse(&read(&root.join("third_party/pins.toml"))?)?;
    let (toolkit, note) = toolkit::find(settings, archs, driver, &pins)?;
    let targets_of = |unit: &Unit| {
        let fitting = archs.iter().filter(|arch| unit.chip == 80 || unit.chip == arch.chip());
        let mut targets: Vec<Target> = fitting.map(|arch| arch.target(toolkit.version)).collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    };
    let named = archs.iter().map(Arch::to_string).collect::<Vec<_>>().join(",");
    let mut not_built = Vec::new();
    let mut wanted: Vec<(&Unit, Vec<Target>)> = Vec::new();
    for unit in units {
        let targets = targets_of(unit);
        if targets.is_empty() {
            let reason = format!("built for {named} alone: add {}a to MOEBIUS_ARCHS and build again", unit.chip);
            not_built.push(NotBuilt { unit, reason });
        } else if settings.kernels == KernelSet::Default && !unit.in_default_set {
            not_built
                .push(NotBuilt { unit, reason: "not in the default set: build with MOEBIUS_KERNELS=full".to_owned() });
        } else {
            wanted.push((unit, targets));
        }
    }
    let mut needs: Vec<Need> = wanted.iter().flat_map(|(unit, _)| unit.needs.iter().copied()).collect();
    needs.sort_unstable();
    needs.dedup();
    let headers = headers::find(settings, &needs, &pins)?;
    wanted.retain(|(unit, _)| match too_old(unit, headers.cutlass.as_deref()) {
        None => true,
        Some(reason) => {
            not_built.push(NotBuilt { unit, reason });
            false
        }
    });

    let csrc = root.join("csrc");
    let compiler = compile::Compiler {
        toolkit: &toolkit,
        headers: &headers,
        csrc: &csrc,
        cache_dir: &settings.cache_dir,
        host_compiler: host_compiler(),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let limit = jobs::limit(settings.jobs, cores, jobs::free_memory());
    let support = manifest::support();
    wanted.extend(support.iter().map(|unit| (unit, targets_of(unit))));
    let count = wanted.len();
    let mut compiled = jobs::run(&wanted, limit, |index, (unit, targets)| {
        progress(&format!("kernel {}/{count} {}", index + 1, unit.id));
        compiler.compile(unit, targets)
    })?;
    let fresh = compiled.iter().filter(|compiled| compiled.fresh).count();
    progress(&format!("{count} kernels, {fresh} compiled now\n"));
    let retargeted = match settings.retarget {
        false => Vec::new(),
        true => {
            let pairs: Vec<_> = wanted.iter().map(|(unit, _)| *unit).zip(&compiled).collect();
            jobs::run(&pairs, limit, |_, (unit, compiled)| match retarget::concerns(compiled) {
                false => Ok(None),
                true => {
                    progress(&format!("retargeting {}", unit.id));
                    retarget::unit(&compiler, unit, compiled).map(Some)
                }
            })?
        }
    };
    for (compiled, outcome) in compiled.iter_mut().zip(retargeted) {
        compiled.retargeted = match outcome {
            None => None,
            Some(retarget::Outcome::NotRetargetable(reason)) => Some(Err(reason)),
            Some(retarget::Outcome::Done(object, image)) => {
                compiled.object = object;
                Some(Ok(image))
            }
        };
    }
    let objects: Vec<_> = compiled.iter().map(|compiled| compiled.object.clone()).collect();
    emit::archive(&objects, out_dir)?;
    compiled.truncate(count - support.len());
    let built: Vec<(&Unit, compile::Compiled)> = wanted.iter().map(|(unit, _)| *unit).zip(compiled).collect();
    write_if_changed(&out_dir.join("units.rs"), &emit::units_rs(&built, &not_built))?;
    let mut targets: Vec<_> = built.iter().flat_map(|(_, c)| c.facts.images.iter().map(|i| i.target.clone())).collect();
    targets.sort_unstable();
    targets.dedup();
    Ok(Outcome {
        targets: targets.join(","),
        nvcc: toolkit.full_version.clone(),
        cutlass: headers.cutlass.clone().unwrap_or_default(),
        flashinfer: headers.flashinfer.clone().unwrap_or_default(),
        cudart_dir: if built.is_empty() { None } else { Some(toolkit.library_dir()?) },
        notes: note.into_iter().collect(),
    })
}

/// Why a unit cannot be built with the CUTLASS that was found.
fn too_old(unit: &Unit, found: Option<&str>) -> Option<String> {
    let least = unit.cutlass.as_deref()?;
    let enough = found
        .and_then(headers::two_numbers)
        .zip(headers::two_numbers(least))
        .is_some_and(|(found, least)| found >= least);
    (!enough).then(|| {
        format!(
            "needs CUTLASS {least}, the build used {}: set CUTLASS_DIR to a newer checkout and build again",
            found.unwrap_or("none")
        )
    })
}

/// The compiler that nvcc hands the host code to, with its version.
fn host_compiler() -> String {
    let program = std::env::var("NVCC_CCBIN").unwrap_or_else(|_| "g++".to_owned());
    let version = Command::new(&program).arg("-dumpfullversion").output();
    let version = version.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default();
    format!("{program} {version}")
}

/// Shows what the build is at: on the terminal itself, because Cargo keeps back what a build script prints.
pub fn progress(line: &str) {
    match std::fs::OpenOptions::new().write(true).open("/dev/tty") {
        Ok(mut terminal) => {
            let _ = write!(terminal, "\r\x1b[2K  moebius: {line}");
            let _ = terminal.flush();
        }
        Err(_) => eprintln!("moebius: {}", line.trim_end()),
    }
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A message of several lines as one.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{} cannot be read: {e}", path.display()))
}

/// Leaves a file that is right already alone, so that Cargo rebuilds nothing for it.
fn write_if_changed(path: &Path, text: &str) -> Result<(), String> {
    if std::fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    std::fs::write(path, text).map_err(|e| format!("{} cannot be written: {e}", path.display()))
}
