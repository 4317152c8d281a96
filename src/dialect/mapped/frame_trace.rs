//! The rules that applied to a frame, and its name, for the explanation of a run.

use super::rule::MappingRule;
use super::template::{Condition, ValueScope, ValueSource, ValueTest};

/// The rules that applied to a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameTrace {
    /// the value by which rules tell it from others, such as its `event:` line; else the path that it has
    pub(crate) name: Option<String>,
    /// lines of the rules in their file
    pub(crate) lines: Vec<u64>,
}

impl FrameTrace {
    pub(super) fn add_rule(&mut self, rule: &MappingRule, scope: &ValueScope<'_>) {
        if self.name.is_none() {
            let label = Some(&rule.label).filter(|label| !label.is_empty());
            self.name = find_name(&rule.conditions, scope).or(label.map(|label| label.to_string()));
        }
        if self.lines.last() != Some(&rule.line) {
            self.lines.push(rule.line);
        }
    }

    /// Names a frame to which no rule applies by what the rules would look at.
    pub(super) fn name_unknown(&mut self, rules: &[MappingRule], scope: &ValueScope<'_>) {
        let has_name = |condition: &&Condition| condition.source != ValueSource::Data;
        let conditions = rules.iter().flat_map(|rule| &rule.conditions).filter(has_name);
        self.name = self.name.take().or_else(|| find_name(conditions, scope));
    }
}

/// Returns the value of the first condition on a value of the frame.
fn find_name<'c>(conditions: impl IntoIterator<Item = &'c Condition>, scope: &ValueScope<'_>) -> Option<String> {
    let conditions = conditions.into_iter().filter(|condition| {
        let is_of_frame = matches!(condition.source, ValueSource::EventLine | ValueSource::Data | ValueSource::Slot(_));
        is_of_frame && matches!(condition.test, ValueTest::OneOf(_))
    });
    conditions.into_iter().find_map(|condition| Some(scope.get(&condition.source)?.text()?.into_owned()))
}
