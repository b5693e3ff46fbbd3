//! A `config.json`.
#![no_main]

#[path = "../../tests/common/shape_targets.rs"]
#[allow(dead_code)] // the other targets use the rest
mod shape_targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    shape_targets::config(bytes);
});
