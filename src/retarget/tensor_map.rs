//! Tensor maps of packed FP4, which Hopper does not have: their maps count bytes, the kernel counts elements.
//!
//! `cuTensorMapEncodeTiled` refuses the 4-bit types there, so the host encodes such a map as bytes with the innermost extent
//! halved, and marks it (see `csrc/support/tensor_map.cu`). Whether a map is marked is read from the map itself when an
//! instruction uses it, so nothing has to be known of the kernel: along dimension 0 the coordinates of copies and the extents
//! that `tensormap.replace` writes are halved for marked maps and left alone for others.
//!
//! The mark is the map's L2 promotion, a hint for speed alone.
//!
//! Values that a map spreads over the bytes of shared memory (`16U4_ALIGN16B`, see `ldmatrix`) come as rows of 128 bytes, but
//! the kernel waits for the 64 that hold its values: the barrier is told of the others just before they are asked for.

use super::block::Block;
use super::statement::{Instruction, Operand};

/// Where the mark is in the 128 bytes of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Byte offset of the 32-bit word.
    pub offset: u32,
    /// Bits of the word.
    pub mask: u32,
    /// Value of these bits in a map of FP4 that stays packed in shared memory.
    pub packed: u32,
    /// Value of these bits in a map of FP4 that is spread over bytes there.
    pub spread: u32,
    /// Byte offset of the 32-bit word with the box's extent along dimension 1.
    pub box_offset: u32,
    /// Lowest of the 8 bits of that word which hold the extent less 1.
    pub box_shift: u32,
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
    let (packed, spread) = marks(&mut block, "ld.b32", map, mark);
    let shift = shift(&mut block, &packed, &spread);
    let value = block.b32("mov.b32", &[first]);
    let halved = block.b32("shr.s32", &[&value, &shift]);
    coordinates[0] = Operand::Plain(&halved);
    if instruction.has("mbarrier::complete_tx::bytes") && instruction.has("2d") {
        let Some(Operand::Address(barrier)) = instruction.operands.get(2) else {
            return Err("its barrier is no address".to_owned());
        };
        let [Operand::Plain(barrier)] = barrier.as_slice() else {
            return Err("its barrier is no plain address".to_owned());
        };
        let word = block.b32("ld.b32", &[&format!("[{map}+{}]", mark.box_offset)]);
        let rows = block.b32("bfe.u32", &[&word, &mark.box_shift.to_string(), "8"]);
        let rows = block.b32("add.u32", &[&rows, "1"]);
        let bytes = block.b32("shl.b32", &[&rows, "6"]);
        block.line(&format!("@{spread} mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{barrier}], {bytes};"));
    }
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
    let (packed, spread) = marks(&mut block, load, map, mark);
    let shift = shift(&mut block, &packed, &spread);
    let extent = block.b32("add.u32", &[value, &shift]);
    let extent = block.b32("shr.u32", &[&extent, &shift]);
    block.line(&format!("{} [{map}], 0, {extent};", instruction.opcode));
    Ok(Some(block.finish(instruction.guard)))
}

/// Predicates: the map is of packed FP4, of spread FP4.
fn marks(block: &mut Block, load: &str, map: &str, mark: Mark) -> (String, String) {
    let word = block.b32(load, &[&format!("[{map}+{}]", mark.offset)]);
    let bits = block.b32("and.b32", &[&word, &format!("0x{:08x}", mark.mask)]);
    let mut is = |value: u32| block.set("pred", "setp.eq.u32", &[&bits, &format!("0x{value:08x}")]);
    (is(mark.packed), is(mark.spread))
}

/// 1 in a register for a marked map, 0 for others.
fn shift(block: &mut Block, packed: &str, spread: &str) -> String {
    let either = block.set("pred", "or.pred", &[packed, spread]);
    block.b32("selp.b32", &["1", "0", &either])
}
