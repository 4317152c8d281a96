//! The rules of a dialect file that no frame of its examples needs, and the places that none has: they are not tested,
//! and may have a misspelt path.

use crate::codec::json::{self, JsonStep};
use crate::codec::sse::{SseDecoder, SseStep};
use crate::config::dialect_file::{DialectFile, PayloadPath, ReadPlace, write_path};
use crate::config::{ConfigProblem, ProblemSeverity, did_you_mean, nearest, quote_names};
use crate::dialect::{FrameTrace, Mapping, MappingRule, ValueSource, ValueTest, find_value};
use crate::event::{Json, JsonType};
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
    places: Vec<ReadPlace>,
    has_streams: bool,
    has_event_lines: bool,
    /// lines of the rules that applied
    used_lines: BTreeSet<u64>,
    /// whether a frame has a value, by slot of the mapping's paths
    found_slots: Vec<bool>,
    /// those that are JSON
    frames: Vec<Json<'static>>,
    /// the bodies of answers that are JSON
    answers: Vec<Json<'static>>,
}

impl ExampleCoverage {
    pub(super) fn new(file: &DialectFile) -> Self {
        let (payload, places) = (file.payload.clone(), file.places.clone());
        ExampleCoverage { payload, places, ..ExampleCoverage::default() }
    }

    /// Adds the frames of a stream.
    pub(super) fn add_stream(&mut self, bytes: &str, mapping: &Mapping) {
        self.has_streams = true;
        self.found_slots.resize(mapping.paths.len(), false);
        let mut decoder = SseDecoder::default();
        // The last frame of an example may lack its blank line.
        let bytes = format!("{bytes}\n\n");
        let mut rest = bytes.as_bytes();
        while let SseStep::Frame(frame) = decoder.next(&mut rest) {
            self.has_event_lines |= frame.event.is_some();
            let values = mapping.paths.read(&frame.data);
            self.found_slots.iter_mut().zip(values.iter()).for_each(|(found, value)| *found |= value.is_some());
            self.frames.extend(json::parse_value(&frame.data).map(Json::into_owned));
        }
    }

    /// Adds the body of an answer, which may be a stream.
    pub(super) fn add_answer(&mut self, body: &str) {
        let mut lines = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
        let whole = json::parse_value(body.trim()).map(Json::into_owned);
        let first = || lines.find_map(|line| json::parse_value(line.trim()).map(Json::into_owned));
        self.answers.extend(whole.or_else(first));
    }

    /// Adds the rules that applied to a frame.
    pub(super) fn add_frame(&mut self, trace: &FrameTrace) {
        self.used_lines.extend(&trace.lines);
    }

    /// Returns what no example uses: the payload, or else each rule that does something, and each place that a used one
    /// reads.
    pub(super) fn find_unused(&self, mapping: &Mapping, file: &Path, text: &str) -> Vec<ConfigProblem> {
        let warning = |line: u64, column: u64, path: &str, message: String, hint: String| {
            let mut problem = ConfigProblem::for_path(file, message);
            (problem.line, problem.column) = (Some(line), Some(column));
            (problem.path, problem.hint) = (path.to_owned(), Some(hint));
            problem.severity = ProblemSeverity::Warning;
            problem.with_dialect_excerpt(text)
        };
        let indent_of = |line: u64| {
            let written = text.lines().nth(usize::try_from(line).unwrap_or_default().saturating_sub(1));
            written.map_or(0, |line| line.chars().take_while(|c| c.is_whitespace()).count()) as u64
        };
        let payload = self.payload.as_ref().filter(|_| self.has_streams);
        if let Some(payload) = payload.filter(|payload| !self.has_value_at(&payload.steps)) {
            let members = list_members(&self.frames);
            let members: Vec<&str> = members.iter().map(String::as_str).take(MAX_MEMBERS).collect();
            let message = format!("no frame of the examples has `{}`, where all paths begin", payload.written);
            let hint = did_you_mean(&payload.written, &members);
            return vec![warning(payload.line, indent_of(payload.line) + 1, "payload", message, hint)];
        }
        let unused = mapping.rules.iter().enumerate().filter(|_| self.has_streams);
        let unused = unused.filter(|(_, rule)| !rule.effects.is_empty() && !self.used_lines.contains(&rule.line));
        let mut warnings: Vec<_> = unused
            .map(|(index, rule)| {
                let (cause, hint) = self.explain_missing(rule).unwrap_or_default();
                let message = format!("no frame of the examples is for this rule{cause}");
                let hint = format!("add an example with such a frame, so that the rule is tested{hint}");
                warning(rule.line, indent_of(rule.line) + 1, &format!("events[{index}]"), message, hint)
            })
            .collect();
        // A place that an alias repeats is one.
        let mut positions = BTreeSet::new();
        let is_used = |place: &&ReadPlace| place.rule_line.is_none_or(|line| self.used_lines.contains(&line));
        for place in self.places.iter().filter(is_used) {
            if let Some(hint) = self.explain_missing_place(place)
                && positions.insert((place.line, place.column, &place.written))
            {
                let noun = if place.rule_line.is_some() { "frame" } else { "answer" };
                let message = format!("no {noun} of the examples has a value at `{}`", place.written);
                warnings.push(warning(place.line, place.column, &place.path, message, hint));
            }
        }
        warnings.sort_by_key(|problem| (problem.line, problem.column));
        warnings
    }

