//! Compares two lists of events, such as what a client got and what it would get.
//!
//! Events are aligned first (the longest common subsequence), then the members of those that stand at the same place
//! are compared. The order of members and white space are no difference to anybody.

use super::input::IoFailure;
use super::input_framing::ProtobufInput;
use super::recording_reader::{ReadStop, read_recording};
use super::terminal_text::is_unsafe;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;

/// The largest product of two lengths that are aligned; longer lists are compared place by place.
const MAX_CELLS: usize = 4 << 20;

const MAX_VALUE_CHARS: usize = 160;

/// Values that may differ between two runs of the same request.
#[derive(Debug, Default)]
pub(super) struct RunTolerance {
    /// ids of the request, which are the same in each run
    pub(super) fixed: BTreeSet<String>,
    /// ids of the first list and those of the second that stand for them
    names: BTreeMap<String, String>,
    names_back: BTreeMap<String, String>,
}

/// One difference. Events are counted from 1.
#[derive(Debug, PartialEq)]
pub(super) enum EventDifference {
    Missing {
        at: usize,
        event: Value,
    },
    Added {
        at: usize,
        event: Value,
    },
    Changed {
        at: usize,
        kind: String,
        members: Vec<MemberDifference>,
    },
    /// of the request that the agent gets
    Request {
        members: Vec<MemberDifference>,
    },
}

#[derive(Debug, PartialEq)]
pub(super) struct MemberDifference {
    /// JSON pointer
    path: String,
    before: Option<Value>,
    after: Option<Value>,
}

/// Reads the events of a stream in any framing.
pub(super) fn read_events(bytes: &[u8]) -> Result<Vec<Value>, IoFailure> {
    let mut events = Vec::new();
    let read = read_recording(bytes, ProtobufInput::Detect, usize::MAX, &mut |_, _, data| {
        events.push(serde_json::from_str(data).unwrap_or_else(|_| Value::from(data)));
        Ok(())
    });
    match read {
        Ok(_) => Ok(events),
        Err(ReadStop::Io(failure)) => Err(failure),
        Err(ReadStop::Stream(fault)) => Err(IoFailure::Input(io::Error::other(fault.to_string()))),
        // The events before it are whole.
        Err(ReadStop::PartialFrame) => Ok(events),
    }
}

/// Returns the differences between two lists of events, those that `tolerance` allows left out.
pub(super) fn compare_events(
    before: &[Value],
    after: &[Value],
    tolerance: &mut Option<RunTolerance>,
) -> Vec<EventDifference> {
    let keys = |events: &[Value]| -> Vec<String> {
        events.iter().map(|event| comparison_key(event, tolerance.as_ref())).collect()
    };
    let (keys_before, keys_after) = (keys(before), keys(after));
    let mut differences = Vec::new();
    let (mut from, mut to) = (0, 0);
    let pairs = align(&keys_before, &keys_after);
    for (one, other) in pairs.into_iter().chain([(before.len(), after.len())]) {
        compare_gap(&before[from..one], from, &after[to..other], to, tolerance, &mut differences);
        if let (Some(event), Some(now)) = (before.get(one), after.get(other)) {
            push_changed(event, now, one + 1, tolerance, &mut differences);
        }
        (from, to) = (one + 1, other + 1);
    }
    differences
}

/// Returns the difference between two requests to an agent.
pub(super) fn compare_requests(before: &Value, after: &Value) -> Option<EventDifference> {
    let mut members = Vec::new();
    compare_values(Some(before), Some(after), "", &mut None, &mut members);
    (!members.is_empty()).then_some(EventDifference::Request { members })
}

/// Compares events between two pairs that are equal. Those of one type that stand at the same place are one event that
/// changed.
fn compare_gap(
    before: &[Value],
    from: usize,
    after: &[Value],
    to: usize,
    tolerance: &mut Option<RunTolerance>,
    differences: &mut Vec<EventDifference>,
) {
    for at in 0..before.len().max(after.len()) {
        match (before.get(at), after.get(at)) {
            (Some(event), Some(now)) if kind_of(event) == kind_of(now) => {
                push_changed(event, now, from + at + 1, tolerance, differences);
            }
            (event, now) => {
                let missing = event.cloned().map(|event| EventDifference::Missing { at: from + at + 1, event });
                let added = now.cloned().map(|event| EventDifference::Added { at: to + at + 1, event });
                differences.extend(missing.into_iter().chain(added));
            }
        }
    }
}

