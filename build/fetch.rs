//! Fetches a pinned set of packages with pip, which checks the hashes, and unpacks what is needed of it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::pins::Set;
use super::settings::Settings;

/// Unpacks the wheels named after the destination; only the prefixes that follow, as pairs `from to`.
const UNPACK: &str = r"
import os, shutil, sys, zipfile
wheels, into, *pairs = sys.argv[1:]
pairs = list(zip(pairs[::2], pairs[1::2]))
for wheel in os.listdir(wheels):
    if not wheel.endswith('.whl'):
        continue
    with zipfile.ZipFile(os.path.join(wheels, wheel)) as archive:
        for name in archive.namelist():
            for start, to in pairs:
                if name.startswith(start) and not name.endswith('/'):
                    path = os.path.join(into, to + name[len(start):])
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with archive.open(name) as source, open(path, 'wb') as target:
                        shutil.copyfileobj(source, target)
                    break
";

/// The folder of the unpacked set; fetched when it is not in the cache yet.
///
/// `what` names the set in sentences, `remedy` says what to set instead.
///
/// # Errors
/// One sentence: offline, no Python or pip, a hash that does not match, no space, or what pip said last.
pub fn set(set: &Set, what: &str, remedy: &str, settings: &Settings) -> Result<PathBuf, String> {
    let folder = settings.cache_dir.join("fetched");
    let name = what.split(" (").next().unwrap_or(what).replace(' ', "-");
    let wanted = folder.join(format!("{name}-{}", &super::sha256(format!("{set:?}").as_bytes())[..12]));
    if wanted.is_dir() {
        return Ok(wanted);
    }
    if settings.offline {
        return Err(format!("{what} is not on this machine and the build is offline: {remedy}"));
    }
    super::progress(&format!("fetching {what}"));
    let scratch = folder.join(format!("partial-{name}-{}", std::process::id()));
    let result = fetch_into(set, what, remedy, settings, &scratch).and_then(|unpacked| {
        match std::fs::rename(&unpacked, &wanted) {
            Ok(()) => Ok(wanted.clone()),
            // Another build was quicker.
            Err(_) if wanted.is_dir() => Ok(wanted.clone()),
            Err(e) => Err(cannot_write(what, &wanted, &e)),
        }
    });
    // Left-overs cost space only; the next fetch begins anew.
    let _ = std::fs::remove_dir_all(&scratch);
    result
}

fn fetch_into(set: &Set, what: &str, remedy: &str, settings: &Settings, scratch: &Path) -> Result<PathBuf, String> {
    let wheels = scratch.join("wheels");
    let unpacked = scratch.join("unpacked");
    let requirements = scratch.join("requirements.txt");
    for folder in [&wheels, &unpacked] {
        std::fs::create_dir_all(folder).map_err(|e| cannot_write(what, folder, &e))?;
    }
    std::fs::write(&requirements, set.requirements()).map_err(|e| cannot_write(what, &requirements, &e))?;

    let mut pip = Command::new(&settings.python);
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]);
    pip.args(["--only-binary", ":all:", "--retries", "2", "--timeout", "30"]);
    pip.arg("--dest").arg(&wheels).arg("--requirement").arg(&requirements);
    // Where pip builds its temporary files: beside the cache, not in a small /tmp.
    pip.env("TMPDIR", scratch);
    run(pip, what, remedy, settings)?;

    let mut python = Command::new(&settings.python);
    python.arg("-c").arg(UNPACK).arg(&wheels).arg(&unpacked);
    for unpack in &set.unpack {
        python.arg(&unpack.from).arg(&unpack.to);
    }
    run(python, what, remedy, settings)?;
    for folder in ["bin", "bin/crt", "nvvm/bin"] {
        make_executable(&unpacked.join(folder)).map_err(|e| cannot_write(what, &unpacked, &e))?;
    }
    Ok(unpacked)
}

fn run(mut command: Command, what: &str, remedy: &str, settings: &Settings) -> Result<(), String> {
    let output = command.output().map_err(|e| match e.kind() {
        ErrorKind::NotFound => format!(
            "{what} is not on this machine and `{}` was not found to fetch it: install Python with pip, or {remedy}",
            settings.python.display()
        ),
        _ => format!("`{}` could not be started to fetch {what}: {e}", settings.python.display()),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(explain(&said, what, remedy, settings))
}

/// pip's complaint as one sentence.
fn explain(said: &str, what: &str, remedy: &str, settings: &Settings) -> String {
    if said.contains("No space left on device") {
        return format!(
            "no space left in {} while fetching {what}: free some, or set MOEBIUS_CACHE_DIR to a larger disk",
            settings.cache_dir.display()
        );
    }
    if said.contains("DO NOT MATCH THE HASHES") {
        return format!(
            "what pip fetched for {what} does not have the hash of third_party/pins.toml, so it was thrown away: \
             check the package index that pip is set to use, or {remedy}"
        );
    }
    if said.contains("No module named pip") {
        return format!("`{}` has no pip to fetch {what}: install pip, or {remedy}", settings.python.display());
    }
    let unreachable =
        ["ConnectionError", "NewConnectionError", "Could not find a version", "timed out", "Name or service"];
    if unreachable.iter().any(|sign| said.contains(sign)) {
        return format!("{what} is not on this machine and pip could not reach a package index that has it: {remedy}");
    }
    let last = said.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("nothing");
    format!("fetching {what} failed, pip said `{}`: {remedy}", last.trim())
}

fn cannot_write(what: &str, path: &Path, error: &std::io::Error) -> String {
    if error.kind() == ErrorKind::StorageFull {
        return format!(
            "no space left for {what} at {}: free some, or set MOEBIUS_CACHE_DIR to a larger disk",
            path.display()
        );
    }
    format!("{} cannot be written for {what} ({error}): set MOEBIUS_CACHE_DIR to a folder that can", path.display())
}

fn make_executable(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_file() {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}
