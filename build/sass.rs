//! What the compilers say about a built image: registers and spills from ptxas, instructions from nvdisasm, sections from
//! the image itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What ptxas says about the heaviest kernel of each target, from the output of `nvcc --resource-usage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of spill stores per thread.
    pub spill_stores: u32,
    /// Bytes of spill loads per thread.
    pub spill_loads: u32,
    /// Bytes of stack per thread.
    pub stack: u32,
    /// Bytes of static shared memory per block.
    pub static_shared: u32,
}

/// Usage by target (`90a`), each number the largest over the kernels of the unit.
pub fn usage(log: &str) -> BTreeMap<String, Usage> {
    let mut all: BTreeMap<String, Usage> = BTreeMap::new();
    let mut target = String::new();
    for line in log.lines() {
        if let Some(rest) = line.split("Compiling entry function").nth(1) {
            target = rest.rsplit("'sm_").next().unwrap_or_default().trim_end_matches('\'').to_owned();
        }
        if target.is_empty() {
            continue;
        }
        let found = all.entry(target.clone()).or_default();
        found.stack = found.stack.max(number_before(line, " bytes stack frame"));
        found.spill_stores = found.spill_stores.max(number_before(line, " bytes spill stores"));
        found.spill_loads = found.spill_loads.max(number_before(line, " bytes spill loads"));
        found.static_shared = found.static_shared.max(number_before(line, " bytes smem"));
        found.registers = found.registers.max(number_before(line, " registers"));
    }
    all
}

/// The number that stands before `words` in `line`, or 0.
fn number_before(line: &str, words: &str) -> u32 {
    let Some(end) = line.find(words) else { return 0 };
    let digits = line[..end].rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

/// How often each matrix instruction stands in the machine code of a cubin.
///
/// # Errors
/// A sentence when nvdisasm does not read the file.
pub fn matrix_instructions(nvdisasm: &Path, cubin: &Path) -> Result<BTreeMap<String, u32>, String> {
    let output = Command::new(nvdisasm)
        .arg(cubin)
        .output()
        .map_err(|e| format!("{} could not be started: {e}", nvdisasm.display()))?;
    if !output.status.success() {
        return Err(format!(
            "{} cannot read {}: {}",
            nvdisasm.display(),
            cubin.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    Ok(count_matrix_instructions(&String::from_utf8_lossy(&output.stdout)))
}

/// Counts the words that end in MMA, without their modifiers: HMMA, HGMMA, QMMA, OMMA, UTCOMMA ...
pub fn count_matrix_instructions(sass: &str) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for word in sass.lines().filter(|l| l.contains("MMA")).flat_map(str::split_whitespace) {
        // Every matrix instruction has modifiers.
        let Some((mnemonic, _)) = word.split_once('.') else { continue };
        if mnemonic.ends_with("MMA") && mnemonic.bytes().all(|b| b.is_ascii_uppercase()) {
            *counts.entry(mnemonic.to_owned()).or_insert(0) += 1;
        }
    }
    counts
}

/// Whether a cubin was compiled with `-G`: only then it has full debug information (line tables alone do not count).
pub fn has_debug_code(cubin: &[u8]) -> bool {
    let name = b"\0.debug_info\0";
    cubin.windows(name.len()).any(|w| w == name)
}
