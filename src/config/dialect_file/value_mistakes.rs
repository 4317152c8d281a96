//! Finds values that are valid, but meant otherwise: mappings that would be taken as objects, words that look like
//! patterns, and variables without braces.

use super::compiler::{PlacedNode, position_of};
use crate::config::problem::{did_you_mean, is_one_edit_off, nearest};
use crate::config::spanned_tree::{MapEntry, NodeValue, TreeNode};

/// Keys of a mapping that is not an object but a way to make a value.
pub(super) const TABLE_KEYS: &[&str] = &["from", "table", "otherwise"];
pub(super) const CONVERSION_KEYS: &[&str] = &["as_text", "as_json", "text_of"];

/// Words of other languages for `each`.
const OTHER_LOOPS: &[&str] = &["for", "in", "of", "loop", "map", "every", "foreach", "forEach", "for_each"];

pub(super) fn value_of<'t>(at: PlacedNode<'t>, key: &str) -> Option<&'t NodeValue> {
    at.node.entry(key).map(|entry| &entry.value.value)
}

/// Returns the name of a variable that is written as a shell does, without braces.
pub(super) fn plain_variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let is_name = name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    is_name.then_some(name)
}

/// Returns the key of a value that the only key of an object may mean.
pub(super) fn find_conversion(entries: &[MapEntry]) -> Option<(&MapEntry, &'static str)> {
    let [only] = entries else { return None };
    let is_template = matches!(&only.value.value, NodeValue::Scalar(scalar) if scalar.text.contains('{'));
    if !is_template || only.key.starts_with("is_") || only.key.starts_with("has_") {
        return None;
    }
    let meant = CONVERSION_KEYS.iter().find(|key| **key != only.key && is_one_edit_off(&only.key, key))?;
    Some((only, meant))
}

/// Writes a path as a key or a value: YAML reserves the `@`.
pub(super) fn quote_path(path: &str) -> String {
    if path.starts_with('@') { format!("\"{path}\"") } else { path.to_owned() }
}

/// Returns whether a word looks like a regular expression, or like one of a shell.
pub(super) fn is_pattern(word: &str) -> bool {
    let is_enclosed = |start: char, end: char| word.len() > 2 && word.starts_with(start) && word.ends_with(end);
    is_enclosed('/', '/') || is_enclosed('^', '$') || word.contains(".*") || (word.len() > 1 && word.ends_with('*'))
}

