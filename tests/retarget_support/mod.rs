//! What the instructions that `moebius::retarget` emulates compute, written from the PTX ISA and not from the emulation: whole
//! matrices in f64.

pub mod checks;
pub mod gpu;
pub mod warp;

/// The value of an FP4, FP6 or FP8 code with a sign, `exponent` and `mantissa` bits; none for NaN and infinity.
pub fn value(code: u32, exponent: u32, mantissa: u32) -> Option<f64> {
    let magnitude = code & ((1 << (exponent + mantissa)) - 1);
    let (e, m) = (magnitude >> mantissa, magnitude & ((1 << mantissa) - 1));
    let bias = (1 << (exponent - 1)) - 1;
    let last = (1 << exponent) - 1;
    // e4m3 has only the code of all ones as NaN, e5m2 is as in IEEE 754, the smaller formats have neither NaN nor infinity.
    match (exponent, mantissa) {
        (4, 3) if e == last && m == 7 => return None,
        (5, 2) if e == last => return None,
        _ => {}
    }
    let fraction = f64::from(m) / f64::from(1u32 << mantissa);
    let size = match e {
        0 => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(e as i32 - bias),
    };
    Some(if code >> (exponent + mantissa) & 1 == 1 { -size } else { size })
}

/// Exponent and mantissa bits of a format, and the bit of its byte at which a code begins in `kind::f8f6f4`.
pub fn format(name: &str) -> (u32, u32, u32) {
    match name {
        "e2m1" => (2, 1, 2),
        "e3m2" => (3, 2, 0),
        "e2m3" => (2, 3, 0),
        "e4m3" => (4, 3, 0),
        "e5m2" => (5, 2, 0),
        other => panic!("no format {other}"),
    }
}

/// An `mma.sync.m16n8k{k}` of the two families.
#[derive(Clone, Debug)]
pub struct Mma {
    pub k: usize,
    pub a: &'static str,
    pub b: &'static str,
    /// Scale blocks along K, 0 for none.
    pub blocks: usize,
    /// Scales are ue8m0.
    pub powers: bool,
    /// Byte and thread selectors of A and B.
    pub pick_a: [u32; 2],
    pub pick_b: [u32; 2],
}

/// The twelve registers of a lane: A, B, C, the scales of A and of B.
pub type Lane = [u32; 12];

fn scale(mma: &Mma, word: u32, byte: u32, block: usize) -> Option<f64> {
    let code = word >> (8 * (byte as usize + block)) & 0xff;
    match mma.powers {
        true => (code != 255).then(|| 2f64.powi(code as i32 - 127)),
        false => value(code & 0x7f, 4, 3),
    }
}

impl Mma {
    /// Element (row or column, k) of an operand whose registers begin at `first` of a lane.
    fn element(&self, lanes: &[Lane], line: usize, k: usize, name: &str, first: usize, tall: bool) -> Option<f64> {
        let per_register = self.k / 8;
        let half = k / (self.k / 2);
        let within = k % (self.k / 2);
        let lane = 4 * (line % 8) + within / per_register;
        let register = if tall { 2 * half + line / 8 } else { half };
        let word = lanes[lane][first + register];
        let position = within % per_register;
        let (exponent, mantissa, low) = format(name);
        let code = match self.k {
            64 => word >> (4 * position) & 0xf,
            _ => word >> (8 * position + low as usize) & ((1 << (1 + exponent + mantissa)) - 1),
        };
        value(code, exponent, mantissa)
    }

    /// The results of a warp and, of each, the sum of the sizes of its terms; a NaN anywhere in a term gives NaN.
    pub fn run(&self, lanes: &[Lane]) -> Vec<[(f64, f64); 4]> {
        let mut out = vec![[(0.0, 0.0); 4]; 32];
        for (lane, results) in out.iter_mut().enumerate() {
            for (index, result) in results.iter_mut().enumerate() {
                let (row, column) = (lane / 4 + 8 * (index / 2), 2 * (lane % 4) + index % 2);
                let start = f64::from(f32::from_bits(lanes[lane][6 + index]));
                let (mut sum, mut sizes) = (start, start.abs());
                for k in 0..self.k {
                    let a = self.element(lanes, row, k, self.a, 0, true);
                    let b = self.element(lanes, column, k, self.b, 4, false);
                    let mut term = a.zip(b).map_or(f64::NAN, |(a, b)| a * b);
                    if let Some(length) = self.k.checked_div(self.blocks) {
                        let block = k / length;
                        let from_a = 4 * (row % 8) + 2 * self.pick_a[1] as usize + row / 8;
                        let from_b = 4 * column + self.pick_b[1] as usize;
                        let scale_a = scale(self, lanes[from_a][10], self.pick_a[0], block);
                        let scale_b = scale(self, lanes[from_b][11], self.pick_b[0], block);
                        term *= scale_a.zip(scale_b).map_or(f64::NAN, |(a, b)| a * b);
                    }
                    sum += term;
                    sizes += term.abs();
                }
                *result = (sum, sizes);
            }
        }
        out
    }

