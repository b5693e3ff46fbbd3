//! Compiles one unit into the cache, or finds it there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::archs::Target;
use super::headers::{Headers, Need};
use super::manifest::Unit;
use super::sass;
use super::toolkit::Toolkit;

/// Changes when what is kept of a compiled unit changes.
const CACHE_FORMAT: &str = "moebius unit 1";

/// Flags of every unit. Device code is optimised whatever the Cargo profile; line tables, but never debug code.
const FLAGS: [&str; 12] = [
    "-O3",
    "-std=c++17",
    "--expt-relaxed-constexpr",
    "-lineinfo",
    "-DNDEBUG",
    "-DCUTLASS_ENABLE_GDC_FOR_SM90=1",
    "-DCUTLASS_ENABLE_GDC_FOR_SM100=1",
    "-Xcompiler=-fPIC",
    // Annotations on defaulted functions and unused template parameters in the fetched headers.
    "-diag-suppress=20012,2908,177",
    "--resource-usage",
    "-cudart=static",
    "-c",
];

/// More flags of units that include CUTLASS. Its host code calls the driver's `cuTensorMapEncodeTiled`; renamed, the call goes
/// through csrc/support/tensor_map.cu.
const CUTLASS_FLAGS: [&str; 2] =
    ["-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1", "-DcuTensorMapEncodeTiled=moebius_tensor_map_encode_tiled"];

/// Everything that is the same for all units.
pub struct Compiler<'a> {
    /// The toolkit.
    pub toolkit: &'a Toolkit,
    /// The header sets.
    pub headers: &'a Headers,
    /// Our own headers.
    pub csrc: &'a Path,
    /// The cache.
    pub cache_dir: &'a Path,
    /// `NVCC_CCBIN` and its version.
    pub host_compiler: String,
}

/// A compiled unit in the cache.
#[derive(Debug)]
pub struct Compiled {
    /// The object file.
    pub object: PathBuf,
    /// What is known of it.
    pub facts: Facts,
    /// The image for Hopper that was rewritten from it, or why there is none; absent where none was asked for.
    pub retargeted: Option<Result<Image, String>>,
    /// Whether a compiler ran for it now.
    pub fresh: bool,
}

/// What is kept beside an object file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Facts {
    /// Seconds that the compiler took.
    pub seconds: f64,
    /// The machine code, one image a target.
    pub images: Vec<Image>,
}

/// Machine code for one target.
#[derive(Debug, Serialize, Deserialize)]
pub struct Image {
    /// `90a`.
    pub target: String,
    /// SHA-256 of the cubin.
    pub sha256: String,
    /// Bytes of the cubin.
    pub bytes: u64,
    /// Registers per thread, the largest of its kernels, as are the next four.
    pub registers: u32,
    /// Bytes of spill stores per thread.
    pub spill_stores: u32,
    /// Bytes of spill loads per thread.
    pub spill_loads: u32,
    /// Bytes of stack per thread.
    pub stack: u32,
    /// Bytes of static shared memory per block.
    pub static_shared: u32,
    /// Matrix instructions in the machine code; none when the toolkit has no nvdisasm.
    pub matrix_instructions: Option<BTreeMap<String, u32>>,
    /// Full debug information is in it, so it was not optimised.
    pub debug_code: bool,
}

impl Image {
    /// What is known of a cubin: from its bytes, and from what ptxas said of its heaviest kernel.
    pub fn new(
        target: &str,
        cubin: &[u8],
        used: sass::Usage,
        matrix_instructions: Option<BTreeMap<String, u32>>,
    ) -> Self {
        Image {
            target: target.to_owned(),
            sha256: super::sha256(cubin),
            bytes: cubin.len() as u64,
            registers: used.registers,
            spill_stores: used.spill_stores,
            spill_loads: used.spill_loads,
            stack: used.stack,
            static_shared: used.static_shared,
            matrix_instructions,
            debug_code: sass::has_debug_code(cubin),
        }
    }
}

