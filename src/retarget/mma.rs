//! `mma.sync` of FP4, FP6 and FP8 operands, with and without block scales, by `mma.sync.m16n8k16` of f16.
//!
//! Every value of these formats, and every product of an e2m1 with a ue4m3 scale, is exact in f16, and products of two of them
//! are exact in f32. The K order inside the instruction is permuted, the same way for A and B, so no value changes its lane.
//! Scales of 4X ue4m3 are applied to the values; scales that are powers of two (ue8m0) reach further than f16, so each block is
//! summed by itself and scaled in f64.
//!
//! Lane t holds, of A, row t/4 in registers 0 and 2 and row t/4 + 8 in registers 1 and 3, and of B column t/4; register 0 (A: 0
//! and 1) is the lower half of K, and inside a half the lane's values begin at (number of values in a register) * (t % 4).

use super::block::Block;
use super::statement::{Instruction, Operand};

/// A number format of A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    E2m1,
    E3m2,
    E2m3,
    E4m3,
    E5m2,
}

impl Format {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "e2m1" => Format::E2m1,
            "e3m2" => Format::E3m2,
            "e2m3" => Format::E2m3,
            "e4m3" => Format::E4m3,
            "e5m2" => Format::E5m2,
            _ => return None,
        })
    }
}

/// What an instruction of this kind says.
struct Shape {
    /// e2m1 two to a byte, K 64; else one value a byte, K 32.
    packed: bool,
    a: Format,
    b: Format,
    /// Blocks of K with a scale each: 1, 2, 4; 0 without scales.
    blocks: usize,
    /// Scales are ue8m0, not ue4m3.
    powers: bool,
}

/// Whether the instruction is one that this module is for.
pub fn concerns(instruction: &Instruction<'_>) -> bool {
    instruction.opcode.starts_with("mma.")
        && instruction.modifiers().any(|m| m.starts_with("kind::") || m.starts_with("block_scale"))
}

/// The text that takes the instruction's place, or why there is none.
pub fn rewrite(instruction: &Instruction<'_>, id: usize) -> Result<String, String> {
    let shape = shape(instruction)?;
    let vector = |index: usize, length: usize| -> Result<Vec<&str>, String> {
        let parts = match instruction.operands.get(index) {
            Some(Operand::Plain(one)) if length == 1 => Some(vec![*one]),
            Some(operand) => operand.vector(),
            None => None,
        };
        parts.filter(|parts| parts.len() == length).ok_or_else(|| format!("operand {index} is not {length} registers"))
    };
    let (d, a, b, c) = (vector(0, 4)?, vector(1, 4)?, vector(2, 2)?, vector(3, 4)?);
    let expected = if shape.blocks == 0 { 4 } else { 8 };
    if instruction.operands.len() != expected {
        return Err(format!("it has {} operands, not {expected}", instruction.operands.len()));
    }
    let mut block = Block::new(id);
    let start: Vec<String> = c.iter().map(|c| block.b32("mov.b32", &[c])).collect();
    let result = if shape.blocks == 0 {
        product(&mut block, &shape, &a, &b, &start)
    } else {
        let scales = Scales { a: vector(4, 1)?[0], pick_a: vector(5, 2)?, b: vector(6, 1)?[0], pick_b: vector(7, 2)? };
        check_selectors(&shape, &scales)?;
        if shape.powers {
            product_of_powers(&mut block, &shape, &a, &b, &scales, &start)
        } else {
            product_of_scaled(&mut block, &a, &b, &scales, &start)
        }
    };
    for (to, from) in d.iter().zip(&result) {
        block.line(&format!("mov.b32 {to}, {from};"));
    }
    Ok(block.finish(instruction.guard))
}

