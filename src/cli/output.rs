//! Exit codes and output: data goes to stdout, logs and errors to stderr.

use crate::app::StartError;
use crate::config::ConfigProblems;
use std::fmt::{self, Display};
use std::io::{self, Write};
use std::process::ExitCode;

/// Exit codes, from `sysexits.h` where one fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CliExit {
    Ok = 0,
    /// problems were found, or a run failed
    Problems = 1,
    /// the command line is invalid
    Usage = 2,
    /// a resource is unavailable, such as a port or a file
    Unavailable = 69,
    /// the configuration is invalid
    Config = 78,
}

/// The exit code of a command, or its failure.
pub(super) type CliResult = Result<CliExit, CliFailure>;

#[derive(Debug)]
pub(super) struct CliFailure {
    exit: CliExit,
    message: String,
}

impl CliExit {
    /// Returns a failure with this exit code and an error message.
    pub(super) fn failure(self, message: impl Display) -> CliFailure {
        CliFailure { exit: self, message: message.to_string() }
    }
}

impl CliFailure {
    /// Prints the error message and returns the exit code.
    pub(super) fn report(self) -> CliExit {
        print_error(self.message);
        self.exit
    }
}

impl Display for CliFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ConfigProblems> for CliFailure {
    fn from(problems: ConfigProblems) -> Self {
        CliExit::Config.failure(problems)
    }
}

impl From<StartError> for CliFailure {
    fn from(error: StartError) -> Self {
        let exit = if matches!(error, StartError::Unusable(_)) { CliExit::Config } else { CliExit::Unavailable };
        exit.failure(error)
    }
}

impl From<CliExit> for ExitCode {
    fn from(exit: CliExit) -> Self {
        ExitCode::from(exit as u8)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ReportFormat {
    /// for people
    Text,
    /// one JSON document
    Json,
}

pub(super) fn print_error(error: impl Display) {
    // Without stderr, the error cannot be reported.
    let _ = writeln!(io::stderr(), "diglot: {error}");
}

/// Formats a number of things, such as `1 event` or `2 events`.
pub(super) fn with_plural<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let ending = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// Prints a line to stdout and flushes it. Returns `false` if stdout is closed.
pub(super) fn print_line(line: impl Display) -> bool {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}

/// Prints the result of a successful command to stdout.
pub(super) fn print_result(text: impl Display) -> CliResult {
    print_line(text);
    Ok(CliExit::Ok)
}
