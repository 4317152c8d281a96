//! Thinking in dialects with fewer event types than AG-UI: without ids (`ThinkingWithoutIds`), or without a span around
//! its messages (`ThinkingWithoutSpan`).
//!
//! ```text
//!   nameless   THINKING_START, THINKING_TEXT_MESSAGE_START …   ids <run>:reasoning:<n>, a span and its first message share one
//!   spanless   THINKING_TEXT_MESSAGE_START(m) … END(m)         a span m opens before the message m, and closes after it
//! ```
//! Writing folds a span into its message where both have the same content, which delays one event: the start of a span
//! waits for the message, the end of a message for the end of the span. Any other event flushes them first.

use super::event_parts::{IncomingEvent, OutgoingEvent};
use super::{EventSink, aliases, carry};
use crate::codec::json;
use crate::dialect::{Dialect, EventRow, EventShape, PeerDialect, PeerVersion};
use crate::event::input::REASONING;
use crate::event::{Event, EventType, Field, Json, MemberKey, Members, get, message_id, remove};

/// Note: the role that thinking had in the dialect.
pub(super) const ROLE_NOTE: &str = "$role";

/// Note: this thinking had no ids in the dialect.
pub(super) const NAMELESS_NOTE: &str = "$nameless";

/// In the carried canonical material: members of the span that was folded into its message.
const SPAN_NOTE: &str = "$span";

#[derive(Debug, Default)]
pub(super) struct ReasoningIds {
    run_id: Option<Json<'static>>,
    id_count: u32,
    span_id: Option<Json<'static>>,
    /// the message that is open, or was the last in its span
    message_id: Option<Json<'static>>,
}

impl ReasoningIds {
    /// Records the run's start: generated ids derive from its ids.
    pub(crate) fn start_run(&mut self, event: &Event<'_>) {
        let run = event.get(Field::RunId).filter(|id| !id.is_str("")).cloned().map(Json::into_owned);
        *self = ReasoningIds { run_id: run, ..ReasoningIds::default() };
    }

    /// Assigns ids to thinking without ids, which a client needs.
    pub(crate) fn assign_ids(&mut self, parts: &mut IncomingEvent<'_>) {
        let kind = parts.event.kind;
        let id = self.resolve_id(parts);
        if kind == EventType::ReasoningMessageStart && parts.event.get(Field::Role).is_none() {
            parts.event.set(Field::Role, Json::string(REASONING));
        }
        if parts.restored_fields.is_empty() {
            parts.extensions.push((carry::extension_key(NAMELESS_NOTE), Json::from_trusted("true")));
        }
        parts.event.set(Field::MessageId, id);
    }

    /// Returns the id of a thinking event, or else the one it implies.
    fn resolve_id(&mut self, parts: &IncomingEvent<'_>) -> Json<'static> {
        let kind = parts.event.kind;
        let named = parts.event.get(Field::MessageId).or_else(|| get(&parts.extensions, Field::MessageId));
        let id = match (named.cloned().map(Json::into_owned), kind) {
            (Some(named), _) => named,
            (None, EventType::ReasoningStart) => self.next_id(),
            (None, EventType::ReasoningEnd) => self.span_id.clone().unwrap_or_else(|| self.next_id()),
            (None, EventType::ReasoningMessageStart) => match (&self.span_id, &self.message_id) {
                (Some(span), None) => span.clone(),
                _ => self.next_id(),
            },
            (None, _) => self.message_id.clone().unwrap_or_else(|| self.next_id()),
        };
        match kind {
            EventType::ReasoningStart => (self.span_id, self.message_id) = (Some(id.clone()), None),
            EventType::ReasoningEnd => (self.span_id, self.message_id) = (None, None),
            _ => self.message_id = Some(id.clone()),
        }
        id
    }

    fn next_id(&mut self) -> Json<'static> {
        self.id_count += 1;
        let run = self.run_id.clone().unwrap_or_else(|| Json::string("run"));
        run.with_suffix(&format!(":reasoning:{}", self.id_count))
    }

