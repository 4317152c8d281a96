//! The text of a file on its way to a checked configuration.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_saphyr::Options;

use super::access::{Algorithm, IssuerKeysConfig};
use super::problem::{ConfigProblem, ConfigProblems};
use super::recovery::{self, FileRepairs, RecoveredFile};
use crate::net::read_file;

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

/// Reads `text` as the file `name` and checks the readable part.
pub(super) fn parse_and_check<F: DeserializeOwned, T>(
    name: &str,
    text: &str,
    with: LoadContext<'_>,
    check: fn(&SourceText<'_>, &F) -> Result<T, Vec<ConfigProblem>>,
) -> Result<(F, T), ConfigProblems> {
    let text = strip_bom(text);
    let RecoveredFile { value, mut problems, repairs } = recovery::read::<F>(name, text, &yaml_options());
    let source = SourceText { name, text, context: with, repairs: &repairs };
    let checked = value.map(|value| check(&source, &value).map(|checked| (value, checked)));
    match checked {
        Some(Ok(both)) if problems.is_empty() => return Ok(both),
        Some(Err(more)) => problems.extend(more),
        Some(Ok(_)) | None => {}
    }
    Err(ConfigProblems::new(problems))
}

pub(super) fn env_var(variable: &str) -> Option<String> {
    std::env::var(variable).ok()
}

/// Removes the byte order mark, which would count as a column.
pub(super) fn strip_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

pub(super) fn decode_utf8<'b>(name: &str, bytes: &'b [u8]) -> Result<&'b str, ConfigProblems> {
    std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        ConfigProblem::for_file(name, format!("is not UTF-8: line {line} contains invalid bytes"))
            .with_hint("save the file as UTF-8")
            .into()
    })
}

/// The limits are far above the needs of a configuration and far below what would exhaust memory.
fn yaml_options() -> Options {
    serde_saphyr::options! {
        with_snippet: false,
        // YAML 1.2: `no` is a text, such as the name of a country; only `true` and `false` are truth values.
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_depth: 16,
            max_nodes: 100_000,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_total_scalar_bytes: read_file::MAX_FILE_BYTES,
        },
    }
}
