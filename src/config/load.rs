//! Reading a configuration: file, YAML, checks, and everything that is wrong with it.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_saphyr::Options;

use super::access::{Algorithm, ApiKeyConfig, IssuerKeysConfig};
use super::file::{ApiKeyFile, ConfigFile};
use super::problem::{ConfigProblem, ConfigProblems};
use super::recovery::{self, RecoveredFile};
use super::{Config, check};
use crate::net::read_file;

/// Reads and checks the file at `path`, with the variables of the process. Relative names of files in it start at its
/// folder.
///
/// # Errors
/// Everything that is wrong with it: that it cannot be read, or what [`from_str`] says.
pub(crate) fn from_path(path: &Path) -> Result<Config, ConfigProblems> {
    from_path_with(path, &env_var)
}

/// As [`from_path`], with the variables that `lookup` knows.
pub(super) fn from_path_with(path: &Path, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigProblems> {
    load_with(path, &read_source(path)?, LoadContext::for_path(path, lookup)).map(|loaded| loaded.config)
}

/// Reads `bytes`, the content of the file at `path`, and reports everything that prevents a gateway from running on it.
///
/// # Errors
/// Returns every problem of the file.
pub(crate) fn load_bytes(path: &Path, bytes: &[u8], keys: KeyCheck) -> Result<LoadedConfig, ConfigProblems> {
    load_with(path, bytes, LoadContext { key_check: keys, ..LoadContext::for_path(path, &env_var) })
}

/// Reads the bytes of the file at `path`, for [`load_bytes`].
///
/// # Errors
/// Fails if the file cannot be read.
pub(crate) fn read_source(path: &Path) -> Result<Vec<u8>, ConfigProblems> {
    read_file::read_file(path).map_err(|error| unreadable(&path.display().to_string(), error.to_string()))
}

/// Loads as [`load_bytes`] does, with another context.
pub(super) fn load_with(path: &Path, bytes: &[u8], with: LoadContext<'_>) -> Result<LoadedConfig, ConfigProblems> {
    let name = path.display().to_string();
    load_text(&name, decode_utf8(&name, bytes)?, with)
}

fn load_text(name: &str, text: &str, with: LoadContext<'_>) -> Result<LoadedConfig, ConfigProblems> {
    let (file, (config, warnings)) = parse_and_check::<ConfigFile, _>(name, text, with, check::check)?;
    Ok(LoadedConfig { config, warnings, file })
}

/// Reads `text` as the file `name` and checks what could be read of it.
pub(super) fn parse_and_check<F: DeserializeOwned, T>(
    name: &str,
    text: &str,
    with: LoadContext<'_>,
    check: fn(&SourceText<'_>, &F) -> Result<T, Vec<ConfigProblem>>,
) -> Result<(F, T), ConfigProblems> {
    let text = strip_bom(text);
    let RecoveredFile { value, mut problems, skipped_paths: lost, misplaced_keys: misplaced } =
        recovery::read::<F>(name, text, yaml_options());
    let source = SourceText { name, text, context: with, skipped_paths: &lost, misplaced_keys: &misplaced };
    let checked = value.map(|value| check(&source, &value).map(|checked| (value, checked)));
    match checked {
        Some(Ok(both)) if problems.is_empty() => return Ok(both),
        Some(Err(more)) => problems.extend(more),
        Some(Ok(_)) | None => {}
    }
    Err(ConfigProblems::new(problems))
}

/// Checks `text` as the file `name`, with the variables of the process. Relative names of files start at the current
/// folder.
///
/// # Errors
/// Everything that is wrong with it, each with its line and column; of a text that is no YAML, why it is none.
pub fn from_str(name: &str, text: &str) -> Result<Config, ConfigProblems> {
    from_str_with(name, text, &env_var)
}

/// As [`from_str`], with the variables that `lookup` knows.
///
/// # Errors
/// As [`from_str`].
pub fn from_str_with(
    name: &str,
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigProblems> {
    load_text(name, text, LoadContext::for_path(Path::new(""), lookup)).map(|loaded| loaded.config)
}

/// Checks what stands in the file of API keys at `path`, with the variables of the process.
///
/// # Errors
/// Returns every problem of the file.
pub(crate) fn load_key_file(path: &Path, content: &[u8]) -> Result<Vec<ApiKeyConfig>, ConfigProblems> {
    load_key_file_with(path, content, &env_var)
}

/// Loads as [`load_key_file`] does, with the variables of `lookup`.
pub(super) fn load_key_file_with(
    path: &Path,
    content: &[u8],
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<ApiKeyConfig>, ConfigProblems> {
    let name = path.display().to_string();
    let text = decode_utf8(&name, content)?;
    let both = parse_and_check::<ApiKeyFile, _>(&name, text, LoadContext::for_path(path, lookup), check::check_keys);
    both.map(|(_, keys)| keys).map_err(|problems| match problems.as_slice() {
        // Whoever leaves `keys:` out has written its list and nothing else.
        [whole] if whole.path.is_empty() && whole.message.ends_with("found a list") => {
            whole.clone().with_hint("put `keys:` on its first line").into()
        }
        _ => problems,
    })
}

/// A text on its way to being checked.
#[derive(Clone, Copy)]
pub(super) struct SourceText<'a> {
    /// Its name in messages.
    pub(super) name: &'a str,
    /// As it was read, for excerpts.
    pub(super) text: &'a str,
    pub(super) context: LoadContext<'a>,
    /// Paths whose values were left out, since they could not be read.
    pub(super) skipped_paths: &'a [String],
    /// Keys of routes that stand in no route.
    pub(super) misplaced_keys: &'a [String],
}

#[derive(Clone, Copy)]
pub(super) struct LoadContext<'a> {
    /// The directory for relative file names.
    pub(super) base_dir: &'a Path,
    /// Knows variables.
    pub(super) lookup: &'a dyn Fn(&str) -> Option<String>,
    /// Knows keys.
    pub(super) key_check: KeyCheck,
}

impl<'a> LoadContext<'a> {
    /// For the file at `path`, whose keys nobody looks at.
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
    /// The way out.
    pub(crate) hint: &'static str,
}

/// A file that can be run on.
#[derive(Debug)]
pub(crate) struct LoadedConfig {
    pub(crate) config: Config,
    /// Warnings, in the order of the file.
    pub(crate) warnings: Vec<ConfigProblem>,
    /// As it was written.
    pub(super) file: ConfigFile,
}

pub(super) fn env_var(variable: &str) -> Option<String> {
    std::env::var(variable).ok()
}

/// The mark some editors put before UTF-8 counts as no column.
pub(super) fn strip_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The text of the file that messages call `name`.
fn decode_utf8<'b>(name: &str, bytes: &'b [u8]) -> Result<&'b str, ConfigProblems> {
    std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        unreadable(name, format!("is not UTF-8: line {line} contains invalid bytes"))
    })
}

fn unreadable(name: &str, message: String) -> ConfigProblems {
    ConfigProblem::for_file(name, message)
        .with_hint("name a YAML file that this user may read, of at most 1 MiB")
        .into()
}

/// The reader's limits, far above what a configuration needs and far below what would hurt.
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