fn push_changed(
    before: &Value,
    after: &Value,
    at: usize,
    tolerance: &mut Option<RunTolerance>,
    differences: &mut Vec<EventDifference>,
) {
    let mut members = Vec::new();
    compare_values(Some(before), Some(after), "", tolerance, &mut members);
    if !members.is_empty() {
        differences.push(EventDifference::Changed { at, kind: kind_of(before).to_owned(), members });
    }
}

fn kind_of(event: &Value) -> &str {
    event["type"].as_str().unwrap_or("an event without a type")
}

/// Returns pairs of positions with equal keys, both in increasing order.
fn align(before: &[String], after: &[String]) -> Vec<(usize, usize)> {
    let start = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let (before_rest, after_rest) = (&before[start..], &after[start..]);
    let end = before_rest.iter().rev().zip(after_rest.iter().rev()).take_while(|(one, other)| one == other).count();
    let (rows, columns) = (before_rest.len() - end, after_rest.len() - end);
    let mut pairs: Vec<(usize, usize)> = (0..start).map(|at| (at, at)).collect();
    if rows * columns <= MAX_CELLS {
        let middle = longest_common(&before_rest[..rows], &after_rest[..columns]);
        pairs.extend(middle.into_iter().map(|(one, other)| (start + one, start + other)));
    }
    pairs.extend((0..end).map(|at| (start + rows + at, start + columns + at)));
    pairs
}

/// Returns the positions of the longest common subsequence.
fn longest_common(before: &[String], after: &[String]) -> Vec<(usize, usize)> {
    let width = after.len() + 1;
    let mut lengths = vec![0_u32; (before.len() + 1) * width];
    for one in (0..before.len()).rev() {
        for other in (0..after.len()).rev() {
            lengths[one * width + other] = if before[one] == after[other] {
                lengths[(one + 1) * width + other + 1] + 1
            } else {
                lengths[(one + 1) * width + other].max(lengths[one * width + other + 1])
            };
        }
    }
    let (mut one, mut other, mut pairs) = (0, 0, Vec::new());
    while one < before.len() && other < after.len() {
        if before[one] == after[other] {
            pairs.push((one, other));
            (one, other) = (one + 1, other + 1);
        } else if lengths[(one + 1) * width + other] >= lengths[one * width + other + 1] {
            one += 1;
        } else {
            other += 1;
        }
    }
    pairs
}

/// Returns the event's text, without the values that may differ.
fn comparison_key(event: &Value, tolerance: Option<&RunTolerance>) -> String {
    let mut event = event.clone();
    if let Some(tolerance) = tolerance {
        blank_values(&mut event, "", tolerance);
    }
    event.to_string()
}

fn blank_values(value: &mut Value, name: &str, tolerance: &RunTolerance) {
    match value {
        Value::Object(members) => {
            members.iter_mut().for_each(|(name, value)| blank_values(value, name, tolerance));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| blank_values(element, name, tolerance)),
        Value::Number(_) if is_time(name) => *value = Value::Null,
        Value::String(id) if is_id(name) && !tolerance.fixed.contains(id) => *value = Value::Null,
        _ => {}
    }
}

fn is_time(name: &str) -> bool {
    name == "timestamp"
}

/// Returns whether members of this name hold ids: `id`, `messageId`, `message_id`, `pendingToolCallIds`.
fn is_id(name: &str) -> bool {
    let name = name.strip_suffix('s').unwrap_or(name);
    name == "id" || name.ends_with("Id") || name.ends_with("_id")
}

impl RunTolerance {
    /// Returns whether `after` stands for `before` wherever either was found.
    fn allows_id(&mut self, before: &str, after: &str) -> bool {
        if self.fixed.contains(before) || self.fixed.contains(after) {
            return before == after;
        }
        let name = self.names.entry(before.to_owned()).or_insert_with(|| after.to_owned());
        let back = self.names_back.entry(after.to_owned()).or_insert_with(|| before.to_owned());
        name == after && back == before
    }
}

