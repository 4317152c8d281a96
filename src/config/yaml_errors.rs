//! Explains parse errors in terms of keys and values, with hints.

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use super::line_faults::LineFault;
use super::line_marks::{KeyTest, describe_colon};
use super::problem::{ConfigProblem, SourcePosition, did_you_mean};
use super::schema::secrets::holds_secrets;
use super::spanned_tree::{MapEntry, NodeShape, TreeNode};
use super::tree_reader::{TreeError, TreeMistake};
use super::yaml_hints::{self, NO_YAML};

/// Mappings that are easily mistaken for single values, with examples.
const MAPPING_HINTS: &[(&str, &str)] = &[
    ("auth", "name issuers of tokens or lists of API keys: `auth: {api_keys: [{name: partners, file: keys.yaml}]}`"),
    (
        "dialects",
        "write a name and what it changes: `dialects: [{name: acme-chat, extends: ag-ui}]`; a dialect file is named in `dialect_files`",
    ),
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

pub(super) enum KeySuggestion {
    /// Known keys with a similar name, if any.
    Misspelt(Vec<&'static str>),
    /// The mapping where the key belongs.
    Misplaced(&'static str),
    /// A known key that is not separated from its value.
    Joined(&'static str),
}

// Syntax problems have no excerpt: a line that cannot be parsed may contain a secret anywhere.

pub(super) fn explain_syntax(name: &str, text: &str, mut error: &Error, is_key: KeyTest) -> ConfigProblem {
    // The mistake is in the anchor's text.
    while let Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    let position = error.location().and_then(SourcePosition::from_location);
    let (message, hint) = match error {
        Error::ExternalMessage { msg, .. } => {
            let hint_at = |position| yaml_hints::hint_for_syntax_error(text, position, msg, is_key);
            if let Some(found) = position.and_then(hint_at) {
                return explain_hint(name, "", found);
            }
            (format!("{NO_YAML}: {msg}"), syntax_hint(msg))
        }
        Error::UnknownAnchor { .. } => (
            "an alias (`*name`) without an anchor (`&name`) above it".to_owned(),
            Some("define the anchor, or quote a value that begins with `*`"),
        ),
        Error::MultipleDocuments { .. } => (
            "a second YAML document begins here".to_owned(),
            Some("keep one document in the file: remove the line `---`"),
        ),
        Error::Budget { breach: BudgetBreach::Nodes { .. }, .. } => {
            let message = "the file has too many values, or repeats itself too often".to_owned();
            (message, Some("leave out what is not needed, and use fewer aliases"))
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => (
            "an alias (`*name`) inside its own anchor (`&name`)".to_owned(),
            Some("write the value in place of the alias"),
        ),
        Error::Budget { .. } => (
            "the file is nested too deeply or repeats itself too often".to_owned(),
            Some("use fewer levels and aliases: few files are deeper than ten levels"),
        ),
        Error::UnsupportedTag { .. } => (
            "a word that begins with `!` is a YAML tag, which has no meaning here".to_owned(),
            Some("remove it, or put a text that begins with `!` in quotes"),
        ),
        other => (
            format!("this cannot be read: {}", UserMessageFormatter.format_message(other)),
            Some("write numbers below 1e308, keys and values without YAML tags such as `!!int`, and text in quotes"),
        ),
    };
    let problem = ConfigProblem::for_file(name, message).with_location("", position);
    ConfigProblem { hint: hint.map(str::to_owned), ..problem }
}

/// Explains why `node` cannot be read.
pub(super) fn explain_mistake(name: &str, text: &str, error: &TreeError<'_>, node: &TreeNode) -> ConfigProblem {
    let found = node.shape();
    let position = SourcePosition::from_location(node.defined);
    let typing_error = position.and_then(|position| match error.mistake {
        TreeMistake::MissingValue => yaml_hints::hint_for_comment_at(text, position),
        TreeMistake::WrongShape { expected } => yaml_hints::hint_for_shape(text, position, expected),
        _ => None,
    });
    if let Some(typing_error) = typing_error {
        return explain_hint(name, &error.path, typing_error);
    }
    let (message, hint) = match &error.mistake {
        TreeMistake::MissingValue if error.path.ends_with(']') => {
            ("the value is missing".to_owned(), Some("write a value after the `-`, or remove the `-`"))
        }
        TreeMistake::MissingValue => ("the value is missing".to_owned(), Some("write a value or remove the key")),
        TreeMistake::WrongShape { expected } => {
            (format!("expected {expected}, found {found}"), Some(shape_hint(*expected, &error.path)))
        }
        TreeMistake::WrongType { expected, found: scalar } => {
            let hint = (found == NodeShape::Scalar).then_some("put the value in quotes if it is meant as text");
            (format!("expected {expected}, found {scalar}"), hint)
        }
        TreeMistake::UnknownKey { .. } | TreeMistake::Unreadable => ("the value cannot be read".to_owned(), None),
    };
    let problem = ConfigProblem::for_file(name, message).with_location(&error.path, position);
    ConfigProblem { hint: hint.map(str::to_owned), ..problem }
}

fn explain_hint(name: &str, path: &str, found: LineFault) -> ConfigProblem {
    ConfigProblem::for_file(name, found.message).with_location(path, Some(found.position)).with_hint(found.hint)
}

pub(super) fn explain_unknown_key(
    name: &str,
    path: &str,
    entry: &MapEntry,
    known: &[&str],
    suggestion: &KeySuggestion,
) -> ConfigProblem {
    if entry.key.starts_with("//") {
        let problem = ConfigProblem::for_file(name, yaml_hints::NO_COMMENT).with_location("", entry.position);
        return problem.with_hint(yaml_hints::COMMENT_HINT);
    }
    let hint = match suggestion {
        KeySuggestion::Joined(key) => {
            // The rest may be a secret.
            let (message, hint) = describe_colon(key, |_| true);
            let mapping_path = path.strip_suffix(&entry.key).unwrap_or(path).trim_end_matches('.');
            let problem = ConfigProblem::for_file(name, message).with_location(mapping_path, entry.position);
            return problem.with_hint(hint);
        }
        KeySuggestion::Misplaced(location) => (*location).to_owned(),
        // A similar key that is already in the mapping was not intended.
        KeySuggestion::Misspelt(meant) if meant.is_empty() => did_you_mean("", known),
        KeySuggestion::Misspelt(meant) => did_you_mean(&entry.key, meant),
    };
    let mapping_path = path.strip_suffix(&entry.key).unwrap_or(path).trim_end_matches('.');
    let is_misspelt = !matches!(suggestion, KeySuggestion::Misspelt(meant) if meant.is_empty());
    // In `redis: {s3cr3t}` the unknown key is the secret.
    if !is_misspelt && entry.value.shape() == NodeShape::Empty && holds_secrets(mapping_path) {
        let problem = ConfigProblem::for_file(name, "a value without a key");
        return problem.with_location(mapping_path, entry.position).with_hint(hint);
    }
    let problem = ConfigProblem::for_file(name, format!("unknown key `{}`", entry.key));
    problem.with_location(path, entry.position).with_hint(hint)
}

pub(super) fn explain_duplicate_key(name: &str, path: &str, entry: &MapEntry, first_line: u64) -> ConfigProblem {
    let message = format!("the key `{}` is defined twice; first on line {first_line}", entry.key);
    let hint = "keep one of the two, or merge their values";
    ConfigProblem::for_file(name, message).with_location(path, entry.position).with_hint(hint)
}

fn shape_hint(expected: NodeShape, path: &str) -> &'static str {
    let key = path.rsplit('.').next().unwrap_or(path);
    let key = key.split_once('[').map_or(key, |(list, _)| list);
    let of_key = MAPPING_HINTS.iter().find(|(name, _)| *name == key).map(|(_, hint)| *hint);
    match expected {
        NodeShape::Mapping if path.is_empty() => "begin with a key such as `routes:`, without indentation",
        NodeShape::Mapping => of_key.unwrap_or("write `key: value` lines below it, indented"),
        NodeShape::List if key == "dialects" => of_key.unwrap_or_default(),
        NodeShape::List => "begin each entry with `- `, indented below the key",
        NodeShape::Scalar | NodeShape::Empty => {
            "write one value after the key; quote a text that begins with `{` or `[`"
        }
    }
}

fn syntax_hint(message: &str) -> Option<&'static str> {
    const HINTS: &[(&str, &str)] = &[
        (
            "mapping values are not allowed",
            "quote a value that contains `: `, or check the indentation; the line above may be missing its `: `",
        ),
        ("tab", "indent with spaces; YAML does not allow tabs"),
        ("unclosed quote", "close it, on the same line if it was opened there; a `\"` inside double quotes is `\\\"`"),
        ("quoted scalar", "a quote here or above is not closed, or a `\\` in double quotes needs to be `\\\\`"),
        (" bracket", "close it, or quote a text that begins with `[` or `{`"),
        ("unexpected character: `\\u", "remove the control character, or write it as an escape in double quotes"),
        ("unexpected character", "put the value in quotes"),
        ("recursion limit", "use fewer levels: few files are deeper than ten"),
        (
            "flow mapping",
            "between `{` and `}`, quote a value that contains `{`, `}` or `: `, such as \"${NAME}\" or \"/runs/{id}\", and \
             put a comma between the keys",
        ),
        (
            "flow sequence",
            "between `[` and `]`, quote a value that contains `{`, `}`, `[` or `]`, such as \"${NAME}\", and put a comma \
             between the values",
        ),
        (
            "block sequence entries",
            "write the `-` in the line below the key, indented, or the list in brackets: `[a, b]`",
        ),
        ("anchor or alias", "write a name directly behind it, or quote a text that begins with `&` or `*`"),
        ("did not find expected", "indent the keys of one mapping by the same number of spaces"),
    ];
    HINTS.iter().find(|(part, _)| message.contains(part)).map(|(_, hint)| *hint)
}
