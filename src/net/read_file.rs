//! Reads small files, with a limit on their size.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The largest file that is read, in bytes. Thousands of routes or API keys fit.
pub(crate) const MAX_FILE_BYTES: usize = 1 << 20;

/// Each message continues a sentence that begins with the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadFileError {
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("is no regular file")]
    NotRegular,
    #[error("is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge,
}

/// Reads a regular file. Pipes are refused: they block, and can be read only once.
pub(crate) fn read_regular_file(path: &Path) -> Result<Vec<u8>, ReadFileError> {
    if !path.metadata()?.is_file() {
        return Err(ReadFileError::NotRegular);
    }
    read_file(path)
}

/// Reads a file of any kind, including pipes.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, ReadFileError> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_FILE_BYTES { Err(ReadFileError::TooLarge) } else { Ok(bytes) }
}