/// Finds a mapping that is meant as a way to make a value, but would be taken as an object.
pub(super) fn find_mistake(at: PlacedNode<'_>, entries: &[MapEntry]) -> Option<(String, String)> {
    let has = |key: &str| at.node.entry(key).is_some();
    let has_text = |key: &str| matches!(value_of(at, key), Some(NodeValue::Scalar(_)));
    let has_only = |keys: &[&str]| entries.iter().all(|entry| keys.contains(&entry.key.as_str()));
    let misspelt = |keys: &[&'static str]| {
        let mut others = entries.iter().filter(|entry| !keys.contains(&entry.key.as_str()));
        others.find_map(|entry| Some((entry.key.clone(), *nearest(&entry.key, keys).first()?)))
    };
    // A block begins at its first key, and braces before it.
    if let [MapEntry { key, value, position, .. }] = entries
        && matches!(value.value, NodeValue::Empty)
        && *position != position_of(at.node)
        && value.defined.span().byte_len() == Some(0)
    {
        let message = format!("`{{{key}}}` without quotes is an object in YAML");
        return Some((message, format!("write \"{{{key}}}\", or `{{{key}: \"\"}}` for an object")));
    }
    if let Some(wrong) = entries.iter().find(|entry| entries.len() > 1 && CONVERSION_KEYS.contains(&entry.key.as_str()))
    {
        let key = &wrong.key;
        return Some((format!("`{key}` has another key beside it"), format!("write `{{{key}: VALUE}}` alone")));
    }
    if has_text("each") && has("as") && has("rules") {
        let hint = "keep `as:` for one form of all elements, or `rules:` for several";
        return Some(("`each` has both `as` and `rules`".to_owned(), hint.to_owned()));
    }
    if has_text("each")
        && !has("as")
        && !has("rules")
        && let Some((wrong, key)) = misspelt(&["each", "as", "rules"])
    {
        return Some((format!("`{wrong}` is no key beside `each`"), format!("did you mean `{key}`?")));
    }
    if has_text("each") && !has("as") && !has("rules") {
        return Some(("`each` without the form of its elements".to_owned(), "add `as:` or `rules:`".to_owned()));
    }
    if let [first, second] = entries
        && has("as")
        && let Some(wrong) = [first, second].into_iter().find(|entry| OTHER_LOOPS.contains(&entry.key.as_str()))
    {
        return Some((format!("`{}` names no list here", wrong.key), "write `each: PATH`".to_owned()));
    }
    let has_table = matches!(value_of(at, "table"), Some(NodeValue::Mapping(_)));
    if (has_text("from") && !has("table")) || (has_table && !has("from")) {
        let found = misspelt(TABLE_KEYS);
        if let Some((wrong, key)) = found {
            return Some((format!("`{wrong}` is no key of a table"), format!("did you mean `{key}`?")));
        }
    }
    let other = entries.iter().find(|entry| !TABLE_KEYS.contains(&entry.key.as_str()));
    if let [_, _, _] = entries
        && has_text("from")
        && has("otherwise")
        && let Some(other) = other.filter(|other| matches!(other.value.value, NodeValue::Mapping(_)))
    {
        return Some((format!("`{}` is no key of a table", other.key), "write `table:`".to_owned()));
    }
    if has_text("from")
        && has_table
        && let Some(other) = other
    {
        return Some((format!("`{}` is no key of a table", other.key), did_you_mean(&other.key, TABLE_KEYS)));
    }
    if !entries.is_empty() && has("table") && has_only(TABLE_KEYS) && !has("from") {
        return Some(("a table without the value that it maps".to_owned(), "add `from: \"{PATH}\"`".to_owned()));
    }
    None
}

/// Returns the form of a list's elements that stands beside the object with `each`, and that object.
pub(super) fn find_outdented_form(entries: &[MapEntry]) -> Option<(&MapEntry, &MapEntry)> {
    let form = entries.iter().find(|entry| ["as", "rules"].contains(&entry.key.as_str()))?;
    let has = |entry: &MapEntry, key: &str| entry.value.entry(key).is_some();
    let outer = entries.iter().find(|entry| has(entry, "each") && !has(entry, "as") && !has(entry, "rules"))?;
    Some((form, outer))
}

/// Returns the place that a text names in the marks of another language: `<text>`, `$text`, `%text%`.
pub(super) fn strip_foreign_marks(text: &str) -> Option<&str> {
    let marks = [("{{", "}}"), ("<", ">"), ("%", "%"), ("$", ""), ("[[", "]]")];
    marks.iter().find_map(|(start, end)| Some(text.strip_prefix(start)?.strip_suffix(end)?.trim()))
}

/// Finds a path in braces that is written as in another language.
pub(super) fn find_path_mistake(inside: &str, path: &str) -> Option<(String, String)> {
    let way_out = match path.trim() {
        "" if inside.contains("||") => {
            "write one `|` between places, of which the first with a value is used".to_owned()
        }
        "" => "write a path in the braces, such as `{choices[0].text}`".to_owned(),
        path => {
            let is_plain = !path.contains('"');
            let words = [" or ", "??"].iter().find_map(|word| path.split_once(word));
            if let Some((first, second)) = words.filter(|_| is_plain) {
                let (first, second) = (first.trim(), second.trim());
                let hint = format!("write `{{{first}|{second}}}`, of which the first with a value is used");
                return Some((format!("`{path}` is not a path"), hint));
            }
            let (place, default) = path.split_once(":-")?;
            let message = "braces have no defaults, which are for variables".to_owned();
            return Some((message, format!("write `{{from: \"{{{place}}}\", otherwise: {default}}}`")));
        }
    };
    Some(("`{}` names no place".to_owned(), way_out))
}

/// Returns whether a condition can compare with a node.
pub(super) fn is_compared(node: &TreeNode) -> bool {
    match &node.value {
        NodeValue::Mapping(_) => false,
        NodeValue::List(items) => items.iter().all(is_compared),
        NodeValue::Empty | NodeValue::Scalar(_) => true,
    }
}
