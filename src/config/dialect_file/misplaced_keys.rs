//! Keys that a dialect file has in another place, and the way there.

use super::file_keys::{CONTENT, ERROR_KEYS, EXAMPLE_KEYS, FAIL_KEYS, FILE_KEYS, KEY, REQUEST_KEYS, RULE_KEYS};
use crate::config::problem::is_one_edit_off;
use crate::event::{EventType, Field};

/// Mappings with keys of their own.
enum KeyOwner {
    File,
    Rule,
    Event,
    Request,
    Example,
}

impl KeyOwner {
    fn find(path: &str) -> Option<KeyOwner> {
        let (outer, inner) = path.split_once('.').map_or((path, None), |(outer, inner)| (outer, Some(inner)));
        let list = outer.split('[').next().unwrap_or_default();
        Some(match (list, inner) {
            ("", None) => KeyOwner::File,
            ("events", None) => KeyOwner::Rule,
            ("events", Some(inner)) if inner.split('[').next() == Some("emit") => KeyOwner::Event,
            ("request", None) => KeyOwner::Request,
            ("tests", None) => KeyOwner::Example,
            _ => return None,
        })
    }
}

/// Returns where a key belongs that the mapping at `path` does not have.
pub(super) fn suggest_place(path: &str, key: &str, known: &[&str]) -> Option<String> {
    if known.iter().any(|known| is_one_edit_off(key, known)) {
        return None;
    }
    let has = |keys: &[&str]| keys.contains(&key);
    let field = || Field::from_wire(key).filter(|field| field.camel() == key);
    let owner = KeyOwner::find(path)?;
    Some(match owner {
        KeyOwner::File if has(RULE_KEYS) => format!("`{key}` is a key of a rule: write it in one below `events:`"),
        KeyOwner::File if has(REQUEST_KEYS) => format!("`{key}` is a key of the request: write it below `request:`"),
        KeyOwner::File if has(ERROR_KEYS) => format!("write it in `error: {{{key}: PATH}}`"),
        KeyOwner::File if has(EXAMPLE_KEYS) => {
            format!("`{key}` is a key of an example: write it in one below `tests:`")
        }
        KeyOwner::File => return None,
        _ if has(FILE_KEYS) && key != "name" => format!("`{key}` stands at the top of the file, without indentation"),
        KeyOwner::Event if has(RULE_KEYS) => format!("`{key}` is a key of the rule: write it as far left as `emit`"),
        KeyOwner::Rule if has(FAIL_KEYS) => format!("write it in `fail: {{{key}: \"{{PATH}}\"}}`"),
        KeyOwner::Rule if key.starts_with('@') => format!("a condition stands in `when: {{\"{key}\": …}}`"),
        KeyOwner::Rule if field().is_some_and(|field| EventType::RunFinished.slot(field).is_some()) => {
            format!("write it in `finish: {{{key}: …}}`")
        }
        KeyOwner::Rule if field().is_some() || has(&["type", KEY, CONTENT]) => {
            format!("write it in `emit: {{{key}: …}}`")
        }
        KeyOwner::Rule if has(REQUEST_KEYS) => format!("`{key}` is a key of the request: write it below `request:`"),
        KeyOwner::Request => "what the agent gets stands below `body:`".to_owned(),
        KeyOwner::Rule | KeyOwner::Event | KeyOwner::Example => return None,
    })
}
