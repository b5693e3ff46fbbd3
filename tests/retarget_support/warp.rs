//! Interprets the PTX that the emulation emits, a warp in lockstep: straight lines, and only what these need.

use std::collections::HashMap;

use half::f16;
use moebius::retarget::statement::{Instruction, Kind, Operand, parse};

/// Where the results begin in the addresses of the interpreter; operands begin at 0.
const RESULTS: u64 = 1 << 40;

struct Warp<'a> {
    registers: HashMap<String, [u64; 32]>,
    words: &'a [u32],
    out: &'a mut [u32],
    block: u64,
    parameter: u32,
}

/// Runs a retargeted kernel over `blocks` blocks of a warp.
pub fn run(ptx: &str, words: &[u32], count: usize, blocks: usize, parameter: u32) -> Vec<u32> {
    let text = moebius::retarget::retarget(ptx, moebius::retarget::MARK).expect("it can be rewritten").ptx;
    let statements = parse(&text).expect("it is PTX");
    let mut out = vec![0xffff_ffff; count];
    for block in 0..blocks as u64 {
        let mut warp = Warp { registers: HashMap::new(), words, out: &mut out, block, parameter };
        for statement in &statements {
            if let Kind::Instruction(instruction) = &statement.kind {
                warp.step(instruction);
            }
        }
    }
    out
}

/// What shared memory holds: bytes that look random, by address.
pub fn shared(address: u64) -> u8 {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn halves(bits: u64) -> [f16; 2] {
    [f16::from_bits(bits as u16), f16::from_bits((bits >> 16) as u16)]
}

fn pair(low: f16, high: f16) -> u64 {
    u64::from(low.to_bits()) | u64::from(high.to_bits()) << 16
}

impl Warp<'_> {
    fn value(&self, operand: &str, lane: usize) -> u64 {
        if let Some(values) = self.registers.get(operand) {
            return values[lane];
        }
        match operand {
            "%laneid" | "%tid.x" => return lane as u64,
            "%ctaid.x" => return self.block,
            _ => {}
        }
        if let Some(digits) = operand.strip_prefix("0x").or_else(|| operand.strip_prefix("0f")) {
            return u64::from_str_radix(digits, 16).expect("a number");
        }
        operand.parse::<i64>().unwrap_or_else(|_| panic!("{operand} is no register that was set")) as u64
    }

    fn set(&mut self, register: &str, values: [u64; 32]) {
        self.registers.insert(register.to_owned(), values);
    }

    fn step(&mut self, instruction: &Instruction<'_>) {
        assert!(instruction.guard.is_none(), "no guards here: {instruction}");
        let operands = &instruction.operands;
        if instruction.opcode == "ret" {
            return;
        }
        if instruction.opcode == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" {
            let parts: Vec<Vec<&str>> = operands.iter().map(|o| o.vector().expect("vectors")).collect();
            return self.mma(&parts);
        }
        let plain: Vec<Option<&str>> = operands.iter().map(Operand::plain).collect();
        let address = |index: usize| match &operands[index] {
            Operand::Address(parts) => parts[0].plain().expect("an address"),
            _ => panic!("no address in {instruction}"),
        };
        if instruction.opcode == "st.global.b32" {
            for lane in 0..32 {
                let at = (self.at(address(0), lane) - RESULTS) / 4;
                self.out[at as usize] = self.value(plain[1].expect("a register"), lane) as u32;
            }
            return;
        }
        let to = plain[0].expect("a register");
        let mut result = [0u64; 32];
        for (lane, result) in result.iter_mut().enumerate() {
            *result = match instruction.opcode {
                "ld.param.u64" => {
                    if address(1) == "from" {
                        0
                    } else {
                        RESULTS
                    }
                }
                "ld.param.u32" => u64::from(self.parameter),
                "ld.shared.u16" => {
                    let at = self.at(address(1), lane);
                    u64::from(shared(at)) | u64::from(shared(at + 1)) << 8
                }
                "ld.global.b32" | "ld.global.f32" => u64::from(self.words[self.at(address(1), lane) as usize / 4]),
                "shfl.sync.idx.b32" => {
                    let from = self.value(plain[2].expect("a lane"), lane) & 31;
                    self.value(plain[1].expect("a register"), from as usize)
                }
                "mov.b64" if plain[1].is_none() => {
                    let parts = operands[1].vector().expect("a vector");
                    self.value(parts[0], lane) | self.value(parts[1], lane) << 32
                }
                opcode => {
                    let sources: Vec<u64> =
                        plain[1..].iter().map(|s| self.value(s.expect("a plain operand"), lane)).collect();
                    compute(opcode, &sources)
                }
            };
        }
        self.set(to, result);
    }

    fn at(&self, address: &str, lane: usize) -> u64 {
        let (base, offset) = address.split_once('+').unwrap_or((address, "0"));
        self.value(base, lane) + offset.parse::<u64>().expect("an offset")
    }

    /// Lane t holds, of A, rows t/4 (registers 0 and 2) and t/4 + 8, k from 2 (t % 4) and, in registers 2 and 3, 8 more; of B,
    /// column t/4 and the same k.
    fn mma(&mut self, parts: &[Vec<&str>]) {
        let half = |part: usize, register: usize, lane: usize, k: usize| {
            f64::from(halves(self.value(parts[part][register], lane))[k % 2])
        };
        let mut results = [[0u64; 32]; 4];
        for lane in 0..32 {
            for (index, result) in results.iter_mut().enumerate() {
                let (row, column) = (lane / 4 + 8 * (index / 2), 2 * (lane % 4) + index % 2);
                let mut sum = f64::from(f32_of(self.value(parts[3][index], lane)));
                for k in 0..16 {
                    let holder = (k % 8) / 2;
                    let a = half(1, row / 8 + 2 * (k / 8), 4 * (row % 8) + holder, k);
                    sum += a * half(2, k / 8, 4 * column + holder, k);
                }
                result[lane] = u64::from((sum as f32).to_bits());
            }
        }
        for (register, values) in parts[0].iter().zip(results) {
            self.set(register, values);
        }
    }
}

