//! A small fuzzer for parsers: mutates good inputs, by bytes and by JSON structure, for as long as it is given.
//!
//! `MOEBIUS_FUZZ_SECONDS` sets the time of each target (2 by default), `MOEBIUS_FUZZ_SEED` the seed (0). Equal seeds try
//! equal inputs in equal order. An input that makes the parser panic is printed, escaped, and fails the test.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use moebius::shape::Rng;
use serde_json::Value;

/// Largest input tried.
const LONGEST: usize = 1 << 16;
/// Accepted mutants kept as new starting points.
const POOL: usize = 512;
/// Mutations one after another.
const MOST_MUTATIONS: u32 = 6;

/// Calls `parse` with mutants of `seeds` until the time is up. `parse` says whether it accepted the input, and panics
/// if it finds something wrong; accepted mutants are mutated further.
pub fn run(target: &str, seeds: &[&[u8]], parse: impl Fn(&[u8]) -> bool) {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no whole number")),
        Err(_) => default,
    };
    let end = Instant::now() + Duration::from_secs(number("MOEBIUS_FUZZ_SECONDS", 2));
    let mut rng = Rng::new(number("MOEBIUS_FUZZ_SEED", 0), 0);
    let mut pool: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.to_vec()).collect();
    let (mut tried, mut accepted) = (0u64, 0u64);
    while tried < seeds.len() as u64 || Instant::now() < end {
        // The seeds themselves come first.
        let input = match seeds.get(tried as usize) {
            Some(seed) => seed.to_vec(),
            None => mutant(&mut rng, &pool),
        };
        tried += 1;
        match catch_unwind(AssertUnwindSafe(|| parse(&input))) {
            Ok(false) => {}
            Ok(true) => {
                accepted += 1;
                if pool.len() < POOL {
                    pool.push(input);
                } else {
                    let place = rng.below((POOL - seeds.len()) as u32) as usize + seeds.len();
                    pool[place] = input;
                }
            }
            Err(panic) => {
                eprintln!("{target}: input {tried} panics: \"{}\"", input.escape_ascii());
                resume_unwind(panic);
            }
        }
    }
    println!("{target}: {tried} inputs, {accepted} accepted");
    assert!(accepted >= 1, "{target}: no seed is accepted");
}

fn pick<'a, T>(rng: &mut Rng, items: &'a [T]) -> &'a T {
    &items[rng.below(items.len() as u32) as usize]
}

fn mutant(rng: &mut Rng, pool: &[Vec<u8>]) -> Vec<u8> {
    let mut input = pick(rng, pool).clone();
    for _ in 0..=rng.below(MOST_MUTATIONS) {
        let json = if rng.below(3) > 0 { serde_json::from_slice::<Value>(&input).ok() } else { None };
        match json {
            Some(mut value) => {
                mutate_json(rng, &mut value);
                input = value.to_string().into_bytes();
            }
            None => mutate_bytes(rng, &mut input, pool),
        }
        input.truncate(LONGEST);
    }
    input
}

/// Text that parsers stumble over.
const HOSTILE: &[&str] = &[
    "0",
    "-1",
    "1",
    "4294967295",
    "4294967296",
    "18446744073709551616",
    "1e308",
    "1e999",
    "0.5",
    "-0",
    "NaN",
    "inf",
    "null",
    "true",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "x",
    "..",
    "#",
    "\n",
    "\0",
    "\u{feff}",
    "\\ud800",
    "\u{1b}[2J",
    "\u{202e}",
    "\u{1d11e}",
    "[[[[[[[[[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":",
    "4095x4096",
    "99999999999999999999999999999999",
];

fn mutate_bytes(rng: &mut Rng, input: &mut Vec<u8>, pool: &[Vec<u8>]) {
    let place = |rng: &mut Rng, input: &[u8]| rng.below(input.len() as u32 + 1) as usize;
    let (a, b) = (place(rng, input), place(rng, input));
    let (from, to) = (a.min(b), a.max(b).min(a.min(b) + 32));
    match rng.below(8) {
        0 => input.truncate(from),
        1 => drop(input.drain(from..to)),
        2 => drop(input.splice(from..from, pick(rng, HOSTILE).bytes())),
        3 => drop(input.splice(from..to, pick(rng, HOSTILE).bytes())),
        4 => input.insert(from, rng.next_u64() as u8),
        5 => {
            let copy = input[from..to].repeat(1 + rng.below(8) as usize);
            drop(input.splice(from..from, copy));
        }
        6 => {
            let other = pick(rng, pool);
            let cut = place(rng, other);
            input.truncate(from);
            input.extend_from_slice(&other[cut..]);
        }
        _ => {
            if let Some(byte) = input.get_mut(from) {
                *byte ^= 1 << rng.below(8);
            }
        }
    }
}

/// Changes one value, or one name, somewhere in a document.
fn mutate_json(rng: &mut Rng, value: &mut Value) {
    match value {
        Value::Object(object) if !object.is_empty() && rng.below(8) > 0 => {
            let keys: Vec<String> = object.keys().cloned().collect();
            let key = pick(rng, &keys);
            match rng.below(8) {
                0 => drop(object.remove(key)),
                1 => {
                    let moved = object.remove(key).unwrap_or_default();
                    object.insert(pick(rng, &keys).clone(), moved);
                }
                2 => {
                    let copy = object[key].clone();
                    object.insert(pick(rng, &keys).clone(), copy);
                }
                _ => mutate_json(rng, &mut object[key]),
            }
        }
        Value::Array(list) if !list.is_empty() && rng.below(8) > 0 => {
            let at = rng.below(list.len() as u32) as usize;
            match rng.below(8) {
                0 => drop(list.remove(at)),
                1 => list.truncate(at),
                2 => list.insert(at, list[at].clone()),
                _ => mutate_json(rng, &mut list[at]),
            }
        }
        _ => *value = hostile_value(rng, value),
    }
}

fn hostile_value(rng: &mut Rng, old: &Value) -> Value {
    match rng.below(14) {
        0 => Value::Null,
        1 => Value::Bool(rng.below(2) == 0),
        2 => 0.into(),
        3 => (-1).into(),
        4 => u32::MAX.into(),
        5 => u64::MAX.into(),
        6 => (1e308).into(),
        7 => Value::String(pick(rng, HOSTILE).repeat(1 + rng.below(40) as usize)),
        8 => Value::Array(vec![old.clone(); rng.below(5) as usize]),
        9 => serde_json::json!({ "a": old }),
        10 => (0..rng.below(100)).fold(old.clone(), |inner, _| Value::Array(vec![inner])),
        11 => Value::String(old.to_string()),
        12 => (rng.below(16)).into(),
        _ => match old.as_f64() {
            Some(number) => (number * [0.5, 2.0, -1.0, 1.5][rng.below(4) as usize]).into(),
            None => Value::Object(serde_json::Map::new()),
        },
    }
}
