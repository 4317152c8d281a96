//! Opens a command's input: a file, or stdin for `-`.

use super::output::{CliExit, CliResult};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub(super) const READ_SIZE: usize = 64 << 10;

/// A failure to read the input or to write to stdout.
#[derive(Debug)]
pub(super) enum IoFailure {
    Input(io::Error),
    Output(io::Error),
}

impl IoFailure {
    /// Returns the failure of the command, or `closed` if a reader closed stdout.
    pub(super) fn into_result(self, file: &Path, closed: CliExit) -> CliResult {
        match self {
            IoFailure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(closed),
            IoFailure::Output(error) => Err(CliExit::Unavailable.failure(format_args!("stdout: {error}"))),
            IoFailure::Input(error) => Err(CliExit::Unavailable.failure(format_args!(
                "{}: {error}; name a file that this user may read, or `-` for stdin",
                file.display()
            ))),
        }
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
