//! Keeps text and thinking in the last message of the client.
//!
//! The component in the seed (§4.1) shows only the last message when a piece arrives, and a second start of an id makes
//! an empty message. So what goes on after another message has begun, or under an id that was used, goes on in a new
//! message:
//! ```text
//!   AG-UI  START a  a "1"         START b  b "2"                     a "3"    END a    END b
//!   HAI    START a  a "1"  END a  START b  b "2"  END b  START a:2  a:2 "3"  END a:2  CUSTOM
//! ```
//! The events of a HAI agent are written as they came.

use super::block_writer::BlockWriter;
use crate::codec::json;
use crate::dialect::adapter::{ReleasedEvent, ReleasedEvents};
use crate::dialect::event_parts::OutgoingEvent;
use crate::dialect::event_shapes::restore_chunk;
use crate::dialect::memory_limits;
use crate::dialect::row::EventRow;
use crate::dialect::table::PeerDialect;
use crate::dialect::text_format::TextFormat;
use crate::event::input::ASSISTANT;
use crate::event::{Event, EventType, Field, IdMap, Json, MemberKey, message_id, remove, set};

type ChunkType = Option<&'static str>;

/// What is written before an event, and where the event is written.
#[derive(Default)]
pub(super) struct PlacedEvent<'a> {
    pub(crate) before: ReleasedEvents<'a>,
    /// `None` if `before` has it
    pub(crate) event: Option<Event<'a>>,
    /// the client's message for thinking that goes on there
    pub(crate) message: Option<Json<'static>>,
}

/// The message of the client that is open.
#[derive(Debug)]
struct ShownMessage {
    id: Json<'static>,
    /// the agent's id
    origin: Json<'static>,
    is_thinking: bool,
}

#[derive(Debug, Default)]
pub(super) struct LastMessage {
    /// whether the run's agent speaks the dialect
    is_native: bool,
    /// the last number of each id that the client has
    used: IdMap<u32>,
    used_bytes: usize,
    /// the client's id of each open text, by the agent's
    texts: IdMap<Json<'static>>,
    /// the same of thinking, which may share its id with text
    thoughts: IdMap<Json<'static>>,
    /// of texts that are not the assistant's
    roles: IdMap<Json<'static>>,
    last: Option<Json<'static>>,
    open: Option<ShownMessage>,
}

impl LastMessage {
    pub(crate) fn is_native(&self) -> bool {
        self.is_native
    }

