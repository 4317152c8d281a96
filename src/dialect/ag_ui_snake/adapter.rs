//! Thinking without a span around its messages.
//!
//! ```text
//!   reading   THINKING_TEXT_MESSAGE_START(m) … END(m)    a span m opens before the message m, and closes after it
//!   writing   a span and its message with the same id    only the message; the span's remaining members are noted
//! ```

use super::span_folder::{SPAN_NOTE, SpanFolder};
use crate::codec::json;
use crate::dialect::adapter::{CanonicalSink, DialectAdapter, ReleasedEvents, UnreadableEvent};
use crate::dialect::carry;
use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::dialect::event_shapes::was_null;
use crate::dialect::interrupts;
use crate::dialect::reasoning_ids::{NamelessThinking, ROLE_NOTE, ReasoningIds};
use crate::dialect::row::EventRow;
use crate::dialect::table::PeerDialect;
use crate::event::input::{ASSISTANT, REASONING};
use crate::event::{Event, EventType, Field, Json, MemberKey, Members, message_id, remove};

#[derive(Debug)]
pub(super) struct AgUiSnakeAdapter {
    peer: PeerDialect,
    reasoning_ids: ReasoningIds,
    span_folder: SpanFolder,
    nameless_thinking: NamelessThinking,
}

impl AgUiSnakeAdapter {
    pub(super) fn boxed(peer: PeerDialect) -> Box<dyn DialectAdapter> {
        Box::new(AgUiSnakeAdapter {
            peer,
            reasoning_ids: ReasoningIds::default(),
            span_folder: SpanFolder::default(),
            nameless_thinking: NamelessThinking::default(),
        })
    }

    /// Sets the canonical role for thinking, and notes an unusual original role.
    fn read_role(&self, event: &mut Event<'_>, extensions: &mut Members<'_>) {
        if let Some(role) = event.remove(Field::Role).map(Json::into_owned)
            && !role.is_str(self.default_role())
        {
            extensions.push((carry::extension_key(ROLE_NOTE), role));
        }
        event.set(Field::Role, Json::string(REASONING));
    }

    /// Writes the original role, or the dialect's name for the assistant.
    fn write_role(&self, outgoing: &mut OutgoingEvent<'_>) {
        if was_null(&outgoing.extensions, Field::Role) {
            remove(&mut outgoing.members, Field::Role);
            return;
        }
        let role = carry::take(&mut outgoing.extensions, ROLE_NOTE);
        let role = role.map_or_else(|| Json::string(self.default_role()), Json::into_owned);
        crate::event::set(&mut outgoing.members, MemberKey::Known(Field::Role), role);
    }

    fn default_role(&self) -> &'static str {
        let alias = self.peer.dialect.value_aliases.iter().find(|alias| alias.canonical == ASSISTANT);
        alias.map_or(ASSISTANT, |alias| alias.wire)
    }
}

impl DialectAdapter for AgUiSnakeAdapter {
    /// Adds a span around the message, and an id if it has none.
    fn read(
        &mut self,
        _: &'static EventRow,
        mut parts: IncomingEvent<'_>,
        sink: &mut dyn CanonicalSink,
    ) -> Result<(), UnreadableEvent> {
        self.reasoning_ids.supply_id(&mut parts);
        let IncomingEvent { mut event, mut extensions, .. } = parts;
        let span_members = carry::take(&mut event.members, SPAN_NOTE).map(Json::into_owned);
        let id = message_id(&event.members);
        let span = |kind| match span_members.as_ref().and_then(json::parse_message) {
            Some(members) => Event { kind, members: crate::event::into_owned_members(members), source: None },
            None => Event::new(kind).with(Field::MessageId, id.clone()),
        };
        let kind = event.kind;
        if kind == EventType::ReasoningMessageStart {
            self.read_role(&mut event, &mut extensions);
            sink.emit(span(EventType::ReasoningStart));
        }
        carry::pack(&mut event, self.peer.dialect.name, extensions);
        sink.emit(event);
        if kind == EventType::ReasoningMessageEnd {
            sink.emit(span(EventType::ReasoningEnd));
        }
        Ok(())
    }

    fn restore<'a>(
        &mut self,
        row: &'static EventRow,
        kind: EventType,
        mut parts: IncomingEvent<'a>,
        dialect: &str,
    ) -> Event<'a> {
        if row.kind == EventType::ReasoningMessageStart {
            self.read_role(&mut parts.event, &mut parts.extensions);
        }
        parts.into_canonical_event(kind, dialect)
    }

    fn set_run_id(&mut self, run_id: &Json<'static>) {
        self.reasoning_ids.set_run_id(run_id);
    }

    fn observe(&mut self, event: &Event<'_>) {
        self.reasoning_ids.observe(event);
    }

    fn buffer<'a>(&mut self, mut event: Event<'a>, canonical_type: Option<&'static str>, _: i64) -> ReleasedEvents<'a> {
        let mut released = ReleasedEvents::default();
        if event.kind == EventType::RunFinished {
            self.span_folder.flush(&mut released);
            let calls = interrupts::write_calls(&mut event, &self.peer);
            calls.into_iter().for_each(|call| released.push_event(call, Some("")));
        }
        // Events expanded from a chunk have no span.
        if canonical_type.is_some() {
            self.span_folder.flush(&mut released);
            released.push_event(event, canonical_type);
            return released;
        }
        self.span_folder.push(event, &mut released);
        released
    }

    fn write(&mut self, row: &'static EventRow, outgoing: &mut OutgoingEvent<'_>) {
        if row.kind.is_reasoning() {
            self.nameless_thinking.remove_generated_ids(row.kind, outgoing);
        }
        if row.kind == EventType::ReasoningMessageStart {
            self.write_role(outgoing);
        }
    }
}
