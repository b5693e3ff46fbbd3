//! Results as Markdown: the winners' table of each sweep.

use super::columns::escaped;
use super::table::{all_columns, scheme_line, winner_columns};
use super::words::{heading, outcomes, several_seeds};
use crate::analyse::sweeps;
use crate::record::Results;

/// All sweeps of a file as Markdown tables; `all` lists every kernel of a batch.
pub fn markdown(results: &Results, all: bool) -> String {
    let several_seeds = several_seeds(results);
    let mut out = format!("# MoE GEMM kernels on {}\n", escaped(&results.device.name));
    for sweep in sweeps(results) {
        out += &format!("\n## {}\n", escaped(&heading(results, &sweep.key, several_seeds).join(" | ")));
        for block in &sweep.schemes {
            let columns = if all { all_columns(block, usize::MAX) } else { winner_columns(block, usize::MAX) };
            out += &format!("\n{}\n\n{}", escaped(&scheme_line(block)), columns.markdown());
        }
    }
    out + &format!("\n{}\n", escaped(&outcomes(results).join(" ")))
}
