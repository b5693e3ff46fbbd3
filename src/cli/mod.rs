//! The command line: one file per verb.

/// Parses the command line, runs the verb and turns the outcome into the exit code of the contract:
/// 0 done; 1 a gate or verification failed; 2 usage or bad input; 3 the machine cannot do it.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(3)
}
