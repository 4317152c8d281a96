//! Placeholders: a dialect's event that is displayed instead of a canonical event, which `extra["ag-ui"]` contains in
//! full.
//!
//! ```text
//! canonical ──▶ shown members, extra["ag-ui"] = {"type": kind, every member of the canonical event but its timestamp}
//! dialect   ──▶ the canonical event as noted; of the members next to the note only unknown ones are carried
//! ```

use super::members::{block, collaboration};
use crate::dialect::carry;
use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::event::{Event, EventType, Field, MemberKey, Members, remove};

/// Members that are only for display, because the note repeats their content.
const DISPLAY_MEMBERS: [&str; 6] = [
    Field::MessageId.camel(),
    Field::Role.camel(),
    Field::Delta.camel(),
    block::BLOCK_ID,
    collaboration::FROM,
    collaboration::TO,
];

/// Returns true if the note contains the whole event. For other kinds, it contains only members that the visible event
/// cannot express.
pub(super) const fn carries_event(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::ActivitySnapshot
            | EventType::ActivityDelta
            | EventType::SubagentStarted
            | EventType::SubagentFinished
            | EventType::SubagentError
    )
}

/// Returns the canonical event from the note.
pub(super) fn read_placeholder<'a>(kind: EventType, parts: IncomingEvent<'a>, dialect: &str) -> Event<'a> {
    let IncomingEvent { mut event, extensions: mut own, restored_fields: restored, .. } = parts;
    event.kind = kind;
    event.members.retain(|(key, _)| match key {
        MemberKey::Known(field) => *field == Field::Timestamp || restored.contains(field),
        MemberKey::Other(_) => true,
    });
    own.retain(|(key, _)| !DISPLAY_MEMBERS.iter().any(|name| carry::is_named(key, name)));
    carry::pack(&mut event, dialect, own);
    event
}

/// Returns a visible substitute for `event`, with the original in a note.
pub(super) fn write_placeholder<'a>(
    mut event: Event<'a>,
    mut members: Members<'a>,
    display: Members<'static>,
) -> OutgoingEvent<'a> {
    let canonical_type = Some(event.kind.wire());
    let time = remove(&mut event.members, Field::Timestamp);
    members.extend(time.map(|time| (MemberKey::Known(Field::Timestamp), time)));
    OutgoingEvent { members, extensions: display, canonical: event.members, canonical_type }
}

/// Returns an event that is only for display and is dropped when read back.
pub(super) fn write_display_only(display: Members<'static>) -> OutgoingEvent<'static> {
    OutgoingEvent { extensions: display, canonical_type: Some(""), ..OutgoingEvent::default() }
}