fn shape(instruction: &Instruction<'_>) -> Result<Shape, String> {
    let words: Vec<&str> = instruction.modifiers().collect();
    let kind = words.iter().find_map(|w| w.strip_prefix("kind::")).unwrap_or_default();
    let scaled = words.contains(&"block_scale");
    let packed = match kind {
        "mxf4nvf4" | "mxf4" => true,
        "mxf8f6f4" | "f8f6f4" => false,
        other => return Err(format!("kind::{other} is not one that can be emulated")),
    };
    let size = if packed { "m16n8k64" } else { "m16n8k32" };
    let Some(at) = words.iter().position(|&w| w == size) else { return Err(format!("its shape is not {size}")) };
    if scaled == (kind == "f8f6f4") || words.contains(&"sp") || words.iter().any(|w| w.starts_with("sp::")) {
        return Err("sparse operands, or scales where this kind has none".to_owned());
    }
    let ["row", "col", "f32", a, b, "f32", rest @ ..] = &words[at + 1..] else {
        return Err("only .row.col with f32 sums can be emulated".to_owned());
    };
    let format = |word: &str| {
        let format = Format::of(word).filter(|&f| !packed || f == Format::E2m1);
        format.ok_or_else(|| format!("operands of {word} cannot be emulated"))
    };
    let (a, b) = (format(a)?, format(b)?);
    let vector = words.iter().find_map(|w| w.strip_prefix("scale_vec::").or_else(|| w.strip_prefix("block_scale::")));
    let (blocks, powers) = match (kind, vector, rest) {
        ("f8f6f4", None, []) => (0, false),
        ("mxf4nvf4", Some("4X"), ["ue4m3"]) => (4, false),
        ("mxf4nvf4", Some("4X"), ["ue8m0"]) => (4, true),
        ("mxf4nvf4", Some("2X"), ["ue8m0"]) | ("mxf4", Some("2X") | None, ["ue8m0"]) => (2, true),
        ("mxf8f6f4", Some("1X") | None, ["ue8m0"]) => (1, true),
        _ => return Err("this vector of scales cannot be emulated".to_owned()),
    };
    Ok(Shape { packed, a, b, blocks, powers })
}

/// Operands 4 to 7.
struct Scales<'a> {
    a: &'a str,
    pick_a: Vec<&'a str>,
    b: &'a str,
    pick_b: Vec<&'a str>,
}

/// The value of a selector that is a number.
fn number(text: &str) -> Option<u32> {
    let text = text.trim_end_matches(['U', 'u']);
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Selectors that are numbers must be among those that the instruction defines.
fn check_selectors(shape: &Shape, scales: &Scales<'_>) -> Result<(), String> {
    let bytes: &[u32] = match shape.blocks {
        4 => &[0],
        2 => &[0, 2],
        _ => &[0, 1, 2, 3],
    };
    for (pick, lanes, name) in [(&scales.pick_a, 2, "a"), (&scales.pick_b, 4, "b")] {
        if number(pick[0]).is_some_and(|n| !bytes.contains(&n)) || number(pick[1]).is_some_and(|n| n >= lanes) {
            return Err(format!("scale selector {{{}, {}}} of {name} is not defined", pick[0], pick[1]));
        }
    }
    Ok(())
}

/// A selector in a 32-bit register; it is a number or a 16-bit register.
fn selector(block: &mut Block, text: &str) -> String {
    match number(text) {
        Some(n) => block.b32("mov.b32", &[&n.to_string()]),
        None => block.b32("cvt.u32.u16", &[text]),
    }
}

/// The scales of a row or column, from the lane that holds them, the selected byte lowest.
fn scale_word(block: &mut Block, register: &str, lane: &str, byte: &str) -> String {
    let word = block.of_lane(register, lane);
    let bits = block.b32("shl.b32", &[byte, "3"]);
    block.b32("shr.u32", &[&word, &bits])
}

/// Two values as f16x2: `pair` counts pairs from the lowest bits of the register.
fn decode(block: &mut Block, format: Format, packed: bool, register: &str, pair: usize) -> String {
    let (apart, shift_magnitude, magnitude, shift_sign, sign, power) = if packed {
        let byte = block.b32("bfe.u32", &[register, &(8 * pair).to_string(), "8"]);
        let high = block.b32("shl.b32", &[&byte, "12"]);
        // The low nibble in the low half, the high nibble in the high half.
        (block.b32("or.b32", &[&byte, &high]), 9, 0x0007_0007u32, 12, 0x0008_0008u32, 0x7400_7400u32)
    } else {
        let word = block.b32("bfe.u32", &[register, &(16 * pair).to_string(), "16"]);
        let wide = match format {
            Format::E4m3 => Some("cvt.rn.f16x2.e4m3x2"),
            Format::E5m2 => Some("cvt.rn.f16x2.e5m2x2"),
            _ => None,
        };
        if let Some(opcode) = wide {
            let half = block.set("b16", "cvt.u16.u32", &[&word]);
            return block.b32(opcode, &[&half]);
        }
        let high = block.b32("shl.b32", &[&word, "8"]);
        let apart = block.b32("or.b32", &[&word, &high]);
        match format {
            Format::E3m2 => (apart, 8, 0x001f_001f, 10, 0x0020_0020, 0x6c00_6c00),
            Format::E2m3 => (apart, 7, 0x001f_001f, 10, 0x0020_0020, 0x7400_7400),
            // e2m1 in bits 2 to 5 of its byte.
            _ => (apart, 7, 0x001c_001c, 10, 0x0020_0020, 0x7400_7400),
        }
    };
    // Exponent and mantissa under those of f16, whose bias is then made up for by a power of two: exact, subnormals too.
    let bits = block.b32("and.b32", &[&apart, &format!("0x{magnitude:08x}")]);
    let bits = block.b32("shl.b32", &[&bits, &shift_magnitude.to_string()]);
    let minus = block.b32("and.b32", &[&apart, &format!("0x{sign:08x}")]);
    let minus = block.b32("shl.b32", &[&minus, &shift_sign.to_string()]);
    let value = block.b32("or.b32", &[&bits, &minus]);
    let factor = block.b32("mov.b32", &[&format!("0x{power:08x}")]);
    block.b32("mul.rn.f16x2", &[&value, &factor])
}

/// The f16 operands of one `m16n8k16`: A's four registers and B's two.
fn step(
    block: &mut Block,
    shape: &Shape,
    a: &[&str],
    b: &[&str],
    half: usize,
    quad: usize,
) -> ([String; 4], [String; 2]) {
    let mut value = |format, register: &str, pair| decode(block, format, shape.packed, register, pair);
    let first = 2 * quad;
    (
        [
            value(shape.a, a[2 * half], first),
            value(shape.a, a[2 * half + 1], first),
            value(shape.a, a[2 * half], first + 1),
            value(shape.a, a[2 * half + 1], first + 1),
        ],
        [value(shape.b, b[half], first), value(shape.b, b[half], first + 1)],
    )
}

/// Steps of 8 or 4 values a lane in each half of K.
fn quads(shape: &Shape) -> usize {
    if shape.packed { 2 } else { 1 }
}

fn mma(block: &mut Block, a: &[String; 4], b: &[String; 2], c: &[String]) -> Vec<String> {
    let d: Vec<String> = (0..4).map(|_| block.register("b32")).collect();
    block.line(&format!(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{}}}, {{{}}}, {{{}}}, {{{}}};",
        d.join(", "),
        a.join(", "),
        b.join(", "),
        c.join(", ")
    ));
    d
}

