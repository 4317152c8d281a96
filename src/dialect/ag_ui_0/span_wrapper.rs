//! Spans of thinking for peers of AG-UI before 1.0.

use crate::dialect::carry;
use crate::dialect::peer_version::PeerVersion;
use crate::dialect::reasoning_ids::NAMELESS_NOTE;
use crate::dialect::row::{EventRow, EventShape, OwnShape};
use crate::dialect::table::PeerDialect;
use crate::event::{Event, EventType, Field, Json, message_id};

pub(super) static THINKING_WITHOUT_IDS: OwnShape =
    OwnShape { is_in_snapshot: false, ..OwnShape::new("thinking whose messages have no ids") };

/// Wraps thinking messages in a span if they have none, because these peers require it. The added span has no canonical
/// counterpart.
#[derive(Debug, Default)]
pub(super) enum SpanWrapper {
    #[default]
    Closed,
    FromAgent,
    Synthetic,
}

impl SpanWrapper {
    /// Returns false for reasoning that the peer cannot receive as thinking. Peers of any version receive the event
    /// types that the agent used.
    pub(crate) fn admits(&self, event: &Event<'_>, side: PeerDialect) -> bool {
        let nameless = |(_, row): (usize, &EventRow)| row.shape == EventShape::Own(&THINKING_WITHOUT_IDS);
        if !event.kind.is_reasoning() || !side.dialect.row_for_kind(event.kind, side.peer_version).is_some_and(nameless)
        {
            return true;
        }
        match (side.peer_version, event.kind) {
            (PeerVersion::Any, EventType::ReasoningStart) => is_nameless(event, side),
            (PeerVersion::Any, EventType::ReasoningMessageStart) => self.is_open() || is_nameless(event, side),
            (PeerVersion::Any, _) => self.is_open(),
            (pin, _) => pin >= PeerVersion::V0_0_39,
        }
    }

    fn is_open(&self) -> bool {
        !matches!(self, SpanWrapper::Closed)
    }

    pub(crate) fn wrap_message(
        &mut self,
        event: &Event<'_>,
        side: PeerDialect,
    ) -> (Option<Event<'static>>, Option<Event<'static>>) {
        if side.peer_version >= PeerVersion::V0_0_45 {
            return (None, None);
        }
        let made = |kind| {
            let id = message_id(&event.members).into_owned();
            let mut made = Event::new(kind).with(Field::MessageId, id);
            if is_nameless(event, side) {
                carry::pack(
                    &mut made,
                    side.dialect.name,
                    vec![(carry::extension_key(NAMELESS_NOTE), Json::from_trusted("true"))],
                );
            }
            Some(made)
        };
        match (std::mem::take(self), event.kind) {
            (SpanWrapper::Closed, EventType::ReasoningMessageStart) => {
                *self = SpanWrapper::Synthetic;
                (made(EventType::ReasoningStart), None)
            }
            (SpanWrapper::Synthetic, EventType::ReasoningMessageEnd) => (None, made(EventType::ReasoningEnd)),
            (before, EventType::ReasoningStart) => {
                *self = SpanWrapper::FromAgent;
                (matches!(before, SpanWrapper::Synthetic).then(|| made(EventType::ReasoningEnd)).flatten(), None)
            }
            (_, EventType::ReasoningEnd | EventType::RunStarted) => (None, None),
            (same, _) => {
                *self = same;
                (None, None)
            }
        }
    }
}

fn is_nameless(event: &Event<'_>, side: PeerDialect) -> bool {
    carry::carried_member(event, side.dialect.name, NAMELESS_NOTE).is_some()
}
