//! Reads as much of a file as possible, and reports every mistake in its keys and shapes.

use serde::de::DeserializeOwned;
use serde_saphyr::Options;

use super::foreign_format::explain_foreign_format;
use super::keys;
use super::line_marks::begins_with_colon;
use super::problem::{ConfigProblem, is_one_edit_off, nearest};
use super::source::FileRepairs;
use super::spanned_tree::{MapEntry, NodeShape, TreeNode};
use super::tree_reader::{self, TreeError, TreeMistake};
use super::yaml_errors::{KeySuggestion, explain_duplicate_key, explain_mistake, explain_syntax, explain_unknown_key};
use super::yaml_hints::is_known_key;

/// The maximum number of mistakes corrected in one pass.
const MAX_MISTAKES: usize = 100;

pub(super) struct RecoveredFile<T> {
    /// `None` if the whole file is unreadable.
    pub(super) value: Option<T>,
    pub(super) problems: Vec<ConfigProblem>,
    pub(super) repairs: FileRepairs,
}

pub(super) fn read<T: DeserializeOwned>(name: &str, text: &str, options: &Options) -> RecoveredFile<T> {
    let unreadable = |problem| RecoveredFile { value: None, problems: vec![problem], repairs: FileRepairs::default() };
    if let Some(problem) = explain_foreign_format(name, text) {
        return unreadable(problem);
    }
    let tree = match TreeNode::parse(text, options) {
        Ok(tree) => tree,
        Err(error) => return unreadable(explain_syntax(name, text, error.without_snippet(), is_known_key)),
    };
    // For example, a ConfigMap that contains a configuration.
    if let (Some(_), Some(kind)) = (tree.entry("apiVersion"), tree.entry("kind")) {
        let message = "this is a Kubernetes manifest, not a configuration";
        let hint = "check the configuration below `data` as a separate file";
        return unreadable(ConfigProblem::for_file(name, message).with_location("", kind.position).with_hint(hint));
    }
    recover(name, text, &tree)
}

impl FileRepairs {
    fn apply(&mut self, suggestion: &KeySuggestion, at: &TreeError<'_>, entry: &MapEntry) {
        let sibling_path =
            |key: &str| format!("{}{key}", at.corrected_path.strip_suffix(&entry.key).unwrap_or_default());
        match suggestion {
            KeySuggestion::Misspelt(meant) => match meant[..] {
                [meant] => {
                    entry.read_as.set(Some(meant));
                    self.guessed_paths.push(sibling_path(meant));
                    return;
                }
                _ => self.skipped_paths.extend(meant.iter().map(|meant| sibling_path(meant))),
            },
            KeySuggestion::Misplaced(_) if keys::is_route_key_at_top(&entry.key, &at.corrected_path) => {
                self.misplaced_keys.push(entry.key.clone());
            }
            KeySuggestion::Misplaced(_) => {}
            KeySuggestion::Joined(key) => self.skipped_paths.push(sibling_path(key)),
        }
        entry.value.is_skipped.set(true);
    }
}

/// Reads the tree repeatedly until all mistakes are found and repaired.
fn recover<T: DeserializeOwned>(name: &str, text: &str, tree: &TreeNode) -> RecoveredFile<T> {
    let mut file = RecoveredFile { value: None, problems: Vec::new(), repairs: FileRepairs::default() };
    tree.skip_duplicate_keys("", &mut |path, entry, first_line| {
        file.problems.push(explain_duplicate_key(name, path, entry, first_line));
    });
    for _ in 0..MAX_MISTAKES {
        let error = match tree_reader::read(tree) {
            Ok(value) => {
                file.value = Some(value);
                break;
            }
            Err(error) => error,
        };
        let node = error.node.unwrap_or(tree);
        let guessed = error.entry.and_then(|(entry, _)| entry.read_as.get());
        match (&error.mistake, error.entry) {
            (TreeMistake::UnknownKey { known }, Some((entry, entries))) if guessed.is_none() => {
                let suggestion = suggest_keys(known, &error, entry, entries);
                file.problems.push(explain_unknown_key(name, &error.path, entry, known, &suggestion));
                file.repairs.apply(&suggestion, &error, entry);
            }
            _ => {
                // A mistake below a guessed key only means that the guess was wrong.
                if guessed.is_none() {
                    file.problems.push(explain_mistake(name, text, &error, node));
                }
                file.repairs.skipped_paths.push(error.corrected_path);
                if node.is_skipped.replace(true) || error.node.is_none() {
                    break;
                }
            }
        }
    }
    file
}

/// Suggests similar keys from `known`, or else where the key belongs.
fn suggest_keys(known: &[&'static str], at: &TreeError<'_>, entry: &MapEntry, entries: &[MapEntry]) -> KeySuggestion {
    if let Some(key) = find_joined_key(known, entry) {
        return KeySuggestion::Joined(key);
    }
    let mut meant = nearest(&entry.key, known);
    meant.retain(|meant| !entries.iter().any(|other| other.key == *meant || other.read_as.get() == Some(meant)));
    // API key files have no routes.
    let has_others = at.corrected_path != entry.key || known.contains(&"routes");
    // A key that is valid elsewhere is probably misplaced, unless it is one typo away from a known key.
    let is_other = has_others && !meant.iter().any(|meant| is_one_edit_off(&entry.key, meant));
    match keys::suggest_location(&entry.key, &at.corrected_path).filter(|_| is_other) {
        Some(location) => KeySuggestion::Misplaced(location),
        None => KeySuggestion::Misspelt(meant),
    }
}

/// Returns the known key with which an unknown one without a value begins, as in `client:hai`.
fn find_joined_key(known: &[&'static str], entry: &MapEntry) -> Option<&'static str> {
    let is_joined = |key: &&&str| entry.key.strip_prefix(**key).map(str::trim_start).is_some_and(begins_with_colon);
    let is_empty = entry.value.shape() == NodeShape::Empty;
    known.iter().find(is_joined).copied().filter(|_| is_empty)
}
