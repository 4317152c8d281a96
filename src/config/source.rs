//! The text of a file on its way to a checked configuration.

use std::path::Path;

use super::access::{Algorithm, IssuerKeysConfig};

#[derive(Clone, Copy)]
pub(super) struct SourceText<'a> {
    /// In messages.
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    pub(super) context: LoadContext<'a>,
    pub(super) repairs: &'a FileRepairs,
}

#[derive(Clone, Copy)]
pub(super) struct LoadContext<'a> {
    /// For relative file names.
    pub(super) base_dir: &'a Path,
    /// Reads an environment variable.
    pub(super) lookup: &'a dyn Fn(&str) -> Option<String>,
    pub(super) key_check: KeyCheck,
}

impl<'a> LoadContext<'a> {
    /// Skips the check of key files.
    pub(super) fn for_path(path: &'a Path, lookup: &'a dyn Fn(&str) -> Option<String>) -> LoadContext<'a> {
        LoadContext { base_dir: path.parent().unwrap_or(Path::new("")), lookup, key_check: |_, _, _| Ok(()) }
    }
}

/// Checks that an issuer's file can verify signatures with these algorithms. Passed in, because only the guard can do
/// that, and it is built from a configuration.
pub(crate) type KeyCheck = fn(&IssuerKeysConfig, &[u8], &[Algorithm]) -> Result<(), KeyMismatch>;

/// The reason why an issuer's file cannot verify signatures.
#[derive(Debug)]
pub struct KeyMismatch {
    /// Completes a sentence that begins with the file's name.
    pub(crate) reason: String,
    pub(crate) hint: &'static str,
}

/// Differences between a file and the values read from it.
#[derive(Debug, Default)]
pub(super) struct FileRepairs {
    /// Paths of omitted values, whose absence is not reported again.
    pub(super) skipped_paths: Vec<String>,
    /// Paths of values under a misspelt key, which may be meant as something else.
    pub(super) guessed_paths: Vec<String>,
    /// Keys of routes at the top of the file. They may belong to a route that lacks them.
    pub(super) misplaced_keys: Vec<String>,
}

impl FileRepairs {
    /// Returns whether the value at `path`, or its list, is under a misspelt key.
    pub(super) fn is_guessed(&self, path: &str) -> bool {
        self.guessed_paths
            .iter()
            .filter_map(|guess| path.strip_prefix(guess.as_str()))
            .any(|index| index.is_empty() || index.starts_with('[') && index.find(']') == Some(index.len() - 1))
    }
}
