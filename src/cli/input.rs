//! Opens a command's input: a file, or stdin for `-`.

use super::output::{CliExit, CliResult};
use crate::inspect::RecordingError;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub(super) const READ_SIZE: usize = 64 << 10;

/// A failure to read the input or to write to stdout.
#[derive(Debug)]
pub(super) enum IoFailure {
    Input(io::Error),
    Output(io::Error),
    /// the recording lacks what the command needs
    Unusable(&'static str),
}

impl From<RecordingError> for IoFailure {
    fn from(error: RecordingError) -> Self {
        IoFailure::Input(io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl IoFailure {
    /// Returns the failure of the command, or `closed` if a reader closed stdout.
    pub(super) fn into_result(self, file: &Path, closed: CliExit) -> CliResult {
        match self {
            IoFailure::Unusable(why) => Err(CliExit::Problems.failure(format_args!("{}: {why}", file.display()))),
            IoFailure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(closed),
            IoFailure::Output(error) => Err(CliExit::Unavailable.failure(format_args!("stdout: {error}"))),
            IoFailure::Input(error) => match error.get_ref().and_then(|cause| cause.downcast_ref::<RecordingError>()) {
                Some(cause) => {
                    Err(CliExit::Problems.failure(format_args!("{}:{}: {cause}", file.display(), cause.line)))
                }
                None => Err(CliExit::Unavailable.failure(format_args!(
                    "{}: {error}; name a file that this user may read, or `-` for stdin",
                    file.display()
                ))),
            },
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
