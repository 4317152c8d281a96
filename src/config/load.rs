//! Reading a configuration: file, YAML, checks. What is wrong with the YAML or a key is explained here.

use std::fs::File as OsFile;
use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, Location, MessageFormatter, Options, UserMessageFormatter};

use super::access::ApiKey;
use super::file::{File, KeyFile};
use super::outline::{NOTHING, Place, Target, place};
use super::problem::{Position, Problem, Problems, did_you_mean};
use super::{Config, check};

/// The largest file that is read, in bytes. A configuration with thousands of routes is far smaller, and so is a file of
/// thousands of API keys.
pub const MAX_FILE: usize = 1 << 20;

/// Reads and checks the file at `path`, with the variables of the process. Relative names of files in it start at its
/// folder.
///
/// # Errors
/// Everything that is wrong with it: that it cannot be read, or what [`from_str`] says.
pub fn from_path(path: &Path) -> Result<Config, Problems> {
    from_path_with(path, &environment)
}

/// As [`from_path`], with the variables that `lookup` knows.
pub(super) fn from_path_with(path: &Path, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Config, Problems> {
    checked(path, lookup).map(|(_, config)| config)
}

/// As [`from_path`], with what is written in the file.
pub(super) fn checked(path: &Path, lookup: &dyn Fn(&str) -> Option<String>) -> Result<(File, Config), Problems> {
    let bytes = content(path).map_err(|message| unreadable(&path.display().to_string(), message))?;
    understood(path, &bytes, lookup)
}

/// The bytes of the file at `path`, to be understood by [`super::effective::understood`].
///
/// # Errors
/// That it cannot be read.
pub fn unread(path: &Path) -> Result<Vec<u8>, Problems> {
    content(path).map_err(|message| unreadable(&path.display().to_string(), message))
}

/// As [`checked`], with `bytes` for what stands in the file.
pub(super) fn understood(
    path: &Path,
    bytes: &[u8],
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<(File, Config), Problems> {
    let name = path.display().to_string();
    let text = text(&name, bytes)?;
    let file: File = parse(&name, text)?;
    let base = path.parent().unwrap_or(Path::new(""));
    let config = check::check(&Source { name: &name, text: plain(text), base, lookup }, &file)?;
    Ok((file, config))
}

/// Checks `text` as the file `name`, with the variables of the process. Relative names of files start at the current
/// folder.
///
/// # Errors
/// The first mistake in the YAML, or an unknown key; else all wrong values together. Each has its line and column.
pub fn from_str(name: &str, text: &str) -> Result<Config, Problems> {
    from_str_with(name, text, &environment)
}

/// As [`from_str`], with the variables that `lookup` knows.
///
/// # Errors
/// As [`from_str`].
pub fn from_str_with(name: &str, text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Config, Problems> {
    let file: File = parse(name, text)?;
    check::check(&Source { name, text: plain(text), base: Path::new(""), lookup }, &file)
}

/// Checks what stands in the file of API keys at `path`, with the variables of the process.
///
/// # Errors
/// Everything that is wrong with it.
pub fn key_file(path: &Path, content: &[u8]) -> Result<Vec<ApiKey>, Problems> {
    key_file_with(path, content, &environment)
}

/// As [`key_file`], with the variables that `lookup` knows.
pub(super) fn key_file_with(
    path: &Path,
    content: &[u8],
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<ApiKey>, Problems> {
    let name = path.display().to_string();
    let text = text(&name, content)?;
    let file: KeyFile = parse(&name, text).map_err(|problems| match problems.as_slice() {
        // Whoever leaves `keys:` out has written its list and nothing else.
        [whole] if whole.path.is_empty() && whole.message.ends_with("found a list") => {
            whole.clone().hint("put `keys:` on its first line").into()
        }
        _ => problems,
    })?;
    let base = path.parent().unwrap_or(Path::new(""));
    check::check_keys(&Source { name: &name, text: plain(text), base, lookup }, &file)
}

/// A text on its way to being checked.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// What messages call it.
    pub(super) name: &'a str,
    /// As it was read, for excerpts.
    pub(super) text: &'a str,
    /// Where relative names of files start.
    pub(super) base: &'a Path,
    /// Knows variables.
    pub(super) lookup: &'a dyn Fn(&str) -> Option<String>,
}

pub(super) fn environment(variable: &str) -> Option<String> {
    std::env::var(variable).ok()
}

/// The mark some editors put before UTF-8 counts as no column.
pub(super) fn plain(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

pub(super) fn parse<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, Problems> {
    let text = plain(text);
    serde_saphyr::from_str_with_options(text, options())
        .map_err(|error| explain(name, text, error.without_snippet()).into())
}

/// The bytes of a file that a configuration names.
///
/// # Errors
/// Why it cannot be read, without its path.
pub fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    // Opening a pipe would wait for whoever writes to it, and its content could be read only once.
    if !path.metadata().map_err(|error| format!("cannot be read: {error}"))?.is_file() {
        return Err("is no regular file".to_owned());
    }
    content(path)
}

/// The bytes of whatever is there; a configuration may come through a pipe.
fn content(path: &Path) -> Result<Vec<u8>, String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    let mut bytes = Vec::new();
    let limit = MAX_FILE as u64 + 1;
    OsFile::open(path).map_err(cannot)?.take(limit).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() > MAX_FILE {
        return Err(format!("is larger than {MAX_FILE} bytes"));
    }
    Ok(bytes)
}

/// The text of the file that messages call `name`.
fn text<'b>(name: &str, bytes: &'b [u8]) -> Result<&'b str, Problems> {
    std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        unreadable(name, format!("is not UTF-8: line {line} holds other bytes"))
    })
}

