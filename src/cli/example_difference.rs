//! Finds the member in which an example and its result differ, and which lines of the file made what is different.

use super::example_coverage::values_at;
use super::example_run::{ExampleFrame, ExampleRun};
use crate::config::dialect_file::{DialectExample, DialectFile, ReadTable};
use crate::config::{nearest, quote_names};
use crate::dialect::{Mapping, RuleEffect};
use crate::event::{EventType, Field, JsonType};
use serde_json::Value;

/// Keys of a rule under which stand members of events, or values that a run keeps.
const EFFECTS: [&str; 4] = ["emit", "finish", "fail", "keep"];

/// The first member that differs.
pub(super) struct MemberMismatch {
    /// JSON Pointer
    pub(super) pointer: String,
    /// as a dialect file writes paths
    path: String,
    expected: Option<Value>,
    found: Option<Value>,
}

impl MemberMismatch {
    /// Returns the first difference inside two values; `None` if they are different things.
    pub(super) fn find(expected: &Value, found: &Value) -> Option<MemberMismatch> {
        let mut path = Vec::new();
        if expected["type"] != found["type"] {
            return None;
        }
        let (expected, found) = descend(Some(expected), Some(found), &mut path)?;
        let pointer: String = path.iter().map(|step| format!("/{step}")).collect();
        let mut written = String::new();
        for step in path.iter().filter(|_| !pointer.is_empty()) {
            written += &match step.parse::<usize>() {
                Ok(index) => format!("[{index}]"),
                Err(_) if written.is_empty() => step.clone(),
                Err(_) => format!(".{step}"),
            };
        }
        let is_inside = !written.is_empty();
        is_inside.then(|| MemberMismatch { pointer, path: written, expected: expected.cloned(), found: found.cloned() })
    }

    pub(super) const fn is_missing(&self) -> bool {
        self.found.is_none()
    }

    /// Returns the conversion that makes the expected value of the one that is there.
    pub(super) fn explain_form(&self) -> Option<String> {
        let inner = |text: &Value| serde_json::from_str::<Value>(text.as_str()?).ok();
        let (expected, found) = (self.expected.as_ref()?, self.found.as_ref()?);
        if inner(found).as_ref() == Some(expected) {
            return Some("it is the JSON text of what is expected: `{as_json: VALUE}` makes the value".to_owned());
        }
        let is_its_text = inner(expected).as_ref() == Some(found);
        is_its_text.then(|| "what is expected is its JSON text, which `{as_text: VALUE}` makes".to_owned())
    }

    pub(super) fn describe(&self) -> String {
        let show = |value: &Option<Value>| value.as_ref().map_or_else(|| "missing".to_owned(), Value::to_string);
        format!("`{}` differs: expected {}, got {}", self.path, show(&self.expected), show(&self.found))
    }
}

type ValuePair<'v> = (Option<&'v Value>, Option<&'v Value>);

/// Returns the first pair of values that differ.
fn descend<'v>(expected: Option<&'v Value>, found: Option<&'v Value>, path: &mut Vec<String>) -> Option<ValuePair<'v>> {
    if expected == found {
        return None;
    }
    let keys: Vec<String> = match (expected, found) {
        (Some(Value::Object(own)), Some(Value::Object(other))) => own.keys().chain(other.keys()).cloned().collect(),
        (Some(Value::Array(own)), Some(Value::Array(other))) => {
            (0..own.len().max(other.len())).map(|index| index.to_string()).collect()
        }
        _ => return Some((expected, found)),
    };
    let member = |value: Option<&'v Value>, key: &str| match value? {
        Value::Array(elements) => elements.get(key.parse::<usize>().ok()?),
        object => object.get(key),
    };
    keys.into_iter().find_map(|key| {
        let (own, other) = (member(expected, &key), member(found, &key));
        path.push(key);
        let pair = descend(own, other, path);
        if pair.is_none() {
            path.pop();
        }
        pair
    })
}

/// Explains events of an example by the rules that made them.
pub(super) struct EventOrigins<'e> {
    pub(super) example: &'e DialectExample,
    pub(super) file: &'e DialectFile,
    pub(super) mapping: &'e Mapping,
    pub(super) dialect: &'static str,
    pub(super) run: &'e ExampleRun,
}

