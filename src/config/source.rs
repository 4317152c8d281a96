//! The text of a file on its way to a checked configuration.

use std::path::Path;

use super::access::{Algorithm, IssuerKeysConfig};

/// A text as its checks see it.
#[derive(Clone, Copy)]
pub(super) struct SourceText<'a> {
    /// The file's name in messages.
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    pub(super) context: LoadContext<'a>,
    pub(super) repairs: &'a FileRepairs,
}

#[derive(Clone, Copy)]
pub(super) struct LoadContext<'a> {
    /// The directory for relative file names.
    pub(super) base_dir: &'a Path,
    /// Returns the value of an environment variable.
    pub(super) lookup: &'a dyn Fn(&str) -> Option<String>,
    pub(super) key_check: KeyCheck,
}

impl<'a> LoadContext<'a> {
    /// Returns the context of the file at `path`, without a check of key files.
    pub(super) fn for_path(path: &'a Path, lookup: &'a dyn Fn(&str) -> Option<String>) -> LoadContext<'a> {
        LoadContext { base_dir: path.parent().unwrap_or(Path::new("")), lookup, key_check: |_, _, _| Ok(()) }
    }
}

/// Checks that an issuer's file can verify signatures made with these algorithms. Only the guard can do that, which is
/// built from a configuration; so the function is passed in.
pub(crate) type KeyCheck = fn(&IssuerKeysConfig, &[u8], &[Algorithm]) -> Result<(), KeyMismatch>;

/// The reason why an issuer's file cannot verify signatures.
#[derive(Debug)]
pub struct KeyMismatch {
    /// The predicate of a sentence that begins with the file's name.
    pub(crate) reason: String,
    pub(crate) hint: &'static str,
}

/// The differences between a file and what was read of it.
#[derive(Debug, Default)]
pub(super) struct FileRepairs {
    /// Paths whose values were left out. What is missing there is no mistake of its own.
    pub(super) skipped_paths: Vec<String>,
    /// Paths of values that stand under a misspelt key. They may be something else than what they are read as.
    pub(super) guessed_paths: Vec<String>,
    /// Keys of routes that stand at the top of the file. A route that lacks one of them may be the one that it belongs to.
    pub(super) misplaced_keys: Vec<String>,
}

impl FileRepairs {
    /// Returns whether the value at `path` stands under a misspelt key, alone or in a list.
    pub(super) fn is_guessed(&self, path: &str) -> bool {
        self.guessed_paths
            .iter()
            .filter_map(|guess| path.strip_prefix(guess.as_str()))
            .any(|index| index.is_empty() || index.starts_with('[') && index.find(']') == Some(index.len() - 1))
    }
}