impl Compiler<'_> {
    /// The version word of a unit's source.
    pub fn source_version(&self, unit: &Unit) -> String {
        match (&self.headers.cutlass, &self.headers.flashinfer) {
            (_, Some(version)) if unit.needs.contains(&Need::Flashinfer) => format!("FlashInfer {version}"),
            (Some(version), _) if unit.needs.contains(&Need::Cutlass) => format!("CUTLASS {version}"),
            _ => format!("moebius {}", env!("CARGO_PKG_VERSION")),
        }
    }

    /// Hash of everything that the object depends on: source, our headers, fetched headers, flags, compilers.
    pub fn key(&self, unit: &Unit, targets: &[Target]) -> Result<String, String> {
        let mut text = format!("{CACHE_FORMAT}\n{}\n{}\n", self.toolkit.full_version, self.host_compiler);
        text += &format!("{FLAGS:?} {:?} {targets:?}\n", more_flags(unit));
        text += &self.headers.identity(&unit.needs);
        text += &unit.source(&self.source_version(unit));
        for (name, content) in self.own_headers(&unit.template)? {
            text += &format!("== {name}\n{content}");
        }
        Ok(super::sha256(text.as_bytes()))
    }

    /// The template and every header below csrc/ that it includes, by name.
    fn own_headers(&self, template: &str) -> Result<BTreeMap<String, String>, String> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![template.to_owned()];
        while let Some(name) = waiting.pop() {
            if found.contains_key(&name) {
                continue;
            }
            let path = self.csrc.join(&name);
            let content =
                std::fs::read_to_string(&path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
            let included = content.lines().filter_map(|line| {
                line.trim().strip_prefix("#include")?.trim().strip_prefix('"')?.split('"').next().map(str::to_owned)
            });
            // Others come from the fetched sets, whose identity is part of the key.
            waiting.extend(included.filter(|name| self.csrc.join(name).is_file()));
            found.insert(name, content);
        }
        Ok(found)
    }

    /// The unit from the cache, or compiled now.
    ///
    /// # Errors
    /// A text that begins with the kernel's id: the first lines of the compiler's errors, or what the machine code lacks.
    pub fn compile(&self, unit: &Unit, targets: &[Target]) -> Result<Compiled, String> {
        let key = self.key(unit, targets)?;
        let units = self.cache_dir.join("units");
        let entry = units.join(&key);
        if let Some(facts) = read_facts(&entry) {
            check(unit, &facts)?;
            return Ok(Compiled { object: entry.join("unit.o"), facts, retargeted: None, fresh: false });
        }
        let scratch = units.join(format!("partial-{}-{}", &key[..16], std::process::id()));
        let broken = |e: std::io::Error| {
            let hint = match e.kind() {
                std::io::ErrorKind::StorageFull => "free some space, or set MOEBIUS_CACHE_DIR to a larger disk",
                _ => "set MOEBIUS_CACHE_DIR to a folder that can be written",
            };
            format!("{}: the kernel cache {} failed ({e}): {hint}", unit.id, units.display())
        };
        std::fs::create_dir_all(&scratch).map_err(broken)?;
        let made = self.compile_into(unit, targets, &scratch);
        let finished = made.and_then(|facts| {
            check(unit, &facts)?;
            let text = serde_json::to_string_pretty(&facts).map_err(|e| format!("{}: {e}", unit.id))?;
            std::fs::write(scratch.join("facts.json"), text).map_err(broken)?;
            match std::fs::rename(&scratch, &entry) {
                Ok(()) => Ok(facts),
                // Another build was quicker with the same content.
                Err(_) if read_facts(&entry).is_some() => Ok(facts),
                Err(e) => Err(broken(e)),
            }
        });
        if finished.is_err() {
            // Left-overs cost space only.
            let _ = std::fs::remove_dir_all(&scratch);
        }
        Ok(Compiled { object: entry.join("unit.o"), facts: finished?, retargeted: None, fresh: true })
    }

    fn compile_into(&self, unit: &Unit, targets: &[Target], folder: &Path) -> Result<Facts, String> {
        let source = folder.join(format!("{}.cu", unit.symbol()));
        let stopped = |what: &str, e: &dyn std::fmt::Display| format!("{}: {what}: {e}", unit.id);
        std::fs::write(&source, unit.source(&self.source_version(unit)))
            .map_err(|e| stopped("its source cannot be written", &e))?;
        let mut nvcc = Command::new(&self.toolkit.nvcc);
        nvcc.args(FLAGS).args(more_flags(unit)).arg("-I").arg(self.csrc);
        for include in &self.headers.folders {
            nvcc.arg("-I").arg(include);
        }
        for target in targets {
            nvcc.args(["-gencode", &target.gencode()]);
        }
        nvcc.arg("--keep").arg("--keep-dir").arg(folder).arg(&source).arg("-o").arg(folder.join("unit.o"));
        // What the user adds for other projects would change the object behind the key's back.
        nvcc.env_remove("NVCC_PREPEND_FLAGS").env_remove("NVCC_APPEND_FLAGS").env("TMPDIR", folder);
        let began = std::time::Instant::now();
        let output = nvcc.output().map_err(|e| stopped("nvcc could not be started", &e))?;
        let seconds = began.elapsed().as_secs_f64();
        let log = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            return Err(format!("kernel {} does not compile:\n{}", unit.id, first_errors(&log)));
        }
        let usage = sass::usage(&log);
        let mut images = Vec::new();
        for target in targets {
            let cubin = kept(folder, &unit.symbol(), target, "cubin")
                .ok_or_else(|| stopped("nvcc kept no cubin", &target.as_str()))?;
            let bytes = std::fs::read(&cubin).map_err(|e| stopped("its cubin cannot be read", &e))?;
            let used = usage.get(target.as_str()).copied().unwrap_or_default();
            let matrix_instructions = match self.toolkit.nvdisasm() {
                Some(nvdisasm) => {
                    Some(sass::matrix_instructions(&nvdisasm, &cubin).map_err(|e| stopped("its machine code", &e))?)
                }
                None => None,
            };
            images.push(Image::new(target.as_str(), &bytes, used, matrix_instructions));
            keep(folder, &cubin, &format!("{}.cubin", target.as_str()));
            if let Some(ptx) = kept(folder, &unit.symbol(), target, "ptx") {
                keep(folder, &ptx, &format!("{}.ptx", target.as_str()));
            }
        }
        remove_intermediates(folder, targets);
        Ok(Facts { seconds, images })
    }
}

