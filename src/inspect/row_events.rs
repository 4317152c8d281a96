//! Makes the events of a row out of what each side sent.

use super::row::{AlignedRow, RowEvent};
use crate::codec::json;
use crate::codec::sse::{SseDecoder, SseFrame, SseLimits, SseStep};
use crate::dialect::Dialect;
use crate::event::{EventRepair, Json};
use std::borrow::Cow;

/// Returns a line that is no event only for the byte order mark before it.
pub(super) fn make_marked_event(line: &[u8]) -> RowEvent {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches(['\r', '\n']);
    let kind = text.split_once(':').and_then(|(_, data)| make_event(data.trim_start()).kind);
    RowEvent { kind, event_line: None, data: Some(text.to_owned()) }
}

/// Returns an event that the agent may not have finished: its type is known if that came first.
pub(super) fn make_unfinished_event(frame: &SseFrame<'_>, agent: &Dialect) -> RowEvent {
    let event = make_agent_event(frame, agent);
    RowEvent { kind: event.kind.or_else(|| find_first_type(&frame.data)), ..event }
}

fn make_event(data: &str) -> RowEvent {
    let kind = json::parse_object(data).ok().and_then(|object| object.kind);
    let kind = kind.as_ref().and_then(Json::text).map(Cow::into_owned);
    RowEvent { kind, event_line: None, data: Some(data.to_owned()) }
}

/// Returns the type of an incomplete object, if it is the first member.
pub(crate) fn find_first_type(data: &str) -> Option<String> {
    let rest = data.trim_start().strip_prefix('{')?.trim_start().strip_prefix("\"type\"")?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    Some(value.split_once('"')?.0.to_owned())
}

/// Returns a frame of an agent. A dialect file that is read by the `event:` line has it; its rules name the event.
pub(super) fn make_agent_event(frame: &SseFrame<'_>, agent: &Dialect) -> RowEvent {
    match agent.mapping {
        None => make_event(&frame.data),
        Some(mapping) => {
            let event_line = frame.event.as_deref().filter(|_| mapping.reads_event_line).map(str::to_owned);
            RowEvent { kind: None, event_line, data: Some(frame.data.to_string()) }
        }
    }
}

/// Notes a byte order mark that makes the agent's frame no event.
pub(super) fn note_mark(row: &mut AlignedRow) {
    let is_malformed = row.repairs.iter().any(|repair| repair.label == EventRepair::MalformedFrame.label());
    let Some(agent) = row.agent.as_mut().filter(|_| is_malformed) else { return };
    let Some(json) = agent.data.as_ref().and_then(|data| data.strip_prefix('\u{feff}')) else { return };
    agent.kind = find_first_type(json);
    let note = "a byte order mark (U+FEFF) stands before the JSON, so that the client got it as RAW, and shows nothing of it: remove the mark from what writes the agent's events";
    row.note = Some(note.to_owned());
}

/// Takes the events out of whole frames.
pub(super) fn take_events(frames: &mut Vec<u8>) -> Vec<RowEvent> {
    let mut decoder = SseDecoder::new(SseLimits::UNLIMITED);
    let mut rest = frames.as_slice();
    let mut events = Vec::new();
    while let SseStep::Frame(frame) = decoder.next(&mut rest) {
        events.push(make_event(&frame.data));
    }
    frames.clear();
    events
}
