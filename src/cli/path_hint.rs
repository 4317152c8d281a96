//! Ways out of a path that leads nowhere, and of a word that nothing has.

use crate::codec::json::{self, JsonStep};
use crate::config::dialect_file::{ReadPlace, write_path};
use crate::config::{is_one_edit_off, nearest, quote_names};
use crate::dialect::find_value;
use crate::event::{Json, JsonType};
use std::collections::BTreeSet;

/// Maximum number of members of frames that a hint names.
pub(super) const MAX_MEMBERS: usize = 20;

/// Maximum number of characters of words that have little in common with those of two other letters.
const SHORT_WORD: usize = 6;

/// The way out of a path that leads nowhere.
pub(super) enum PathHint {
    /// places with a similar name
    Meant(Vec<String>),
    /// the members that are there; none if nothing is
    Members(Vec<String>),
    /// It begins at the payload, and repeats its path, or is for a member beside it.
    Sibling { payload: String, meant: String },
}

impl PathHint {
    /// Writes the hint for the place of a value.
    pub(super) fn describe_for(&self, place: &ReadPlace) -> String {
        let text = match self {
            PathHint::Meant(meant) => return format!("{} Otherwise add an example with it", propose(meant)),
            PathHint::Sibling { .. } => return self.describe_rest(),
            PathHint::Members(_) => format!("add an example with it, or correct the path{}", self.describe_rest()),
        };
        match place.is_alternative && place.written.chars().all(char::is_alphanumeric) {
            true => format!("{text}; `|` stands before the place that is read if the first has no value, not a filter"),
            false => text,
        }
    }

    /// Writes what follows upon the advice to add an example.
    pub(super) fn describe_behind(&self) -> String {
        match self {
            PathHint::Meant(_) | PathHint::Sibling { .. } => format!("; {}", self.describe_rest()),
            PathHint::Members(_) => format!(", or correct the path{}", self.describe_rest()),
        }
    }

    fn describe_rest(&self) -> String {
        match self {
            PathHint::Meant(meant) => propose(meant),
            PathHint::Members(members) if members.is_empty() => String::new(),
            PathHint::Members(members) => format!("; there is {}", quote(members, ", ")),
            PathHint::Sibling { payload, meant } => {
                format!("paths begin at the payload `{payload}`: write {meant}")
            }
        }
    }
}

pub(super) fn propose(meant: &[String]) -> String {
    format!("did you mean {}?", quote(meant, " or "))
}

fn quote(names: &[String], separator: &str) -> String {
    quote_names(&names.iter().map(String::as_str).collect::<Vec<_>>(), separator)
}

/// Returns the values that a word may mean. Short words are alike by chance.
pub(super) fn nearest_values<'v>(word: &str, values: &[&'v str]) -> Vec<&'v str> {
    let is_alike = |value: &&str| word.chars().count() > SHORT_WORD || is_one_edit_off(word, value);
    nearest_names(word, values).into_iter().filter(is_alike).collect()
}

/// Returns the names that a word may mean. Two letters are alike to any other two.
fn nearest_names<'v>(word: &str, names: &[&'v str]) -> Vec<&'v str> {
    let is_short = |name: &str| name.chars().count() < 3;
    nearest(word, names).into_iter().filter(|name| !is_short(word) || !is_short(name)).collect()
}

/// Suggests what a path may mean that leads nowhere, by the members of the objects to which its first steps lead.
/// `from` is the number of steps that the file does not write.
pub(super) fn suggest(steps: &[JsonStep], from: usize, root: &str, examples: &[&Json<'_>]) -> PathHint {
    let find = |length: usize| examples.iter().filter_map(move |own| find_value(&steps[..length], own.as_borrowed()));
    let length = (0..steps.len()).rev().find(|length| find(*length).next().is_some()).unwrap_or_default();
    let Some(JsonStep::Member(wrong)) = steps.get(length) else {
        // An element of what is no list.
        let owner = [&steps[..length], steps.get(length + 1..).unwrap_or_default()].concat();
        let is_there = examples.iter().any(|own| find_value(&owner, own.as_borrowed()).is_some());
        let meant = (length > from && is_there).then(|| write_path(root, &owner[from..]));
        return meant.map_or(PathHint::Members(Vec::new()), |meant| PathHint::Meant(vec![meant]));
    };
    let objects: Vec<_> = find(length).map(Json::into_owned).collect();
    let members = list_members(objects.iter());
    let names: Vec<&str> = members.iter().map(String::as_str).take(MAX_MEMBERS).collect();
    let complete = |member: &&str| {
        let mut meant = steps.to_vec();
        meant[length] = JsonStep::Member((*member).into());
        write_path(root, &meant[from..])
    };
    let meant: Vec<String> = nearest_names(wrong, &names).iter().map(complete).collect();
    match meant.is_empty() {
        false => PathHint::Meant(meant),
        true => PathHint::Members(members.into_iter().take(MAX_MEMBERS).collect()),
    }
}

/// Returns the names of the members of objects, also of those in texts.
pub(super) fn list_members<'v>(values: impl Iterator<Item = &'v Json<'v>>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for value in values {
        let text = (value.json_type() == JsonType::String).then(|| value.text()).flatten();
        let object = json::parse_value(text.as_deref().unwrap_or_else(|| value.as_str()).trim());
        let members = object.as_ref().and_then(json::parse_members).unwrap_or_default();
        names.extend(members.iter().map(|(key, _)| key.name().to_owned()));
    }
    names
}
