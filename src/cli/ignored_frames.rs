//! Explains rules with `ignore` that are for no frame of the examples, although one without a rule is probably meant.

use super::example_coverage::ExampleCoverage;
use super::path_hint::{PathHint, nearest_values, propose};
use crate::config::quote_names;
use crate::dialect::{Condition, MappingRule, ValueSource, ValueTest, find_value};

impl ExampleCoverage {
    /// Explains the condition of a rule because of which it ignores none of the frames without a rule.
    pub(super) fn explain_ignored(&self, rule: &MappingRule) -> Option<(String, String)> {
        let has_unknown = !self.unknown_frames.is_empty() || !self.unknown_lines.is_empty();
        if !rule.effects.is_empty() || self.used_lines.contains(&rule.line) || !has_unknown {
            return None;
        }
        rule.conditions.iter().find_map(|condition| {
            let ValueTest::OneOf(words) = &condition.test else { return None };
            let path = &condition.path;
            let values = self.unknown_values(rule, condition)?;
            if values.is_empty() && condition.source != ValueSource::EventLine {
                let mut places = self.places.iter();
                let place = places.find(|place| place.rule_line == Some(rule.line) && *place.written == **path)?;
                let PathHint::Meant(meant) = self.explain_missing_place(place)? else { return None };
                return Some((format!(": none has `{path}`"), propose(&meant)));
            }
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            words.iter().filter_map(|word| word.value.text()).filter(|word| !values.contains(&&**word)).find_map(
                |word| {
                    let mut meant = nearest_values(&word, &values);
                    if meant.is_empty() {
                        meant = values.iter().copied().filter(|value| has_same_letters(&word, value)).collect();
                    }
                    let hint = format!("did you mean {}, for which there is no rule?", quote_names(&meant, " or "));
                    (!meant.is_empty()).then(|| (format!(": none has `{word}` at `{path}`"), hint))
                },
            )
        })
    }

    /// Returns the texts that frames without a rule have at the place of a condition.
    fn unknown_values(&self, rule: &MappingRule, condition: &Condition) -> Option<Vec<String>> {
        if condition.source == ValueSource::EventLine {
            return Some(self.unknown_lines.iter().cloned().collect());
        }
        let mut places = self.places.iter();
        let place = places.find(|place| {
            place.rule_line == Some(rule.line) && *place.written == *condition.path && place.chain.len() == 1
        })?;
        let steps = place.chain.last()?;
        let frames = self.unknown_frames.iter().map(|at| &self.frames[*at]);
        let values = frames.filter_map(|frame| find_value(steps, frame.as_borrowed()));
        Some(
            values
                .map(|value| value.text().map_or_else(|| value.as_str().to_owned(), |text| text.into_owned()))
                .collect(),
        )
    }
}

/// Returns whether a word has the letters of another in another order.
fn has_same_letters(word: &str, other: &str) -> bool {
    let sort = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    sort(word) == sort(other)
}
