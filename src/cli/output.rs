//! Exit codes and output: data goes to stdout, logs and errors to stderr.

use std::fmt::Display;
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

/// Prints an error to stderr.
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
