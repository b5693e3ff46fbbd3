//! Tensor maps of packed FP4, which Hopper does not have: their maps count bytes, the kernel counts elements.
//!
//! `cuTensorMapEncodeTiled` refuses the 4-bit types there, so the host encodes such a map as bytes with the innermost extent
//! halved, and marks it (see `csrc/support/tensor_map.cu`). Whether a map is marked is read from the map itself when an
//! instruction uses it, so nothing has to be known of the kernel: along dimension 0 the coordinates of copies and the extents
//! that `tensormap.replace` writes are halved for marked maps and left alone for others.
//!
//! The mark is the map's L2 promotion, a hint for speed alone.

use super::block::Block;
use super::statement::{Instruction, Operand};

/// Where the mark is in the 128 bytes of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Byte offset of the 32-bit word.
    pub offset: u32,
    /// Bits of the word.
    pub mask: u32,
    /// Value of these bits in a map of packed FP4.
    pub value: u32,
}

/// Whether the instruction is one that this module is for.
pub fn concerns(instruction: &Instruction<'_>) -> bool {
    let copies = instruction.opcode.starts_with("cp.") && instruction.has("tensor");
    copies || instruction.opcode.starts_with("tensormap.replace")
}

/// The text that takes the instruction's place; none where it can stay.
pub fn rewrite(instruction: &Instruction<'_>, mark: Mark, id: usize) -> Result<Option<String>, String> {
    if instruction.opcode.starts_with("tensormap.replace") {
        return replace(instruction, mark, id);
    }
    if instruction.modifiers().any(|m| m.starts_with("im2col") || m.starts_with("tile::")) {
        return Err("only copies of tiles can be emulated".to_owned());
    }
    let mut changed = instruction.clone();
    let found = changed.operands.iter_mut().find_map(|operand| match operand {
        Operand::Address(parts) => match parts.as_mut_slice() {
            [Operand::Plain(map), Operand::Vector(coordinates)] => Some((*map, coordinates)),
            _ => None,
        },
        _ => None,
    });
    let Some((map, coordinates)) = found else { return Err("it names no map with coordinates".to_owned()) };
    let Some(first) = coordinates.first().and_then(Operand::plain) else {
        return Err("its first coordinate is no register or number".to_owned());
    };
    let mut block = Block::new(id);
    let shift = shift(&mut block, "ld.b32", map, mark);
    let value = block.b32("mov.b32", &[first]);
    let halved = block.b32("shr.s32", &[&value, &shift]);
    coordinates[0] = Operand::Plain(&halved);
    changed.guard = None;
    block.line(&changed.to_string());
    Ok(Some(block.finish(instruction.guard)))
}

fn replace(instruction: &Instruction<'_>, mark: Mark, id: usize) -> Result<Option<String>, String> {
    if instruction.has("elemtype") || instruction.has("box_dim") {
        return Err("a map whose elements or box change in the kernel cannot be emulated".to_owned());
    }
    if !instruction.has("global_dim") {
        return Ok(None);
    }
    let [Operand::Address(address), Operand::Plain(dimension), Operand::Plain(value)] = instruction.operands.as_slice()
    else {
        return Err("its operands are not a map, a dimension and an extent".to_owned());
    };
    let [Operand::Plain(map)] = address.as_slice() else { return Err("its map is no plain address".to_owned()) };
    if *dimension != "0" {
        return Ok(None);
    }
    let mut block = Block::new(id);
    let load = if instruction.has("shared::cta") { "ld.shared.b32" } else { "ld.global.b32" };
    let shift = shift(&mut block, load, map, mark);
    let extent = block.b32("add.u32", &[value, &shift]);
    let extent = block.b32("shr.u32", &[&extent, &shift]);
    block.line(&format!("{} [{map}], 0, {extent};", instruction.opcode));
    Ok(Some(block.finish(instruction.guard)))
}

/// 1 in a register for a marked map, 0 for others.
fn shift(block: &mut Block, load: &str, map: &str, mark: Mark) -> String {
    let word = block.b32(load, &[&format!("[{map}+{}]", mark.offset)]);
    let bits = block.b32("and.b32", &[&word, &format!("0x{:08x}", mark.mask)]);
    let marked = block.set("pred", "setp.eq.u32", &[&bits, &format!("0x{:08x}", mark.value)]);
    block.b32("selp.b32", &["1", "0", &marked])
}
