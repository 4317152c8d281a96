//! Names the stream of a chunk that continues one, for peers that cannot know which.
//!
//! By AG-UI's rules, a chunk without an id continues the open stream of its lane. Peers before 1.0 and dialects without
//! chunks have one lane, and their stream is also closed by an event that they get as CUSTOM:
//!
//! ```text
//!   chunk a ── ACTIVITY_SNAPSHOT, as CUSTOM: for the peer, a has ended ──▶ chunk without an id: named a*
//!   chunk a ── chunk b of a subagent: for the peer, a has ended        ──▶ chunk without an id: named a*
//! ```
//! Marks the additions, so that reading removes them again. Otherwise "First TEXT_MESSAGE_CHUNK must have a messageId"
//! ends the run at the client.

use super::event_parts::ABSENT_FIELDS;
use crate::codec::json;
use crate::event::lane::{ChunkLanes, ChunkStream, ChunkStreamKind, ClosedStreams};
use crate::event::{Event, Field, Json, MemberKey};
use std::borrow::Cow;

/// The chunk streams of a run; most runs have none.
#[derive(Debug, Default)]
pub(super) struct ChunkNames(Option<Box<PeerChunks>>);

#[derive(Debug, Default)]
struct PeerChunks {
    lanes: ChunkLanes,
    /// the stream that is open for the peer
    open: Option<ChunkStream>,
}

impl ChunkNames {
    /// Applies an event that is not a chunk. `is_custom` is set if the peer gets it as CUSTOM.
    pub(crate) fn observe(&mut self, event: &Event<'_>, is_custom: bool) {
        let Some(chunks) = &mut self.0 else { return };
        chunks.lanes.observe(event);
        if is_custom || ClosedStreams::by_event(event.kind) != ClosedStreams::None {
            chunks.open = None;
        }
    }

    /// Adds what the peer needs to find the stream of a chunk. Returns `true` if anything was added.
    pub(crate) fn complete(&mut self, event: &mut Event<'_>, piece: ChunkStreamKind) -> bool {
        let chunks = self.0.get_or_insert_default();
        let id = event.get(piece.id_field());
        let owner = event.get(Field::SubagentRunId);
        let is_of = |stream: &ChunkStream| match id {
            Some(id) => stream.id.is_same(id),
            None => owner.is_none() || stream.owner.as_ref() == owner,
        };
        if chunks.open.as_ref().is_some_and(|open| open.kind == piece && is_of(open)) {
            return false;
        }
        let continued = chunks.lanes.open_streams(piece).rfind(|stream| is_of(stream)).cloned();
        let stream = match (continued, id) {
            (Some(stream), _) => stream,
            (None, Some(id)) => {
                let value = |field: &Field| Some((*field, event.get_owned(*field)?));
                let fixed_fields = piece.fixed_fields().iter().filter_map(value).collect();
                ChunkStream {
                    kind: piece,
                    id: id.clone().into_owned(),
                    owner: owner.cloned().map(Json::into_owned),
                    first_text: None,
                    fixed_fields,
                }
            }
            // Only without the run guard.
            (None, None) => return false,
        };
        chunks.lanes.mark_used(stream.clone());
        let mut added = Vec::new();
        let fixed_values = stream.fixed_fields.iter().map(|(field, value)| (*field, value));
        for (field, value) in std::iter::once((piece.id_field(), &stream.id)).chain(fixed_values) {
            if event.get(field).is_none() {
                added.push(Json::string(field.camel()));
                event.set(field, value.clone());
            }
        }
        chunks.open = Some(stream);
        if added.is_empty() {
            return false;
        }
        event.members.push((MemberKey::Other(Cow::Borrowed(ABSENT_FIELDS)), json::to_array(&added)));
        true
    }
}
