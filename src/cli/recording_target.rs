//! The target of `record`: a file for one run, or a folder.

use super::output::{CliExit, CliFailure};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub(super) enum RecordingTarget {
    Single(PathBuf),
    Folder(PathBuf),
}

impl fmt::Display for RecordingTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordingTarget::Single(path) => write!(f, "{}", path.display()),
            RecordingTarget::Folder(path) => write!(f, "the folder {}", path.display()),
        }
    }
}

/// A recording that gets its name when it is whole.
pub(super) struct RecordingFile {
    file: BufWriter<File>,
    partial: PathBuf,
    path: PathBuf,
}

impl RecordingTarget {
    pub(super) fn new(output: &Path) -> Result<RecordingTarget, CliFailure> {
        if !output.is_dir() && !output.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Ok(RecordingTarget::Single(output.to_owned()));
        }
        fs::create_dir_all(output).map_err(|error| describe_failure(output, &error))?;
        Ok(RecordingTarget::Folder(output.to_owned()))
    }

    pub(super) const fn is_folder(&self) -> bool {
        matches!(self, RecordingTarget::Folder(_))
    }

    /// Creates the file of a run, which its user alone may read.
    pub(super) fn create(&self, route: &str, started_ms: u64, id: u64) -> Result<RecordingFile, CliFailure> {
        let path = match self {
            RecordingTarget::Single(path) => path.clone(),
            RecordingTarget::Folder(folder) => {
                let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
                let route: String = route.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
                folder.join(format!("{route}-{started_ms}-{id}.ndjson"))
            }
        };
        let mut partial = path.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&partial);
        let file = file.map_err(|error| describe_failure(&partial, &error))?;
        Ok(RecordingFile { file: BufWriter::new(file), partial, path })
    }
}

impl RecordingFile {
    pub(super) fn write_line(&mut self, line: &[u8]) -> Result<(), CliFailure> {
        let written = self.file.write_all(line).and_then(|()| self.file.write_all(b"\n"));
        written.map_err(|error| describe_failure(&self.partial, &error))
    }

    /// Gives the file its name, and returns it.
    pub(super) fn finish(mut self) -> Result<PathBuf, CliFailure> {
        let finished = self.file.flush().and_then(|()| fs::rename(&self.partial, &self.path));
        finished.map_err(|error| describe_failure(&self.path, &error))?;
        Ok(self.path.clone())
    }
}

impl Drop for RecordingFile {
    fn drop(&mut self) {
        // Has no effect on a file that has its name.
        let _ = fs::remove_file(&self.partial);
    }
}

fn describe_failure(path: &Path, error: &io::Error) -> CliFailure {
    CliExit::Unavailable
        .failure(format_args!("{}: {error}; name a file or a folder that this user may write", path.display()))
}
