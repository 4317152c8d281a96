//! What is said of the YAML reader's errors: in words of keys and values, with the way out.

use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use super::lenient::Failed;
use super::outline::{NOTHING, Outline, Place, Repeated, path_of};
use super::problem::{Position, Problem, did_you_mean, is_secret_path};
use super::slip;

/// Keys of mappings that are easily taken for a single value, and how they are written.
const MAPPINGS: &[(&str, &str)] = &[
    ("auth", "name issuers of tokens or lists of API keys: `auth: {api_keys: [{name: partners, file: keys.yaml}]}`"),
    ("cors", "name the pages that may call: `cors: {origins: [https://app.example.com]}`"),
    ("ejection", "say when: `ejection: {failures: 5, for: 30s}`"),
    ("health", "write `health: {}` for the defaults, or `health: {path: /healthz}` to ask for a path"),
    ("limits", "name the limits: `limits: {request_body: 8MiB}`"),
    ("listeners", "say which of the two: `listeners: {data: 127.0.0.1:8787, status: 127.0.0.1:8788}`"),
    ("redis", "write its URL in a mapping: `redis: {url: \"redis://127.0.0.1:6379/0\"}`"),
    ("replay", "name what is meant: `replay: {store: redis}`"),
    ("require", "say what of a caller: `require: {scopes: [chat]}`"),
    ("run_limits", "name the limits: `run_limits: {duration: 10m}`"),
    ("timeouts", "say for what: `timeouts: {first_byte: 60s, idle: 5m}`"),
    ("tls", "name its files: `tls: {cert: tls.crt, key: tls.key}`"),
    (
        "upstream_tls",
        "name its files, such as `upstream_tls: {ca: ca.pem}`; for the authorities of the system take the key away",
    ),
];

/// Says what the reader's error is. `at` is what could not be read, the whole file where it is `None`; without an outline
/// the mistake is in the YAML itself.
pub(super) fn explain(
    name: &str,
    text: &str,
    error: &Error,
    outline: Option<&Outline>,
    at: Option<&Failed>,
) -> Problem {
    let error = behind_aliases(error);
    let steps = at.map_or(&[][..], |failed| &failed.at.written);
    let place = outline.and_then(|outline| outline.find(steps));
    let position = match &place {
        Some(place) if at.is_some_and(|failed| failed.is_key) => place.key,
        Some(place) => place.value,
        None => error.location().and_then(Position::of),
    };
    let path = path_of(steps);
    let slip = position.and_then(|position| slipped(error, text, position, place.as_ref()));
    let is_slip_of_secret = slip.as_ref().is_some_and(|slip| slip.is_of_secret);
    let (position, (message, hint)) = match slip {
        Some(slip) => (Some(slip.position), (slip.message, Some(slip.hint))),
        None => (position, describe(error, &path, place.as_ref())),
    };
    let problem = Problem::of_file(name, message).at(&path, position, text);
    // What stands in place of these mappings is likely to be what belongs into them.
    let is_secret =
        |path: &str| is_secret_path(path) || path.split(['.', '[']).any(|key| matches!(key, "auth" | "redis"));
    let is_secret = is_slip_of_secret || at.is_some_and(|failed| is_secret(&failed.at.read));
    let problem = if is_secret { problem.without_excerpt() } else { problem };
    match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// The mistake is in the text that an alias repeats, so that is where it is shown.
pub(super) fn behind_aliases(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    error
}

/// Says that a key is none of those that are known at its place. `meant` are those that it may stand for, `home` says where
/// it belongs.
pub(super) fn unknown(
    name: &str,
    text: &str,
    position: Option<Position>,
    failed: &Failed,
    (field, known, meant, home): (&str, &[&str], &[&str], Option<&str>),
) -> Problem {
    let hint = match home {
        Some(home) => home.to_owned(),
        // One that is near and stands there already is not what was meant.
        None if meant.is_empty() => did_you_mean("", known),
        None => did_you_mean(field, meant),
    };
    let problem = Problem::of_file(name, format!("unknown key `{field}`"));
    let problem = problem.at(&path_of(&failed.at.written), position, text).hint(hint);
    // What it holds may be a secret, unless it is known to be the key of something else.
    let is_harmless =
        (home.is_some() && !is_secret_path(field)) || !meant.is_empty() && !meant.iter().copied().any(is_secret_path);
    if is_harmless && !is_secret_path(&failed.at.read) { problem } else { problem.without_excerpt() }
}

/// Says that a key is written twice.
pub(super) fn repeated(name: &str, text: &str, of: &Repeated) -> Problem {
    let Repeated { path, key, position, first_line } = of;
    let message = format!("the key `{key}` is written twice; first on line {first_line}");
    let hint = "keep one of the two, or write their values as one";
    Problem::of_file(name, message).at(path, *position, text).hint(hint)
}

fn describe(error: &Error, path: &str, place: Option<&Place>) -> (String, Option<String>) {
    let found = place.map_or("something else", |place| place.found);
    match error {
        Error::NullIntoString { .. } => no_value(path),
        Error::Unexpected { .. } | Error::SerdeInvalidType { .. } if found == NOTHING => no_value(path),
        Error::Unexpected { expected, .. } => expected_shape(expected, found, path),
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

/// What the operator probably meant by what the reader cannot make sense of.
fn slipped(error: &Error, text: &str, position: Position, place: Option<&Place>) -> Option<slip::Slip> {
    match (error, place.map(|place| place.found)) {
        (Error::ExternalMessage { msg, .. }, _) => slip::behind(text, position, msg).map(|slip| {
            let is_readers = slip.message == *msg;
            let message = if is_readers { format!("this is not YAML: {msg}") } else { slip.message };
            slip::Slip { message, ..slip }
        }),
        (_, Some(NOTHING)) => slip::commented_at(text, position),
        (Error::Unexpected { expected, .. }, Some(_)) => slip::in_place_of(text, position, expected),
        _ => None,
    }
}

fn no_value(path: &str) -> (String, Option<String>) {
    let hint = if path.ends_with(']') {
        "write one behind the `-`, or take the `-` away"
    } else {
        "write one, or take the key away"
    };
    ("there is no value here".to_owned(), Some(hint.to_owned()))
}

fn expected_shape(expected: &str, found: &str, path: &str) -> (String, Option<String>) {
    let key = path.rsplit('.').next().unwrap_or(path);
    let of_key = MAPPINGS.iter().find(|(name, _)| *name == key).map(|(_, hint)| *hint);
    let (shape, hint) = match expected {
        "mapping start" => ("a mapping", of_key.unwrap_or("write `key: value` lines below it, indented")),
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
        (
            "mapping values are not allowed",
            "put a value that holds `: ` in quotes, or check the indentation; the line above may lack its `: `",
        ),
        ("tab", "indent with spaces; YAML takes no tabs"),
        ("quoted scalar", "a quote here or above is not closed, or a `\\` in double quotes needs to be `\\\\`"),
        ("unclosed bracket", "close it, or quote a text that begins with `[` or `{`"),
        ("unexpected character", "put the value in quotes"),
        ("did not find expected", "indent the keys of one mapping by the same number of spaces"),
    ];
    BEHIND.iter().find(|(part, _)| message.contains(part)).map(|(_, hint)| (*hint).to_owned())
}
