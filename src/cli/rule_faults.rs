//! Finds rules that do something at the wrong time in an example, or for the wrong call.

use super::example_run::{ExampleFrame, ExampleRun};
use crate::dialect::{Mapping, RuleEffect};
use crate::event::lane::ChunkStreamKind;
use crate::event::{EventType, Field};
use std::collections::{BTreeMap, BTreeSet};

const EARLY: &str = "`finish` says here that the run has succeeded, but texts or calls follow in an example: a stream that is cut off between would look complete";
const EARLY_HINT: &str = "move `finish` to the rule for the agent's last event";
const STRAY: &str = "an event of this rule is left out: it ends what has not begun, or begins what is open";
const STRAY_HINT: &str = "add a rule for the event with which it begins or ends";
const LONE_HINT: &str = "write the `toolCallId` that its call has, or the same `key:` as there";

/// Collects the faults of the rules on these lines.
#[derive(Default)]
pub(super) struct RuleFaults {
    /// an event is left out, because it begins what is open, or ends what is not
    stray_lines: BTreeSet<u64>,
    /// `finish` in the middle of a run
    early_lines: BTreeSet<u64>,
    /// results, with the id of a call that the run does not have
    lone_results: BTreeMap<u64, String>,
}

impl RuleFaults {
    /// Adds those of a run. A thread with earlier runs may have results for their calls.
    pub(super) fn add_run(&mut self, run: &ExampleRun, mapping: &Mapping, has_earlier_runs: bool) {
        let stray = run.frames.iter().filter(|frame| frame.has_stray_boundary);
        self.stray_lines.extend(stray.filter_map(|frame| frame.trace.lines.first()));
        self.early_lines.extend(find_early_finish(&run.frames, mapping));
        if !has_earlier_runs {
            self.add_lone_results(run, mapping);
        }
    }

    fn add_lone_results(&mut self, run: &ExampleRun, mapping: &Mapping) {
        let id = Field::ToolCallId.camel();
        let of_kind =
            |kind: EventType| run.events.iter().enumerate().filter(move |(_, event)| event["type"] == kind.wire());
        let calls: BTreeSet<_> =
            of_kind(EventType::ToolCallStart).filter_map(|(_, event)| event[id].as_str()).collect();
        for (index, event) in of_kind(EventType::ToolCallResult) {
            let Some(call) = event[id].as_str().filter(|call| !calls.contains(call)) else { continue };
            let Some(frame) = run.origins.get(index).copied().flatten().map(|at| &run.frames[at]) else { continue };
            let is_result =
                |effect: &RuleEffect| effect.emitted().is_some_and(|event| event.kind == EventType::ToolCallResult);
            if let Some(rule) = frame.rules(mapping).find(|rule| rule.effects.iter().any(is_result)) {
                self.lone_results.entry(rule.line).or_insert_with(|| call.to_owned());
            }
        }
    }

    /// Returns the faults of the rule on a line, each with a way out.
    pub(super) fn explain(&self, line: u64) -> Vec<(String, &'static str)> {
        let mut found = Vec::new();
        found.extend(self.early_lines.contains(&line).then(|| (EARLY.to_owned(), EARLY_HINT)));
        found.extend(self.stray_lines.contains(&line).then(|| (STRAY.to_owned(), STRAY_HINT)));
        found.extend(self.lone_results.get(&line).map(|call| {
            (
                format!("an example has a result of this rule for the call `{call}`, which no event of its run begins"),
                LONE_HINT,
            )
        }));
        found
    }
}

/// Returns the line of a rule with `finish` behind whose frame come pieces of texts or calls.
fn find_early_finish(frames: &[ExampleFrame], mapping: &Mapping) -> Option<u64> {
    let has = |frame: &ExampleFrame, is_kind: fn(&RuleEffect) -> bool| {
        frame.rules(mapping).find(|rule| rule.effects.iter().any(is_kind)).map(|rule| rule.line)
    };
    let is_piece =
        |effect: &RuleEffect| effect.emitted().is_some_and(|event| ChunkStreamKind::from_event(event.kind).is_some());
    let last = frames.iter().rposition(|frame| !frame.trace.is_unknown && has(frame, is_piece).is_some())?;
    frames[..last].iter().find_map(|frame| has(frame, |effect| matches!(effect, RuleEffect::Finish(_))))
}
