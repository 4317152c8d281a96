//! Explains conditions that no frame fulfils, by words that frames have as values of another type, or as several words.

use crate::config::dialect_file::find_boolean;
use crate::dialect::{Condition, MappingRule, ValueSource};
use crate::event::{Json, JsonType};
use std::collections::BTreeSet;

/// Returns the value that is meant by a word of a condition, and the way to write it.
pub(super) fn explain_word_type(word: &Json<'_>, values: &[Json<'_>]) -> Option<(String, String)> {
    let text = word.text();
    let is_same = |value: &&Json<'_>| match (&text, value.text()) {
        (Some(word), None) => {
            let boolean = find_boolean(word).map(|value| if value { "true" } else { "false" });
            let is_simple = matches!(value.json_type(), JsonType::Bool | JsonType::Number);
            is_simple && (value.as_str() == &**word || boolean == Some(value.as_str()))
        }
        (None, Some(value)) => *value == *word.as_str(),
        _ => false,
    };
    if values.iter().any(|value| value.as_str() == word.as_str()) {
        return None;
    }
    let meant = values.iter().find(is_same)?;
    let written = meant.as_str();
    Some(match (text, meant.json_type()) {
        (Some(_), JsonType::Bool) => {
            (format!("`{written}`, which is no text,"), format!("write `{written}`, without quotes"))
        }
        (Some(_), _) => {
            (format!("the number `{written}`, which is no text,"), format!("write `{written}`, without quotes"))
        }
        (None, _) => (format!("the text `{written}`"), format!("write it in quotes: `{written}`")),
    })
}

/// Returns the list of words that is meant by one of them, if frames have a part of it and not the whole.
pub(super) fn find_list(word: &str, values: &BTreeSet<String>) -> Option<String> {
    let parts: Vec<&str> = word.split(['|', ',', ' ']).filter(|part| !part.is_empty() && *part != "or").collect();
    let is_list = parts.len() > 1 && !values.contains(word) && parts.iter().any(|part| values.contains(*part));
    is_list.then(|| format!("[{}]", parts.join(", ")))
}

/// Explains a rule each of whose conditions may hold for a frame, but never all of them for one.
pub(super) fn explain_conditions(rule: &MappingRule) -> Option<(String, String)> {
    let is_of_frame = |condition: &Condition| matches!(condition.source, ValueSource::Slot(_) | ValueSource::EventLine);
    (rule.conditions.len() > 1 && rule.conditions.iter().all(is_of_frame)).then(|| {
        (
            ": none fulfils all its conditions at once".to_owned(),
            ", or remove the condition that is too much".to_owned(),
        )
    })
}
