//! One results file of the shards of a sweep.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::error::FileError;
use super::file::{Ceilings, Device, Results, Tool};
use super::key::{CaseKey, CellKey};
use super::row::{Extra, Row};

/// Settings that shards of one sweep may differ in.
const SHARD_SETTINGS: [&str; 3] = ["shard", "out", "device"];

/// How far measured ceilings of like devices may lie apart before one of them was not in the state of the others.
const CEILING_TOLERANCE: f64 = 0.10;

/// Shards put together.
#[derive(Clone, Debug)]
pub struct Merged {
    /// One file of all rows, in the order of their cells.
    pub results: Results,
    /// Remarks, such as shards that are missing.
    pub notes: Vec<String>,
}

/// Merges the shards of one sweep.
///
/// Tool, kind of device and settings must be the same; the devices' own ids, hosts and measured ceilings may differ and
/// are kept for each shard in the field `shards`. The merged ceilings are the highest of any shard.
///
/// # Errors
/// One sentence that names two files and what they disagree in, or a cell that both hold.
pub fn merge(shards: Vec<(PathBuf, Results)>) -> Result<Merged, FileError> {
    let mut shards = shards.into_iter();
    let Some((first_path, mut merged)) = shards.next() else {
        return Err(FileError::new(Path::new("merge"), "needs at least one results file"));
    };
    let mut sources = vec![source(&first_path, &merged)];
    let mut labels = vec![shard_label(&merged.settings)];
    let mut owners: HashMap<CellKey, PathBuf> = HashMap::new();
    claim(&mut owners, &first_path, &merged)?;
    for (path, shard) in shards {
        let conflict = |what: String| {
            FileError::new(
                &path,
                format!("does not belong with {}: {what}; merge shards of one sweep only", first_path.display()),
            )
        };
        same_tool(&merged.tool, &shard.tool).map_err(conflict)?;
        same_device(&merged.device, &shard.device).map_err(conflict)?;
        same_settings(&merged.settings, &shard.settings).map_err(conflict)?;
        merge_ceilings(&mut merged.ceilings, &shard.ceilings).map_err(conflict)?;
        claim(&mut owners, &path, &shard)?;
        sources.push(source(&path, &shard));
        labels.push(shard_label(&shard.settings));
        if merged.device.uuid != shard.device.uuid {
            merged.device.uuid = None;
        }
        merged.host.started_unix = merged.host.started_unix.min(shard.host.started_unix);
        merged.rows.extend(shard.rows);
    }
    let count = sources.len();
    for name in SHARD_SETTINGS {
        if count > 1 {
            merged.settings.shift_remove(name);
        }
    }
    if count > 1 {
        merged.extra.insert("shards".to_string(), sources.into());
    }
    let mut notes = missing_shards(&labels);
    notes.extend(part_rounds(&mut merged.rows, &owners));
    merged.rows.sort_by_cached_key(CellKey::of);
    Ok(Merged { results: merged, notes })
}

/// Rounds of different shards were not taken next to each other: where the kernels of one case come from several
/// shards, their rounds are forgotten, so that nobody pairs them.
fn part_rounds(rows: &mut [Row], owners: &HashMap<CellKey, PathBuf>) -> Option<String> {
    let mut files: HashMap<CaseKey, BTreeSet<&PathBuf>> = HashMap::new();
    for (key, path) in owners {
        files.entry(key.case.clone()).or_default().insert(path);
    }
    let parted: HashSet<CaseKey> =
        files.into_iter().filter(|(_, paths)| paths.len() > 1).map(|(case, _)| case).collect();
    for row in rows.iter_mut().filter(|row| parted.contains(&CaseKey::of(&row.case))) {
        row.time.iter_mut().for_each(|time| time.rounds.clear());
    }
    let count = parted.len();
    (count > 0).then(|| {
        format!("the kernels of {count} cases come from several shards, so they were not sampled side by side; split sweeps by case to have them paired")
    })
}

/// Enters the cells of a file, each of which must be new.
fn claim(owners: &mut HashMap<CellKey, PathBuf>, path: &Path, shard: &Results) -> Result<(), FileError> {
    for row in &shard.rows {
        let key = CellKey::of(row);
        if let Some(owner) = owners.get(&key) {
            let message = format!("holds a cell that {} holds too: {key}; leave one of them out", owner.display());
            return Err(FileError::new(path, message));
        }
        owners.insert(key, path.to_path_buf());
    }
    Ok(())
}

