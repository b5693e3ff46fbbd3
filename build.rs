//! Builds the CUDA kernels that this machine or `MOEBIUS_ARCHS` asks for; see build/mod.rs.

#[path = "build/mod.rs"]
mod cuda;

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    println!("cargo::rustc-check-cfg=cfg(moebius_cuda)");
    for path in ["build.rs", "build", "csrc", "kernels.toml", "third_party/pins.toml"] {
        println!("cargo::rerun-if-changed={path}");
    }
    for variable in cuda::settings::VARIABLES {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rustc-env=MOEBIUS_GIT_REVISION={}", git_revision());

    let folder = |name: &str| std::env::var_os(name).map(std::path::PathBuf::from).unwrap_or_default();
    let (root, out_dir) = (folder("CARGO_MANIFEST_DIR"), folder("OUT_DIR"));
    let outcome = cuda::settings::Settings::read(|name| std::env::var_os(name), &out_dir)
        .and_then(|settings| cuda::run(&root, &out_dir, &settings));
    match outcome {
        Ok(outcome) => {
            hand_over(&outcome, &out_dir);
            ExitCode::SUCCESS
        }
        Err(sentence) => {
            for line in sentence.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Tells rustc and the linker.
fn hand_over(outcome: &cuda::Outcome, out_dir: &Path) {
    for note in &outcome.notes {
        println!("cargo::warning={note}");
    }
    println!("cargo::rustc-env=MOEBIUS_BUILD_TARGETS={}", outcome.targets);
    println!("cargo::rustc-env=MOEBIUS_NVCC_VERSION={}", outcome.nvcc);
    println!("cargo::rustc-env=MOEBIUS_CUTLASS_VERSION={}", outcome.cutlass);
    println!("cargo::rustc-env=MOEBIUS_FLASHINFER_VERSION={}", outcome.flashinfer);
    let Some(cudart_dir) = &outcome.cudart_dir else { return };
    println!("cargo::rustc-cfg=moebius_cuda");
    println!("cargo::rustc-link-search=native={}", out_dir.display());
    println!("cargo::rustc-link-search=native={}", cudart_dir.display());
    println!("cargo::rustc-link-lib=static=moebius_units");
    println!("cargo::rustc-link-lib=static=cudart_static");
    // The static runtime opens the driver by itself when it is first called, so the program starts without one.
    for library in ["stdc++", "dl", "rt", "pthread"] {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}

/// The commit that is built, with `-dirty` when files differ from it; empty outside a repository.
fn git_revision() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|o| o.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    for name in ["HEAD", "logs/HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|p| Path::new(p).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    // A change of any source may make the tree differ from the commit.
    for path in ["src", "models", "benches", "Cargo.toml", "Cargo.lock"] {
        if Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]).unwrap_or_default()
}
