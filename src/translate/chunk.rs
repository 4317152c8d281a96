//! `*_CHUNK` events for dialects that have none: start, content, end, by the chunk rules of AG-UI
//! (`specs/ag-ui-1.0.md` §3.2 "Chunks").
//!
//! The piece that says something is marked with the chunk it stands for, so that reading gives the chunk back; the start
//! and the end that make it legal over there are marked as standing for nothing.

use super::event_shapes::ABSENT_FIELDS;
use crate::event::{Event, EventType, Field, Json, MemberKey};
use std::borrow::Cow;

/// An event to write, and what it stands for: `None` for itself, the empty text for nothing.
pub(super) type UnfoldedEvent<'a> = (Event<'a>, Option<&'static str>);

/// The kinds of chunk, and what each unfolds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkType {
    Text,
    Reasoning,
    ToolCall,
}

/// Chunk streams that are open. One of each kind at the most: another id or kind closes it.
#[derive(Debug, Default)]
pub(super) struct ChunkUnfolder {
    open: Option<(ChunkType, Box<str>)>,
}

impl ChunkType {
    const fn from_event_type(kind: EventType) -> Option<ChunkType> {
        match kind {
            EventType::TextMessageChunk => Some(ChunkType::Text),
            EventType::ReasoningMessageChunk => Some(ChunkType::Reasoning),
            EventType::ToolCallChunk => Some(ChunkType::ToolCall),
            _ => None,
        }
    }

    const fn unfolded_parts(self) -> (Field, EventType, EventType, EventType) {
        match self {
            ChunkType::Text => (
                Field::MessageId,
                EventType::TextMessageStart,
                EventType::TextMessageContent,
                EventType::TextMessageEnd,
            ),
            ChunkType::Reasoning => (
                Field::MessageId,
                EventType::ReasoningMessageStart,
                EventType::ReasoningMessageContent,
                EventType::ReasoningMessageEnd,
            ),
            ChunkType::ToolCall => {
                (Field::ToolCallId, EventType::ToolCallStart, EventType::ToolCallArgs, EventType::ToolCallEnd)
            }
        }
    }
}

/// "Not closed by RAW, ACTIVITY_*, REASONING_ENCRYPTED_VALUE, SUBAGENT_STARTED."
const fn keeps_chunk_open(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::Raw
            | EventType::ActivitySnapshot
            | EventType::ActivityDelta
            | EventType::ReasoningEncryptedValue
            | EventType::SubagentStarted
    )
}

impl ChunkUnfolder {
    /// The end of an open chunk stream, when `event` closes it.
    pub(crate) fn close_before(&mut self, event: &Event<'_>) -> Option<UnfoldedEvent<'static>> {
        let (lane, id) = self.open.as_ref()?;
        let (field, _, _, end) = lane.unfolded_parts();
        let continues =
            ChunkType::from_event_type(event.kind) == Some(*lane) && event.text(field).is_none_or(|own| *own == **id);
        if continues || keeps_chunk_open(event.kind) {
            return None;
        }
        let closer = Event::new(end).with(field, Json::string(id));
        self.open = None;
        Some((closer, Some("")))
    }

    /// What a chunk unfolds to; the event itself when it is no chunk.
    pub(crate) fn unfold<'a>(&mut self, mut event: Event<'a>) -> (Option<UnfoldedEvent<'static>>, UnfoldedEvent<'a>) {
        let Some(lane) = ChunkType::from_event_type(event.kind) else {
            return (None, (event, None));
        };
        let (field, start, content, _) = lane.unfolded_parts();
        let named = event.text(field).map(Cow::into_owned);
        let id = match (&named, &self.open) {
            (Some(id), _) => id.clone(),
            (None, Some((_, id))) => id.to_string(),
            (None, None) => String::new(),
        };
        let opener = (self.open.is_none()).then(|| {
            let mut opener = Event::new(start).with(field, Json::string(&id));
            for said in [Field::Role, Field::Name, Field::ToolCallName, Field::ParentMessageId] {
                if let Some(value) = event.get(said) {
                    opener.set(said, value.clone().into_owned());
                }
            }
            (opener, Some(""))
        });
        self.open = Some((lane, id.as_str().into()));
        let chunk = event.kind.wire();
        let mut absent = Vec::new();
        for (missing, filler) in [(field, Json::string(&id)), (Field::Delta, Json::string(""))] {
            if event.get(missing).is_none() {
                absent.push(Json::string(missing.camel()));
                event.set(missing, filler);
            }
        }
        if !absent.is_empty() {
            event.members.push((MemberKey::Other(Cow::Borrowed(ABSENT_FIELDS)), crate::codec::json::to_array(&absent)));
        }
        event.kind = content;
        (opener, (event, Some(chunk)))
    }
}
