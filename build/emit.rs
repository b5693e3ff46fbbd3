//! What the build hands to the crate: a library of the objects, and units.rs with what is known of each.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::compile::{Compiled, Image};
use super::manifest::Unit;

/// A kernel of kernels.toml that was not built.
pub struct NotBuilt<'a> {
    /// The kernel.
    pub unit: &'a Unit,
    /// Why, and what to do about it.
    pub reason: String,
}

/// The text of units.rs: two tables over the types of src/kernel/cuda_units.rs.
pub fn units_rs(built: &[(&Unit, Compiled)], not_built: &[NotBuilt<'_>]) -> String {
    let mut text = String::from("// Made by build.rs.\n");
    if !built.is_empty() {
        text += "unsafe extern \"C\" {\n";
        for (unit, _) in built {
            let symbol = unit.symbol();
            let _ = writeln!(text, "    static {symbol}: abi::moebius_unit;");
            let _ = writeln!(text, "    static {symbol}_footprint: Footprint;");
        }
        text += "}\n";
    }
    let _ = writeln!(text, "pub(super) static BUILT: [CompiledUnit; {}] = [", built.len());
    for (unit, compiled) in built {
        let symbol = unit.symbol();
        let _ = writeln!(text, "    CompiledUnit {{");
        let _ = writeln!(text, "        plan: {},", planned(unit));
        let _ = writeln!(text, "        compile_seconds: {:?},", compiled.facts.seconds);
        text += "        images: &[\n";
        for image in &compiled.facts.images {
            let _ = writeln!(text, "            {},", image_rs(image));
        }
        text += "        ],\n";
        let retargeted = match &compiled.retargeted {
            None => "None".to_owned(),
            Some(Ok(image)) => format!("Some(Ok({}))", image_rs(image)),
            Some(Err(reason)) => format!("Some(Err({reason:?}))"),
        };
        let _ = writeln!(text, "        retargeted: {retargeted},");
        text += "        // SAFETY: the symbol is defined by the library that was linked with this file, and never written.\n";
        let _ = writeln!(text, "        unit: || unsafe {{ &{symbol} }},");
        text += "        // SAFETY: as above.\n";
        let _ = writeln!(text, "        footprint: || unsafe {{ {symbol}_footprint }},");
        text += "    },\n";
    }
    text += "];\n";
    let _ = writeln!(text, "pub(super) static NOT_BUILT: [NotBuilt; {}] = [", not_built.len());
    for entry in not_built {
        let _ = writeln!(text, "    NotBuilt {{ plan: {}, reason: {:?} }},", planned(entry.unit), entry.reason);
    }
    text + "];\n"
}

/// An image as the table holds it.
fn image_rs(image: &Image) -> String {
    let counts = image
        .matrix_instructions
        .as_ref()
        .map(|counts| counts.iter().map(|(name, count)| format!("({name:?}, {count})")).collect::<Vec<_>>().join(", "));
    format!(
        "Image {{ target: {:?}, sha256: {:?}, bytes: {}, registers: {}, spill_stores: {}, spill_loads: {}, stack: {}, \
         static_shared: {}, matrix_instructions: {}, debug_code: {} }}",
        image.target,
        image.sha256,
        image.bytes,
        image.registers,
        image.spill_stores,
        image.spill_loads,
        image.stack,
        image.static_shared,
        counts.map_or("None".to_owned(), |counts| format!("Some(&[{counts}])")),
        image.debug_code,
    )
}

/// The part of a table line that kernels.toml gives.
fn planned(unit: &Unit) -> String {
    let [m, n, k] = unit.tile;
    let [cluster_m, cluster_n] = unit.cluster;
    format!(
        "UnitPlan {{ id: {:?}, chip: {}, scheme: {:?}, tile: [{m}, {n}, {k}], cluster: [{cluster_m}, {cluster_n}], schedule: \
         {:?}, swap: {}, in_default_set: {}, sass: {:?} }}",
        unit.id,
        unit.chip,
        unit.scheme(),
        unit.schedule.as_deref(),
        unit.swap,
        unit.in_default_set,
        unit.sass.as_deref(),
    )
}

/// Archives the objects into `libmoebius_units.a` of `out_dir`, unless it holds exactly these already.
///
/// # Errors
/// A sentence when `ar` is missing or fails.
pub fn archive(objects: &[PathBuf], out_dir: &Path) -> Result<(), String> {
    let library = out_dir.join("libmoebius_units.a");
    let listing = out_dir.join("moebius_units.txt");
    let list = objects.iter().map(|o| format!("{}\n", o.display())).collect::<String>();
    if library.is_file() && std::fs::read_to_string(&listing).is_ok_and(|old| old == list) {
        return Ok(());
    }
    // Every object is called unit.o: give each a name of its own inside the archive.
    let folder = out_dir.join("moebius_units");
    let broken = |e: std::io::Error| format!("the library of kernels cannot be written to {}: {e}", out_dir.display());
    for old in [&library, &listing] {
        if old.exists() {
            std::fs::remove_file(old).map_err(broken)?;
        }
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(broken)?;
    }
    std::fs::create_dir_all(&folder).map_err(broken)?;
    let mut ar = Command::new("ar");
    ar.arg("crs").arg(&library);
    for (index, object) in objects.iter().enumerate() {
        let named = folder.join(format!("{index}.o"));
        std::fs::copy(object, &named).map_err(broken)?;
        ar.arg(named);
    }
    let output = ar.output().map_err(|e| format!("`ar` could not be started ({e}): install gcc and binutils"))?;
    if !output.status.success() {
        return Err(format!("`ar` failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    std::fs::remove_dir_all(&folder).map_err(broken)?;
    std::fs::write(&listing, list).map_err(broken)
}