    /// The instruction, with selectors as numbers or as 16-bit registers.
    pub fn ptx(&self, selectors: [&str; 4]) -> String {
        let kind = match (self.k, self.blocks, self.powers) {
            (64, 4, _) => "kind::mxf4nvf4.block_scale.scale_vec::4X",
            (64, _, _) => "kind::mxf4.block_scale.scale_vec::2X",
            (_, 0, _) => "kind::f8f6f4",
            _ => "kind::mxf8f6f4.block_scale.scale_vec::1X",
        };
        let scales = match (self.blocks, self.powers) {
            (0, _) => "",
            (_, true) => ".ue8m0",
            (_, false) => ".ue4m3",
        };
        let [byte_a, thread_a, byte_b, thread_b] = selectors;
        let extra = match self.blocks {
            0 => String::new(),
            _ => format!(", {{%r10}}, {{{byte_a}, {thread_a}}}, {{%r11}}, {{{byte_b}, {thread_b}}}"),
        };
        format!(
            "mma.sync.aligned.{kind}.m16n8k{}.row.col.f32.{}.{}.f32{scales} {{%r20,%r21,%r22,%r23}}, {{%r0,%r1,%r2,%r3}}, \
             {{%r4,%r5}}, {{%r6,%r7,%r8,%r9}}{extra};",
            self.k, self.a, self.b
        )
    }
}

/// A kernel of one warp a block that loads twelve registers a lane, runs `instruction` and stores four; `%rs0` to `%rs3` hold
/// the last parameter's bytes.
pub fn mma_kernel(instruction: &str) -> String {
    let loads: String = (0..12).map(|r| format!("ld.global.b32 %r{r}, [%rd0+{}];\n", 4 * r)).collect();
    let stores: String = (0..4).map(|r| format!("st.global.b32 [%rd1+{}], %r{};\n", 4 * r, 20 + r)).collect();
    let picks: String =
        (0..4).map(|s| format!("bfe.u32 %r30, %r31, {}, 8;\ncvt.u16.u32 %rs{s}, %r30;\n", 8 * s)).collect();
    format!(
        ".version 8.7\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 from, .param .u64 to, .param .u32 \
         picks)\n{{\n.reg .b32 %r<40>; .reg .b64 %rd<4>; .reg .b16 %rs<4>;\nld.param.u64 %rd0, [from]; ld.param.u64 %rd1, \
         [to]; ld.param.u32 %r31, [picks];\n{picks}mov.u32 %r32, %ctaid.x; mov.u32 %r33, %tid.x; mad.lo.u32 %r32, %r32, 32, \
         %r33;\nmul.wide.u32 %rd2, %r32, 48; add.u64 %rd0, %rd0, %rd2; mul.wide.u32 %rd2, %r32, 16; add.u64 %rd1, %rd1, \
         %rd2;\n{loads}{instruction}\n{stores}ret;\n}}\n"
    )
}

/// A kernel of one thread a block of two f32 (or of one 16-bit word, widened) in and one word out, around a conversion.
pub fn cvt_kernel(body: &str) -> String {
    format!(
        ".version 8.7\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 from, .param .u64 to, .param .u32 \
         unused)\n{{\n.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .b16 %h<4>; .reg .b8 %b<4>; .reg .f32 %f<4>;\nld.param.u64 \
         %rd0, [from]; ld.param.u64 %rd1, [to];\nmov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mad.lo.u32 %r0, %r0, 32, \
         %r1;\nmul.wide.u32 %rd2, %r0, 8; add.u64 %rd0, %rd0, %rd2; mul.wide.u32 %rd2, %r0, 4; add.u64 %rd1, %rd1, \
         %rd2;\nld.global.f32 %f0, [%rd0]; ld.global.f32 %f1, [%rd0+4]; ld.global.b32 %r2, [%rd0];\n{body}\nst.global.b32 \
         [%rd1], %r3;\nret;\n}}\n"
    )
}

/// The e2m1 code nearest to a value, ties to the even code, saturating; +6 for NaN.
pub fn e2m1(x: f32) -> u32 {
    if x.is_nan() {
        return 7;
    }
    // Beyond the largest value everything is as far from it as it is.
    let size = f64::from(x.abs()).min(6.0);
    let distance = |code: u32| value(code, 2, 1).map_or(f64::INFINITY, |v| (v - size).abs());
    let mut best = 0;
    for code in 1..8 {
        if distance(code) < distance(best) || (distance(code) == distance(best) && code % 2 == 0) {
            best = code;
        }
    }
    best | if x.is_sign_negative() { 8 } else { 0 }
}

/// The ue8m0 code of |x|: the power of two at or below it, or at or above it; at most 254; 255 for NaN.
pub fn ue8m0(x: f32, up: bool) -> u32 {
    if x.is_nan() {
        return 255;
    }
    let size = f64::from(x.abs());
    let of = |code: u32| 2f64.powi(code as i32 - 127);
    match up {
        true => (0..254).find(|&code| of(code) >= size).unwrap_or(254),
        false => (0..255).rev().find(|&code| of(code) <= size).unwrap_or(0),
    }
}
