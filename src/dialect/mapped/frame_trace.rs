//! The rules that applied to a frame, and its name, for the explanation of a run.

use super::rule::MappingRule;
use super::template::{Condition, ValueScope, ValueSource, ValueTest};
use crate::event::Json;

/// Maximum number of characters of a value that is shown.
const MAX_KEPT_CHARS: usize = 100;

/// The rules that applied to a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameTrace {
    /// the value by which rules tell it from others, such as its `event:` line; else the path that it has
    pub(crate) name: Option<String>,
    /// lines of the rules in their file
    pub(crate) lines: Vec<u64>,
    /// whether the frame is passed on, because no rule applies or those that do found no value
    pub(crate) is_unknown: bool,
    /// what the frame has that later runs of the thread get, each as `name = value`
    pub(crate) kept: Vec<String>,
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

    /// Formats the lines of the rules; `None` if no rule applies.
    pub(crate) fn describe_lines(&self) -> Option<String> {
        let lines: Vec<String> = self.lines.iter().map(u64::to_string).collect();
        match lines.as_slice() {
            [] => None,
            [line] => Some(format!("line {line}")),
            lines => Some(format!("lines {}", lines.join(", "))),
        }
    }

    /// Returns what stands behind the lines of rules that found no value, so that the frame is passed on.
    pub(crate) const fn describe_missing_value(&self) -> &'static str {
        if self.is_unknown { ", without a value" } else { "" }
    }

    pub(super) fn add_kept(&mut self, name: &str, value: &Json<'_>) {
        let shown: String = value.as_str().chars().take(MAX_KEPT_CHARS).collect();
        let more = if shown.len() < value.as_str().len() { "…" } else { "" };
        self.kept.push(format!("{name} = {shown}{more}"));
    }

    /// Names a frame to which no rule applies by what the rules would look at.
    pub(super) fn name_unknown(&mut self, rules: &[MappingRule], scope: &ValueScope<'_>) {
        self.is_unknown = true;
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
