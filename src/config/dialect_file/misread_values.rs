//! Finds values that YAML reads otherwise than they are meant: a word for true, a number that loses its form, a comment
//! in place of a value, an escape in single quotes, a key that is joined with its value.

use super::compiler::{DialectCompiler, literal_json, position_of};
use super::path_text::is_place;
use crate::codec::json;
use crate::config::line_marks::{KeyTest, begins_with_colon, describe_colon};
use crate::config::problem::SourcePosition;
use crate::config::spanned_tree::{MapEntry, NodeValue, TreeNode, TreeScalar, TreeScalarKind, join_key};
use crate::config::yaml_hints::{COMMENT_HINT, NO_COMMENT, hint_for_comment_at};
use std::ops::Range;

/// Keys at the top whose values the agent or the client gets.
const READ_KEYS: &[&str] = &["events", "request"];

/// Keys whose values are compared, or are paths.
const COMPARED_KEYS: &[&str] = &["when", "has", "lacks", "each"];

/// Words that YAML 1.1 reads as booleans, and YAML 1.2 as texts.
const TRUE_WORDS: [&str; 2] = ["yes", "on"];
const FALSE_WORDS: [&str; 2] = ["no", "off"];

/// Returns the boolean that a word may stand for.
pub(crate) fn find_boolean(word: &str) -> Option<bool> {
    let is_one_of = |words: &[&str]| words.iter().any(|own| own.eq_ignore_ascii_case(word));
    match (is_one_of(&TRUE_WORDS), is_one_of(&FALSE_WORDS)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

impl DialectCompiler<'_> {
    /// Reports keys that are joined with their values, and warns about values that are not what they seem.
    pub(super) fn check_misread_values(&mut self, root: &TreeNode, is_key: KeyTest) {
        let NodeValue::Mapping(entries) = &root.value else { return };
        for entry in entries.iter().filter(|entry| !entry.value.is_skipped.get()) {
            let is_read = READ_KEYS.contains(&entry.key.as_str());
            if !self.reports_joined_key(entry, &entry.key, is_key) && is_read {
                self.check_node(&entry.value, &entry.key, false, is_key);
            }
        }
    }

    fn check_node(&mut self, node: &TreeNode, path: &str, is_compared: bool, is_key: KeyTest) {
        match &node.value {
            NodeValue::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.check_node(item, &format!("{path}[{index}]"), is_compared, is_key);
                }
            }
            NodeValue::Mapping(entries) => {
                for entry in entries.iter().filter(|entry| !entry.value.is_skipped.get()) {
                    let path = join_key(path, &entry.key);
                    if !self.reports_joined_key(entry, &path, is_key) {
                        let is_compared = is_compared || COMPARED_KEYS.contains(&entry.key.as_str());
                        self.check_node(&entry.value, &path, is_compared, is_key);
                    }
                }
            }
            NodeValue::Empty if !is_compared && self.source_of(node).is_some_and(str::is_empty) => {
                self.check_missing_value(node, path);
            }
            NodeValue::Empty => {}
            NodeValue::Scalar(scalar) => {
                if let Some((message, hint)) = find_misread_scalar(scalar, self.source_of(node), is_compared) {
                    self.warn(path, position_of(node), message, hint);
                }
            }
        }
    }

    /// Returns a value as the file writes it.
    fn source_of(&self, node: &TreeNode) -> Option<&str> {
        self.text.get(span_of(node)?)
    }

    /// Returns whether the key in front of a value that is missing has quotes.
    fn has_quoted_key(&self, entry: &MapEntry) -> bool {
        let before = span_of(&entry.value).and_then(|span| self.text.get(..span.start)).unwrap_or_default().trim_end();
        before.strip_suffix(':').unwrap_or(before).trim_end().ends_with(['"', '\''])
    }

    /// Reports a key without a value that has a colon in it, or another mark in place of one.
    fn reports_joined_key(&mut self, entry: &MapEntry, path: &str, is_key: KeyTest) -> bool {
        if entry.key.starts_with("//") || entry.key.starts_with("/*") {
            self.report("", entry.position, NO_COMMENT, COMMENT_HINT);
            return true;
        }
        let is_empty = matches!(entry.value.value, NodeValue::Empty);
        let Some(position) = entry.position.filter(|_| is_empty && self.source_of(&entry.value) == Some("")) else {
            return false;
        };
        let end = entry.key.find(|each: char| !(each.is_alphanumeric() || matches!(each, '_' | '.')));
        let (name, rest) = entry.key.split_at(end.unwrap_or(entry.key.len()));
        let rest = rest.trim_start();
        let is_marked = !name.is_empty() && begins_with_colon(rest);
        if !is_marked || self.has_quoted_key(entry) {
            return false;
        }
        let (message, hint) = describe_colon(name, is_key);
        // The rest of the key may be a secret.
        let path = path.strip_suffix(&entry.key).unwrap_or(path).trim_end_matches('.');
        self.report(path, Some(position), message, hint);
        true
    }

    /// Warns about a value that is missing, which makes null.
    fn check_missing_value(&mut self, node: &TreeNode, path: &str) {
        if self.has_all_warnings() {
            return;
        }
        let position = position_of(node);
        match position.and_then(|position: SourcePosition| hint_for_comment_at(self.text, position)) {
            Some(comment) => self.warn(path, Some(comment.position), comment.message, comment.hint),
            None => self.warn(
                path,
                position,
                "there is no value, so that this is null",
                "write the value, `null` if that is meant, or remove the key",
            ),
        }
    }
}

