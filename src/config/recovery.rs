//! A file as far as it can be read: its values, and every mistake in its keys and shapes.

use serde::de::DeserializeOwned;
use serde_saphyr::{DuplicateKeyPolicy, Error, Options};

use super::keys;
use super::problem::{ConfigProblem, is_one_edit_off, nearest};
use super::recovering_reader::{NodePath, RecoveringReader, RecoveryAction, RecoveryState};
use super::spanned_tree::{PathStep, SpannedTree};
use super::yaml_errors::{explain, explain_duplicate_key, explain_unknown_key, unwrap_aliases};

/// Limits on the mistakes reported and on the bytes read for them. Each mistake reads the whole text again, and
/// more would not help in one pass.
const MAX_MISTAKES: usize = 100;
const MAX_REREAD_BYTES: usize = 16 << 20;

/// The readable part of a file.
pub(super) struct RecoveredFile<T> {
    /// `None` when there is nothing to go on with.
    pub(super) value: Option<T>,
    pub(super) problems: Vec<ConfigProblem>,
    /// Paths whose values were left out, since they could not be read. What is missing there is no mistake of its own.
    pub(super) skipped_paths: Vec<String>,
    /// Keys of routes that stand at the top of the file. A route that lacks one of them may be the one that it belongs to.
    pub(super) misplaced_keys: Vec<String>,
}

/// Reads `text`, the content of the file `name`.
pub(super) fn read<T: DeserializeOwned>(name: &str, text: &str, options: Options) -> RecoveredFile<T> {
    let none =
        |problems| RecoveredFile { value: None, problems, skipped_paths: Vec::new(), misplaced_keys: Vec::new() };
    let first = match serde_saphyr::from_str_with_options(text, options.clone()) {
        Ok(value) => return RecoveredFile { value: Some(value), ..none(Vec::new()) },
        Err(error) => error,
    };
    match SpannedTree::parse(text, &options) {
        Ok(outline) if is_manifest(&outline) => {
            let kind = outline.find(&[PathStep::Key("kind".to_owned())]).and_then(|place| place.key);
            let message = "this is a Kubernetes manifest, not a configuration";
            let hint = "check the configuration below `data` as a separate file";
            none(vec![ConfigProblem::for_file(name, message).with_location("", kind, text).with_hint(hint)])
        }
        Ok(outline) => {
            let mut draft = recover(name, text, options, &outline);
            // Nothing that the reader refuses is taken, should it be something that nobody thought of.
            if draft.problems.is_empty() {
                draft.problems.push(explain(name, text, first.without_snippet(), None, None));
            }
            draft
        }
        // Of a text that is no YAML nothing else can be said.
        Err(error) => none(vec![explain(name, text, error.without_snippet(), None, None)]),
    }
}

/// Returns whether it is a Kubernetes manifest, such as a ConfigMap with a configuration in it.
fn is_manifest(outline: &SpannedTree) -> bool {
    ["apiVersion", "kind"].iter().all(|key| outline.find(&[PathStep::Key((*key).to_owned())]).is_some())
}

/// Reads the text again until each of its mistakes is known.
fn recover<T: DeserializeOwned>(
    name: &str,
    text: &str,
    mut options: Options,
    outline: &SpannedTree,
) -> RecoveredFile<T> {
    options.duplicate_keys = DuplicateKeyPolicy::FirstWins;
    let mut repairs = RecoveryState::default();
    let mut draft = RecoveredFile {
        value: None,
        problems: outline.duplicate_keys().iter().map(|of| explain_duplicate_key(name, text, of)).collect(),
        skipped_paths: Vec::new(),
        misplaced_keys: Vec::new(),
    };
    let most = MAX_MISTAKES.min(MAX_REREAD_BYTES / text.len().max(1));
    for _ in 0..most {
        let read =
            |reader: serde_saphyr::Deserializer<'_, '_>| T::deserialize(RecoveringReader::for_root(reader, &repairs));
        // The options leave excerpts out.
        let error = match serde_saphyr::with_deserializer_from_str_with_options(text, options.clone(), read) {
            Ok(value) => {
                draft.value = Some(value);
                break;
            }
            Err(error) => error,
        };
        let Some(failed) = repairs.take_failed() else {
            draft.problems.push(explain(name, text, &error, Some(outline), None));
            break;
        };
        let before = repairs.actions.get(&failed.path.path_steps).copied();
        if before == Some(RecoveryAction::Skip) {
            break;
        }
        let repair = match unwrap_aliases(&error) {
            Error::SerdeUnknownField { field, expected, .. } if failed.is_key && before.is_none() => {
                let (meant, home) = suggest_keys(field, expected, &failed.path, &repairs, outline);
                let position = outline.find(&failed.path.path_steps).and_then(|place| place.key);
                draft.problems.push(explain_unknown_key(
                    name,
                    text,
                    position,
                    &failed,
                    (field, expected, &meant, home),
                ));
                if home.is_some() && keys::is_route_key_at_top(field, &failed.path.path_steps) {
                    draft.misplaced_keys.push(field.clone());
                }
                match meant[..] {
                    [meant] => RecoveryAction::ReadAs(meant),
                    _ => {
                        draft.skipped_paths.extend(meant.iter().map(|meant| failed.path.sibling(meant)));
                        RecoveryAction::Skip
                    }
                }
            }
            _ => {
                // A mistake below a guessed key shows only that the guess was wrong.
                if before.is_none() {
                    draft.problems.push(explain(name, text, &error, Some(outline), Some(&failed)));
                }
                draft.skipped_paths.push(failed.path.corrected_path.clone());
                RecoveryAction::Skip
            }
        };
        repairs.actions.insert(failed.path.path_steps, repair);
    }
    draft
}

/// Suggests the members of `known` that an unknown key may be meant as, or else its right place.
fn suggest_keys(
    key: &str,
    known: &[&'static str],
    at: &NodePath,
    repairs: &RecoveryState,
    outline: &SpannedTree,
) -> (Vec<&'static str>, Option<&'static str>) {
    let mut meant = nearest(key, known);
    meant.retain(|meant| is_unused_key(meant, at, repairs, outline));
    // A file of API keys has no routes.
    let has_others = at.path_steps.len() > 1 || known.contains(&"routes");
    // The name of another key, letter by letter, is that key rather than one that is only near.
    let is_other = has_others && !meant.iter().any(|meant| is_one_edit_off(key, meant));
    match keys::suggest_location(key, &at.path_steps).filter(|_| is_other) {
        Some(home) => (Vec::new(), Some(home)),
        None => (meant, None),
    }
}

/// Returns whether no other key of the mapping is that one, or is read as it.
fn is_unused_key(key: &str, at: &NodePath, repairs: &RecoveryState, outline: &SpannedTree) -> bool {
    let Some((_, mapping)) = at.path_steps.split_last() else { return false };
    let other = [mapping, &[PathStep::Key(key.to_owned())]].concat();
    let same_mapping = |other: &[PathStep]| other.len() == at.path_steps.len() && other.starts_with(mapping);
    let is_read = |(other, repair): (&Vec<PathStep>, &RecoveryAction)| {
        same_mapping(other) && matches!(repair, RecoveryAction::ReadAs(meant) if *meant == key)
    };
    outline.find(&other).is_none() && !repairs.actions.iter().any(is_read)
}
