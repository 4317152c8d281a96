//! Merges a thinking span into its message if both have the same content. This delays one event at a time: the start of
//! a span waits for the message, and the end of a message waits for the end of the span. Any other event flushes them
//! first.

use crate::codec::json;
use crate::dialect::adapter::{ReleasedEvent, ReleasedEvents};
use crate::dialect::carry;
use crate::event::{Event, EventType, Json, message_id};

/// Stores the members of a span that was merged into its message.
pub(super) const SPAN_NOTE: &str = "$span";

#[derive(Debug, Default)]
pub(super) enum SpanFolder {
    #[default]
    Idle,
    /// start of a span whose message has not started
    PendingSpan(Event<'static>),
    /// id of the open message into which the span was merged
    InMessage(Json<'static>),
    /// id and end of that message, while the span is still open
    PendingEnd(Json<'static>, Event<'static>),
}

impl SpanFolder {
    /// Releases pending events before an event that cannot be merged.
    pub(crate) fn flush(&mut self, released: &mut ReleasedEvents<'_>) {
        match std::mem::take(self) {
            SpanFolder::PendingSpan(span) => released.push(ReleasedEvent::AsCustom(span)),
            SpanFolder::PendingEnd(_, end) => push_message_alone(end, released),
            other => *self = other,
        }
    }

    pub(crate) fn push<'a>(&mut self, event: Event<'a>, released: &mut ReleasedEvents<'a>) {
        let id = message_id(&event.members);
        match (std::mem::take(self), event.kind) {
            (SpanFolder::PendingSpan(span), EventType::ReasoningMessageStart)
                if message_id(&span.members).is_same(&id) =>
            {
                *self = SpanFolder::InMessage(id);
                released.push_event(merge_span(event, &span), None);
                return;
            }
            (SpanFolder::PendingEnd(open, end), EventType::ReasoningEnd) if open.is_same(&id) => {
                released.push_event(merge_span(end, &event), None);
                return;
            }
            (SpanFolder::InMessage(open), EventType::ReasoningMessageEnd) if open.is_same(&id) => {
                *self = SpanFolder::PendingEnd(open, event.into_owned());
                return;
            }
            (SpanFolder::PendingSpan(span), _) => released.push(ReleasedEvent::AsCustom(span)),
            (SpanFolder::PendingEnd(_, end), _) => push_message_alone(end, released),
            (folded @ SpanFolder::InMessage(_), kind) if kind != EventType::ReasoningStart => *self = folded,
            _ => {}
        }
        match event.kind {
            EventType::ReasoningStart => *self = SpanFolder::PendingSpan(event.into_owned()),
            EventType::ReasoningEnd => released.push(ReleasedEvent::AsCustom(event)),
            EventType::ReasoningMessageStart | EventType::ReasoningMessageEnd => push_message_alone(event, released),
            _ => released.push_event(event, None),
        }
    }
}

/// Merges the start or end event of a span into the message's own, and carries the span's remaining members.
fn merge_span<'a>(mut event: Event<'a>, span: &Event<'_>) -> Event<'a> {
    if span.members.len() > 1 {
        event.members.push((carry::extension_key(SPAN_NOTE), json::to_object(&span.members)));
    }
    event
}

/// Releases the start or end of a message without a span. It carries its canonical type, because the dialect's event
/// alone implies a span.
fn push_message_alone<'a>(event: Event<'a>, released: &mut ReleasedEvents<'a>) {
    let canonical_type = event.kind.wire();
    released.push_event(event, Some(canonical_type));
}
