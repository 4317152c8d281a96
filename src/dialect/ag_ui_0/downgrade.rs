//! Events that peers of AG-UI before 1.0 do not support, by version (`specs/ag-ui-1.0.md` §1.4, §3.6).
//!
//! An unsupported event is sent whole, as CUSTOM. An empty delta is sent as RAW, the only event that even 0.0.35
//! accepts while a message is open, so an invisible delta never closes one.

use crate::codec::json;
use crate::dialect::carry::CANONICAL_PREFIX;
use crate::dialect::event_parts::OutgoingEvent;
use crate::dialect::peer_version::PeerVersion;
use crate::dialect::row::{EventShape, OwnShape};
use crate::event::{Event, EventType, Field, Json, JsonType, MemberKey, Members, find_member, get, remove};

pub(super) static NON_EMPTY_DELTA: OwnShape = OwnShape::new("a text delta that must not be empty");

/// A member of THINKING_START that only these versions have.
const TITLE: &str = "title";

/// Returns true if the peer's version lacks the event type or rejects the event.
pub(super) fn is_unsupported(version: PeerVersion, shape: EventShape, event: &Event<'_>) -> bool {
    match (shape, event.kind) {
        (EventShape::Unsupported, _) => true,
        // "Empty deltas fatal ≤ 0.0.47" [specs §3.6]
        (EventShape::Own(own), EventType::TextMessageContent) if *own == NON_EMPTY_DELTA => is_empty_content(event),
        (_, EventType::ReasoningMessageContent) if version < PeerVersion::V0_0_53 && is_empty_content(event) => true,
        // Peers without subagents treat two steps with the same name as one.
        (_, EventType::StepStarted | EventType::StepFinished) => {
            version < PeerVersion::V0_0_59 && event.get(Field::SubagentRunId).is_some()
        }
        _ => false,
    }
}

pub(super) fn is_empty_content(event: &Event<'_>) -> bool {
    matches!(event.kind, EventType::TextMessageContent | EventType::ReasoningMessageContent)
        && event.get(Field::Delta).is_some_and(|delta| delta.is_str(""))
}

pub(super) fn unwrap_raw(raw: &Event<'_>) -> Option<Event<'static>> {
    let source = raw.text(Field::Source)?;
    let kind = EventType::from_wire(source.strip_prefix(CANONICAL_PREFIX)?)?;
    let object = json::parse_object(raw.get(Field::Event)?.as_str()).ok()?;
    let event = Event { kind, members: crate::event::into_owned_members(object.members), source: None };
    is_empty_content(&event).then_some(event)
}

/// Keeps only outcomes that older peers accept or ignore: interrupts, and success without pending calls. Other members
/// are fatal to 0.0.57 and 0.0.59 [specs §3.6].
pub(super) fn downgrade_outcome(outgoing: &mut OutgoingEvent<'_>) {
    let Some(outcome) = get(&outgoing.members, Field::Outcome) else {
        return;
    };
    let members = json::parse_members(outcome).unwrap_or_default();
    let kind = find_member(&members, json::TYPE).and_then(Json::text);
    let taken = match kind.as_deref() {
        Some("interrupt") => members.len() == 2,
        Some("success") => members.len() == 1,
        _ => false,
    };
    if !taken {
        carry_outcome(outgoing);
    }
}

/// Keeps only the subagent outcomes of 0.0.59; newer ones are fatal to that version (measured).
pub(super) fn downgrade_subagent(outgoing: &mut OutgoingEvent<'_>) {
    let kind = get(&outgoing.members, Field::Outcome).and_then(|outcome| json::parse_member(outcome, json::TYPE));
    if !kind.is_some_and(|kind| kind.is_str("success") || kind.is_str("suspended")) {
        carry_outcome(outgoing);
    }
}

/// Converts the title of a span of thinking to text, since any other value is fatal to every version. Returns true if it
/// changed.
pub(super) fn repair_title(members: &mut Members<'_>) -> bool {
    let is_title = |key: &MemberKey<'_>| key.name() == TITLE;
    let Some(at) = members.iter().position(|(key, value)| is_title(key) && value.json_type() != JsonType::String)
    else {
        return false;
    };
    let (key, value) = members.remove(at);
    if !value.is_null() {
        members.insert(at, (key, Json::string(value.as_str())));
    }
    true
}

fn carry_outcome(outgoing: &mut OutgoingEvent<'_>) {
    let outcome = remove(&mut outgoing.members, Field::Outcome);
    outgoing.canonical.extend(outcome.map(|outcome| (MemberKey::Known(Field::Outcome), outcome)));
}
