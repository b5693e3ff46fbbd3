//! `moebius gate --confirm`: cells that look slower, measured again with both builds in turn.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

use super::error::CliError;
use crate::analyse::{Comparison, Gate, VerdictRecord};
use crate::measure::{Series, judge_paired};
use crate::record::{CellKey, ConditionsKey, Results, Status, read, write};

/// Runs of each build. Their medians are what is compared, so that what differs from run to run counts as noise.
const RUNS: u32 = 8;

/// Medians of each cell, one a run, in nanoseconds.
type Medians = HashMap<CellKey, Vec<f64>>;

/// Measures the suspects and the regressions of `gate` again and puts what came out into `comparison`.
///
/// # Errors
/// A program cannot be started, fails, or writes no results.
pub fn confirm(
    comparison: &mut Comparison,
    gate: &Gate,
    candidate: &Results,
    programs: [&Path; 2],
    device: Option<&str>,
) -> Result<(), CliError> {
    let doubtful: Vec<&CellKey> = gate.suspects.iter().chain(&gate.regressions).map(|cell| &cell.cell).collect();
    let mut conditions: Vec<ConditionsKey> = doubtful.iter().map(|cell| cell.conditions).collect();
    conditions.sort_unstable();
    conditions.dedup();
    let folder =
        tempfile::tempdir().map_err(|e| CliError::machine(format!("no temporary folder can be made ({e})")))?;
    let cells = folder.path().join("cells.json");
    for conditions in conditions {
        let mut again = Results { rows: Vec::new(), ..candidate.clone() };
        again.rows.extend(
            candidate
                .rows
                .iter()
                .filter(|row| CellKey::of(row).conditions == conditions && doubtful.contains(&&CellKey::of(row)))
                .cloned(),
        );
        write(&cells, &again).map_err(CliError::machine)?;
        let mut medians: [Medians; 2] = Default::default();
        for run in 0..RUNS {
            // A B B A A B ...: what drifts does so for both.
            for build in if run % 2 == 0 { [0, 1] } else { [1, 0] } {
                eprintln!("moebius: measuring {} cells again, run {} of {RUNS}", again.rows.len(), run + 1);
                // A name of its own, so that no program passes with what another one wrote.
                let out = folder.path().join(format!("{run}-{build}.json"));
                measure(programs[build], &cells, &out, conditions, device)?;
                let results = read(&out).map_err(CliError::machine)?;
                for row in results.rows.iter().filter(|row| row.status == Status::Ok) {
                    let time = row.time.iter().map(|time| time.median_ns);
                    medians[build].entry(CellKey::of(row)).or_default().extend(time);
                }
            }
        }
        for cell in doubtful.iter().filter(|cell| cell.conditions == conditions) {
            let [Some(old), Some(new)] = medians.each_ref().map(|of_build| of_build.get(cell)) else { continue };
            let runs: Vec<u32> = (0..RUNS).collect();
            // A run without a time leaves nothing to pair its neighbours with.
            if old.len() == runs.len()
                && new.len() == runs.len()
                && let Some(judged) = judge_paired(Series { rounds: &runs, ns: new }, Series { rounds: &runs, ns: old })
            {
                comparison.replace(cell, VerdictRecord::from(judged));
            }
        }
    }
    Ok(())
}

fn measure(
    program: &Path,
    cells: &Path,
    out: &Path,
    conditions: ConditionsKey,
    device: Option<&str>,
) -> Result<(), CliError> {
    let shown = program.display();
    let output = Command::new(program)
        .arg("run")
        .arg("--cells")
        .arg(cells)
        .args(["--l2", conditions.l2.as_str(), "--launch", conditions.launch.as_str()])
        .args(device.into_iter().flat_map(|device| ["--device", device]))
        .arg("--out")
        .arg(out)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| {
            CliError::input(format!("--confirm {shown} cannot be started ({e}); give two builds of moebius"))
        })?;
    // 1 says that a kernel was wrong or failed, which its row says, too.
    if matches!(output.status.code(), Some(0 | 1)) {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().last().unwrap_or("it said nothing").chars().filter(|c| !c.is_control());
    Err(CliError::machine(format!(
        "--confirm {shown} ended with {}: {}",
        output.status,
        last.take(300).collect::<String>()
    )))
}
