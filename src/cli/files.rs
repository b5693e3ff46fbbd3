//! The verbs that read results files: no device is touched.

use std::path::Path;

use super::args::{ChooseArgs, CompareArgs, GateArgs, ImportArgs, MergeArgs, ReportArgs};
use super::confirm::confirm;
use super::error::{CliError, print, print_json};
use super::run::{table_options, terminal_width};
use crate::analyse::{
    CompareOptions, Comparison, GateOptions, KnownModel, choose as choose_kernels, compare as compare_files,
    gate as judge_gate, import_csv, sweeps, tuned_configs,
};
use crate::record::{self, Results, write, write_bytes, write_text};
use crate::report::{
    choices_markdown, choices_text, comparison_text, csv, gate_markdown, gate_text, html, markdown, plots, table,
};
use crate::shape::Model;

/// Largest table that is imported.
const MAX_TABLE_BYTES: u64 = 256 << 20;

fn read(path: &Path) -> Result<Results, CliError> {
    record::read(path).map_err(CliError::input)
}

fn compared(baseline: &Path, candidate: &Path, force: bool) -> Result<Comparison, CliError> {
    let options = CompareOptions { allow_differences: force, between_runs: None };
    compare_files(&read(baseline)?, &read(candidate)?, &options)
        .map_err(|reason| CliError::input(format!("{reason}; --force compares all the same")))
}

/// `moebius compare`
///
/// # Errors
/// An unreadable file, or files that may not be compared.
pub fn compare(args: &CompareArgs) -> Result<u8, CliError> {
    let comparison = compared(&args.baseline, &args.candidate, args.force)?;
    if args.json {
        print_json(&comparison)?;
    } else {
        print(&comparison_text(&comparison, terminal_width(), false))?;
    }
    Ok(0)
}

/// `moebius gate`: 1 on confirmed regressions.
///
/// # Errors
/// As [`compare`].
pub fn gate(args: &GateArgs) -> Result<u8, CliError> {
    if !(args.threshold.is_finite() && (0.0..1000.0).contains(&args.threshold)) {
        return Err(CliError::input(format!("--threshold {}: give a percentage from 0 to 1000", args.threshold)));
    }
    let options = GateOptions { threshold: args.threshold / 100.0, ..GateOptions::default() };
    let mut comparison = compared(&args.baseline, &args.candidate, args.force)?;
    let mut gate = judge_gate(&comparison, options);
    if let Some([baseline, candidate]) = args.confirm.as_deref() {
        confirm(&mut comparison, &gate, &read(&args.candidate)?, [baseline, candidate], args.device.as_deref())?;
        gate = judge_gate(&comparison, options);
    }
    if let Some(path) = &args.markdown {
        write_text(path, &gate_markdown(&gate)).map_err(CliError::machine)?;
    }
    if args.json {
        print_json(&gate)?;
    } else {
        print(&gate_text(&gate, terminal_width()))?;
    }
    Ok(u8::from(!gate.passed()))
}

/// `moebius choose`
///
/// # Errors
/// An unreadable file, or an unknown form.
pub fn choose(args: &ChooseArgs) -> Result<u8, CliError> {
    let results = read(&args.results)?;
    let choices = choose_kernels(&results);
    match args.export.as_deref() {
        None => print(&choices_text(&choices, terminal_width()))?,
        Some("json") => print_json(&choices)?,
        Some("markdown") => print(&choices_markdown(&choices))?,
        Some("tuned-config") => {
            let mut configs = serde_json::Map::new();
            let mut refused = None;
            for sweep in sweeps(&results) {
                match tuned_configs(&sweep, &results.device.name) {
                    Ok(made) => configs.extend(made.into_iter().map(|c| (c.file_name, serde_json::json!(c.configs)))),
                    Err(reason) => refused = Some(reason),
                }
            }
            match (configs.is_empty(), refused) {
                (true, Some(reason)) => return Err(CliError::input(reason)),
                _ => print_json(&configs)?,
            }
        }
        Some(other) => {
            return Err(CliError::input(format!("--export {other}: give json, markdown or tuned-config")));
        }
    }
    Ok(0)
}

/// `moebius report`
///
/// # Errors
/// An unreadable file, an unknown ending, or an unwritable output.
pub fn report(args: &ReportArgs) -> Result<u8, CliError> {
    let results = read(&args.results)?;
    if let Some(folder) = &args.plots {
        write_plots(&results, folder)?;
    }
    let Some(out) = &args.out else {
        if args.plots.is_none() {
            print(&table(&results, table_options(true)))?;
        }
        return Ok(0);
    };
    let text = match out.extension().and_then(|e| e.to_str()) {
        Some("html") => html(&results),
        Some("md") => markdown(&results, true),
        Some("csv") => csv(&results).map_err(CliError::machine)?,
        _ => return Err(CliError::input(format!("{}: give a name that ends in .html, .md or .csv", out.display()))),
    };
    write_text(out, &text).map_err(CliError::machine)?;
    Ok(0)
}

fn write_plots(results: &Results, folder: &Path) -> Result<(), CliError> {
    std::fs::create_dir_all(folder)
        .map_err(|e| CliError::machine(format!("{} cannot be made ({e}); give another folder", folder.display())))?;
    for plot in plots(results) {
        write_text(&folder.join(format!("{}.svg", plot.name)), &plot.svg()).map_err(CliError::machine)?;
        let png = plot.png().map_err(CliError::machine)?;
        write_bytes(&folder.join(format!("{}.png", plot.name)), &png).map_err(CliError::machine)?;
    }
    Ok(())
}

/// `moebius merge`
///
/// # Errors
/// An unreadable file, shards that disagree, or an unwritable output.
pub fn merge(args: &MergeArgs) -> Result<u8, CliError> {
    let shards =
        args.shards.iter().map(|path| Ok((path.clone(), read(path)?))).collect::<Result<Vec<_>, CliError>>()?;
    let merged = record::merge(shards).map_err(CliError::input)?;
    for note in &merged.notes {
        eprintln!("moebius: {note}");
    }
    write(&args.out, &merged.results).map_err(CliError::machine)?;
    Ok(0)
}

/// `moebius import`
///
/// # Errors
/// An unreadable or unknown table, or an unwritable output.
pub fn import(args: &ImportArgs) -> Result<u8, CliError> {
    use std::io::Read;
    let shown = args.table.display();
    let unreadable = |e: std::io::Error| CliError::input(format!("{shown} cannot be read ({e}); give a CSV table"));
    let mut text = Vec::new();
    let file = std::fs::File::open(&args.table).map_err(unreadable)?;
    file.take(MAX_TABLE_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_TABLE_BYTES {
        return Err(CliError::input(format!("{shown} is larger than {} MiB; split it", MAX_TABLE_BYTES >> 20)));
    }
    let models: Vec<KnownModel> = Model::presets().iter().map(known).collect();
    let imported = import_csv(&text, &shown.to_string(), &models)
        .map_err(|reason| CliError::input(format!("{shown}: {reason}")))?;
    for note in &imported.notes {
        eprintln!("moebius: {note}");
    }
    write(&args.out, &imported.results).map_err(CliError::machine)?;
    Ok(0)
}

fn known(model: &Model) -> KnownModel {
    KnownModel {
        name: model.name.clone(),
        hidden: model.hidden,
        inter: model.intermediate,
        experts: model.experts,
        top_k: model.top_k,
        moe_layers: model.moe_layers,
    }
}
