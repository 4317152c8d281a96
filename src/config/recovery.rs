//! A file as far as it can be read: its values, and every mistake in its keys and shapes.

use serde::de::DeserializeOwned;
use serde_saphyr::{DuplicateKeyPolicy, Error, Options};

use super::explain::{behind_aliases, explain, repeated, unknown};
use super::keys;
use super::lenient::{At, Lenient, Repair, Repairs};
use super::outline::{Outline, Step};
use super::problem::{Problem, is_slip, nearest};

/// How many mistakes are looked for, and how many bytes are read for them. Each takes another look at the whole text, and
/// nobody mends more in one go.
const MOST: usize = 100;
const MOST_BYTES: usize = 16 << 20;

/// What could be read of a file.
pub(super) struct Draft<T> {
    /// `None` when there is nothing to go on with.
    pub(super) value: Option<T>,
    pub(super) problems: Vec<Problem>,
    /// Paths whose values were left out, since they could not be read. What is missing there is no mistake of its own.
    pub(super) lost: Vec<String>,
    /// Keys of routes that stand at the top of the file. A route that lacks one of them may be the one that it belongs to.
    pub(super) misplaced: Vec<String>,
}

/// Reads `text`, the content of the file `name`.
pub(super) fn read<T: DeserializeOwned>(name: &str, text: &str, options: Options) -> Draft<T> {
    let none = |problems| Draft { value: None, problems, lost: Vec::new(), misplaced: Vec::new() };
    let first = match serde_saphyr::from_str_with_options(text, options.clone()) {
        Ok(value) => return Draft { value: Some(value), ..none(Vec::new()) },
        Err(error) => error,
    };
    match Outline::of(text, &options) {
        Ok(outline) if is_manifest(&outline) => {
            let kind = outline.find(&[Step::Key("kind".to_owned())]).and_then(|place| place.key);
            let message = "this is a Kubernetes manifest, not a configuration";
            let hint = "check what stands below `data`, in a file of its own";
            none(vec![Problem::of_file(name, message).at("", kind, text).hint(hint)])
        }
        Ok(outline) => {
            let mut draft = mend(name, text, options, &outline);
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

/// Whether it is what `kubectl` takes: a ConfigMap, say, with a configuration in it.
fn is_manifest(outline: &Outline) -> bool {
    ["apiVersion", "kind"].iter().all(|key| outline.find(&[Step::Key((*key).to_owned())]).is_some())
}

/// Reads the text again until each of its mistakes is known.
fn mend<T: DeserializeOwned>(name: &str, text: &str, mut options: Options, outline: &Outline) -> Draft<T> {
    options.duplicate_keys = DuplicateKeyPolicy::FirstWins;
    let mut repairs = Repairs::default();
    let mut draft = Draft {
        value: None,
        problems: outline.repeated().iter().map(|of| repeated(name, text, of)).collect(),
        lost: Vec::new(),
        misplaced: Vec::new(),
    };
    let most = MOST.min(MOST_BYTES / text.len().max(1));
    for _ in 0..most {
        let read = |reader: serde_saphyr::Deserializer<'_, '_>| T::deserialize(Lenient::whole(reader, &repairs));
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
        let before = repairs.of.get(&failed.at.written).copied();
        if before == Some(Repair::LeaveOut) {
            break;
        }
        let repair = match behind_aliases(&error) {
            Error::SerdeUnknownField { field, expected, .. } if failed.is_key && before.is_none() => {
                let (meant, home) = meant(field, expected, &failed.at, &repairs, outline);
                let position = outline.find(&failed.at.written).and_then(|place| place.key);
                draft.problems.push(unknown(name, text, position, &failed, (field, expected, &meant, home)));
                if home.is_some() && keys::is_of_route(field, &failed.at.written) {
                    draft.misplaced.push(field.clone());
                }
                match meant[..] {
                    [meant] => Repair::ReadAs(meant),
                    _ => {
                        draft.lost.extend(meant.iter().map(|meant| failed.at.sibling(meant)));
                        Repair::LeaveOut
                    }
                }
            }
            _ => {
                // What stands behind a key that was guessed shows that the guess was wrong, and nothing else.
                if before.is_none() {
                    draft.problems.push(explain(name, text, &error, Some(outline), Some(&failed)));
                }
                draft.lost.push(failed.at.read.clone());
                Repair::LeaveOut
            }
        };
        repairs.of.insert(failed.at.written, repair);
    }
    draft
}

/// Which of `known` an unknown key may stand for, and else where it belongs.
fn meant(
    key: &str,
    known: &[&'static str],
    at: &At,
    repairs: &Repairs,
    outline: &Outline,
) -> (Vec<&'static str>, Option<&'static str>) {
    let mut meant = nearest(key, known);
    meant.retain(|meant| is_free(meant, at, repairs, outline));
    // A file of API keys has no routes.
    let has_others = at.written.len() > 1 || known.contains(&"routes");
    // The name of another key, letter by letter, is that key rather than one that is only near.
    let is_other = has_others && !meant.iter().any(|meant| is_slip(key, meant));
    match keys::home(key, &at.written).filter(|_| is_other) {
        Some(home) => (Vec::new(), Some(home)),
        None => (meant, None),
    }
}

/// Whether no other key of the mapping is that one, or is read as it.
fn is_free(key: &str, at: &At, repairs: &Repairs, outline: &Outline) -> bool {
    let Some((_, mapping)) = at.written.split_last() else { return false };
    let other = [mapping, &[Step::Key(key.to_owned())]].concat();
    let same_mapping = |other: &[Step]| other.len() == at.written.len() && other.starts_with(mapping);
    let is_read = |(other, repair): (&Vec<Step>, &Repair)| {
        same_mapping(other) && matches!(repair, Repair::ReadAs(meant) if *meant == key)
    };
    outline.find(&other).is_none() && !repairs.of.iter().any(is_read)
}