    pub(crate) fn place<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: ChunkType,
        writer: &mut BlockWriter,
        peer: PeerDialect,
    ) -> PlacedEvent<'a> {
        if event.kind == EventType::RunStarted {
            self.start_run(&event, peer);
        }
        let mut placed = PlacedEvent::default();
        if self.is_native {
            return PlacedEvent { event: Some(event), ..placed };
        }
        let id = message_id(&event.members);
        match event.kind {
            EventType::TextMessageStart | EventType::ReasoningMessageStart => {
                return self.place_start(event, canonical_type, writer, peer);
            }
            EventType::TextMessageContent | EventType::ReasoningMessageContent => {
                return self.place_content(event, canonical_type, writer, peer);
            }
            EventType::TextMessageEnd | EventType::ReasoningMessageEnd => {
                return self.place_end(event, canonical_type, writer, peer);
            }
            EventType::ToolCallStart => {
                let parent = event.get(Field::ParentMessageId).or_else(|| event.get(Field::ToolCallId));
                let parent = parent.map_or(Json::EMPTY_STRING, |parent| parent.clone().into_owned());
                if !self.is_last(&parent) {
                    self.leave(&parent, writer, peer, &mut placed.before);
                }
            }
            EventType::ToolCallResult => self.leave(&id, writer, peer, &mut placed.before),
            EventType::MessagesSnapshot => {
                self.close_open(writer, peer, &mut placed.before);
                self.forget_texts();
            }
            _ => {}
        }
        PlacedEvent { event: Some(event), ..placed }
    }

    fn start_run(&mut self, event: &Event<'_>, peer: PeerDialect) {
        self.is_native = false;
        self.observe_metadata(event, peer);
        self.forget_texts();
        self.open = None;
    }

    /// Recognizes an agent of the dialect by what its events carry.
    pub(crate) fn observe_metadata(&mut self, event: &Event<'_>, peer: PeerDialect) {
        let own = event.get(Field::Metadata).and_then(|all| json::parse_member(all, peer.dialect.name));
        self.is_native |= own.is_some();
    }

    /// Forgets where open text is shown: it goes on in new messages.
    fn forget_texts(&mut self) {
        self.texts = IdMap::default();
        self.thoughts = IdMap::default();
        self.last = None;
    }

    fn place_start<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: ChunkType,
        writer: &mut BlockWriter,
        peer: PeerDialect,
    ) -> PlacedEvent<'a> {
        let mut placed = PlacedEvent::default();
        let is_thinking = event.kind == EventType::ReasoningMessageStart;
        let id = message_id(&event.members);
        if self.used.contains(&id) {
            self.shown(is_thinking).remove(&id);
            hide(event, canonical_type, &mut placed.before);
            return placed;
        }
        self.close_open(writer, peer, &mut placed.before);
        let role = event.get_owned(Field::Role).filter(|role| !is_thinking && !role.is_str(ASSISTANT));
        role.into_iter().for_each(|role| drop(self.roles.insert(id.clone(), role)));
        self.add(&id);
        self.open(id.clone(), id, is_thinking);
        PlacedEvent { event: Some(event), ..placed }
    }

    fn place_end<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: ChunkType,
        writer: &mut BlockWriter,
        peer: PeerDialect,
    ) -> PlacedEvent<'a> {
        let mut placed = PlacedEvent::default();
        let is_thinking = event.kind == EventType::ReasoningMessageEnd;
        let id = message_id(&event.members);
        let Some(message) = self.shown(is_thinking).remove(&id).filter(|message| self.is_last(message)) else {
            hide(event, canonical_type, &mut placed.before);
            return placed;
        };
        self.open = None;
        if is_thinking {
            return PlacedEvent { event: Some(event), message: Some(message), ..placed };
        }
        if message == id {
            return PlacedEvent { event: Some(event), ..placed };
        }
        if let Some((row, mut outgoing)) = rename(event, canonical_type, &message, peer) {
            writer.end_message(&mut outgoing);
            remove(&mut outgoing.extensions, Field::Role);
            placed.before.push(ReleasedEvent::Complete { row, outgoing });
        }
        placed
    }

    /// Places a piece in the message that is open for it, or else in a new one.
    fn place_content<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: ChunkType,
        writer: &mut BlockWriter,
        peer: PeerDialect,
    ) -> PlacedEvent<'a> {
        let mut placed = PlacedEvent::default();
        let is_thinking = event.kind == EventType::ReasoningMessageContent;
        let id = event.get(Field::MessageId).unwrap_or(&Json::EMPTY_STRING);
        let shown = if is_thinking { &self.thoughts } else { &self.texts };
        let known = shown.get(id).filter(|message| self.is_last(message));
        if known.is_some_and(|message| message == id) {
            return PlacedEvent { event: Some(event), ..placed };
        }
        let message = match known.cloned() {
            Some(message) => message,
            None if event.get(Field::Delta).is_some_and(|delta| delta.is_str("")) => {
                hide(event, canonical_type, &mut placed.before);
                return placed;
            }
            None => {
                let id = id.clone().into_owned();
                self.close_open(writer, peer, &mut placed.before);
                self.reopen(id, is_thinking, writer, peer, &mut placed.before)
            }
        };
        if is_thinking {
            return PlacedEvent { event: Some(event), message: Some(message), ..placed };
        }
        if let Some((row, mut outgoing)) = rename(event, canonical_type, &message, peer) {
            writer.write_content(&mut outgoing, TextFormat::Blocks);
            writer.mark_nonempty(&outgoing);
            placed.before.push(ReleasedEvent::Complete { row, outgoing });
        }
        placed
    }

    /// Starts a new message for what goes on, and returns its id.
    fn reopen(
        &mut self,
        id: Json<'static>,
        is_thinking: bool,
        writer: &mut BlockWriter,
        peer: PeerDialect,
        released: &mut ReleasedEvents<'_>,
    ) -> Json<'static> {
        let mut count = self.used.get(&id).copied().unwrap_or(0);
        let message = loop {
            count += 1;
            let message = if count == 1 { id.clone() } else { id.with_suffix(&format!(":{count}")) };
            if !self.used.contains(&message) {
                break message;
            }
        };
        self.add(&message);
        self.used.insert(id.clone(), count);
        let mut start = Event::new(EventType::TextMessageStart).with(Field::MessageId, message.clone());
        if let Some(role) = self.roles.get(&id).filter(|_| !is_thinking) {
            start.set(Field::Role, role.clone());
        }
        if let Some((row, mut outgoing)) = split_event(start, Some(""), peer) {
            writer.start_message(&mut outgoing);
            released.push(ReleasedEvent::Complete { row, outgoing });
        }
        self.open(message.clone(), id, is_thinking);
        message
    }

    /// Ends the open message before another one becomes the last.
    fn close_open(&mut self, writer: &mut BlockWriter, peer: PeerDialect, released: &mut ReleasedEvents<'_>) {
        self.last = None;
        let Some(open) = self.open.take() else { return };
        self.shown(open.is_thinking).remove(&open.origin);
        if !writer.is_nonempty(&open.id) {
            // The component cannot show an end without content.
            return writer.forget_message(&open.id);
        }
        let boundary = |kind| Event::new(kind).with(Field::MessageId, open.id.clone());
        if open.is_thinking
            && let Some((row, mut outgoing)) = split_event(boundary(EventType::TextMessageContent), Some(""), peer)
        {
            let delta = BlockWriter::render_thought(&Json::EMPTY_STRING);
            outgoing.members.push((MemberKey::Known(Field::Delta), delta));
            released.push(ReleasedEvent::Complete { row, outgoing });
        }
        if let Some((row, mut outgoing)) = split_event(boundary(EventType::TextMessageEnd), Some(""), peer) {
            writer.end_message(&mut outgoing);
            released.push(ReleasedEvent::Complete { row, outgoing });
        }
    }

    /// Ends the open message, because another event makes one.
    fn leave(
        &mut self,
        message: &Json<'static>,
        writer: &mut BlockWriter,
        peer: PeerDialect,
        released: &mut ReleasedEvents<'_>,
    ) {
        self.close_open(writer, peer, released);
        self.add(message);
    }

    /// Records a message that is written as a whole.
    pub(crate) fn record_whole(&mut self, message: &Json<'static>) {
        self.last = None;
        self.add(message);
    }

    fn add(&mut self, id: &Json<'static>) {
        if !self.is_native && !self.used.contains(id) {
            self.used_bytes += memory_limits::text_cost(id.as_str());
            self.used.insert(id.clone(), 1);
        }
    }

    fn is_last(&self, id: &Json<'_>) -> bool {
        self.last.as_ref().is_some_and(|last| last.is_same(id))
    }

    fn shown(&mut self, is_thinking: bool) -> &mut IdMap<Json<'static>> {
        if is_thinking { &mut self.thoughts } else { &mut self.texts }
    }

    fn open(&mut self, id: Json<'static>, origin: Json<'static>, is_thinking: bool) {
        self.shown(is_thinking).insert(origin.clone(), id.clone());
        self.last = Some(id.clone());
        self.open = Some(ShownMessage { id, origin, is_thinking });
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.used_bytes
    }
}

