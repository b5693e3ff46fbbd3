//! Reading results files, from anywhere and in any state.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use super::check::check;
use super::error::FileError;
use super::file::{Results, SCHEMA};

/// Largest file that is read: well above any sweep, far below the memory of a laptop.
const MAX_BYTES: u64 = 1 << 30;

/// Most characters of a sentence about a file.
const LONGEST_SENTENCE: usize = 600;

/// Reads a results file.
///
/// # Errors
/// One sentence when the file cannot be read, is no results file, is of a newer schema, is cut off, or holds something
/// that no run can have written.
pub fn read(path: &Path) -> Result<Results, FileError> {
    let file = File::open(path).map_err(|e| FileError::new(path, format!("cannot be opened ({e})")))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| FileError::new(path, format!("cannot be read ({e})")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(FileError::new(path, "is larger than 1 GiB; no results file is, so give another file"));
    }
    parse(&bytes).map_err(|message| FileError::new(path, message))
}

/// Parses the bytes of a results file.
///
/// # Errors
/// As [`read`], without the name of the file.
pub fn parse(bytes: &[u8]) -> Result<Results, String> {
    parsed(bytes).map_err(|message| printable(&message))
}

fn parsed(bytes: &[u8]) -> Result<Results, String> {
    let results = serde_json::from_slice::<Results>(bytes).map_err(|error| explain(bytes, &error))?;
    check_schema(&results.schema)?;
    check(&results).map_err(|fault| format!("{fault}; mend it or run the sweep again"))?;
    Ok(results)
}

/// A sentence that may quote the file, without what a terminal would obey and with the middle of a long quotation left out.
fn printable(message: &str) -> String {
    let plain: Vec<char> = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if plain.len() <= LONGEST_SENTENCE {
        return plain.into_iter().collect();
    }
    let (start, end) = (&plain[..LONGEST_SENTENCE / 2], &plain[plain.len() - LONGEST_SENTENCE / 2..]);
    format!("{} ... {}", start.iter().collect::<String>(), end.iter().collect::<String>())
}

/// The schema word alone, whatever surrounds it.
#[derive(Deserialize)]
struct SchemaWord {
    schema: Option<serde_json::Value>,
}

/// Says what is wrong with a file that did not parse: another schema first, then the place.
fn explain(bytes: &[u8], error: &serde_json::Error) -> String {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return "is empty; run the sweep again".to_string();
    }
    if let Ok(SchemaWord { schema }) = serde_json::from_slice::<SchemaWord>(bytes) {
        match schema {
            Some(serde_json::Value::String(word)) => {
                if let Err(message) = check_schema(&word) {
                    return message;
                }
            }
            _ => return format!("has no schema word `{SCHEMA}`; give a file that `moebius run --out` wrote"),
        }
    }
    match error.classify() {
        serde_json::error::Category::Eof => {
            format!("ends in the middle, at line {}; copy it again or run the sweep again", error.line())
        }
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => {
            format!("is not JSON: {error}; give a file that `moebius run --out` wrote")
        }
        serde_json::error::Category::Data => {
            let place = field_of(bytes).map(|field| format!("field `{field}`: ")).unwrap_or_default();
            format!("{place}{error}; mend the field or run the sweep again")
        }
    }
}

/// The path of the first field that does not parse. Slower than plain parsing, so only done after a failure.
fn field_of(bytes: &[u8]) -> Option<String> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let error = serde_path_to_error::deserialize::<_, Results>(&mut deserializer).err()?;
    let path = error.path().to_string();
    (path != ".").then_some(path)
}

/// Accepts this version's schema word and no other.
fn check_schema(word: &str) -> Result<(), String> {
    if word == SCHEMA {
        return Ok(());
    }
    let version = |w: &str| w.rsplit_once('/').and_then(|(name, v)| Some((name.to_string(), v.parse::<u64>().ok()?)));
    match (version(word), version(SCHEMA)) {
        (Some((name, found)), Some((own_name, own))) if name == own_name && found > own => {
            Err(format!("is of schema `{name}/{found}`, newer than `{SCHEMA}` that this moebius reads; update moebius"))
        }
        _ => {
            let word: String = word.chars().take(60).collect();
            Err(format!("is of schema `{word}`, not `{SCHEMA}`; give a file that `moebius run --out` wrote"))
        }
    }
}