fn unreadable(name: &str, message: String) -> Problems {
    Problem::of_file(name, message).hint("name a YAML file that this user may read, of at most 1 MiB").into()
}

/// The reader's limits, far above what a configuration needs and far below what would hurt.
fn options() -> Options {
    serde_saphyr::options! {
        with_snippet: false,
        // YAML 1.2: `no` is a text, such as the name of a country; only `true` and `false` are truth values.
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_depth: 16,
            max_nodes: 100_000,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_total_scalar_bytes: MAX_FILE,
        },
    }
}

/// Turns the reader's error into one that speaks of keys and values.
fn explain(name: &str, text: &str, error: &Error) -> Problem {
    let mut error = error;
    // The mistake is in the text that an alias repeats, so that is where it is shown.
    while let Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    let position = error.location().filter(|location| *location != Location::UNKNOWN);
    let position = position.map(|location| Position { line: location.line(), column: location.column() });
    let stands = |target| position.and_then(|position| place(text, &options(), position, target));
    let place = match error {
        Error::SerdeUnknownField { .. } | Error::DuplicateMappingKey { .. } => stands(Target::Key),
        // The reader gives a mapping of a wrong type its own position, anything else of a wrong type its key's.
        Error::SerdeInvalidType { unexpected, .. } if unexpected != "map" => {
            stands(Target::Key).or_else(|| stands(Target::Value))
        }
        _ => stands(Target::Value),
    };
    let path = place.as_ref().map_or("", |place| place.path.as_str());
    let (message, hint) = describe(error, place.as_ref());
    let problem = Problem::of_file(name, message).at(path, position, text);
    match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn describe(error: &Error, place: Option<&Place>) -> (String, Option<String>) {
    let found = place.map_or("something else", |place| place.found);
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            (format!("unknown key `{field}`"), Some(did_you_mean(field, expected)))
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("?");
            let first = place.and_then(|place| place.first_line).map(|line| format!("; first on line {line}"));
            let message = format!("the key `{key}` is written twice{}", first.unwrap_or_default());
            (message, Some("keep one of the two, or write their values as one".to_owned()))
        }
        Error::NullIntoString { .. } => no_value(place),
        Error::Unexpected { .. } | Error::SerdeInvalidType { .. } if found == NOTHING => no_value(place),
        Error::Unexpected { expected, .. } => expected_shape(expected, found),
        Error::SerdeInvalidType { unexpected, expected, .. } => {
            let (found, hint) = match unexpected.as_str() {
                "map" => ("a mapping", None),
                "sequence" => ("a list", None),
                scalar => (scalar, Some("put the value in quotes if it is meant as text".to_owned())),
            };
            (format!("expected {expected}, found {found}"), hint)
        }
        Error::UnknownAnchor { .. } => (
            "an alias (`*name`) without an anchor (`&name`) above it".to_owned(),
            Some("define the anchor, or quote a value that begins with `*`".to_owned()),
        ),
        Error::MultipleDocuments { .. } => (
            "a second YAML document begins here".to_owned(),
            Some("keep one document in the file: take the line `---` away".to_owned()),
        ),
        Error::Budget { .. } => (
            "the file is nested too deeply or repeats itself too often".to_owned(),
            Some("write it plainly: a configuration is four levels deep and needs few aliases".to_owned()),
        ),
        Error::ExternalMessage { msg, .. } => (format!("this is not YAML: {msg}"), syntax_hint(msg)),
        other => (UserMessageFormatter.format_message(other).into_owned(), None),
    }
}

fn no_value(place: Option<&Place>) -> (String, Option<String>) {
    let hint = match place {
        Some(place) if place.path.ends_with(']') => "write one behind the `-`, or take the `-` away",
        _ => "write one, or take the key away",
    };
    ("there is no value here".to_owned(), Some(hint.to_owned()))
}

fn expected_shape(expected: &str, found: &str) -> (String, Option<String>) {
    let (shape, hint) = match expected {
        "mapping start" => ("a mapping", "write `key: value` lines below it, indented"),
        "sequence start" => ("a list", "begin each entry with `- `, indented below the key"),
        "string scalar" => {
            ("a single value", "write one value behind the key; quote a text that begins with `{` or `[`")
        }
        other => return (format!("expected {other}, found {found}"), None),
    };
    (format!("expected {shape}, found {found}"), Some(hint.to_owned()))
}

/// What usually lies behind the reader's message.
fn syntax_hint(message: &str) -> Option<String> {
    const BEHIND: &[(&str, &str)] = &[
        ("mapping values are not allowed", "put a value that holds `: ` in quotes, or check the indentation"),
        ("tab", "indent with spaces; YAML takes no tabs"),
        ("quoted scalar", "a quote here or above is not closed, or a `\\` in double quotes needs to be `\\\\`"),
        ("unclosed bracket", "close it, or quote a text that begins with `[` or `{`"),
        ("unexpected character", "put the value in quotes"),
        ("did not find expected", "indent the keys of one mapping by the same number of spaces"),
    ];
    BEHIND.iter().find(|(part, _)| message.contains(part)).map(|(_, hint)| (*hint).to_owned())
}
