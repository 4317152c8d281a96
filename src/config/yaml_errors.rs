//! Messages for the YAML reader's errors, in terms of keys and values, with hints.

use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use super::problem::{ConfigProblem, SourcePosition, did_you_mean};
use super::recovering_reader::ReadFailure;
use super::schema::secrets::{holds_secrets, is_named_like_secret, is_secret_key, is_secret_path};
use super::spanned_tree::{DuplicateKey, EMPTY_NODE, NodeLocation, SpannedTree, format_path};
use super::yaml_hints;

/// Keys of mappings that are easily taken for a single value, and how they are written.
const MAPPING_HINTS: &[(&str, &str)] = &[
    ("auth", "name issuers of tokens or lists of API keys: `auth: {api_keys: [{name: partners, file: keys.yaml}]}`"),
    ("cors", "name the pages that may call: `cors: {origins: [https://app.example.com]}`"),
    ("ejection", "write the thresholds: `ejection: {failures: 5, for: 30s}`"),
    ("health", "write `health: {}` for the defaults, or `health: {path: /healthz}` to request a path"),
    ("limits", "name the limits: `limits: {request_body: 8MiB}`"),
    ("listeners", "name them: `listeners: {data: 127.0.0.1:8787, status: 127.0.0.1:8788}`"),
    ("redis", "write its URL in a mapping: `redis: {url: \"redis://127.0.0.1:6379/0\"}`"),
    ("replay", "write the options in a mapping: `replay: {store: redis}`"),
    ("require", "name the requirements: `require: {scopes: [chat]}`"),
    ("run_limits", "name the limits: `run_limits: {duration: 10m}`"),
    ("timeouts", "name the timeouts: `timeouts: {first_byte: 60s, idle: 5m}`"),
    ("tls", "name its files: `tls: {cert: tls.crt, key: tls.key}`"),
    (
        "upstream_tls",
        "name its files, such as `upstream_tls: {ca: ca.pem}`; to use the system's authorities, remove the key",
    ),
];

/// Says what the reader's error is. `at` is what could not be read, the whole file where it is `None`; without an outline
/// the mistake is in the YAML itself.
pub(super) fn explain(
    name: &str,
    text: &str,
    error: &Error,
    outline: Option<&SpannedTree>,
    at: Option<&ReadFailure>,
) -> ConfigProblem {
    let error = unwrap_aliases(error);
    let steps = at.map_or(&[][..], |failed| &failed.path.path_steps);
    let place = outline.and_then(|outline| outline.find(steps));
    let position = match &place {
        Some(place) if at.is_some_and(|failed| failed.is_key) => place.key,
        Some(place) => place.value,
        None => error.location().and_then(SourcePosition::from_location),
    };
    let path = format_path(steps);
    let slip = position.and_then(|position| find_hint(error, text, position, place.as_ref()));
    let is_slip_of_secret = slip.as_ref().is_some_and(|slip| slip.may_hold_secret);
    let (position, (message, hint)) = match slip {
        Some(slip) => (Some(slip.position), (slip.message, Some(slip.hint))),
        None => (position, describe(error, &path, place.as_ref())),
    };
    let problem = ConfigProblem::for_file(name, message).with_location(&path, position, text);
    // A value in place of a mapping is likely to be what belongs into it.
    let is_secret = |path: &str| is_secret_path(path) || holds_secrets(path);
    let is_secret = is_slip_of_secret || at.is_some_and(|failed| is_secret(&failed.path.corrected_path));
    let problem = if is_secret { problem.without_excerpt() } else { problem };
    match hint {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    }
}

/// The mistake is in the text that an alias repeats, so that is where it is shown.
pub(super) fn unwrap_aliases(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    error
}

/// Says that a key is none of those that are known at its place. `meant` are those that it may stand for, `home` says where
/// it belongs.
pub(super) fn explain_unknown_key(
    name: &str,
    text: &str,
    position: Option<SourcePosition>,
    failed: &ReadFailure,
    (field, known, meant, location_hint): (&str, &[&str], &[&str], Option<&str>),
) -> ConfigProblem {
    let hint = match location_hint {
        Some(home) => home.to_owned(),
        // One that is near and stands there already is not what was meant.
        None if meant.is_empty() => did_you_mean("", known),
        None => did_you_mean(field, meant),
    };
    let problem = ConfigProblem::for_file(name, format!("unknown key `{field}`"));
    let problem = problem.with_location(&format_path(&failed.path.path_steps), position, text).with_hint(hint);
    // Its value may be a secret, unless the key is known to belong elsewhere.
    let is_harmless = (location_hint.is_some() && !is_secret_path(field))
        || !meant.is_empty() && !meant.iter().copied().any(is_secret_path);
    // `key: …` belongs to `listeners` too, and a slip for `sha256` or `secret` is next to them.
    let near_secret =
        is_named_like_secret(field) || known.iter().any(|key| is_secret_key(key) && !key.ends_with("headers"));
    let is_harmless = is_harmless && !near_secret && !is_secret_path(&failed.path.corrected_path);
    if is_harmless { problem } else { problem.without_excerpt() }
}