fn more_flags(unit: &Unit) -> &'static [&'static str] {
    if unit.needs.contains(&Need::Cutlass) { &CUTLASS_FLAGS } else { &[] }
}

/// The intermediate file of `nvcc --keep` for a target, which is in its name only when there are several.
fn kept(folder: &Path, symbol: &str, target: &Target, kind: &str) -> Option<PathBuf> {
    let target = target.as_str();
    [format!("{symbol}.{kind}"), format!("{symbol}.compute_{target}.{kind}"), format!("{symbol}.sm_{target}.{kind}")]
        .into_iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
}

/// Keeps an intermediate file under a plain name; the unit is whole without it.
fn keep(folder: &Path, from: &Path, name: &str) {
    let _ = std::fs::rename(from, folder.join(name));
}

/// Removes what `nvcc --keep` left beside what is wanted.
fn remove_intermediates(folder: &Path, targets: &[Target]) {
    let wanted = |name: &str| {
        name == "unit.o"
            || targets.iter().any(|t| name.strip_prefix(t.as_str()).is_some_and(|r| [".cubin", ".ptx"].contains(&r)))
    };
    for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        if !wanted(&entry.file_name().to_string_lossy()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn read_facts(entry: &Path) -> Option<Facts> {
    let text = std::fs::read_to_string(entry.join("facts.json")).ok()?;
    serde_json::from_str(&text).ok()
}

/// A build that succeeds proves little: a kernel compiled for the wrong suffix collapses to an abort.
fn check(unit: &Unit, facts: &Facts) -> Result<(), String> {
    for image in &facts.images {
        if image.debug_code {
            return Err(format!("{}: its image for sm_{} was compiled with debug code", unit.id, image.target));
        }
        let (Some(wanted), Some(found)) = (&unit.sass, &image.matrix_instructions) else { continue };
        if !found.contains_key(wanted) {
            return Err(format!(
                "{}: its machine code for sm_{} holds no {wanted} (it holds {found:?}), so it is not the kernel it claims to be",
                unit.id, image.target
            ));
        }
    }
    Ok(())
}

/// The lines of a compiler's output that say what is wrong, ten at most.
fn first_errors(log: &str) -> String {
    let telling = |line: &&str| line.contains("error") || line.contains("fatal") || line.contains("Killed");
    let errors: Vec<&str> = log.lines().filter(telling).take(10).collect();
    if !errors.is_empty() {
        return errors.join("\n");
    }
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
