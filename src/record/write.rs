//! Writing files so that a reader finds either the old one or the new one, never half of one.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::check::check;
use super::error::FileError;
use super::file::Results;

/// Writes a results file: one line for each row, so that two files can be compared line by line.
///
/// The file appears under its name only when it is whole and on disk; an existing file stays until then.
///
/// # Errors
/// One sentence when the folder cannot be written, the disk is full, or `results` holds a number that no file can hold.
pub fn write(path: &Path, results: &Results) -> Result<(), FileError> {
    check(results).map_err(|fault| FileError::new(path, format!("not written: {fault}")))?;
    write_atomic(path, |out| write_json(out, results))
}

/// Writes a text file with the same promise as [`write()`].
///
/// # Errors
/// As [`write()`].
pub fn write_text(path: &Path, text: &str) -> Result<(), FileError> {
    write_bytes(path, text.as_bytes())
}

/// Writes any other file, such as a picture, with the same promise as [`write()`].
///
/// # Errors
/// As [`write()`].
pub fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    write_atomic(path, |out| out.write_all(bytes))
}

/// Writes results as JSON.
///
/// # Errors
/// Those of the writer.
pub fn write_json(out: &mut dyn Write, results: &Results) -> io::Result<()> {
    out.write_all(b"{\n")?;
    write_field(out, "schema", &results.schema)?;
    write_field(out, "tool", &results.tool)?;
    write_field(out, "host", &results.host)?;
    write_field(out, "device", &results.device)?;
    write_field(out, "ceilings", &results.ceilings)?;
    write_field(out, "settings", &results.settings)?;
    for (name, value) in &results.extra {
        write_field(out, name, value)?;
    }
    out.write_all(b"\"rows\": [")?;
    for (index, row) in results.rows.iter().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        serde_json::to_writer(&mut *out, row)?;
    }
    out.write_all(b"\n]\n}\n")
}

fn write_field(out: &mut dyn Write, name: &str, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, name)?;
    out.write_all(b": ")?;
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b",\n")
}

/// Writes to a temporary file beside `path`, flushes it to disk, then gives it the name.
fn write_atomic(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), FileError> {
    let failed = |e: io::Error| FileError::new(path, format!("cannot be written ({e}); nothing was changed there"));
    let target = resolve(path).map_err(failed)?;
    // A device or a pipe cannot be renamed onto.
    if target.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let file = std::fs::OpenOptions::new().write(true).open(&target).map_err(failed)?;
        let mut out = BufWriter::new(file);
        return fill(&mut out).and_then(|()| out.flush()).map_err(failed);
    }
    if target.is_dir() {
        return Err(FileError::new(path, "is a folder; give the name of a file"));
    }
    let folder = folder_of(&target);
    let temporary = temporary_in(&folder).map_err(failed)?;
    let mut out = BufWriter::new(temporary);
    fill(&mut out).map_err(failed)?;
    let temporary = out.into_inner().map_err(|e| failed(e.into_error()))?;
    temporary.as_file().sync_all().map_err(failed)?;
    if let Ok(old) = target.metadata() {
        temporary.as_file().set_permissions(old.permissions()).map_err(failed)?;
    }
    temporary.persist(&target).map_err(|e| failed(e.error))?;
    // The name is durable once the folder is; a file system that cannot flush a folder has it all the same.
    if let Ok(folder) = std::fs::File::open(&folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Follows a symbolic link, so that the file it points to is replaced and not the link.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_symlink() => path.canonicalize(),
        _ => Ok(path.to_path_buf()),
    }
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

fn temporary_in(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".moebius-").suffix(".tmp");
    // Readable like any other file: the process's umask applies.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}