/// Writes an event that no message has as CUSTOM, or drops it if it has no canonical counterpart.
fn hide<'a>(event: Event<'a>, canonical_type: ChunkType, released: &mut ReleasedEvents<'a>) {
    if canonical_type != Some("") {
        released.push(ReleasedEvent::AsCustomNoOp(restore_chunk(event, canonical_type)));
    }
}

/// Returns an event of another message, which carries the agent's id.
fn rename<'a>(
    event: Event<'a>,
    canonical_type: ChunkType,
    message: &Json<'static>,
    peer: PeerDialect,
) -> Option<(&'static EventRow, OutgoingEvent<'a>)> {
    let kind = event.kind.wire();
    let (row, mut outgoing) = split_event(event, Some(canonical_type.unwrap_or(kind)), peer)?;
    carry_id(&mut outgoing, message);
    Some((row, outgoing))
}

/// Sets the id of the client's message, and carries the agent's.
pub(super) fn carry_id(outgoing: &mut OutgoingEvent<'_>, message: &Json<'static>) {
    let id = message_id(&outgoing.members);
    if id == *message {
        return;
    }
    set(&mut outgoing.members, MemberKey::Known(Field::MessageId), message.clone());
    if outgoing.canonical_type != Some("") {
        outgoing.canonical.push((MemberKey::Known(Field::MessageId), id));
    }
}

pub(super) fn split_event<'a>(
    event: Event<'a>,
    canonical_type: ChunkType,
    peer: PeerDialect,
) -> Option<(&'static EventRow, OutgoingEvent<'a>)> {
    let (_, row) = peer.dialect.row_for_kind(event.kind, peer.peer_version)?;
    Some((row, peer.dialect.split_members(row, event, canonical_type)))
}