/// Says that a key is written twice.
pub(super) fn explain_duplicate_key(name: &str, text: &str, of: &DuplicateKey) -> ConfigProblem {
    let DuplicateKey { path, key, position, first_line } = of;
    let message = format!("the key `{key}` is defined twice; first on line {first_line}");
    let hint = "keep one of the two, or merge their values";
    ConfigProblem::for_file(name, message).with_location(path, *position, text).with_hint(hint)
}

fn describe(error: &Error, path: &str, place: Option<&NodeLocation>) -> (String, Option<String>) {
    let found = place.map_or("something else", |place| place.kind);
    match error {
        Error::NullIntoString { .. } => describe_missing_value(path),
        Error::Unexpected { .. } | Error::SerdeInvalidType { .. } if found == EMPTY_NODE => {
            describe_missing_value(path)
        }
        Error::Unexpected { expected, .. } => describe_shape(expected, found, path),
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
            Some("keep one document in the file: remove the line `---`".to_owned()),
        ),
        Error::Budget { .. } => (
            "the file is nested too deeply or repeats itself too often".to_owned(),
            Some("use fewer levels and aliases: a configuration is four levels deep and needs few aliases".to_owned()),
        ),
        Error::ExternalMessage { msg, .. } => (format!("this is not YAML: {msg}"), syntax_hint(msg)),
        other => (UserMessageFormatter.format_message(other).into_owned(), None),
    }
}

/// Returns a hint about the probable cause of a syntax error.
fn find_hint(
    error: &Error,
    text: &str,
    position: SourcePosition,
    place: Option<&NodeLocation>,
) -> Option<yaml_hints::YamlHint> {
    match (error, place.map(|place| place.kind)) {
        (Error::ExternalMessage { msg, .. }, _) => yaml_hints::hint_for_syntax_error(text, position, msg).map(|slip| {
            let is_readers = slip.message == *msg;
            let message = if is_readers { format!("this is not YAML: {msg}") } else { slip.message };
            yaml_hints::YamlHint { message, ..slip }
        }),
        (_, Some(EMPTY_NODE)) => yaml_hints::hint_for_comment_at(text, position),
        (Error::Unexpected { expected, .. }, Some(_)) => yaml_hints::hint_for_shape(text, position, expected),
        _ => None,
    }
}

fn describe_missing_value(path: &str) -> (String, Option<String>) {
    let hint = if path.ends_with(']') {
        "write a value after the `-`, or remove the `-`"
    } else {
        "write a value or remove the key"
    };
    ("the value is missing".to_owned(), Some(hint.to_owned()))
}

fn describe_shape(expected: &str, found: &str, path: &str) -> (String, Option<String>) {
    let key = path.rsplit('.').next().unwrap_or(path);
    let of_key = MAPPING_HINTS.iter().find(|(name, _)| *name == key).map(|(_, hint)| *hint);
    let (shape, hint) = match expected {
        "mapping start" => ("a mapping", of_key.unwrap_or("write `key: value` lines below it, indented")),
        "sequence start" => ("a list", "begin each entry with `- `, indented below the key"),
        "string scalar" => {
            ("a single value", "write one value after the key; quote a text that begins with `{` or `[`")
        }
        other => return (format!("expected {other}, found {found}"), None),
    };
    (format!("expected {shape}, found {found}"), Some(hint.to_owned()))
}

/// Returns a hint about the usual cause of the reader's message.
fn syntax_hint(message: &str) -> Option<String> {
    const HINTS: &[(&str, &str)] = &[
        (
            "mapping values are not allowed",
            "quote a value that contains `: `, or check the indentation; the line above may be missing its `: `",
        ),
        ("tab", "indent with spaces; YAML does not allow tabs"),
        ("quoted scalar", "a quote here or above is not closed, or a `\\` in double quotes needs to be `\\\\`"),
        ("unclosed bracket", "close it, or quote a text that begins with `[` or `{`"),
        ("unexpected character", "put the value in quotes"),
        ("did not find expected", "indent the keys of one mapping by the same number of spaces"),
    ];
    HINTS.iter().find(|(part, _)| message.contains(part)).map(|(_, hint)| (*hint).to_owned())
}