fn compute(opcode: &str, s: &[u64]) -> u64 {
    let word = |i: usize| s[i] as u32;
    let float = |i: usize| f32_of(s[i]);
    let double = |i: usize| f64::from_bits(s[i]);
    let fp8 = |exponent: u32, mantissa: u32| {
        let half = |byte: u32| f16::from_f64(super::value(byte & 0xff, exponent, mantissa).unwrap_or(f64::NAN));
        pair(half(word(0)), half(word(0) >> 8))
    };
    u64::from(match opcode {
        "mov.b32" | "mov.u32" => word(0),
        "cvt.u32.u16" | "cvt.u16.u32" => word(0) & 0xffff,
        "cvt.u32.u8" | "cvt.u8.u32" => word(0) & 0xff,
        "and.b32" => word(0) & word(1),
        "or.b32" => word(0) | word(1),
        "xor.b32" => word(0) ^ word(1),
        "shl.b32" => word(0).checked_shl(word(1)).unwrap_or(0),
        "shr.u32" => word(0).checked_shr(word(1)).unwrap_or(0),
        "bfe.u32" => word(0) >> word(1) & ((1u64 << word(2)) - 1) as u32,
        "add.u32" => word(0).wrapping_add(word(1)),
        "mul.lo.u32" => word(0).wrapping_mul(word(1)),
        "mad.lo.u32" => word(0).wrapping_mul(word(1)).wrapping_add(word(2)),
        "min.u32" => word(0).min(word(1)),
        "abs.f32" => word(0) & 0x7fff_ffff,
        "selp.b32" => {
            if s[2] != 0 {
                word(0)
            } else {
                word(1)
            }
        }
        "setp.eq.u32" => u32::from(word(0) == word(1)),
        "setp.gt.u32" => u32::from(word(0) > word(1)),
        "setp.le.u32" => u32::from(word(0) <= word(1)),
        "setp.num.f32" => u32::from(!float(0).is_nan() && !float(1).is_nan()),
        "setp.gtu.f32" => u32::from(float(0) > float(1) || float(0).is_nan()),
        "setp.geu.f32" => u32::from(float(0) >= float(1) || float(0).is_nan()),
        "cvt.rn.f32.f64" => (double(0) as f32).to_bits(),
        "add.u64" => return s[0].wrapping_add(s[1]),
        "mul.wide.u32" => return u64::from(word(0)) * u64::from(word(1)),
        "cvt.f64.f32" => return f64::from(float(0)).to_bits(),
        "mul.rn.f64" => return (double(0) * double(1)).to_bits(),
        "fma.rn.f64" => return double(0).mul_add(double(1), double(2)).to_bits(),
        "cvt.rn.f16x2.e4m3x2" => return fp8(4, 3),
        "cvt.rn.f16x2.e5m2x2" => return fp8(5, 2),
        "mul.rn.f16x2" => {
            let (a, b) = (halves(s[0]), halves(s[1]));
            // A product of two f16 is exact in f32, so it is rounded once.
            let product = |i: usize| f16::from_f32(a[i].to_f32() * b[i].to_f32());
            return pair(product(0), product(1));
        }
        other => panic!("{other} is not an instruction that the emulation uses"),
    })
}
