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
