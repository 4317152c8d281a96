//! Ids that an agent opens again, for peers whose clients add an empty item for each start (measured).
//!
//! ```text
//!   text, before 0.0.45   START m … END m ─▶ START m, piece ──▶ START of `m:2`, piece, under that id from here on
//!                                                 └─ no piece ──▶ whole, as CUSTOM
//!   call, before 0.0.59   START c … END c ─▶ START c … END c ──▶ whole, as CUSTOM: the peer has the call
//! ```
//! These clients find the item of a piece by its id and take the first one, so the second would stay empty. A call also
//! adds a message, with the id of its parent or its own. Before 0.0.53, it does so even if the client has its parent, unless
//! that is the last message; such a call loses its parent here, so that no two messages have one id.

use crate::codec::json;
use crate::dialect::adapter::{ReleasedEvent, ReleasedEvents};
use crate::dialect::earlier_messages::EarlierMessages;
use crate::dialect::event_shapes::restore_chunk;
use crate::dialect::memory_limits;
use crate::dialect::peer_version::PeerVersion;
use crate::event::{Event, EventType, Field, IdMap, Json, MemberKey, get};

#[derive(Debug)]
pub(super) struct ReopenedIds {
    version: PeerVersion,
    /// ids of the messages and calls that the peer has; for each message, how many of its ids were tried
    messages: IdMap<usize>,
    calls: IdMap<()>,
    last_message: Option<Json<'static>>,
    /// by the agent's id
    reopened: IdMap<ReopenedMessage>,
    /// the message whose start was not released: any other event releases it
    unreleased_start: Option<Json<'static>>,
    /// messages that the peer has open
    open: IdMap<()>,
    repeated_calls: IdMap<()>,
    /// the chunk stream that is open for the peer
    open_chunk: Option<OpenChunk>,
    retained_bytes: usize,
    /// of the starts in `reopened`
    start_bytes: usize,
}

#[derive(Debug)]
struct ReopenedMessage {
    start: Event<'static>,
    canonical_type: Option<&'static str>,
    /// the id for the peer, once there is text
    peer_id: Option<Json<'static>>,
}

#[derive(Debug)]
struct OpenChunk {
    kind: EventType,
    id: Json<'static>,
}

type ChunkType = Option<&'static str>;

impl ReopenedIds {
    pub(super) fn new(version: PeerVersion) -> Self {
        ReopenedIds {
            version,
            messages: IdMap::default(),
            calls: IdMap::default(),
            last_message: None,
            reopened: IdMap::default(),
            unreleased_start: None,
            open: IdMap::default(),
            repeated_calls: IdMap::default(),
            open_chunk: None,
            retained_bytes: 0,
            start_bytes: 0,
        }
    }

    /// Records the messages of earlier runs, whose ids the peer has too.
    pub(super) fn record_earlier(&mut self, earlier: EarlierMessages) {
        self.last_message = earlier.messages.last().map(|message| message.id.clone());
        self.messages = earlier.messages.into_iter().map(|message| (message.id, 1)).collect();
    }

    /// Returns the bytes of the ids that the peer has, and of the starts that wait for text.
    pub(super) fn retained_bytes(&self) -> usize {
        self.retained_bytes + self.start_bytes
    }

