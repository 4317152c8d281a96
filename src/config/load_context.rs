//! What a check needs beside the file: its text, the variables, and a check of keys.

use std::path::Path;

use super::access::{Algorithm, IssuerKeysConfig};

/// A text on its way to being checked.
#[derive(Clone, Copy)]
pub(super) struct SourceText<'a> {
    /// The name of the file in messages.
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    pub(super) context: LoadContext<'a>,
    /// Paths whose values were left out, because they could not be read.
    pub(super) skipped_paths: &'a [String],
    /// Keys of routes that stand outside every route.
    pub(super) misplaced_keys: &'a [String],
}

#[derive(Clone, Copy)]
pub(super) struct LoadContext<'a> {
    /// The directory for relative file names.
    pub(super) base_dir: &'a Path,
    /// Returns the value of a variable.
    pub(super) lookup: &'a dyn Fn(&str) -> Option<String>,
    pub(super) key_check: KeyCheck,
}

impl<'a> LoadContext<'a> {
    /// Accepts every file of keys.
    pub(super) fn for_path(path: &'a Path, lookup: &'a dyn Fn(&str) -> Option<String>) -> LoadContext<'a> {
        LoadContext { base_dir: path.parent().unwrap_or(Path::new("")), lookup, key_check: |_, _, _| Ok(()) }
    }
}

/// Checks that an issuer's file can verify signatures made with these algorithms. Only the guard can do that, which
/// is built from a configuration; so the code that loads one passes this function in.
pub(crate) type KeyCheck = fn(&IssuerKeysConfig, &[u8], &[Algorithm]) -> Result<(), KeyMismatch>;

/// The reason why an issuer's file cannot verify signatures.
#[derive(Debug)]
pub struct KeyMismatch {
    /// The rest of the sentence that the file's name begins.
    pub(crate) reason: String,
    pub(crate) hint: &'static str,
}
