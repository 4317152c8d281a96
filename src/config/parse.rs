//! Reads a text as YAML and checks what could be read of it.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_saphyr::Options;

use super::access::ApiKeyConfig;
use super::file::ApiKeyFile;
use super::load_context::{LoadContext, SourceText};
use super::problem::{ConfigProblem, ConfigProblems};
use super::recovery::{self, RecoveredFile};
use crate::net::read_file;

pub(super) type CheckFn<F, T> = fn(&SourceText<'_>, &F) -> Result<T, Vec<ConfigProblem>>;

/// Reads `text` as the file `name` and checks what could be read of it.
pub(super) fn parse_and_check<F: DeserializeOwned, T>(
    name: &str,
    text: &str,
    with: LoadContext<'_>,
    check: CheckFn<F, T>,
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

/// Reads and checks the content of the file of API keys at `path`.
pub(super) fn parse_key_file(
    path: &Path,
    content: &[u8],
    lookup: &dyn Fn(&str) -> Option<String>,
    check: CheckFn<ApiKeyFile, Vec<ApiKeyConfig>>,
) -> Result<Vec<ApiKeyConfig>, ConfigProblems> {
    let name = path.display().to_string();
    let text = decode_utf8(&name, content)?;
    let both = parse_and_check::<ApiKeyFile, _>(&name, text, LoadContext::for_path(path, lookup), check);
    both.map(|(_, keys)| keys).map_err(|problems| match problems.as_slice() {
        // Whoever leaves `keys:` out has written its list and nothing else.
        [whole] if whole.path.is_empty() && whole.message.ends_with("found a list") => {
            whole.clone().with_hint("put `keys:` on its first line").into()
        }
        _ => problems,
    })
}

/// The mark some editors put before UTF-8 counts as no column.
pub(super) fn strip_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The text of the file that messages call `name`.
pub(super) fn decode_utf8<'b>(name: &str, bytes: &'b [u8]) -> Result<&'b str, ConfigProblems> {
    std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        unreadable(name, format!("is not UTF-8: line {line} contains invalid bytes"))
    })
}

pub(super) fn unreadable(name: &str, message: String) -> ConfigProblems {
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
