//! src/device/abi.rs is what bindgen makes of csrc/abi.h and csrc/support/support.h. Sizes and offsets are asserted inside that file itself.

use std::path::Path;
use std::process::Command;

/// The checked-in bindings name every function, field and constant of the header, with the same constants.
#[test]
fn bindings_name_everything_in_the_header() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect(path);
    let header = read("csrc/abi.h") + &read("csrc/support/support.h");
    let bindings = std::fs::read_to_string(root.join("src/device/abi.rs")).expect("src/device/abi.rs");
    let mut constants = 0;
    for line in header.lines() {
        let mut words = line.split_whitespace();
        if let (Some("#define"), Some(name), Some(value)) = (words.next(), words.next(), words.next()) {
            let value = value.trim_end_matches('u');
            assert!(bindings.contains(&format!("pub const {name}: u32 = {value};")), "{name} {value}");
            constants += 1;
        }
    }
    assert!(constants >= 13, "{constants} constants");
    // Fields: the last word before `;` of a declaration, or the name in `(*name)(`.
    let code = header.lines().filter(|l| l.starts_with("  ")).map(|l| l.split("/*").next().unwrap_or(l));
    // The last lines of prototypes are no fields.
    let is_field = |l: &&str| l.contains(';') && !l.trim().starts_with('*') && (!l.contains(");") || l.contains("(*"));
    for declaration in code.filter(is_field) {
        let name = match declaration.split_once("(*") {
            Some((_, rest)) => rest.split(')').next(),
            None => declaration
                .split(';')
                .next()
                .and_then(|d| d.rsplit([' ', '*']).next())
                .map(|n| n.split('[').next().unwrap_or(n)),
        };
        let name = name.expect("a declaration has a name");
        assert!(bindings.contains(&format!("pub {name}:")), "field {name} of the headers");
    }
}

/// Where bindgen is installed (CI installs it), what it makes is what is checked in.
#[test]
fn bindings_are_what_bindgen_makes() {
    if Command::new("bindgen").arg("--version").output().is_err() {
        eprintln!("bindgen is not installed: only names and values were compared");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = Command::new(root.join("build/bindings.sh")).output().expect("build/bindings.sh");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let checked_in = std::fs::read_to_string(root.join("src/device/abi.rs")).expect("src/device/abi.rs");
    assert!(String::from_utf8_lossy(&made.stdout) == checked_in, "run build/bindings.sh > src/device/abi.rs");
}
