//! What is checked of the emulation, on whatever runs the rewritten text.

use super::{Lane, Mma, cvt_kernel, e2m1, mma_kernel, ue8m0, value};

/// What runs a kernel: `run(ptx, words in, count of words out, blocks of a warp, parameter)`.
#[derive(Clone, Copy)]
pub struct Machine {
    pub run: fn(&str, &[u32], usize, usize, u32) -> Vec<u32>,
    /// Random fragments of a check.
    pub fragments: usize,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 32) as u32
    }
}

/// Compares blocks of lanes with the model; `exact` where sums have one term.
fn check(on: Machine, mma: &Mma, fragments: &[Vec<Lane>], registers: bool, exact: bool) {
    let [a, b] = [mma.pick_a, mma.pick_b];
    let numbers = [a[0], a[1], b[0], b[1]].map(|n| n.to_string());
    let selectors = match registers {
        true => ["%rs0", "%rs1", "%rs2", "%rs3"],
        false => [numbers[0].as_str(), &numbers[1], &numbers[2], &numbers[3]],
    };
    let words: Vec<u32> = fragments.iter().flatten().flatten().copied().collect();
    let picks = a[0] | a[1] << 8 | b[0] << 16 | b[1] << 24;
    let out = (on.run)(&mma_kernel(&mma.ptx(selectors)), &words, fragments.len() * 128, fragments.len(), picks);
    for (number, lanes) in fragments.iter().enumerate() {
        for (lane, results) in mma.run(lanes).iter().enumerate() {
            for (index, &(expected, sizes)) in results.iter().enumerate() {
                let got = f64::from(f32::from_bits(out[number * 128 + lane * 4 + index]));
                let bound = if exact { 0.0 } else { sizes * 2f64.powi(-19) };
                let right = (expected.is_nan() && got.is_nan()) || (got - expected).abs() <= bound;
                assert!(right, "{mma:?}: fragment {number} lane {lane} result {index}: {got}, not {expected}");
            }
        }
    }
}

/// Scale bytes that keep sums within f32.
fn scales(random: &mut Random, powers: bool) -> u32 {
    let mut byte = || if powers { 107 + random.next() % 40 } else { random.next() % 127 };
    byte() | byte() << 8 | byte() << 16 | byte() << 24
}

fn fragment(random: &mut Random, mma: &Mma) -> Vec<Lane> {
    let operand = |random: &mut Random, name: &str| {
        let (exponent, mantissa, low) = super::format(name);
        if mma.k == 64 {
            return random.next();
        }
        let mut word = 0;
        for byte in 0..4 {
            let code = loop {
                let code = random.next() & ((1 << (1 + exponent + mantissa)) - 1);
                if value(code, exponent, mantissa).is_some() {
                    break code;
                }
            };
            word |= code << (8 * byte + low);
        }
        word
    };
    (0..32)
        .map(|_| {
            let mut lane: Lane = [0; 12];
            lane[..4].fill_with(|| operand(random, mma.a));
            lane[4..6].fill_with(|| operand(random, mma.b));
            lane[6..10].fill_with(|| (random.next() as i32 as f32 / 1e7).to_bits());
            lane[10..].fill_with(|| scales(random, mma.powers));
            lane
        })
        .collect()
}

pub fn fragments_under_every_selector(on: Machine) {
    let mut random = Random(7);
    for (k, a, b, blocks, powers, bytes) in [
        (64, "e2m1", "e2m1", 4, false, vec![0]),
        (64, "e2m1", "e2m1", 4, true, vec![0]),
        (64, "e2m1", "e2m1", 2, true, vec![0, 2]),
        (32, "e2m1", "e4m3", 1, true, vec![0, 1, 2, 3]),
    ] {
        for &byte_a in &bytes {
            for &byte_b in &bytes {
                for pick in 0..8 {
                    let mma = Mma { k, a, b, blocks, powers, pick_a: [byte_a, pick % 2], pick_b: [byte_b, pick / 2] };
                    let fragments: Vec<_> = (0..on.fragments).map(|_| fragment(&mut random, &mma)).collect();
                    check(on, &mma, &fragments, pick % 3 == 0, false);
                }
            }
        }
    }
}

pub fn every_pair_of_formats(on: Machine) {
    let mut random = Random(11);
    let formats = ["e2m1", "e3m2", "e2m3", "e4m3", "e5m2"];
    for a in formats {
        for b in formats {
            for blocks in [0, 1] {
                let mma = Mma { k: 32, a, b, blocks, powers: true, pick_a: [1, 1], pick_b: [2, 3] };
                let fragments: Vec<_> = (0..on.fragments).map(|_| fragment(&mut random, &mma)).collect();
                check(on, &mma, &fragments, false, false);
            }
        }
    }
}

