//! `cvt` to and from e2m1x2, and to and from ue8m0x2.

use super::block::Block;
use super::statement::Instruction;

/// Whether the instruction is one that this module is for.
pub fn concerns(instruction: &Instruction<'_>) -> bool {
    instruction.modifiers().next() == Some("cvt")
        && instruction
            .modifiers()
            .any(|m| matches!(m, "e2m1x2" | "ue8m0x2" | "e2m3x2" | "e3m2x2" | "e2m1x4" | "e3m2x4" | "e2m3x4"))
}

/// The text that takes the instruction's place, or why there is none.
pub fn rewrite(instruction: &Instruction<'_>, id: usize) -> Result<String, String> {
    let operands: Option<Vec<&str>> = instruction.operands.iter().map(|operand| operand.plain()).collect();
    let operands = operands.unwrap_or_default();
    let mut block = Block::new(id);
    match (instruction.opcode, operands.as_slice()) {
        ("cvt.rn.satfinite.e2m1x2.f32", [to, high, low]) => {
            let high = to_e2m1(&mut block, high);
            let low = to_e2m1(&mut block, low);
            let high = block.b32("shl.b32", &[&high, "4"]);
            let both = block.b32("or.b32", &[&high, &low]);
            block.line(&format!("cvt.u8.u32 {to}, {both};"));
        }
        ("cvt.rn.f16x2.e2m1x2", [to, from]) => {
            let byte = block.b32("cvt.u32.u8", &[from]);
            let high = block.b32("shl.b32", &[&byte, "12"]);
            let apart = block.b32("or.b32", &[&byte, &high]);
            let bits = block.b32("and.b32", &[&apart, "0x00070007"]);
            let bits = block.b32("shl.b32", &[&bits, "9"]);
            let minus = block.b32("and.b32", &[&apart, "0x00080008"]);
            let minus = block.b32("shl.b32", &[&minus, "12"]);
            let value = block.b32("or.b32", &[&bits, &minus]);
            let factor = block.b32("mov.b32", &["0x74007400"]);
            block.line(&format!("mul.rn.f16x2 {to}, {value}, {factor};"));
        }
        (opcode @ ("cvt.rz.satfinite.ue8m0x2.f32" | "cvt.rp.satfinite.ue8m0x2.f32"), [to, high, low]) => {
            let up = opcode.contains(".rp.");
            let high = to_ue8m0(&mut block, high, up);
            let low = to_ue8m0(&mut block, low, up);
            let high = block.b32("shl.b32", &[&high, "8"]);
            let both = block.b32("or.b32", &[&high, &low]);
            block.line(&format!("cvt.u16.u32 {to}, {both};"));
        }
        ("cvt.rn.bf16x2.ue8m0x2", [to, from]) => {
            let both = block.b32("cvt.u32.u16", &[from]);
            let low = from_ue8m0(&mut block, &both, 0);
            let high = from_ue8m0(&mut block, &both, 8);
            let high = block.b32("shl.b32", &[&high, "16"]);
            block.line(&format!("or.b32 {to}, {high}, {low};"));
        }
        _ => return Err("this conversion cannot be emulated".to_owned()),
    }
    Ok(block.finish(instruction.guard))
}

/// The code of an f32: nearest even onto 0, .5, 1, 1.5, 2, 3, 4, 6, saturating; NaN gives +6.
fn to_e2m1(block: &mut Block, value: &str) -> String {
    let bits = block.b32("mov.b32", &[value]);
    let size = block.b32("abs.f32", &[&bits]);
    // A value on a midpoint goes to the even code, above the midpoint to the next. Unordered comparisons count NaN as large.
    let midpoints =
        [("gtu", 0.25f32), ("geu", 0.75), ("gtu", 1.25), ("geu", 1.75), ("gtu", 2.5), ("geu", 3.5), ("gtu", 5.0)];
    let mut code = block.b32("mov.b32", &["0"]);
    for (comparison, midpoint) in midpoints {
        let above =
            block.set("pred", &format!("setp.{comparison}.f32"), &[&size, &format!("0f{:08X}", midpoint.to_bits())]);
        let next = block.b32("add.u32", &[&code, "1"]);
        code = block.b32("selp.b32", &[&next, &code, &above]);
    }
    let sign = block.b32("shr.u32", &[&bits, "28"]);
    let sign = block.b32("and.b32", &[&sign, "8"]);
    let number = block.set("pred", "setp.num.f32", &[&size, &size]);
    let sign = block.b32("selp.b32", &[&sign, "0", &number]);
    block.b32("or.b32", &[&code, &sign])
}

/// The exponent byte of the power of two at or below |value|, or, with `up`, at or above it; at most 254; 255 for NaN.
fn to_ue8m0(block: &mut Block, value: &str, up: bool) -> String {
    let bits = block.b32("mov.b32", &[value]);
    let size = block.b32("and.b32", &[&bits, "0x7fffffff"]);
    let rounded = if up { block.b32("add.u32", &[&size, "0x7fffff"]) } else { size.clone() };
    let mut exponent = block.b32("shr.u32", &[&rounded, "23"]);
    if up {
        // At most 2^-127 lies half of the subnormals: they round up to exponent 0, not 1.
        let least = block.set("pred", "setp.le.u32", &[&size, "0x400000"]);
        exponent = block.b32("selp.b32", &["0", &exponent, &least]);
    }
    let exponent = block.b32("min.u32", &[&exponent, "254"]);
    let nan = block.set("pred", "setp.gt.u32", &[&size, "0x7f800000"]);
    block.b32("selp.b32", &["255", &exponent, &nan])
}

/// The bf16 bits of the exponent byte at bit `at`: 2^-127 is subnormal, 255 is NaN.
fn from_ue8m0(block: &mut Block, both: &str, at: u32) -> String {
    let exponent = block.b32("bfe.u32", &[both, &at.to_string(), "8"]);
    let bits = block.b32("shl.b32", &[&exponent, "7"]);
    let least = block.set("pred", "setp.eq.u32", &[&exponent, "0"]);
    let bits = block.b32("selp.b32", &["0x40", &bits, &least]);
    let nan = block.set("pred", "setp.eq.u32", &[&exponent, "255"]);
    block.b32("selp.b32", &["0x7fff", &bits, &nan])
}
