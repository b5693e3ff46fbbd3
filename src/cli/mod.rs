//! The command line: one file per verb.

mod args;
mod cases;
mod confirm;
mod doctor;
mod error;
mod files;
mod kernels;
mod list;
mod machine;
mod progress;
mod run;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Verb};
use error::CliError;

/// Parses the command line, runs the verb and turns the outcome into the exit code of the contract:
/// 0 done; 1 a gate or verification failed; 2 usage or bad input; 3 the machine cannot do it.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap gives help and version as errors too, which end well.
            if error.use_stderr() {
                eprintln!("moebius: {}", error::usage_sentence(&error));
                return ExitCode::from(2);
            }
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
    };
    let outcome = match cli.verb {
        None => run::run(&args::default_run()),
        Some(Verb::Run(args)) => run::run(&args),
        Some(Verb::Verify(args)) => run::verify(&args),
        Some(Verb::List(args)) => list::list(&args),
        Some(Verb::Calibrate(args)) => machine::calibrate(&args),
        Some(Verb::Compare(args)) => files::compare(&args),
        Some(Verb::Gate(args)) => files::gate(&args),
        Some(Verb::Choose(args)) => files::choose(&args),
        Some(Verb::Report(args)) => files::report(&args),
        Some(Verb::Merge(args)) => files::merge(&args),
        Some(Verb::Import(args)) => files::import(&args),
        Some(Verb::Doctor(args)) => doctor::doctor(&args),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(CliError { code, message }) => {
            eprintln!("moebius: {message}");
            ExitCode::from(code)
        }
    }
}