    fn has_value_at(&self, steps: &[JsonStep]) -> bool {
        self.frames.iter().any(|frame| find_value(steps, frame.as_borrowed()).is_some())
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
                let has_member = list_members(&self.frames).contains("event");
                let meant = if has_member { ", or write `$.event` for the member `event`" } else { "" };
                Some((": none has an `event:` line".to_owned(), meant.to_owned()))
            }
            _ => None,
        })
    }

    /// Returns a way out if nothing has a value at a place. Null is one: then the path is right.
    fn explain_missing_place(&self, place: &ReadPlace) -> Option<String> {
        let (steps, lists) = place.chain.split_last()?;
        let mut roots = Vec::new();
        let examples = if place.rule_line.is_some() { &self.frames } else { &self.answers };
        examples.iter().for_each(|example| collect_roots(lists, example, &mut roots));
        let find =
            |length: usize| roots.iter().filter_map(move |root| find_value(&steps[..length], root.as_borrowed()));
        // A list that no frame has is a place of its own.
        if roots.is_empty() || find(steps.len()).next().is_some() {
            return None;
        }
        let length = (0..steps.len()).rev().find(|length| find(*length).next().is_some())?;
        let owners: Vec<_> = find(length).map(Json::into_owned).collect();
        let members = list_members(&owners);
        let members: Vec<&str> = members.iter().map(String::as_str).take(MAX_MEMBERS).collect();
        let begins_there = place.rule_line.is_some() && lists.is_empty() && !place.written.starts_with('$');
        let payload = self.payload.as_ref().filter(|_| begins_there);
        let sibling = payload.and_then(|payload| Some((payload, steps.strip_prefix(payload.steps.as_slice())?)));
        if let Some((payload, steps)) = sibling.filter(|(_, steps)| self.has_value_at(steps)) {
            let meant = write_path("$", steps);
            return Some(format!(
                "paths begin at the payload `{}`: write `{meant}` for the member beside it",
                payload.written
            ));
        }
        let JsonStep::Member(wrong) = &steps[length] else { return Some(NO_HINT.to_owned()) };
        let root = match (lists.is_empty(), place.written.starts_with('$')) {
            (true, true) => "$",
            (true, false) => "",
            (false, _) => "@item",
        };
        let from = sibling.map_or(0, |(payload, _)| payload.steps.len());
        let complete = |member: &&str| {
            let mut meant = steps.to_vec();
            meant[length] = JsonStep::Member((*member).into());
            write_path(root, &meant[from..])
        };
        let meant: Vec<String> = nearest(wrong, &members).iter().map(complete).collect();
        let meant: Vec<&str> = meant.iter().map(String::as_str).collect();
        Some(match (meant.is_empty(), members.is_empty()) {
            (false, _) => format!("did you mean {}? Otherwise add an example with it", quote_names(&meant, " or ")),
            (true, false) => format!("{NO_HINT}; there is {}", quote_names(&members, ", ")),
            (true, true) => NO_HINT.to_owned(),
        })
    }
}

const NO_HINT: &str = "add an example with it, or correct the path";

/// Collects the values where the last path of a chain begins: the frame, or the elements of a list in it.
fn collect_roots(lists: &[Vec<JsonStep>], value: &Json<'_>, roots: &mut Vec<Json<'static>>) {
    let Some((steps, inner)) = lists.split_first() else { return roots.push(value.clone().into_owned()) };
    let list = find_value(steps, value.as_borrowed());
    let elements = list.as_ref().and_then(json::parse_elements).unwrap_or_default();
    elements.iter().for_each(|element| collect_roots(inner, element, roots));
}

/// Returns the names of the members of objects, also of those in texts.
fn list_members(values: &[Json<'_>]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for value in values {
        let text = (value.json_type() == JsonType::String).then(|| value.text()).flatten();
        let object = json::parse_value(text.as_deref().unwrap_or_else(|| value.as_str()).trim());
        let members = object.as_ref().and_then(json::parse_members).unwrap_or_default();
        names.extend(members.iter().map(|(key, _)| key.name().to_owned()));
    }
    names
}
