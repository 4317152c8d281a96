//! The command line: arguments in, one command, an exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    diglot::cli::main()
}