    /// Reads thinking whose message has no span: adds the span, and an id where the message lacks one.
    pub(crate) fn read_spanless(&mut self, mut parts: IncomingEvent<'_>, dialect: &Dialect, sink: &mut impl EventSink) {
        let id = self.resolve_id(&parts);
        if parts.event.get(Field::MessageId).is_none() {
            parts.event.set(Field::MessageId, id);
            parts.extensions.push((carry::extension_key(NAMELESS_NOTE), Json::from_trusted("true")));
        }
        let IncomingEvent { mut event, extensions: mut own, .. } = parts;
        let note = carry::take(&mut event.members, SPAN_NOTE).map(Json::into_owned);
        let id = message_id(&event.members);
        let span = |kind| match note.as_ref().and_then(json::parse_message) {
            Some(members) => Event { kind, members: crate::event::into_owned_members(members), source: None },
            None => Event::new(kind).with(Field::MessageId, id.clone()),
        };
        match event.kind {
            EventType::ReasoningMessageStart => {
                read_reasoning_role(dialect, &mut event, &mut own);
                sink.emit(span(EventType::ReasoningStart));
                carry::pack(&mut event, dialect.name, own);
                sink.emit(event);
            }
            EventType::ReasoningMessageEnd => {
                carry::pack(&mut event, dialect.name, own);
                sink.emit(event);
                sink.emit(span(EventType::ReasoningEnd));
            }
            _ => {
                carry::pack(&mut event, dialect.name, own);
                sink.emit(event);
            }
        }
    }
}

/// Sets the canonical role of thinking; notes the dialect's unless it is the word for the assistant.
pub(super) fn read_reasoning_role(dialect: &Dialect, event: &mut Event<'_>, own: &mut Members<'_>) {
    if let Some(role) = event.remove(Field::Role).map(Json::into_owned)
        && !role.is_str(default_role(dialect))
    {
        own.push((carry::extension_key(ROLE_NOTE), role));
    }
    event.set(Field::Role, Json::string(REASONING));
}

fn default_role(dialect: &Dialect) -> &'static str {
    let mut words = dialect.value_aliases.iter();
    words
        .find(|word| word.canonical == crate::event::input::ASSISTANT)
        .map_or(crate::event::input::ASSISTANT, |word| word.wire)
}

/// Writes the role of thinking: the noted one, or the dialect's word for the assistant.
pub(super) fn write_reasoning_role(
    dialect: &Dialect,
    kind: EventType,
    members: &mut Members<'_>,
    own: &mut Members<'_>,
) {
    if kind == EventType::ReasoningMessageStart && aliases::was_null(own, Field::Role) {
        remove(members, Field::Role);
    } else if kind == EventType::ReasoningMessageStart {
        let role = carry::take(own, ROLE_NOTE).map_or_else(|| Json::string(default_role(dialect)), Json::into_owned);
        crate::event::set(members, MemberKey::Known(Field::Role), role);
    }
}