fn compare_values(
    before: Option<&Value>,
    after: Option<&Value>,
    path: &str,
    tolerance: &mut Option<RunTolerance>,
    found: &mut Vec<MemberDifference>,
) {
    match (before, after) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                compare_values(one.get(name), other.get(name), &path, tolerance, found);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for at in 0..one.len().max(other.len()) {
                compare_values(one.get(at), other.get(at), &format!("{path}/{at}"), tolerance, found);
            }
        }
        (before, after) => {
            let name = path.rsplit('/').find(|part| part.parse::<usize>().is_err()).unwrap_or_default();
            let is_allowed = match (tolerance, before, after) {
                (Some(_), Some(Value::Number(_)), Some(Value::Number(_))) if is_time(name) => true,
                (Some(tolerance), Some(Value::String(one)), Some(Value::String(other))) if is_id(name) => {
                    tolerance.allows_id(one, other)
                }
                _ => before == after,
            };
            if !is_allowed {
                found.push(MemberDifference { path: path.to_owned(), before: before.cloned(), after: after.cloned() });
            }
        }
    }
}

impl fmt::Display for EventDifference {
    /// Writes a line for each event or member: `-` before what is no longer there, `+` before what is new.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventDifference::Missing { at, event } => write!(f, "  - event {at} {}", printable(event)),
            EventDifference::Added { at, event } => write!(f, "  + event {at} {}", printable(event)),
            EventDifference::Changed { at, kind, members } => {
                write!(f, "  ~ event {at} {kind}")?;
                members.iter().try_for_each(|member| write!(f, "\n      {member}"))
            }
            EventDifference::Request { members } => {
                f.write_str("  ~ request to the agent")?;
                members.iter().try_for_each(|member| write!(f, "\n      {member}"))
            }
        }
    }
}

impl fmt::Display for MemberDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the whole value" } else { &self.path };
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, "{path}: {} -> {}", printable(before), printable(after)),
            (Some(before), None) => write!(f, "{path}: {} -> gone", printable(before)),
            (None, after) => write!(f, "{path}: new: {}", after.as_ref().map(printable).unwrap_or_default()),
        }
    }
}

/// Formats a value on one line that draws nothing on a terminal.
fn printable(value: &Value) -> String {
    let text = value.to_string();
    let shown: String = text.chars().take(MAX_VALUE_CHARS).map(|c| if is_unsafe(c) { '\u{fffd}' } else { c }).collect();
    if shown.chars().count() < text.chars().count() { format!("{shown}…") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compare(before: &Value, after: &Value, tolerance: Option<RunTolerance>) -> Vec<String> {
        let list = |events: &Value| events.as_array().cloned().unwrap_or_default();
        let found = compare_events(&list(before), &list(after), &mut { tolerance });
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_what_changed_came_and_went() {
        let before = json!([{"type": "A"}, {"type": "B", "x": 1, "y": [1, 2]}, {"type": "C"}, {"type": "D"}]);
        let after = json!([{"type": "A"}, {"y": [1, 3], "type": "B", "z": "\u{202e}"}, {"type": "D"}, {"type": "E"}]);
        assert_eq!(
            compare(&before, &after, None),
            [
                "  ~ event 2 B\n      /x: 1 -> gone\n      /y/1: 2 -> 3\n      /z: new: \"\u{fffd}\"",
                "  - event 3 {\"type\":\"C\"}",
                "  + event 4 {\"type\":\"E\"}",
            ]
        );
        assert!(compare(&before, &before, None).is_empty());
        assert_eq!(compare(&before, &json!([]), None).len(), 4);
    }

    #[test]
    fn another_runs_ids_and_times_are_no_difference_if_they_are_consistent() {
        let run = |id: &str, again: &str, time: u64| {
            json!([
                {"type": "A", "runId": "r1", "messageId": id, "timestamp": time},
                {"type": "B", "messageId": again, "content": {"id": id}},
            ])
        };
        let tolerance = || Some(RunTolerance { fixed: ["r1".to_owned()].into(), ..RunTolerance::default() });
        assert!(compare(&run("m1", "m1", 1), &run("x", "x", 2), tolerance()).is_empty());
        let found = compare(&run("m1", "m1", 1), &run("x", "y", 2), tolerance());
        assert_eq!(found, ["  ~ event 2 B\n      /messageId: \"m1\" -> \"y\""]);
        let found = compare(&run("m1", "m2", 1), &run("x", "x", 1), tolerance());
        assert_eq!(found, ["  ~ event 2 B\n      /messageId: \"m2\" -> \"x\""]);
        // An id of the request is the same in each run.
        let mut other = run("m1", "m1", 1);
        other[0]["runId"] = json!("r2");
        assert_eq!(
            compare(&run("m1", "m1", 1), &other, tolerance()),
            ["  ~ event 1 A\n      /runId: \"r1\" -> \"r2\""]
        );
        assert_eq!(compare(&run("m1", "m1", 1), &run("x", "x", 2), None).len(), 2);
    }
}
