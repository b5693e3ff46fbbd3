//! The `moebius` program: see `moebius --help`.

fn main() -> std::process::ExitCode {
    moebius::cli::main()
}
