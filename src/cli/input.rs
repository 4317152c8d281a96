//! Reads a command's input: a file, or stdin for `-`.

use super::output::{CliExit, print_error};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub(super) const READ_SIZE: usize = 64 << 10;

/// A failure to read a recording or to write to stdout.
#[derive(Debug)]
pub(super) enum IoFailure {
    Input(io::Error),
    Output(io::Error),
}

impl IoFailure {
    /// Prints the failure and returns its exit code. If stdout was closed, prints nothing and returns `closed`.
    pub(super) fn report(&self, file: &Path, closed: CliExit) -> CliExit {
        match self {
            IoFailure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return closed,
            IoFailure::Output(error) => print_error(format_args!("stdout: {error}")),
            IoFailure::Input(error) => print_error(format_args!(
                "{}: {error}; name a file that this user may read, or `-` for stdin",
                file.display()
            )),
        }
        CliExit::Unavailable
    }
}

pub(super) fn open(file: &Path) -> Result<Box<dyn Read>, IoFailure> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(File::open(file).map_err(IoFailure::Input)?))
}

pub(super) fn read_all(file: &Path) -> Result<Vec<u8>, IoFailure> {
    let mut bytes = Vec::new();
    open(file)?.read_to_end(&mut bytes).map_err(IoFailure::Input)?;
    Ok(bytes)
}