/// Without scales.
fn product(block: &mut Block, shape: &Shape, a: &[&str], b: &[&str], c: &[String]) -> Vec<String> {
    let mut sums = c.to_vec();
    for half in 0..2 {
        for quad in 0..quads(shape) {
            let (a, b) = step(block, shape, a, b, half, quad);
            sums = mma(block, &a, &b, &sums);
        }
    }
    sums
}

/// 4X ue4m3: values are scaled before they are multiplied.
fn product_of_scaled(block: &mut Block, a: &[&str], b: &[&str], scales: &Scales<'_>, c: &[String]) -> Vec<String> {
    let shape = Shape { packed: true, a: Format::E2m1, b: Format::E2m1, blocks: 4, powers: false };
    let lane = block.lane();
    let quad_of_lane = block.b32("and.b32", &[&lane, "28"]);
    let lower = row_lane(block, &quad_of_lane, scales.pick_a[1]);
    let upper = block.b32("add.u32", &[&lower, "1"]);
    let thread_b = selector(block, scales.pick_b[1]);
    let column = block.b32("add.u32", &[&quad_of_lane, &thread_b]);
    let (byte_a, byte_b) = (selector(block, scales.pick_a[0]), selector(block, scales.pick_b[0]));
    let words = [
        scale_word(block, scales.a, &lower, &byte_a),
        scale_word(block, scales.a, &upper, &byte_a),
        scale_word(block, scales.b, &column, &byte_b),
    ];
    // A lane's values lie in block (t % 4) / 2 of each half of K.
    let odd = block.b32("bfe.u32", &[&lane, "1", "1"]);
    let bits = block.b32("shl.b32", &[&odd, "3"]);
    let mut sums = c.to_vec();
    for half in 0..2 {
        let factors: Vec<String> = words
            .iter()
            .map(|word| {
                let at = block.b32("add.u32", &[&bits, &(16 * half).to_string()]);
                let byte = block.b32("shr.u32", &[word, &at]);
                // The format has no sign: bit 7 is padding.
                let byte = block.b32("and.b32", &[&byte, "0x7f"]);
                let both = block.b32("mul.lo.u32", &[&byte, "0x101"]);
                let both = block.set("b16", "cvt.u16.u32", &[&both]);
                block.b32("cvt.rn.f16x2.e4m3x2", &[&both])
            })
            .collect();
        for quad in 0..2 {
            let (a, b) = step(block, &shape, a, b, half, quad);
            let mut scale = |value: &String, factor: usize| block.b32("mul.rn.f16x2", &[value, &factors[factor]]);
            let a = [scale(&a[0], 0), scale(&a[1], 1), scale(&a[2], 0), scale(&a[3], 1)];
            let b = [scale(&b[0], 2), scale(&b[1], 2)];
            sums = mma(block, &a, &b, &sums);
        }
    }
    sums
}