    /// Releases an event, or the form in which the peer gets it.
    pub(super) fn release<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: ChunkType,
        released: &mut ReleasedEvents<'a>,
    ) {
        if self.version >= PeerVersion::V0_0_59 {
            return released.push_event(event, canonical_type);
        }
        match event.kind {
            EventType::TextMessageStart => self.start_message(event, canonical_type, released),
            EventType::TextMessageContent | EventType::TextMessageEnd => {
                self.continue_message(event, canonical_type, released);
            }
            EventType::ToolCallStart => self.start_call(event, canonical_type, released),
            EventType::ToolCallArgs | EventType::ToolCallEnd => self.continue_call(event, canonical_type, released),
            EventType::TextMessageChunk => self.release_text_chunk(event, canonical_type, released),
            EventType::ToolCallChunk => self.release_call_chunk(event, canonical_type, released),
            // Does not end a stream of chunks.
            EventType::Raw => {
                self.release_start(released);
                released.push_event(event, canonical_type);
            }
            EventType::MessagesSnapshot => {
                self.release_pending(released);
                self.replace_messages(event.get(Field::Messages));
                released.push_event(event, canonical_type);
            }
            kind => {
                self.release_pending(released);
                if matches!(
                    kind,
                    EventType::ToolCallResult | EventType::ActivitySnapshot | EventType::ReasoningMessageStart
                ) {
                    self.record_message(&event);
                }
                released.push_event(event, canonical_type);
            }
        }
    }

    /// Releases the start that waits for text, before an event that ends the stream of chunks.
    pub(super) fn release_pending(&mut self, released: &mut ReleasedEvents<'_>) {
        self.open_chunk = None;
        self.release_start(released);
    }

    /// Releases the start that waits for text as CUSTOM, since other events come first.
    pub(super) fn release_start(&mut self, released: &mut ReleasedEvents<'_>) {
        let Some(id) = self.unreleased_start.take() else { return };
        if let Some(message) = self.reopened.get(&id) {
            push_custom(message.start.clone(), message.canonical_type, released);
        }
    }

    fn add_reopened(&mut self, id: Json<'static>, message: ReopenedMessage) {
        self.start_bytes += memory_limits::event_cost(&message.start);
        if let Some(before) = self.reopened.insert(id, message) {
            self.start_bytes -= memory_limits::event_cost(&before.start);
        }
    }

    fn remove_reopened(&mut self, id: &Json<'_>) {
        if let Some(message) = self.reopened.remove(id) {
            self.start_bytes -= memory_limits::event_cost(&message.start);
        }
    }

    fn renames_messages(&self) -> bool {
        self.version < PeerVersion::V0_0_45
    }

    /// Returns true for clients that add a message with the id of a call's parent unless that is their last message.
    fn repeats_parents(&self) -> bool {
        self.version < PeerVersion::V0_0_53
    }

    fn start_message<'a>(&mut self, event: Event<'a>, canonical_type: ChunkType, released: &mut ReleasedEvents<'a>) {
        self.release_pending(released);
        if !self.renames_messages() {
            self.record_message(&event);
            return released.push_event(event, canonical_type);
        }
        let id = event.get_or_empty(Field::MessageId);
        if self.add_message(id.clone()) {
            self.remove_reopened(&id);
            self.open.insert(id, ());
            return released.push_event(event, canonical_type);
        }
        self.add_reopened(id.clone(), ReopenedMessage { start: event.into_owned(), canonical_type, peer_id: None });
        self.unreleased_start = Some(id);
    }

    fn continue_message<'a>(&mut self, event: Event<'a>, canonical_type: ChunkType, released: &mut ReleasedEvents<'a>) {
        self.open_chunk = None;
        if event.kind == EventType::TextMessageEnd
            && let Some(id) = event.get(Field::MessageId)
        {
            self.open.remove(id);
        }
        if self.reopened.is_empty() {
            return released.push_event(event, canonical_type);
        }
        let id = event.get_or_empty(Field::MessageId);
        let ends = event.kind == EventType::TextMessageEnd;
        let follows_start = self.unreleased_start.take_if(|start| !ends && start.is_same(&id)).is_some();
        self.release_start(released);
        let needs_id = self.reopened.get(&id).is_some_and(|message| message.peer_id.is_none());
        let new_id = (needs_id && !ends).then(|| self.unused_id(&id));
        let Some(message) = self.reopened.get_mut(&id) else { return released.push_event(event, canonical_type) };
        if let Some(new_id) = new_id {
            // A start that was released as CUSTOM has no other counterpart.
            let start_type = if follows_start { message.canonical_type } else { Some("") };
            released.push_event(rename(message.start.clone(), &new_id, &id, start_type), start_type);
            self.open.insert(new_id.clone(), ());
            message.peer_id = Some(new_id);
        }
        match &message.peer_id {
            Some(peer_id) => released.push_event(rename(event, peer_id, &id, canonical_type), canonical_type),
            None => push_custom(event, canonical_type, released),
        }
        if ends {
            if let Some(peer_id) = self.reopened.get(&id).and_then(|message| message.peer_id.as_ref()) {
                self.open.remove(peer_id);
            }
            self.remove_reopened(&id);
        }
    }

    fn release_text_chunk<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: ChunkType,
        released: &mut ReleasedEvents<'a>,
    ) {
        self.release_start(released);
        if !self.renames_messages() {
            self.record_message(&event);
            return released.push_event(event, canonical_type);
        }
        let Some(id) = event.get(Field::MessageId) else { return released.push_event(event, canonical_type) };
        if !self.is_chunk_open(event.kind, id) {
            let id = id.clone().into_owned();
            self.open_chunk = Some(OpenChunk { kind: event.kind, id: id.clone() });
            if self.add_message(id.clone()) {
                self.remove_reopened(&id);
            } else {
                let peer_id = Some(self.unused_id(&id));
                let start = Event::new(EventType::TextMessageStart);
                self.add_reopened(id, ReopenedMessage { start, canonical_type: None, peer_id });
            }
        }
        let peer_id = self.open_chunk.as_ref().and_then(|open| Some((&open.id, self.reopened.get(&open.id)?)));
        match peer_id.and_then(|(id, message)| Some((id, message.peer_id.as_ref()?))) {
            Some((id, peer_id)) => {
                released.push_event(rename(event, peer_id, id, canonical_type), canonical_type);
            }
            None => released.push_event(event, canonical_type),
        }
    }

    fn start_call<'a>(&mut self, mut event: Event<'a>, canonical_type: ChunkType, released: &mut ReleasedEvents<'a>) {
        self.release_pending(released);
        let id = event.get_or_empty(Field::ToolCallId);
        if self.add_call(&mut event, id.clone()) {
            return released.push_event(event, canonical_type);
        }
        self.repeated_calls.insert(id, ());
        push_custom(event, canonical_type, released);
    }

    fn continue_call<'a>(&mut self, event: Event<'a>, canonical_type: ChunkType, released: &mut ReleasedEvents<'a>) {
        self.release_pending(released);
        if self.repeated_calls.is_empty() {
            return released.push_event(event, canonical_type);
        }
        let id = event.get_or_empty(Field::ToolCallId);
        if !self.repeated_calls.contains(&id) {
            return released.push_event(event, canonical_type);
        }
        if event.kind == EventType::ToolCallEnd {
            self.repeated_calls.remove(&id);
        }
        push_custom(event, canonical_type, released);
    }

    /// Releases a chunk of a call. One that the peer has already is started again, because its arguments go on: those
    /// of an additional call are empty, but without them those of the call would be incomplete.
    fn release_call_chunk<'a>(
        &mut self,
        mut event: Event<'a>,
        canonical_type: ChunkType,
        released: &mut ReleasedEvents<'a>,
    ) {
        self.release_start(released);
        if let Some(id) = event.get(Field::ToolCallId)
            && !self.is_chunk_open(event.kind, id)
        {
            let id = id.clone().into_owned();
            self.open_chunk = Some(OpenChunk { kind: event.kind, id: id.clone() });
            self.add_call(&mut event, id);
        }
        released.push_event(event, canonical_type);
    }

    fn is_chunk_open(&self, kind: EventType, id: &Json<'_>) -> bool {
        self.open_chunk.as_ref().is_some_and(|open| open.kind == kind && open.id.is_same(id))
    }

    /// Records the message that an event adds, if calls may name it.
    fn record_message(&mut self, event: &Event<'_>) {
        if let Some(id) = event.get(Field::MessageId).filter(|_| self.repeats_parents()) {
            let id = id.clone().into_owned();
            self.add_message(id);
        }
    }

    /// Returns true if the peer did not have the message.
    fn add_message(&mut self, id: Json<'static>) -> bool {
        let is_new = !self.messages.contains(&id) && !self.open.contains(&id);
        if is_new {
            self.retained_bytes += memory_limits::text_cost(id.as_str());
            self.last_message = Some(id.clone());
            self.messages.insert(id, 1);
        }
        is_new
    }

    /// Returns true if the peer did not have the call. Its message is added too.
    fn add_call(&mut self, event: &mut Event<'_>, id: Json<'static>) -> bool {
        let is_new = !self.calls.contains(&id);
        if self.repeats_parents() {
            let parent = event.get(Field::ParentMessageId);
            let is_earlier = |parent: &Json<'_>| {
                self.messages.contains(parent) && self.last_message.as_ref().is_none_or(|last| !last.is_same(parent))
            };
            if is_new && parent.is_some_and(is_earlier) {
                remove_parent(event);
            }
            let message = event.get(Field::ParentMessageId).cloned().map_or_else(|| id.clone(), Json::into_owned);
            self.add_message(message);
        }
        if is_new {
            self.retained_bytes += memory_limits::text_cost(id.as_str());
            self.calls.insert(id, ());
        }
        is_new
    }

    /// Returns an id for text of a message that the peer has.
    fn unused_id(&mut self, id: &Json<'_>) -> Json<'static> {
        let mut count = self.messages.get(id).copied().unwrap_or(1);
        loop {
            count += 1;
            let candidate = id.with_suffix(&format!(":{count}"));
            if self.add_message(candidate.clone()) {
                self.messages.insert(id.clone().into_owned(), count);
                return candidate;
            }
        }
    }

    /// Replaces the ids by those of a snapshot, like the peer its messages. Messages that are open stay open.
    fn replace_messages(&mut self, list: Option<&Json<'_>>) {
        self.messages = IdMap::default();
        self.calls = IdMap::default();
        self.last_message = None;
        self.retained_bytes = 0;
        for message in list.and_then(json::parse_elements).unwrap_or_default() {
            let Some(members) = json::parse_message(&message) else { continue };
            if let Some(id) = get(&members, Field::Id).cloned() {
                self.add_message(id.into_owned());
            }
            for call in get(&members, Field::ToolCalls).and_then(json::parse_elements).unwrap_or_default() {
                if let Some(id) = json::parse_member(&call, Field::Id.camel()) {
                    self.retained_bytes += memory_limits::text_cost(id.as_str());
                    self.calls.insert(id.into_owned(), ());
                }
            }
        }
    }
}

