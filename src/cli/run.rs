//! `moebius run` and `moebius verify`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::args::{KernelArgs, L2Arg, LaunchArg, RunArgs, VerifyArgs};
use super::error::{CliError, print};
use super::machine;
use super::progress::Progress;
use super::{cases, kernels};
use crate::analyse::units::duration;
use crate::analyse::{bind, judge_again, mark_impossible, token_shares};
use crate::device::cuda::Cuda;
use crate::record::{Ceilings, Extra, L2, Launch, Results, Row, SCHEMA, Status, write, write_json};
use crate::report::{TableOptions, table};
use crate::shape::Case;
use crate::sweep::{Control, CpuRig, CudaRig, SweepSettings};
use crate::verify::correctness_cases;

/// How often the rows so far are written while a sweep goes on.
const SAVE_EVERY: Duration = Duration::from_secs(20);

/// Memory that operands may take on the processor.
const CPU_MEMORY: u64 = 2 << 30;

/// `moebius run`
///
/// # Errors
/// Bad input, an unwritable output, or no such device.
pub fn run(args: &RunArgs) -> Result<u8, CliError> {
    let wanted = cases::cases(&args.cases)?;
    let kernel_args = wanted.kernel_args(&args.kernels);
    let cases = cases::shard(wanted.cases, args.shard.as_deref())?;
    if let Some(hint) = &wanted.quantisation {
        let scheme = hint.scheme.map_or("which no scheme of moebius is".to_owned(), |s| format!("--scheme {s}"));
        eprintln!("moebius: the config says that experts are {}: {scheme}", hint.format);
    }
    let percent = args.precision.map(|p| positive("--precision", p)).transpose()?;
    let limit = args.time_limit.map(|s| positive("--time-limit", s)).transpose()?;
    let tpot_ms = args.tpot_ms.map(|ms| positive("--tpot-ms", ms)).transpose()?;
    let settings = SweepSettings {
        timing: true,
        l2: if args.l2 == L2Arg::Cold { L2::Cold } else { L2::Warm },
        launch: if args.launch == LaunchArg::Graph { Launch::Graph } else { Launch::Stream },
        precision: percent.map(|p| p / 100.0),
        time_limit: limit.map(Duration::from_secs_f64),
        exhaustive: args.exhaustive,
        seed: args.cases.seed,
        memory_bytes: CPU_MEMORY,
    };
    let results = sweep(&cases, &kernel_args, settings, Some(&args.out), asked(args))?;
    if args.json {
        let mut text = Vec::new();
        write_json(&mut text, &results).map_err(CliError::machine)?;
        print(&String::from_utf8_lossy(&text))?;
    } else {
        print(&table(&results, table_options(args.all)))?;
        for share in tpot_ms.map(|ms| token_shares(&results, ms)).unwrap_or_default() {
            print(&format!(
                "batch {} {}: the MoE GEMMs of {} layers take {}, {:.1} % of a token's time\n",
                share.case.batch,
                share.scheme,
                share.layers,
                duration(share.ns),
                share.share * 100.0
            ))?;
        }
        print(&format!("{}\n", args.out.display()))?;
    }
    Ok(exit_code(&results))
}

/// `moebius verify`
///
/// # Errors
/// As [`run`].
pub fn verify(args: &VerifyArgs) -> Result<u8, CliError> {
    let (cases, kernel_args) = if args.edge_cases {
        (correctness_cases(), args.kernels.clone())
    } else {
        let wanted = cases::cases(&args.cases)?;
        let kernel_args = wanted.kernel_args(&args.kernels);
        (wanted.cases, kernel_args)
    };
    let settings = SweepSettings {
        timing: false,
        l2: L2::Warm,
        launch: Launch::Graph,
        precision: None,
        time_limit: None,
        exhaustive: false,
        seed: args.cases.seed,
        memory_bytes: CPU_MEMORY,
    };
    let mut asked = Extra::default();
    asked.insert("verify".to_owned(), true.into());
    let results = sweep(&cases, &kernel_args, settings, args.out.as_deref(), asked)?;
    if args.json {
        let mut text = Vec::new();
        write_json(&mut text, &results).map_err(CliError::machine)?;
        print(&String::from_utf8_lossy(&text))?;
    } else {
        print(&verdicts(&results))?;
    }
    Ok(exit_code(&results))
}

/// A line for each kernel: cases right, and what was not.
fn verdicts(results: &Results) -> String {
    let mut kernels: indexmap::IndexMap<&str, (usize, f64, Vec<&Row>)> = indexmap::IndexMap::new();
    for row in &results.rows {
        let entry = kernels.entry(row.kernel.id.as_str()).or_default();
        match (&row.status, &row.verify) {
            (Status::Ok, Some(verify)) => {
                entry.0 += 1;
                entry.1 = entry.1.max(verify.max_error_over_bound);
            }
            _ => entry.2.push(row),
        }
    }
    let mut text = String::new();
    for (id, (right, worst, others)) in kernels {
        text += &format!("{id}: {right} cases right, worst error {worst:.2} of its bound\n");
        for row in others {
            let reason = row.reason.as_deref().unwrap_or("no reason given");
            let case = &row.case;
            text +=
                &format!("  {} {} batch {}: {}: {reason}\n", case.model, case.stage, case.batch, row.status.as_str());
        }
    }
    text
}