/// Returns the bytes of the file that a value has.
fn span_of(node: &TreeNode) -> Option<Range<usize>> {
    let span = node.defined.span();
    let index = |bytes: Option<u64>| bytes.and_then(|bytes| usize::try_from(bytes).ok());
    let (start, length) = index(span.byte_offset()).zip(index(span.byte_len()))?;
    Some(start..start.checked_add(length)?)
}

/// Finds a scalar that YAML reads otherwise than it is meant.
fn find_misread_scalar(scalar: &TreeScalar, source: Option<&str>, is_compared: bool) -> Option<(String, String)> {
    let source = source?.trim();
    let text = &scalar.text;
    if !matches!(scalar.kind, TreeScalarKind::Text | TreeScalarKind::Bool(_)) {
        let value = literal_json(scalar);
        let value = value.as_str().strip_suffix(".0").unwrap_or(value.as_str());
        if json::parse_value(source).is_none() {
            let hint = format!("write `\"{source}\"` for the text, or `{value}`");
            return Some((format!("YAML reads `{source}` as the number {value}"), hint));
        }
        let is_shortened =
            source.contains('.') && source.ends_with('0') && !source.trim_end_matches('0').ends_with('.');
        let short = source.trim_end_matches('0');
        // `0.70` is a share, and no version.
        return (is_shortened && !is_compared && !source.starts_with(['0', '-']) && !source.contains(['e', 'E'])).then(
            || {
                let hint = format!("write `\"{source}\"` for the text, or `{short}`");
                (format!("`{source}` is the number {short}, without the last `0`"), hint)
            },
        );
    }
    if is_compared || !matches!(scalar.kind, TreeScalarKind::Text) {
        return None;
    }
    if source == text
        && let Some(value) = find_boolean(text)
    {
        let hint = format!("write `{value}`, or `\"{text}\"` for the text");
        return Some((format!("`{text}` is a text here, and not {value}"), hint));
    }
    if let Some((_, rest)) = text.split_once('｛')
        && let Some((place, _)) = rest.split_once('｝')
        && is_place(place)
    {
        let message = format!("`｛{place}｝` is this text itself, because its braces are full-width ones");
        return Some((message, format!("write `{{{place}}}` for the value")));
    }
    // A path of Windows may have `\n` as well.
    let is_plain = source.starts_with('\'') || source == text;
    let escape = [r"\n", r"\t", r"\r"].into_iter().find(|escape| text.contains(escape) && !text.contains(":\\"));
    escape.filter(|_| is_plain).map(|escape| {
        let message = format!("`{escape}` is these two characters here");
        (message, "write the text in double quotes, where it is one character".to_owned())
    })
}
