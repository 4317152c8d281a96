//! The rules of a dialect file that no frame of its examples needs: they are not tested, and may have a misspelt path.

use crate::codec::json::{self, PathTree};
use crate::codec::sse::{SseDecoder, SseStep};
use crate::config::dialect_file::{DialectFile, PayloadPath};
use crate::config::{ConfigProblem, ProblemSeverity, did_you_mean};
use crate::dialect::{FrameTrace, Mapping, MappingRule, ValueSource, ValueTest};
use std::collections::BTreeSet;
use std::path::Path;

/// Maximum number of members of frames that a hint names.
const MAX_MEMBERS: usize = 20;

/// Paths of a member that may be meant as the `event:` line.
const EVENT_MEMBERS: [&str; 2] = ["event", "$.event"];

/// Collects what the streams of all examples have and use.
#[derive(Default)]
pub(super) struct ExampleCoverage {
    payload: Option<PayloadPath>,
    has_streams: bool,
    has_event_lines: bool,
    /// lines of the rules that applied
    used_lines: BTreeSet<u64>,
    /// whether a frame has a value, by slot of the mapping's paths
    found_slots: Vec<bool>,
    /// whether a frame has the payload
    found_payload: bool,
    /// names at the top of frames
    members: BTreeSet<String>,
}

impl ExampleCoverage {
    pub(super) fn new(file: &DialectFile) -> Self {
        ExampleCoverage { payload: file.payload.clone(), ..ExampleCoverage::default() }
    }

    /// Adds the frames of a stream.
    pub(super) fn add_stream(&mut self, bytes: &str, mapping: &Mapping) {
        self.has_streams = true;
        self.found_slots.resize(mapping.paths.len(), false);
        let mut payload_tree = PathTree::default();
        let payload_slot = payload_tree.add(self.payload.as_ref().map_or(&[], |payload| &payload.steps));
        let mut decoder = SseDecoder::default();
        // The last frame of an example may lack its blank line.
        let bytes = format!("{bytes}\n\n");
        let mut rest = bytes.as_bytes();
        while let SseStep::Frame(frame) = decoder.next(&mut rest) {
            self.has_event_lines |= frame.event.is_some();
            let values = mapping.paths.read(&frame.data);
            self.found_slots.iter_mut().zip(values.iter()).for_each(|(found, value)| *found |= value.is_some());
            self.found_payload |= payload_tree.read(&frame.data)[payload_slot].is_some();
            let object = json::parse_value(&frame.data);
            let members = object.as_ref().and_then(json::parse_members).unwrap_or_default();
            self.members.extend(members.iter().map(|(key, _)| key.name().to_owned()).take(MAX_MEMBERS));
        }
    }

    /// Adds the rules that applied to a frame.
    pub(super) fn add_frame(&mut self, trace: &FrameTrace) {
        self.used_lines.extend(&trace.lines);
    }

    /// Returns what no example uses: the payload, or else each rule that does something.
    pub(super) fn find_unused(&self, mapping: &Mapping, file: &Path, text: &str) -> Vec<ConfigProblem> {
        if !self.has_streams {
            return Vec::new();
        }
        let warning = |line: u64, path: &str, message: String, hint: String| {
            let mut problem = ConfigProblem::for_path(file, message);
            let indent = text.lines().nth(usize::try_from(line).unwrap_or_default().saturating_sub(1));
            let indent = indent.map_or(0, |line| line.chars().take_while(|c| c.is_whitespace()).count());
            (problem.line, problem.column) = (Some(line), Some(indent as u64 + 1));
            (problem.path, problem.hint) = (path.to_owned(), Some(hint));
            problem.severity = ProblemSeverity::Warning;
            problem.with_dialect_excerpt(text)
        };
        if let Some(payload) = self.payload.as_ref().filter(|_| !self.found_payload) {
            let members: Vec<&str> = self.members.iter().map(String::as_str).take(MAX_MEMBERS).collect();
            let message = format!("no frame of the examples has `{}`, where all paths begin", payload.written);
            return vec![warning(payload.line, "payload", message, did_you_mean(&payload.written, &members))];
        }
        let unused = mapping.rules.iter().enumerate();
        let unused = unused.filter(|(_, rule)| !rule.effects.is_empty() && !self.used_lines.contains(&rule.line));
        let warnings = unused.map(|(index, rule)| {
            let (cause, hint) = self.explain_missing(rule).unwrap_or_default();
            let message = format!("no frame of the examples is for this rule{cause}");
            let hint = format!("add an example with such a frame, so that the rule is tested{hint}");
            warning(rule.line, &format!("events[{index}]"), message, hint)
        });
        warnings.collect()
    }

    /// Explains the first condition of a rule whose value no frame has, and a way out.
    fn explain_missing(&self, rule: &MappingRule) -> Option<(String, String)> {
        let mut needed = rule.conditions.iter().filter(|condition| condition.test != ValueTest::Lacks);
        needed.find_map(|condition| match &condition.source {
            ValueSource::Slot(slot) if !self.found_slots[*slot] => {
                let path = &condition.path;
                let is_line = self.has_event_lines && EVENT_MEMBERS.contains(&&**path);
                let meant = if is_line { "write `\"@event\"` for the `event:` line" } else { "correct the path" };
                Some((format!(": none has `{path}`"), format!(", or {meant}")))
            }
            ValueSource::EventLine if !self.has_event_lines => {
                let has_member = self.members.contains("event");
                let meant = if has_member { ", or write `$.event` for the member `event`" } else { "" };
                Some((": none has an `event:` line".to_owned(), meant.to_owned()))
            }
            _ => None,
        })
    }
}
