//! Thinking for peers of AG-UI before 1.0.
//!
//! Their thinking has no ids: one span is open at a time, one message at a time within it, and any other order ends the
//! run (`specs/ag-ui-1.0.md` §3.6). Canonical reasoning may overlap, and its agent may forget ends.
//!
//! ```text
//!   start of a span or message while another is open ──▶ END* of the other, start
//!   message outside a span                           ──▶ START* of a span, message, END* of the span
//!   end of a span with its message open              ──▶ END* of the message, end
//!   next piece of a message that was ended so        ──▶ START* again, piece
//!   end of what was ended so                         ──▶ whole, as CUSTOM
//! ```
//! Events with a star have no canonical counterpart.

use crate::dialect::carry;
use crate::dialect::peer_version::PeerVersion;
use crate::dialect::reasoning_ids::NAMELESS_NOTE;
use crate::dialect::row::{EventRow, EventShape, OwnShape};
use crate::dialect::table::PeerDialect;
use crate::event::{Event, EventType, Field, Json, message_id};

pub(super) static THINKING_WITHOUT_IDS: OwnShape =
    OwnShape { is_in_snapshot: false, ..OwnShape::new("thinking whose messages have no ids") };

/// The span and the message that are open for the peer.
#[derive(Debug, Default)]
pub(super) struct SpanWrapper {
    span: Option<ThinkingSpan>,
    message_id: Option<Json<'static>>,
}

#[derive(Debug)]
enum ThinkingSpan {
    /// with the agent's id
    FromAgent(Json<'static>),
    Synthetic,
}

/// The added events around one of the agent's.
#[derive(Default)]
pub(super) struct AddedEvents {
    pub(super) before: Vec<Event<'static>>,
    pub(super) after: Option<Event<'static>>,
}

impl SpanWrapper {
    /// Returns the events to add around `event`, or `None` if the peer cannot receive it as thinking.
    pub(super) fn wrap(&mut self, event: &Event<'_>, side: PeerDialect) -> Option<AddedEvents> {
        if event.kind == EventType::RunStarted {
            *self = SpanWrapper::default();
        }
        let is_thinking = |(_, row): (usize, &EventRow)| row.shape == EventShape::Own(&THINKING_WITHOUT_IDS);
        if !event.kind.is_reasoning()
            || !side.dialect.row_for_kind(event.kind, side.peer_version).is_some_and(is_thinking)
        {
            return Some(AddedEvents::default());
        }
        if !has_thinking(side.peer_version) {
            return None;
        }
        let mut added = AddedEvents::default();
        let id = message_id(&event.members);
        let is_open = self.message_id.as_ref().is_some_and(|open| open.is_same(&id));
        match event.kind {
            EventType::ReasoningStart => {
                self.end_message(event, side, &mut added);
                if self.span.replace(ThinkingSpan::FromAgent(id.into_owned())).is_some() {
                    added.before.push(make_event(EventType::ReasoningEnd, event, side));
                }
            }
            EventType::ReasoningEnd => {
                self.span.take_if(|span| matches!(span, ThinkingSpan::FromAgent(own) if own.is_same(&id)))?;
                self.end_message(event, side, &mut added);
            }
            EventType::ReasoningMessageStart => self.open_message(event, side, &mut added),
            EventType::ReasoningMessageContent if !is_open => {
                self.open_message(event, side, &mut added);
                added.before.push(make_event(EventType::ReasoningMessageStart, event, side));
            }
            EventType::ReasoningMessageEnd if !is_open => return None,
            EventType::ReasoningMessageEnd => {
                self.message_id = None;
                let synthetic = self.span.take_if(|span| matches!(span, ThinkingSpan::Synthetic));
                added.after = synthetic.map(|_| make_event(EventType::ReasoningEnd, event, side));
            }
            _ => {}
        }
        Some(added)
    }

    /// Ends the open message, and opens the message of `event` in a span.
    fn open_message(&mut self, event: &Event<'_>, side: PeerDialect, added: &mut AddedEvents) {
        self.end_message(event, side, added);
        if self.span.is_none() {
            self.span = Some(ThinkingSpan::Synthetic);
            added.before.push(make_event(EventType::ReasoningStart, event, side));
        }
        self.message_id = Some(message_id(&event.members).into_owned());
    }

    fn end_message(&mut self, event: &Event<'_>, side: PeerDialect, added: &mut AddedEvents) {
        if self.message_id.take().is_some() {
            added.before.push(make_event(EventType::ReasoningMessageEnd, event, side));
        }
    }
}

/// Makes an event without a canonical counterpart. Its id is that of `event`, since the peer has none.
fn make_event(kind: EventType, event: &Event<'_>, side: PeerDialect) -> Event<'static> {
    let mut made = Event::new(kind).with(Field::MessageId, message_id(&event.members).into_owned());
    if is_nameless(event, side) {
        let note = vec![(carry::extension_key(NAMELESS_NOTE), Json::from_trusted("true"))];
        carry::pack(&mut made, side.dialect.name, note);
    }
    made
}

/// Returns true for versions with thinking. A peer without a pin is a client since 0.0.42.
fn has_thinking(version: PeerVersion) -> bool {
    version == PeerVersion::Any || version >= PeerVersion::V0_0_39
}

fn is_nameless(event: &Event<'_>, side: PeerDialect) -> bool {
    carry::carried_member(event, side.dialect.name, NAMELESS_NOTE).is_some()
}