/// Lane that holds the scales of row t/4; the next one holds those of row t/4 + 8.
fn row_lane(block: &mut Block, quad_of_lane: &str, thread: &str) -> String {
    let thread = selector(block, thread);
    let twice = block.b32("shl.b32", &[&thread, "1"]);
    block.b32("add.u32", &[quad_of_lane, &twice])
}

/// ue8m0: each block of K is summed from zero, and its sum scaled.
fn product_of_powers(
    block: &mut Block,
    shape: &Shape,
    a: &[&str],
    b: &[&str],
    scales: &Scales<'_>,
    c: &[String],
) -> Vec<String> {
    let lane = block.lane();
    let quad_of_lane = block.b32("and.b32", &[&lane, "28"]);
    let in_quad = block.b32("and.b32", &[&lane, "3"]);
    let lower = row_lane(block, &quad_of_lane, scales.pick_a[1]);
    let upper = block.b32("add.u32", &[&lower, "1"]);
    // Sums 0 and 2 are of column 2 (t % 4), whose scales lie in the lanes from 4 times that; 1 and 3 of the next column.
    let eightfold = block.b32("shl.b32", &[&in_quad, "3"]);
    let thread_b = selector(block, scales.pick_b[1]);
    let even = block.b32("add.u32", &[&eightfold, &thread_b]);
    let odd = block.b32("add.u32", &[&even, "4"]);
    let (byte_a, byte_b) = (selector(block, scales.pick_a[0]), selector(block, scales.pick_b[0]));
    let rows = [scale_word(block, scales.a, &lower, &byte_a), scale_word(block, scales.a, &upper, &byte_a)];
    let columns = [scale_word(block, scales.b, &even, &byte_b), scale_word(block, scales.b, &odd, &byte_b)];
    let zero = block.b32("mov.b32", &["0"]);
    let zeros = vec![zero.clone(), zero.clone(), zero.clone(), zero.clone()];
    let mut sums: Vec<String> = c.iter().map(|c| block.set("f64", "cvt.f64.f32", &[c])).collect();
    for number in 0..shape.blocks {
        // With four blocks, a block is in the lanes of one parity of (t % 4) / 2: others count as zero.
        let mut masked: Vec<String> = a.iter().map(|a| (*a).to_owned()).collect();
        if shape.blocks == 4 {
            let parity = block.b32("bfe.u32", &[&lane, "1", "1"]);
            let mine = block.set("pred", "setp.eq.u32", &[&parity, &(number % 2).to_string()]);
            masked = masked.iter().map(|a| block.b32("selp.b32", &[a, "0", &mine])).collect();
        }
        let masked: Vec<&str> = masked.iter().map(String::as_str).collect();
        let halves = match shape.blocks {
            1 => 0..2,
            2 => number..number + 1,
            _ => number / 2..number / 2 + 1,
        };
        let mut part = zeros.clone();
        for half in halves {
            for quad in 0..quads(shape) {
                let (a, b) = step(block, shape, &masked, b, half, quad);
                part = mma(block, &a, &b, &part);
            }
        }
        let row_powers: Vec<String> = rows.iter().map(|w| power(block, w, number)).collect();
        let column_powers: Vec<String> = columns.iter().map(|w| power(block, w, number)).collect();
        for (index, sum) in sums.iter_mut().enumerate() {
            let value = block.set("f64", "cvt.f64.f32", &[&part[index]]);
            let factor = block.set("f64", "mul.rn.f64", &[&row_powers[index / 2], &column_powers[index % 2]]);
            *sum = block.set("f64", "fma.rn.f64", &[&value, &factor, sum]);
        }
    }
    sums.iter().map(|sum| block.b32("cvt.rn.f32.f64", &[sum])).collect()
}

/// Scale `number` of a word of ue8m0 as f64: 2^(e - 127), NaN for 255.
fn power(block: &mut Block, word: &str, number: usize) -> String {
    let exponent = block.b32("bfe.u32", &[word, &(8 * number).to_string(), "8"]);
    let biased = block.b32("add.u32", &[&exponent, &(1023 - 127).to_string()]);
    let high = block.b32("shl.b32", &[&biased, "20"]);
    let none = block.set("pred", "setp.eq.u32", &[&exponent, "255"]);
    let high = block.b32("selp.b32", &["0x7ff80000", &high, &none]);
    block.set("b64", "mov.b64", &[&format!("{{0, {high}}}")])
}