/// Replaces the agent's message id with the peer's, and carries the original unless the event was added.
fn rename<'a>(mut event: Event<'a>, peer_id: &Json<'static>, id: &Json<'_>, canonical_type: ChunkType) -> Event<'a> {
    event.set(Field::MessageId, peer_id.clone());
    let is_carried = |(key, _): &(MemberKey<'_>, Json<'_>)| matches!(key, MemberKey::Other(name) if name == Field::MessageId.camel());
    if canonical_type != Some("") && !event.members.iter().any(is_carried) {
        event.members.push((MemberKey::Other(Field::MessageId.camel().into()), id.clone().into_owned()));
    }
    event
}

/// Removes the parent of a call, and carries it in a note.
fn remove_parent(event: &mut Event<'_>) {
    if let Some(parent) = event.remove(Field::ParentMessageId) {
        event.members.push((MemberKey::Other(Field::ParentMessageId.camel().into()), parent));
    }
}

/// Wraps an event as CUSTOM, or drops it if it has no canonical counterpart.
fn push_custom<'a>(event: Event<'a>, canonical_type: ChunkType, released: &mut ReleasedEvents<'a>) {
    if canonical_type != Some("") {
        released.push(ReleasedEvent::AsCustom(restore_chunk(event, canonical_type)));
    }
}
