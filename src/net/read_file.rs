//! Reads small files, with a size limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Maximum file size in bytes, enough for thousands of routes or API keys.
pub(crate) const MAX_FILE_BYTES: usize = 1 << 20;

/// Each message continues a sentence that begins with the file name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadFileError {
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("is not a regular file")]
    NotRegular,
    #[error("is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge,
}

/// Reads a regular file. Pipes are rejected because they block and can be read only once.
pub(crate) fn read_regular_file(path: &Path) -> Result<Vec<u8>, ReadFileError> {
    if !path.metadata()?.is_file() {
        return Err(ReadFileError::NotRegular);
    }
    read_file(path)
}

/// Reads a file of any kind, including pipes.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, ReadFileError> {
    read_limited(File::open(path)?)
}

pub(crate) fn read_limited(source: impl Read) -> Result<Vec<u8>, ReadFileError> {
    let mut bytes = Vec::new();
    // One byte over the limit is enough to detect oversized input.
    source.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_FILE_BYTES { Err(ReadFileError::TooLarge) } else { Ok(bytes) }
}
