//! Reports what the rules of a file lack together: an end of the run, the beginning of a call.

use super::compiler::{DialectCompiler, events_of, position_of};
use crate::config::spanned_tree::{NodeValue, TreeNode};
use crate::dialect::{EmittedEvent, MappingRule, RuleEffect, find_member};
use crate::event::{EventType, Field};

impl DialectCompiler<'_> {
    /// Reports a file whose rules can never end a run, which would then always look cut off.
    pub(super) fn check_ends(&mut self, root: &TreeNode) {
        let ends = |effect: &RuleEffect| matches!(effect, RuleEffect::Finish(_) | RuleEffect::Done);
        if self.problem_count() == 0 && !self.mapping.rules.iter().flat_map(|rule| &rule.effects).any(ends) {
            let position = events_of(root).and_then(|entry| entry.position);
            let message = "no rule says that a run has succeeded, so that every run would look cut off";
            let hint = "add `finish: {}` to the rule for the agent's last event, or `done: true` if nothing follows it";
            self.report("events", position, message, hint);
        }
    }

    /// Reports a result or an end by a `key` with which no call begins.
    pub(super) fn check_call_keys(&mut self, root: &TreeNode) {
        let rules = &self.mapping.rules;
        let with_key = |is_chunk: bool| {
            let has_key = move |event: &&EmittedEvent| {
                event.key.is_some() && (event.kind == EventType::ToolCallChunk) == is_chunk
            };
            let events =
                |rule: &&MappingRule| rule.effects.iter().filter_map(RuleEffect::emitted).any(|event| has_key(&event));
            rules.iter().find(events).map(|rule| rule.line)
        };
        let line = with_key(false).filter(|_| with_key(true).is_none());
        let Some(line) = line.filter(|_| self.problem_count() == 0) else { return };
        let message = format!("this `key` names no call: no {} has a `key`", EventType::ToolCallChunk.wire());
        self.report_rule(root, line, message, "add the same `key:` there, or write `toolCallId:` here");
    }

    /// Reports pieces of calls that never begin, because no piece that goes with them has a name.
    pub(super) fn check_call_names(&mut self, root: &TreeNode) {
        let has = |event: &EmittedEvent, field: Field| find_member(&event.members, field).is_some();
        let pieces = || {
            let events = self.mapping.rules.iter().flat_map(|rule| {
                let emitted = rule.effects.iter().filter_map(RuleEffect::emitted);
                emitted.map(|event| (rule.line, event))
            });
            events.filter(|(_, event)| event.kind == EventType::ToolCallChunk)
        };
        let goes_with = |piece: &EmittedEvent, first: &EmittedEvent| match (&piece.key, has(piece, Field::ToolCallId)) {
            (Some(_), _) => first.key.is_some(),
            (None, true) => has(first, Field::ToolCallId),
            (None, false) => true,
        };
        let is_named = |piece: &EmittedEvent| {
            pieces().any(|(_, first)| has(first, Field::ToolCallName) && goes_with(piece, first))
        };
        let unnamed = pieces().find(|(_, piece)| !is_named(piece));
        let Some((line, _)) = unnamed.filter(|_| self.problem_count() == 0) else { return };
        let wire = EventType::ToolCallChunk.wire();
        let message = format!("this call never begins: no {wire} of it has a `toolCallName`");
        let hint = "add `toolCallName:` here, or to the event for the call's first piece, with the same `key:` or `toolCallId:`";
        self.report_rule(root, line, message, hint);
    }

    /// Reports a mistake of the rule on a line.
    fn report_rule(&mut self, root: &TreeNode, line: u64, message: String, hint: &str) {
        let Some(NodeValue::List(nodes)) = events_of(root).map(|events| &events.value.value) else { return };
        let at_line = |node: &TreeNode| position_of(node).is_some_and(|position| position.line == line);
        if let Some(index) = nodes.iter().position(at_line) {
            self.report(&format!("events[{index}]"), position_of(&nodes[index]), message, hint);
        }
    }
}