impl EventOrigins<'_> {
    /// Returns the reasons why a run has this event, of which a member may differ from the expected one.
    pub(super) fn explain(&self, index: usize, expected: &Value, member: Option<&MemberMismatch>) -> Vec<String> {
        let is_other = expected["type"].is_string() && member.is_none();
        let ignored = if is_other { self.explain_ignored(index) } else { Vec::new() };
        let Some(event) = self.run.events.get(index).filter(|event| !event.is_null()) else { return ignored };
        if is_other && event["type"] == EventType::RunStarted.wire() {
            return vec!["every run begins with this event, also one that fails".to_owned()];
        }
        let Some(frame) = self.run.origins.get(index).copied().flatten().map(|at| &self.run.frames[at]) else {
            let is_cut = event["type"] == EventType::RunError.wire();
            let cause = match is_cut {
                true => "the stream ends, and no rule with `finish`, `done` or `fail` has applied to a frame",
                false => "it comes at the end of the stream",
            };
            return vec![cause.to_owned()];
        };
        let of_line = match self.example.stream_line {
            Some(first) => format!(" of line {}", first + frame.line),
            None => String::new(),
        };
        let mut reasons = Vec::new();
        let is_raw = event["type"] == EventType::Raw.wire();
        match frame.trace.describe_lines() {
            None if is_raw => {
                let name = frame.trace.name.as_ref().map(|name| format!(", `{name}`")).unwrap_or_default();
                reasons.push(format!(
                    "no rule applies to the frame{of_line}{name}: add one, or correct the conditions of the one that is meant"
                ));
            }
            Some(lines) if is_raw && frame.trace.is_unknown && event[Field::Source.camel()] == self.dialect => {
                reasons.push(format!("the rule of {lines} finds no value in the frame{of_line}"));
                reasons.extend(self.explain_empty(frame, None));
            }
            Some(lines) => {
                let noun = if frame.trace.lines.len() > 1 { "rules" } else { "rule" };
                let behind = member.and_then(|member| self.describe_member(frame, member)).unwrap_or_default();
                reasons.push(format!("the {noun} of {lines} made it of the frame{of_line}{behind}"));
                reasons.extend(self.explain_empty(frame, member));
                reasons.extend(explain_fault(event));
                reasons.extend(self.explain_whole_text(frame, event));
            }
            None => {}
        }
        reasons.extend(ignored);
        reasons
    }

    /// Names the rules that ignore the frames before that of an event, one of which may be meant.
    fn explain_ignored(&self, index: usize) -> Vec<String> {
        let origins = &self.run.origins;
        // The first frame begins the run, also if a rule ignores it.
        let begin = origins.iter().take(index).rev().flatten().next().copied().unwrap_or_default();
        let end = origins.get(index).copied().flatten().unwrap_or(self.run.frames.len());
        let is_ignored = |frame: &&ExampleFrame| frame.rules(self.mapping).all(|rule| rule.effects.is_empty());
        let frames = self.run.frames.iter().take(end).skip(begin).filter(is_ignored);
        let reasons = frames.filter_map(|frame| {
            let line = self.example.stream_line? + frame.line;
            Some(format!("before it, the rule of {} ignores the frame of line {line}", frame.trace.describe_lines()?))
        });
        reasons.collect()
    }

    /// Explains the end of a message behind which another one begins.
    fn explain_whole_text(&self, frame: &ExampleFrame, event: &Value) -> Option<String> {
        let ends = [EventType::TextMessageEnd, EventType::ReasoningMessageEnd];
        let has_whole = |effect: &RuleEffect| effect.emitted().is_some_and(|event| event.whole_text.is_some());
        let is_whole = frame.rules(self.mapping).any(|rule| rule.effects.iter().any(has_whole));
        (is_whole && ends.iter().any(|end| event["type"] == end.wire())).then(|| {
            "`content` is the whole text so far, and does not begin with what was sent; a piece of it is `delta`"
                .to_owned()
        })
    }

    /// Returns the reasons why a run keeps this for the thread.
    pub(super) fn explain_kept(&self, member: Option<&MemberMismatch>) -> Vec<String> {
        let Some(member) = member else { return Vec::new() };
        let mut reasons = Vec::new();
        for (index, rule) in self.mapping.rules.iter().enumerate() {
            let Some((_, line)) = self.file.lines.innermost(&format!("/events/{index}/keep"), &member.pointer) else {
                continue;
            };
            let frame = self.run.frames.iter().rev().find(|frame| frame.trace.lines.contains(&rule.line));
            reasons.push(match frame {
                Some(_) => format!("`keep` of line {line} sets it"),
                None => format!("`keep` of line {line} would set it, but its rule applies to no frame"),
            });
            reasons.extend(frame.into_iter().flat_map(|frame| self.explain_empty(frame, Some(member))));
        }
        reasons
    }

    /// Returns where the rules of a frame have a member.
    fn describe_member(&self, frame: &ExampleFrame, member: &MemberMismatch) -> Option<String> {
        let rules = self.mapping.rules.iter().enumerate();
        let rules = rules.filter(|(_, rule)| frame.trace.lines.contains(&rule.line));
        let lines = rules.flat_map(|(index, _)| {
            let effects = EFFECTS.iter().map(move |effect| format!("/events/{index}/{effect}"));
            let events = (0..).map(move |at| format!("/events/{index}/emit/{at}"));
            let events = events.take_while(|event| self.file.lines.get(event).is_some());
            effects.chain(events).collect::<Vec<_>>()
        });
        let found = lines.filter_map(|effect| self.file.lines.innermost(&effect, &member.pointer));
        let (_, line) = found.max_by_key(|(depth, _)| *depth)?;
        Some(format!(", with `{}` on line {line}", member.path))
    }

    /// Names the values that a frame lacks, and the tables that have no row for its values.
    fn explain_empty(&self, frame: &ExampleFrame, member: Option<&MemberMismatch>) -> Vec<String> {
        let Some(value) = frame.value() else { return Vec::new() };
        let is_of_member = |path: &str| member.is_none_or(|member| path.contains(&member.path));
        let is_effect = |path: &str| EFFECTS.iter().any(|effect| path.contains(&format!(".{effect}")));
        let lines = &frame.trace.lines;
        let places = self.file.places.iter();
        let places = places.filter(|place| place.rule_line.is_some_and(|line| lines.contains(&line)));
        let places =
            places.filter(|place| !place.is_alternative && is_effect(&place.path) && is_of_member(&place.path));
        let empty = places.filter(|place| values_at(place, &value).is_empty());
        let mut reasons: Vec<_> = empty
            .map(|place| format!("`{}` of line {} has no value in that frame", place.written, place.line))
            .collect();
        for table in self.file.tables.iter().filter(|table| is_of_member(&table.path)) {
            let place = &self.file.places[table.place];
            if place.rule_line.is_some_and(|line| lines.contains(&line)) {
                let values = values_at(place, &value);
                let texts = values
                    .iter()
                    .filter(|value| !matches!(value.json_type(), JsonType::Null | JsonType::Object | JsonType::Array));
                let texts = texts.map(|value| value.text().map_or_else(|| value.as_str().to_owned(), Into::into));
                reasons.extend(texts.filter_map(|text| explain_row(table, &text)));
            }
        }
        reasons.dedup();
        reasons
    }

    /// Names the line of the template that made a part of a request.
    pub(super) fn explain_request(file: &DialectFile, part: &str, member: Option<&MemberMismatch>) -> Option<String> {
        let pointer = format!("/{part}{}", member.map(|member| member.pointer.as_str()).unwrap_or_default());
        let several = (0..).map(|at| format!("/request/{at}")).take_while(|root| file.lines.get(root).is_some());
        let roots = several.chain(["/request".to_owned()]);
        let found: Vec<_> = roots.filter_map(|root| file.lines.innermost(&root, &pointer)).collect();
        let depth = found.iter().map(|(depth, _)| *depth).max()?;
        let lines: Vec<_> = found.iter().filter(|(own, _)| *own == depth).map(|(_, line)| line.to_string()).collect();
        Some(format!("`request` makes it on line {}", lines.join(" or line ")))
    }
}

/// Returns why a table has nothing for a word.
fn explain_row(table: &ReadTable, word: &str) -> Option<String> {
    let rows: Vec<&str> = table.rows.iter().map(|(theirs, _)| theirs.as_str()).collect();
    if rows.contains(&word) {
        return None;
    }
    let meant = match nearest(word, &rows).as_slice() {
        [] => "add one".to_owned(),
        meant => format!("correct {}, or add one", quote_names(meant, " or ")),
    };
    Some(format!("the table of line {} has no row for `{word}`: {meant}", table.line))
}

/// Explains an event that AG-UI does not allow as the rules make it.
fn explain_fault(event: &Value) -> Option<String> {
    let (event, kind) = match &event[Field::Event.camel()] {
        inner @ Value::Object(_) => (inner, inner["type"].as_str().unwrap_or_default()),
        _ => (event, event["type"].as_str().unwrap_or_default()),
    };
    let moved = event[Field::Metadata.camel()]["diglot"].as_object()?;
    let (name, value) = moved.iter().next()?;
    Some(format!("{kind} cannot have {value} as `{name}`, so that it stands in `metadata.diglot`"))
}
