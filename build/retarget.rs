//! `MOEBIUS_RETARGET=90a`: puts a rewritten image for Hopper beside the native one of each sm_120 kernel.
//!
//! The kernel's PTX, which the cache keeps, is rewritten (src/retarget), assembled, and joined with the native machine code in
//! a new fat binary, which takes the place of the old one in a copy of the object file: nothing is compiled again.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::compile::{Compiled, Compiler, Image};
use super::manifest::Unit;
use super::sass;

/// Changes when what is kept of a retargeted unit changes.
const CACHE_FORMAT: &str = "moebius retargeted unit 1";

/// The one architecture that kernels are rewritten for.
pub const TARGET: &str = "90a";

/// What became of a unit.
#[derive(Debug)]
pub enum Outcome {
    /// Its object file with both images, and the rewritten one.
    Done(PathBuf, Image),
    /// What cannot be emulated.
    NotRetargetable(String),
}

/// Whether a unit has machine code for sm_120 and none that a Hopper GPU runs.
pub fn concerns(compiled: &Compiled) -> bool {
    let chips: Vec<&str> = compiled.facts.images.iter().map(|i| i.target.trim_end_matches(['a', 'f'])).collect();
    chips.iter().any(|c| ["120", "121"].contains(c))
        && !chips.iter().any(|c| ["80", "86", "87", "89", "90"].contains(c))
}

/// Rewrites a unit, or finds it in the cache.
///
/// # Errors
/// One sentence: a tool that is missing, or a text that ptxas refuses although nothing in it was.
pub fn unit(compiler: &Compiler<'_>, unit: &Unit, compiled: &Compiled) -> Result<Outcome, String> {
    let stopped = |what: &str, e: &dyn std::fmt::Display| format!("{}: {what}: {e}", unit.id);
    let folder = compiled.object.parent().unwrap_or_else(|| Path::new("."));
    let native = compiled.facts.images.iter().find(|image| image.target.starts_with("12"));
    let Some(native) = native else { return Err(stopped("retargeting", &"it has no image for sm_120")) };
    let ptx = folder.join(format!("{}.ptx", native.target));
    let text = std::fs::read_to_string(&ptx).map_err(|e| stopped("its PTX cannot be read", &e))?;
    let rewritten = match super::rewriting::retarget(&text, super::rewriting::MARK) {
        Ok(rewritten) => rewritten.ptx,
        Err(refusal) => return Ok(Outcome::NotRetargetable(refusal.to_string())),
    };
    let key = super::sha256(
        format!(
            "{CACHE_FORMAT}\n{}\n{}\n{}\n{rewritten}",
            compiler.toolkit.full_version,
            folder.file_name().unwrap_or_default().to_string_lossy(),
            native.sha256
        )
        .as_bytes(),
    );
    let entry = compiler.cache_dir.join("units").join(&key);
    if let Some(image) = read_image(&entry) {
        return Ok(Outcome::Done(entry.join("unit.o"), image));
    }
    let scratch = compiler.cache_dir.join("units").join(format!("{key}.{}", std::process::id()));
    std::fs::create_dir_all(&scratch).map_err(|e| stopped("the cache cannot be written", &e))?;
    let made = assemble(compiler, unit, compiled, &native.target, &rewritten, &scratch).and_then(|image| {
        let facts = serde_json::to_string_pretty(&image).map_err(|e| stopped("its facts", &e))?;
        std::fs::write(scratch.join("image.json"), facts).map_err(|e| stopped("the cache cannot be written", &e))?;
        match std::fs::rename(&scratch, &entry) {
            Ok(()) => Ok(image),
            // Another build was quicker with the same content.
            Err(e) => read_image(&entry).ok_or_else(|| stopped("the cache cannot be written", &e)),
        }
    });
    if scratch.exists() {
        // Left-overs cost space only.
        let _ = std::fs::remove_dir_all(&scratch);
    }
    Ok(Outcome::Done(entry.join("unit.o"), made?))
}

fn assemble(
    compiler: &Compiler<'_>,
    unit: &Unit,
    compiled: &Compiled,
    native: &str,
    text: &str,
    folder: &Path,
) -> Result<Image, String> {
    let stopped = |what: &str, e: &dyn std::fmt::Display| format!("{}: {what}: {e}", unit.id);
    let (ptx, cubin, fat) = (folder.join("90a.ptx"), folder.join("90a.cubin"), folder.join("both.fatbin"));
    std::fs::write(&ptx, text).map_err(|e| stopped("its rewritten PTX cannot be written", &e))?;
    let tool = |name: &str| compiler.toolkit.nvcc.with_file_name(name);
    let mut ptxas = Command::new(tool("ptxas"));
    ptxas.args(["-arch=sm_90a", "-m64", "-O3", "-v"]).arg(&ptx).arg("-o").arg(&cubin);
    let log = output(&mut ptxas, unit, "its rewritten PTX")?;
    let of = |name: &str, target: &str, file: &Path| format!("--{name}=kind=elf,sm={target},file={}", file.display());
    let original = compiled.object.with_file_name(format!("{native}.cubin"));
    let mut fatbinary = Command::new(tool("fatbinary"));
    fatbinary.args(["-64", "--compress-all"]).arg(format!("--create={}", fat.display()));
    fatbinary.arg(of("image3", native, &original)).arg(of("image3", TARGET, &cubin));
    output(&mut fatbinary, unit, "its images")?;
    let mut objcopy = Command::new("objcopy");
    objcopy.arg("--update-section").arg(format!(".nv_fatbin={}", fat.display()));
    objcopy.arg(&compiled.object).arg(folder.join("unit.o"));
    output(&mut objcopy, unit, "its object file")?;
    let bytes = std::fs::read(&cubin).map_err(|e| stopped("its cubin cannot be read", &e))?;
    let used = sass::usage(&log).get(TARGET).copied().unwrap_or_default();
    let _ = std::fs::remove_file(&fat);
    Ok(Image::new(TARGET, &bytes, used, None))
}

/// What a program printed, both ways; a program that fails is an error with its last lines.
fn output(command: &mut Command, unit: &Unit, what: &str) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{}: {program} could not be started ({e})", unit.id))?;
    let log = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return Ok(log);
    }
    let lines: Vec<&str> = log.lines().collect();
    let last = lines[lines.len().saturating_sub(8)..].join("\n");
    Err(format!("{}: {program} refuses {what}:\n{last}", unit.id))
}

fn read_image(entry: &Path) -> Option<Image> {
    let text = std::fs::read_to_string(entry.join("image.json")).ok()?;
    entry.join("unit.o").is_file().then(|| serde_json::from_str(&text).ok())?
}
