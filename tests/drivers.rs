//! Machines without a driver, with one that is too old, with one and no GPU: a sentence, and the processor is measured all the
//! same. The driver is a library of this test's own, found before any real one.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Names under which the driver's library is looked for.
const NAMES: [&str; 2] = ["libcuda.so", "libcuda.so.1"];

/// A driver of these C functions; without any, what lies there is no library, which ends the search as no file would.
fn driver(functions: &str) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let library = folder.path().join("libcuda.so");
    if functions.is_empty() {
        std::fs::write(&library, "no library").expect("a file");
    } else {
        let source = folder.path().join("driver.c");
        std::fs::write(&source, functions).expect("a file");
        let made = Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
        assert!(made.expect("gcc").success());
    }
    std::fs::copy(&library, folder.path().join(NAMES[1])).expect("a file");
    folder
}

fn moebius(driver: &Path, arguments: &[&str]) -> Output {
    let folder = TempDir::new().expect("a folder");
    Command::new(env!("CARGO_BIN_EXE_moebius"))
        .current_dir(folder.path())
        .env("LD_LIBRARY_PATH", driver)
        .args(arguments)
        .output()
        .expect("the program starts")
}

const TINY: [&str; 6] = ["verify", "--shape", "64,64,4,2", "--batch", "1", "--kernel"];

#[track_caller]
fn refused_with(functions: &str, words: &[&str]) {
    let driver = driver(functions);
    let output = moebius(driver.path(), &[&TINY[..], &["*", "--device", "cuda:0"]].concat());
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    // Without a word about the device, the processor is taken.
    for device in [&[][..], &["--device", "cpu"]] {
        let output = moebius(driver.path(), &[&TINY[..], &["stream"], device].concat());
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("cpu/cpu/"),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn no_driver() {
    refused_with("", &["no NVIDIA driver", "install the driver", "--device cpu"]);
}

#[test]
fn a_driver_too_old() {
    let version = "int cuDriverGetVersion(int *v) { *v = 12040; return 0; }\n";
    refused_with(version, &["CUDA 12.4", "12.8", "570", "--device cpu"]);
}

#[test]
fn a_driver_without_a_gpu() {
    let functions =
        "int cuDriverGetVersion(int *v) { *v = 13000; return 0; }\nint cuInit(unsigned f) { return 100; }\n";
    refused_with(functions, &["no CUDA device", "--device cpu"]);
}

#[test]
fn kernels_that_cannot_run_here_are_listed_with_the_reason() {
    let driver = driver("");
    let output = moebius(driver.path(), &["list", "kernels", "--json"]);
    let lines: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines = lines.as_array().expect("a list");
    assert!(lines.iter().any(|line| line["arch"] == "cpu" && line["runs_here"] == true));
    let units: Vec<_> = lines.iter().filter(|line| line["arch"] != "cpu").collect();
    assert!(units.len() > 20, "{} kernels for GPUs", units.len());
    for unit in units {
        let reason = unit["reason"].as_str().unwrap_or_default();
        assert!(unit["runs_here"] == false && !reason.is_empty(), "{unit}");
        assert_eq!(unit["built"] == true, unit["images"].as_array().is_some_and(|images| !images.is_empty()), "{unit}");
        if unit["built"] == true {
            assert!(reason.contains("no NVIDIA driver"), "{unit}");
            for image in unit["images"].as_array().into_iter().flatten() {
                assert!(image["registers"].as_u64().is_some_and(|n| n > 0), "{unit}");
                assert_eq!(image["sha256"].as_str().map(str::len), Some(64), "{unit}");
            }
        }
    }
    let output = moebius(driver.path(), &["list", "kernels", "--kernel", "natvie/*"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("no kernel matches `natvie/*`"), "{said}");
}