#[derive(Debug, Default)]
pub(super) enum SpanFolder {
    /// no event is pending
    #[default]
    Idle,
    /// the start of a span waits for its message
    PendingSpan(Event<'static>),
    /// the span of this id was folded into its message, which is open
    InMessage(Json<'static>),
    /// the end of that message waits for the end of the span
    PendingEnd(Json<'static>, Event<'static>),
}

/// An event to write, with its form.
pub(super) enum FoldOutput<'a> {
    /// in the dialect's own type
    Native(Event<'a>),
    /// in the dialect's own type, which implies more than is meant: the canonical event alone
    CanonicalOnly(Event<'a>),
    /// whole, because the dialect lacks a type for it
    AsCustom(Event<'a>),
}

impl SpanFolder {
    /// Emits the pending events, because the next event cannot be folded.
    pub(crate) fn flush(&mut self, mut out: impl FnMut(FoldOutput<'_>)) {
        match std::mem::take(self) {
            SpanFolder::PendingSpan(span) => out(FoldOutput::AsCustom(span)),
            SpanFolder::PendingEnd(_, end) => out(FoldOutput::CanonicalOnly(end)),
            other => *self = other,
        }
    }

    /// Processes `event` and emits everything that is ready.
    pub(crate) fn push<'a>(&mut self, event: Event<'a>, mut out: impl FnMut(FoldOutput<'_>)) {
        let id = message_id(&event.members);
        match (std::mem::take(self), event.kind) {
            (SpanFolder::PendingSpan(span), EventType::ReasoningMessageStart)
                if message_id(&span.members).is_same(&id) =>
            {
                *self = SpanFolder::InMessage(id);
                out(FoldOutput::Native(merge_span(event, &span)));
                return;
            }
            (SpanFolder::PendingEnd(open, end), EventType::ReasoningEnd) if open.is_same(&id) => {
                out(FoldOutput::Native(merge_span(end, &event)));
                return;
            }
            (SpanFolder::InMessage(open), EventType::ReasoningMessageEnd) if open.is_same(&id) => {
                *self = SpanFolder::PendingEnd(open, event.into_owned());
                return;
            }
            (SpanFolder::PendingSpan(span), _) => out(FoldOutput::AsCustom(span)),
            (SpanFolder::PendingEnd(_, end), _) => out(FoldOutput::CanonicalOnly(end)),
            (folded @ SpanFolder::InMessage(_), kind) if kind != EventType::ReasoningStart => *self = folded,
            _ => {}
        }
        match event.kind {
            EventType::ReasoningStart => *self = SpanFolder::PendingSpan(event.into_owned()),
            EventType::ReasoningEnd => out(FoldOutput::AsCustom(event)),
            EventType::ReasoningMessageStart | EventType::ReasoningMessageEnd => out(FoldOutput::CanonicalOnly(event)),
            _ => out(FoldOutput::Native(event)),
        }
    }
}

/// Merges the boundary of a span into that of its message; notes further members of the span.
fn merge_span<'a>(mut event: Event<'a>, span: &Event<'_>) -> Event<'a> {
    if span.members.len() > 1 {
        event.members.push((carry::extension_key(SPAN_NOTE), json::to_object(&span.members)));
    }
    event
}

/// The writing side for peers whose thinking always has a span: adds one, without a canonical counterpart, around a
/// message that has none.
#[derive(Debug, Default)]
pub(super) enum SpanWrapper {
    #[default]
    Closed,
    /// opened by the agent
    FromAgent,
    /// added here, around a message
    Synthetic,
}

impl SpanWrapper {
    /// Returns whether the peer gets this event in a thinking type of its own, if it is one of reasoning. A peer of any
    /// version gets it where the agent used those types: from the start of a span or message to its end.
    pub(crate) fn admits(&self, event: &Event<'_>, side: PeerDialect) -> bool {
        let nameless = |(_, row): (usize, &EventRow)| row.shape == EventShape::ThinkingWithoutIds;
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

    /// Returns the events to write before and after this one.
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
    event.get(Field::Metadata).is_some_and(|metadata| {
        let own = json::parse_members(metadata).and_then(|mut metadata| carry::take(&mut metadata, side.dialect.name));
        own.as_ref().and_then(json::parse_members).is_some_and(|own| has_nameless_note(&own))
    })
}

fn has_nameless_note(own: &Members<'_>) -> bool {
    own.iter().any(|(key, _)| carry::is_named(key, NAMELESS_NOTE))
}

/// Removes the ids and roles of thinking without ids that its reader infers anyway.
pub(super) fn remove_generated_ids(outgoing: &mut OutgoingEvent<'_>) {
    if carry::take(&mut outgoing.extensions, NAMELESS_NOTE).is_some() {
        remove(&mut outgoing.canonical, Field::MessageId);
        remove(&mut outgoing.members, Field::MessageId);
    }
    if get(&outgoing.canonical, Field::Role).is_some_and(|role| role.is_str(REASONING)) {
        remove(&mut outgoing.canonical, Field::Role);
    }
}
