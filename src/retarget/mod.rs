//! Rewrites the PTX of a Blackwell kernel (sm_120a) so that a Hopper GPU (sm_90a) runs it and gives the same answer.
//!
//! Such kernels are Hopper-era kernels around a few instructions that Hopper lacks; each of these is replaced by a block that
//! computes the same from what Hopper has, and everything else stays as it is written. What cannot be replaced is refused by
//! name. The result is for verification alone: it says nothing about time (docs/METHODOLOGY.md).
//!
//! Text in, text out, with nothing but the standard library: build.rs includes this module as well.

mod block;
mod cvt;
mod error;
mod ldmatrix;
mod mma;
pub mod statement;
mod tensor_map;

use std::collections::BTreeMap;

pub use error::Refusal;
pub use tensor_map::Mark;

use statement::{Instruction, Kind};

/// The mark of packed-FP4 tensor maps that `csrc/support/tensor_map.cu` sets. Where a Hopper map keeps it was read off maps
/// made on an H200 (driver 580.159.04, 2026-12-03): `the_mark_is_where_the_driver_puts_it` in `tests/retarget_emulation.rs`
/// does so again. Under a driver that lays maps out in another way the host refuses to make packed-FP4 maps.
pub const MARK: Mark =
    Mark { offset: 8, mask: 0x60000, packed: 0x60000, spread: 0x20000, box_offset: 56, box_shift: 0 };

/// A rewritten text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retargeted {
    /// The PTX.
    pub ptx: String,
    /// How many instructions of each opcode were replaced.
    pub replaced: BTreeMap<String, usize>,
}

/// Rewrites a PTX text for `sm_90a`.
///
/// # Errors
/// The first instruction that cannot be emulated, or what is wrong with the text.
pub fn retarget(ptx: &str, mark: Mark) -> Result<Retargeted, Refusal> {
    let statements = statement::parse(ptx)?;
    let mut text = String::with_capacity(ptx.len() * 2);
    let mut replaced = BTreeMap::new();
    let mut entry = String::new();
    for (id, statement) in statements.iter().enumerate() {
        let (lead, proper) = statement.text.split_at(statement.lead);
        let refuse = |instruction: &str, why: String| Refusal {
            line: statement.line,
            entry: entry.clone(),
            instruction: instruction.to_owned(),
            why,
        };
        match &statement.kind {
            Kind::Directive(words) if words[0] == ".target" => {
                let chip = words.get(1).copied().unwrap_or_default();
                if !chip.starts_with("sm_120") && !chip.starts_with("sm_121") {
                    return Err(refuse(proper, "only kernels for sm_120 and sm_121 are retargeted".to_owned()));
                }
                text += lead;
                text += &proper.replacen(chip, "sm_90a", 1);
                continue;
            }
            Kind::Directive(words) if words.iter().any(|&w| w == ".entry" || w == ".func") => {
                entry = name(words).to_owned();
            }
            Kind::Instruction(instruction) => {
                if let Some(block) = rewrite(instruction, mark, id).map_err(|why| refuse(instruction.opcode, why))? {
                    *replaced.entry(instruction.opcode.to_owned()).or_insert(0) += 1;
                    text += lead;
                    text += &block;
                    continue;
                }
            }
            _ => {}
        }
        text += statement.text;
    }
    Ok(Retargeted { ptx: text, replaced })
}

/// The name in an `.entry` or `.func`: the word after it, or after its return values.
fn name<'a>(words: &[&'a str]) -> &'a str {
    let after = words.iter().position(|&w| w == ".entry" || w == ".func").map_or(0, |at| at + 1);
    let from = match words.get(after) {
        Some(&"(") => words[after..].iter().position(|&w| w == ")").map_or(after, |at| after + at + 1),
        _ => after,
    };
    words.get(from).copied().unwrap_or_default()
}

/// Instructions of Blackwell for which there is no emulation.
fn without_emulation(instruction: &Instruction<'_>) -> bool {
    let first = instruction.modifiers().next().unwrap_or_default();
    let alone =
        ["tcgen05", "clusterlaunchcontrol"].contains(&first) || instruction.has("f32x2") || instruction.has("v8");
    alone || (first == "stmatrix" && instruction.has("m16n8"))
}

fn rewrite(instruction: &Instruction<'_>, mark: Mark, id: usize) -> Result<Option<String>, String> {
    if without_emulation(instruction) {
        Err("Hopper has no such instruction, and it cannot be emulated".to_owned())
    } else if mma::concerns(instruction) {
        mma::rewrite(instruction, id).map(Some)
    } else if cvt::concerns(instruction) {
        cvt::rewrite(instruction, id).map(Some)
    } else if ldmatrix::concerns(instruction) {
        ldmatrix::rewrite(instruction, id).map(Some)
    } else if tensor_map::concerns(instruction) {
        tensor_map::rewrite(instruction, mark, id)
    } else {
        Ok(None)
    }
}
