//! `ldmatrix` that unpacks e2m1 to bytes (`m8n16 ... b8x16.b4x16_p64`).
//!
//! Hopper's TMA cannot leave the gaps of 8 bytes that `16U4_ALIGN16B` leaves after every 8 bytes of data, so the map of a
//! retargeted kernel loads rows of 128 bytes of packed values under the same 128-byte swizzle (see `tensor_map`): the first 64
//! bytes are the row, the rest is what follows it in memory. The 16 values at byte 16 c of the row that the kernel expects lie
//! at byte 8 c.

use super::block::Block;
use super::statement::{Instruction, Operand};

/// Whether the instruction is one that this module is for.
pub fn concerns(instruction: &Instruction<'_>) -> bool {
    instruction.modifiers().next() == Some("ldmatrix")
        && instruction.modifiers().any(|m| m == "b8x16" || m == "m16n16" || m == "m8n16")
}

/// The text that takes the instruction's place, or why there is none.
pub fn rewrite(instruction: &Instruction<'_>, id: usize) -> Result<String, String> {
    let shared = instruction.has("shared") || instruction.has("shared::cta");
    if !instruction.has("m8n16") || !instruction.has("b4x16_p64") || instruction.has("trans") || !shared {
        return Err("only m8n16 from b4x16_p64 in shared memory can be emulated".to_owned());
    }
    let count = ["x1", "x2", "x4"].iter().position(|x| instruction.has(x)).map_or(0, |at| 1 << at);
    let [to, Operand::Address(address)] = instruction.operands.as_slice() else {
        return Err("its operands are not registers and an address".to_owned());
    };
    let (Some(to), [Operand::Plain(address)]) = (to.vector(), address.as_slice()) else {
        return Err("its operands are not registers and an address".to_owned());
    };
    if to.len() != count {
        return Err(format!("it has {} registers for {count} matrices", to.len()));
    }
    let mut block = Block::new(id);
    let (base, offset) = match address.split_once('+') {
        Some((base, offset)) => (base.trim(), offset.trim()),
        None => (*address, "0"),
    };
    let address = block.b32("add.u32", &[base, offset]);
    let lane = block.lane();
    let row = block.b32("shr.u32", &[&lane, "2"]);
    let column = block.b32("and.b32", &[&lane, "3"]);
    let column = block.b32("shl.b32", &[&column, "1"]);
    let mut loaded = Vec::new();
    for matrix in 0..count {
        // Lanes 8 i to 8 i + 7 hold the addresses of the rows of matrix i.
        let holder = block.b32("add.u32", &[&row, &(8 * matrix).to_string()]);
        let at = block.of_lane(&address, &holder);
        // Bits 4 to 6 are the chunk of 16 bytes, xored with the row, bits 7 to 9.
        let swizzle = block.b32("bfe.u32", &[&at, "7", "3"]);
        let chunk = block.b32("bfe.u32", &[&at, "4", "3"]);
        let chunk = block.b32("xor.b32", &[&chunk, &swizzle]);
        let half = block.b32("and.b32", &[&chunk, "1"]);
        let half = block.b32("shl.b32", &[&half, "3"]);
        let packed = block.b32("shr.u32", &[&chunk, "1"]);
        let packed = block.b32("xor.b32", &[&packed, &swizzle]);
        let packed = block.b32("shl.b32", &[&packed, "4"]);
        let start = block.b32("and.b32", &[&at, "0xffffff80"]);
        let start = block.b32("add.u32", &[&start, &packed]);
        let start = block.b32("add.u32", &[&start, &half]);
        let start = block.b32("add.u32", &[&start, &column]);
        let word = block.set("b16", "ld.shared.u16", &[&format!("[{start}]")]);
        let word = block.b32("cvt.u32.u16", &[&word]);
        // Four nibbles to four bytes.
        let high = block.b32("shl.b32", &[&word, "8"]);
        let pairs = block.b32("or.b32", &[&word, &high]);
        let pairs = block.b32("and.b32", &[&pairs, "0x00ff00ff"]);
        let high = block.b32("shl.b32", &[&pairs, "4"]);
        let all = block.b32("or.b32", &[&pairs, &high]);
        loaded.push(block.b32("and.b32", &[&all, "0x0f0f0f0f"]));
    }
    for (to, from) in to.iter().zip(&loaded) {
        block.line(&format!("mov.b32 {to}, {from};"));
    }
    Ok(block.finish(instruction.guard))
}