fn positive(flag: &str, value: f64) -> Result<f64, CliError> {
    if value.is_finite() && value > 0.0 && value <= 1e6 {
        Ok(value)
    } else {
        Err(CliError::input(format!("{flag} {value}: give a number above 0 and at most 1000000")))
    }
}

/// The flags of a run by name, for its file.
fn asked(args: &RunArgs) -> Extra {
    let mut asked = Extra::default();
    asked.insert("seed".to_owned(), args.cases.seed.into());
    asked.insert("exhaustive".to_owned(), args.exhaustive.into());
    for (name, value) in [("precision_percent", args.precision), ("time_limit_s", args.time_limit)] {
        asked.extend(value.and_then(serde_json::Number::from_f64).map(|n| (name.to_owned(), n.into())));
    }
    asked
}

/// Characters of a line: the terminal's, or many in a pipe.
pub(super) fn terminal_width() -> usize {
    use std::io::IsTerminal;
    let terminal = std::io::stdout().is_terminal();
    let width = comfy_table::Table::new().width().filter(|_| terminal).map_or(160, usize::from);
    width.clamp(80, 200)
}

/// How tables are drawn here.
pub(super) fn table_options(all: bool) -> TableOptions {
    use std::io::IsTerminal;
    TableOptions { width: terminal_width(), all, colour: std::io::stdout().is_terminal() }
}

/// 1 when a kernel was wrong or failed.
fn exit_code(results: &Results) -> u8 {
    let bad = |row: &Row| matches!(row.status, Status::Wrong | Status::Failed | Status::Timeout);
    u8::from(results.rows.iter().any(bad))
}

/// On a GPU, operands may take half of what is free.
fn gpu_settings(settings: &SweepSettings, cuda: &Cuda) -> SweepSettings {
    let free = cuda.free_bytes().unwrap_or(CPU_MEMORY);
    SweepSettings { memory_bytes: free / 2, ..settings.clone() }
}

/// A flag that an interrupt sets: the sweep then stops at the next chance and keeps its rows.
fn cancel_on_interrupt() -> Result<Arc<AtomicBool>, CliError> {
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = cancel.clone();
    ctrlc::set_handler(move || {
        // A second interrupt means it.
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })
    .map_err(|e| CliError::machine(format!("interrupts cannot be caught ({e})")))?;
    Ok(cancel)
}

fn sweep(
    cases: &[Case],
    kernel_args: &KernelArgs,
    settings: SweepSettings,
    out: Option<&Path>,
    asked: Extra,
) -> Result<Results, CliError> {
    let (cuda, device) = machine::open(machine::choose(kernel_args.device.as_deref())?)?;
    let kernels = match &cuda {
        Some(cuda) => kernels::on_cuda(kernel_args, cuda)?,
        None => kernels::on_cpu(kernel_args)?,
    };
    // Without times there is nothing to hold against a ceiling.
    let ceilings = if settings.timing { machine::ceilings(cuda.as_ref(), &device)? } else { Ceilings::default() };
    let mut results = Results {
        schema: SCHEMA.to_owned(),
        tool: machine::tool(),
        host: machine::host(),
        device,
        ceilings,
        settings: asked,
        rows: Vec::new(),
        extra: Extra::default(),
    };
    let save = |results: &Results| match out {
        Some(path) => write(path, results).map_err(CliError::machine),
        None => Ok(()),
    };
    let cancel = cancel_on_interrupt()?;
    // Said before an hour of measuring, not after it.
    save(&results)?;
    let progress = std::cell::RefCell::new(Progress::new());
    let mut saved = Instant::now();
    let mut trouble = Ok(());
    let cache_bytes = results.device.cache_bytes;
    let mut take = |mut row: Row| {
        bind(&mut row, &results.ceilings, &results.device);
        mark_impossible(&mut row, &results.ceilings, &results.device);
        results.rows.push(row);
        if trouble.is_ok() && saved.elapsed() > SAVE_EVERY {
            trouble = save(&results);
            saved = Instant::now();
            if trouble.is_err() {
                cancel.store(true, Ordering::Relaxed);
            }
        }
    };
    let mut control = Control { cancel: &cancel, step: &mut |step| progress.borrow_mut().step(step), row: &mut take };
    match cuda.as_ref().and_then(|cuda| CudaRig::new(cuda, gpu_settings(&settings, cuda))) {
        Some(mut rig) => rig.sweep(cases, &kernels, &mut control),
        None => CpuRig::new(settings, cache_bytes).sweep(cases, kernels, &mut control),
    }
    progress.borrow().finish();
    trouble?;
    if results.rows.iter().any(|row| row.status == Status::Impossible) {
        // Whatever else ran then lowered the ceilings: they are measured again before a row is called impossible.
        let again = machine::ceilings(cuda.as_ref(), &results.device)?;
        judge_again(&mut results, &again);
    }
    save(&results)?;
    if cancel.load(Ordering::Relaxed) {
        eprintln!("moebius: stopped early; {} finished rows were kept", results.rows.len());
    }
    Ok(results)
}
