//! Reading a file of the user, whatever it is.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::error::{Error, shown};

/// The text of a regular file of at most `most` bytes.
pub(super) fn read_text(path: &Path, most: u64, remedy: &str) -> Result<String, Error> {
    let wrong = |problem: String| Error::File { path: shown(path), problem, remedy: remedy.to_owned() };
    // Asked before opening, because opening a pipe would wait for its other end.
    let kind = std::fs::metadata(path).map_err(|error| wrong(format!("cannot be read ({error})")))?;
    if kind.is_dir() {
        return Err(wrong("is a folder, not a file".into()));
    }
    if !kind.is_file() {
        return Err(wrong("is not a regular file".into()));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(most + 1).read_to_end(&mut bytes))
        .map_err(|error| wrong(format!("cannot be read ({error})")))?;
    if bytes.len() as u64 > most {
        return Err(wrong(format!("is larger than {most} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(good).filter(|&&b| b == b'\n').count() + 1;
        wrong(format!("is not UTF-8 text (line {line}, byte {good})"))
    })
}
