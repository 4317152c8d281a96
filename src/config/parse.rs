//! Parses YAML and checks the part that could be read.

use serde::de::DeserializeOwned;
use serde_saphyr::Options;

use super::problem::{ConfigProblem, ConfigProblems, SourcePosition};
use super::recovery::{self, RecoveredFile};
use super::source::{LoadContext, SourceText};
use crate::net::read_file;

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

/// Removes the byte order mark, which would shift column numbers.
pub(super) fn strip_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

pub(super) fn decode_utf8<'b>(name: &str, bytes: &'b [u8]) -> Result<&'b str, ConfigProblems> {
    std::str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let position = SourcePosition {
            line: before.matches('\n').count() as u64 + 1,
            column: before[start..].chars().count() as u64 + 1,
        };
        let problem = ConfigProblem::for_file(name, "is not UTF-8 from here on").with_location("", Some(position));
        problem.with_hint("save the file as UTF-8").into()
    })
}

/// Returns parser limits far above a configuration's needs but low enough to protect memory.
fn yaml_options() -> Options {
    serde_saphyr::options! {
        with_snippet: false,
        // YAML 1.2: `no` is text, such as a country code; only `true` and `false` are booleans.
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