/// Rows of A hold every code in every block, their scales are all bytes, and a column of B has one value: no sum has two terms.
pub fn every_e2m1_with_every_ue4m3_exactly(on: Machine) {
    let mma = Mma { k: 64, a: "e2m1", b: "e2m1", blocks: 4, powers: false, pick_a: [0, 0], pick_b: [0, 0] };
    let mut fragments = Vec::new();
    for bytes in 0..2u32 {
        for eighth in 0..8 {
            let mut lanes: Vec<Lane> = vec![[0; 12]; 32];
            for (lane, own) in lanes.iter_mut().enumerate() {
                for word in &mut own[..4] {
                    // k of the first value: 8 (t % 4), so codes are k % 16.
                    *word = if lane % 2 == 0 { 0x7654_3210 } else { 0xfedc_ba98 };
                }
                // Column t/4 is 1 (code 2) at k = 8 eighth + t/4.
                let k = 8 * eighth + lane / 4;
                if (k % 32) / 8 == lane % 4 {
                    own[4 + k / 32] = 2 << (4 * (k % 8));
                }
                own[11] = 0x3838_3838;
                let row = lane / 4 + 8 * (lane % 2);
                let first = 64 * bytes + 4 * row as u32;
                own[10] = first | (first + 1) << 8 | (first + 2) << 16 | (first + 3) << 24;
            }
            fragments.push(lanes);
        }
    }
    // The last byte of all is NaN and makes its rows NaN: bytes 124 to 127 lie in one row of the second half.
    check(on, &mma, &fragments, false, true);
}

pub fn a_nan_scale_makes_its_row_or_column_nan(on: Machine) {
    let mut random = Random(23);
    for (k, a, blocks, powers, nan) in
        [(64, "e2m1", 4, false, 0x7f), (64, "e2m1", 2, true, 0xff), (32, "e4m3", 1, true, 0xff)]
    {
        let mma = Mma { k, a, b: a, blocks, powers, pick_a: [0, 0], pick_b: [0, 0] };
        let mut fragments: Vec<_> = (0..32).map(|_| fragment(&mut random, &mma)).collect();
        for (number, lanes) in fragments.iter_mut().enumerate() {
            lanes[number][10 + number % 2] = nan;
        }
        check(on, &mma, &fragments, false, false);
    }
}

/// Midpoints, values and their neighbours, both signs, zeros, what saturates, NaN, and random numbers.
fn numbers() -> Vec<f32> {
    let mut found =
        vec![0.0f32, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE];
    found.extend([
        1e-45,
        6.0,
        7.0,
        1e30,
        f32::from_bits(0x0040_0000),
        f32::from_bits(0x0040_0001),
        f32::from_bits(0x003f_ffff),
    ]);
    for quarter in 0..32 {
        found.push(quarter as f32 * 0.25);
    }
    for exponent in -126..=127 {
        found.push(2f32.powi(exponent));
    }
    let near: Vec<f32> =
        found.iter().filter(|x| x.is_finite()).flat_map(|x| [x.next_up(), x.next_down(), -x]).collect();
    found.extend(near);
    let mut random = Random(3);
    found.extend((0..4096).map(|_| f32::from_bits(random.next())));
    found.extend((0..4096).map(|_| random.next() as i32 as f32 / 2f32.powi(28)));
    found.resize(found.len().div_ceil(32) * 32, 1.0);
    found
}

fn converted(on: Machine, body: &str, words: impl Iterator<Item = [u32; 2]>) -> Vec<u32> {
    let words: Vec<u32> = words.flatten().collect();
    let count = words.len() / 2;
    (on.run)(&cvt_kernel(body), &words, count, count / 32, 0)
}

pub fn conversions_to_e2m1_round_as_the_model(on: Machine) {
    let numbers = numbers();
    let pairs = || numbers.iter().zip(numbers.iter().rev());
    let body = "cvt.rn.satfinite.e2m1x2.f32 %b0, %f0, %f1; cvt.u32.u8 %r3, %b0;";
    let out = converted(on, body, pairs().map(|(a, b)| [a.to_bits(), b.to_bits()]));
    for ((high, low), got) in pairs().zip(out) {
        assert_eq!(got, e2m1(*high) << 4 | e2m1(*low), "{high:e} {low:e}");
    }
}

pub fn conversions_to_ue8m0_round_as_the_model(on: Machine) {
    let numbers = numbers();
    let pairs = || numbers.iter().zip(numbers.iter().rev());
    for (word, up) in [("rp", true), ("rz", false)] {
        let body = format!("cvt.{word}.satfinite.ue8m0x2.f32 %h0, %f0, %f1; cvt.u32.u16 %r3, %h0;");
        let out = converted(on, &body, pairs().map(|(a, b)| [a.to_bits(), b.to_bits()]));
        for ((high, low), got) in pairs().zip(out) {
            assert_eq!(got, ue8m0(*high, up) << 8 | ue8m0(*low, up), "{word} {high:e} {low:e}");
        }
    }
}

pub fn conversions_from_codes_are_exact(on: Machine) {
    let out = converted(on, "cvt.u8.u32 %b0, %r2; cvt.rn.f16x2.e2m1x2 %r3, %b0;", (0..256).map(|code| [code, 0]));
    for (code, got) in (0u32..).zip(out) {
        for (nibble, half) in [(code & 15, got & 0xffff), (code >> 4, got >> 16)] {
            let expected = half::f16::from_f64(value(nibble, 2, 1).expect("e2m1 has no NaN"));
            assert_eq!(half, u32::from(expected.to_bits()) | (nibble & 8) << 12, "code {code}");
        }
    }
    let out =
        converted(on, "cvt.u16.u32 %h0, %r2; cvt.rn.bf16x2.ue8m0x2 %r3, %h0;", (0..256).map(|code| [code << 8 | 1, 0]));
    for (code, got) in (0u32..).zip(out) {
        let expected = if code == 255 { f32::NAN } else { 2f32.powi(code as i32 - 127) };
        let high = f32::from_bits(got & 0xffff_0000);
        assert!(high == expected || (high.is_nan() && expected.is_nan()), "code {code}: {high:e}");
        assert_eq!(f32::from_bits(got << 16), 2f32.powi(-126));
    }
}