fn differ<T: PartialEq + std::fmt::Debug>(what: &str, a: &T, b: &T) -> Result<(), String> {
    if a == b { Ok(()) } else { Err(format!("{what} {b:?} instead of {a:?}")) }
}

fn same_tool(a: &Tool, b: &Tool) -> Result<(), String> {
    differ("moebius version", &a.version, &b.version)?;
    differ("git revision", &a.git, &b.git)?;
    differ("nvcc", &a.nvcc, &b.nvcc)?;
    differ("CUTLASS", &a.cutlass, &b.cutlass)?;
    differ("archs", &a.archs, &b.archs)
}

fn same_device(a: &Device, b: &Device) -> Result<(), String> {
    differ("device", &a.name, &b.name)?;
    differ("arch", &a.arch, &b.arch)?;
    differ("units", &a.units, &b.units)?;
    differ("device memory", &a.memory_bytes, &b.memory_bytes)?;
    differ("cache", &a.cache_bytes, &b.cache_bytes)?;
    differ("driver", &a.driver, &b.driver)
}

fn same_settings(a: &Extra, b: &Extra) -> Result<(), String> {
    let names = a.keys().chain(b.keys()).filter(|name| !SHARD_SETTINGS.contains(&name.as_str()));
    for name in names {
        let show = |value: Option<&serde_json::Value>| value.map_or("unset".to_string(), ToString::to_string);
        if a.get(name) != b.get(name) {
            return Err(format!("setting `{name}` {} instead of {}", show(b.get(name)), show(a.get(name))));
        }
    }
    Ok(())
}

fn merge_ceilings(into: &mut Ceilings, from: &Ceilings) -> Result<(), String> {
    merge_ceiling("read ceiling", &mut into.read_bytes_per_s, from.read_bytes_per_s)?;
    merge_ceiling("write ceiling", &mut into.write_bytes_per_s, from.write_bytes_per_s)?;
    merge_ceiling("cache ceiling", &mut into.cache_read_bytes_per_s, from.cache_read_bytes_per_s)?;
    for (&scheme, &rate) in &from.flops_per_s {
        let mut merged = into.flops_per_s.get(&scheme).copied();
        merge_ceiling(&format!("{scheme} ceiling"), &mut merged, Some(rate))?;
        into.flops_per_s.extend(merged.map(|rate| (scheme, rate)));
    }
    into.launch_ns = match (into.launch_ns, from.launch_ns) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    Ok(())
}

/// Keeps the higher of two ceilings that agree.
fn merge_ceiling(what: &str, into: &mut Option<f64>, from: Option<f64>) -> Result<(), String> {
    if let (Some(a), Some(b)) = (*into, from)
        && (a - b).abs() > CEILING_TOLERANCE * a.max(b)
    {
        return Err(format!("{what} {b:.3e} and {a:.3e} lie more than 10% apart"));
    }
    *into = match (*into, from) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    };
    Ok(())
}

fn source(path: &Path, shard: &Results) -> serde_json::Value {
    json!({
        "file": path.to_string_lossy(),
        "shard": shard_label(&shard.settings),
        "host": shard.host,
        "device_uuid": shard.device.uuid,
        "ceilings": shard.ceilings,
        "rows": shard.rows.len(),
    })
}

fn shard_label(settings: &Extra) -> Option<String> {
    settings.get("shard").and_then(|v| v.as_str()).map(str::to_string)
}

/// Says which of n shards are not there, where the labels `i/n` tell.
fn missing_shards(labels: &[Option<String>]) -> Vec<String> {
    let parsed: Vec<(u32, u32)> = labels
        .iter()
        .flatten()
        .filter_map(|label| label.split_once('/'))
        .filter_map(|(i, n)| Some((i.trim().parse().ok()?, n.trim().parse().ok()?)))
        .collect();
    let Some(&(_, total)) = parsed.first() else { return Vec::new() };
    let missing: Vec<String> = (1..=total.min(10_000))
        .filter(|i| !parsed.iter().any(|(have, _)| have == i))
        .map(|i| format!("{i}/{total}"))
        .collect();
    if missing.is_empty() { Vec::new() } else { vec![format!("shards not given: {}", missing.join(", "))] }
}
