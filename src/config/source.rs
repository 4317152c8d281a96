//! The input of a check: the text of a file and its context.

use std::path::Path;

use super::access::{Algorithm, IssuerKeysConfig};

#[derive(Clone, Copy)]
pub(super) struct SourceText<'a> {
    /// The file name in messages.
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    pub(super) context: LoadContext<'a>,
    pub(super) repairs: &'a FileRepairs,
}

#[derive(Clone, Copy)]
pub(super) struct LoadContext<'a> {
    /// The base directory for relative file names.
    pub(super) base_dir: &'a Path,
    /// Reads an environment variable.
    pub(super) lookup: &'a dyn Fn(&str) -> Option<String>,
    pub(super) key_check: KeyCheck,
}

impl<'a> LoadContext<'a> {
    /// Creates a context for the file at `path`, which does not check key files.
    pub(super) fn for_path(path: &'a Path, lookup: &'a dyn Fn(&str) -> Option<String>) -> LoadContext<'a> {
        LoadContext { base_dir: path.parent().unwrap_or(Path::new("")), lookup, key_check: |_, _, _| Ok(()) }
    }
}

/// Checks that an issuer's file can verify signatures with these algorithms. Passed as a parameter, because
/// `policy`, which implements it, is built from a configuration.
pub(crate) type KeyCheck = fn(&IssuerKeysConfig, &[u8], &[Algorithm]) -> Result<(), KeyMismatch>;

/// The reason why a key file cannot verify signatures.
#[derive(Debug)]
pub struct KeyMismatch {
    /// Completes a sentence that begins with the file name.
    pub(crate) reason: String,
    pub(crate) hint: &'static str,
}

/// Changes made to a file in order to read it.
#[derive(Debug, Default)]
pub(super) struct FileRepairs {
    /// Paths of skipped values, which are not reported again as missing.
    pub(super) skipped_paths: Vec<String>,
    /// Paths of values under a misspelt key, whose correction is a guess.
    pub(super) guessed_paths: Vec<String>,
    /// Route keys at the top level, which probably belong to a route that lacks them.
    pub(super) misplaced_keys: Vec<String>,
}

impl FileRepairs {
    /// Returns whether the value at `path`, or the list that contains it, is under a misspelt key.
    pub(super) fn is_guessed(&self, path: &str) -> bool {
        self.guessed_paths
            .iter()
            .filter_map(|guess| path.strip_prefix(guess.as_str()))
            .any(|index| index.is_empty() || index.starts_with('[') && index.find(']') == Some(index.len() - 1))
    }
}
