//! Writes the PTX that takes an instruction's place.

use std::fmt::Write as _;

/// Registers of one emulated instruction and the lines that use them, in braces of their own.
///
/// Names begin with `%rt_`: they hide nothing that nvcc, Triton or a person would call a register.
pub struct Block {
    declarations: String,
    lines: String,
    count: u32,
    id: usize,
}

impl Block {
    /// An empty block; `id` tells its labels from those of other blocks of the text.
    pub fn new(id: usize) -> Self {
        Block { declarations: String::new(), lines: String::new(), count: 0, id }
    }

    /// A new register of a type such as `b32` or `pred`.
    pub fn register(&mut self, kind: &str) -> String {
        let name = format!("%rt_{}", self.count);
        self.count += 1;
        let _ = write!(self.declarations, ".reg .{kind} {name}; ");
        name
    }

    /// One line.
    pub fn line(&mut self, line: &str) {
        let _ = writeln!(self.lines, "\t{line}");
    }

    /// `opcode destination, sources;` with a new destination of this type, which is returned.
    pub fn set(&mut self, kind: &str, opcode: &str, sources: &[&str]) -> String {
        let to = self.register(kind);
        self.line(&format!("{opcode} {to}, {};", sources.join(", ")));
        to
    }

    /// As [`set`](Self::set) for a 32-bit register.
    pub fn b32(&mut self, opcode: &str, sources: &[&str]) -> String {
        self.set("b32", opcode, sources)
    }

    /// Lane of the warp.
    pub fn lane(&mut self) -> String {
        self.b32("mov.u32", &["%laneid"])
    }

    /// `register` of another lane of the whole warp.
    pub fn of_lane(&mut self, register: &str, lane: &str) -> String {
        self.b32("shfl.sync.idx.b32", &[register, lane, "31", "-1"])
    }

    /// The block as text, under the guard of the instruction that it replaces.
    pub fn finish(self, guard: Option<(bool, &str)>) -> String {
        let Block { declarations, lines, id, .. } = self;
        match guard {
            None => format!("{{ {declarations}\n{lines}\t}}"),
            Some((negated, predicate)) => {
                let not = if negated { "" } else { "!" };
                format!("{{ {declarations}\n\t@{not}{predicate} bra $rt_{id}_end;\n{lines}\t$rt_{id}_end:\n\t}}")
            }
        }
    }
}
