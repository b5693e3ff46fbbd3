//! Errors of the command line, each with the exit code of the contract.

/// An error that ends the program.
#[derive(Debug)]
pub struct CliError {
    /// Exit code.
    pub code: u8,
    /// One sentence.
    pub message: String,
}

impl CliError {
    /// Usage or bad input.
    pub fn input(message: impl ToString) -> Self {
        CliError { code: 2, message: message.to_string() }
    }

    /// The machine cannot do it.
    pub fn machine(message: impl ToString) -> Self {
        CliError { code: 3, message: message.to_string() }
    }
}

/// A usage error of the argument parser on one line: what is wrong, its hints, and where help is.
pub fn usage_sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let mut parts = Vec::new();
    for paragraph in text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        if paragraph.starts_with("Usage:") {
            continue;
        }
        let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        parts.push(line.strip_prefix("error: ").unwrap_or(&line).trim_end_matches('.').to_owned());
    }
    parts.join("; ")
}

/// Prints to standard output. A closed pipe ends the program quietly, as it does for other tools.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: &str) -> Result<(), CliError> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.map_err(|e| CliError::machine(format!("standard output cannot be written ({e})"))),
    }
}

/// Prints a value as JSON.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), CliError> {
    let text =
        serde_json::to_string_pretty(value).map_err(|e| CliError::machine(format!("no JSON can be made ({e})")))?;
    print(&(text + "\n"))
}
