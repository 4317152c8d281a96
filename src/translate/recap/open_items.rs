//! The open items, and the frames that make them up.

use super::message_list::MessageList;
use super::recap_frame::{RecapFrame, push_merged};
use super::recap_item::{ItemStage, RecapItem, item_id, item_of};
use super::recap_message::RecapMessage;
use crate::codec::json;
use crate::dialect::PeerDialect;
use crate::event::lane::{ChunkLanes, ChunkStreamKind};
use crate::event::run::RunItem;
use crate::event::{Event, EventType, Field, Json, MemberKey, Members, get, remove};

#[derive(Clone, Debug, Default)]
pub(super) struct RecapItems {
    items: Vec<RecapItem>,
}

impl RecapItems {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RecapItem> {
        self.items.iter()
    }

    /// Searches backwards, since most events continue the newest item.
    fn position(&self, what: RunItem, id: &Json<'_>) -> Option<usize> {
        self.items.iter().rposition(|open| open.kind == what && open.id.is_same(id))
    }

    pub(crate) fn open_item(
        &mut self,
        what: RunItem,
        event: &Event<'_>,
        start: RecapFrame,
        list: &mut MessageList,
        side: PeerDialect,
    ) {
        let id = item_id(what, event);
        match self.position(what, &id) {
            Some(at) if matches!(self.items[at].stage, ItemStage::Ended(_)) => self.fold_item(at, list, side),
            // Already open: no client accepts a second start, so nothing it received depends on this one.
            Some(_) => return,
            None => {}
        }
        self.push(what, id, start, ItemStage::Open { answered: false });
    }

    fn push(&mut self, what: RunItem, id: Json<'static>, opener: RecapFrame, stage: ItemStage) {
        self.items.push(RecapItem { kind: what, id, opener, content: Vec::new(), encrypted: Vec::new(), stage });
    }

    pub(crate) fn add_content(&mut self, event: &Event<'_>, piece: RecapFrame) {
        let open = item_of(event.kind).and_then(|what| self.position(what, &item_id(what, event)));
        if let Some(at) = open {
            push_merged(&mut self.items[at].content, piece);
        }
    }

    /// Ends an item. If `waits` is true, an ended call is kept until its result arrives.
    pub(crate) fn end_item(
        &mut self,
        event: &Event<'_>,
        end: RecapFrame,
        waits: bool,
        list: &mut MessageList,
        side: PeerDialect,
    ) {
        let Some(at) = item_of(event.kind).and_then(|what| self.position(what, &item_id(what, event))) else {
            return;
        };
        let unanswered = matches!(self.items[at].stage, ItemStage::Open { answered: false });
        if waits && unanswered && list.contains(&self.items[at]) {
            self.items[at].stage = ItemStage::Ended(end);
        } else {
            self.items[at].content.push(end);
            self.fold_item(at, list, side);
        }
    }

    pub(crate) fn mark_answered(&mut self, id: Option<&Json<'_>>, list: &mut MessageList, side: PeerDialect) {
        let Some(at) = id.and_then(|id| self.position(RunItem::ToolCall, id)) else { return };
        match &mut self.items[at].stage {
            ItemStage::Open { answered } | ItemStage::Chunk { answered } => *answered = true,
            ItemStage::Ended(_) => self.fold_item(at, list, side),
        }
    }

    /// Returns true if the item consists of chunks that may continue.
    pub(crate) fn is_chunked(&self, what: RunItem, id: &Json<'_>) -> bool {
        self.position(what, id).is_some_and(|at| self.items[at].is_chunk())
    }

    pub(crate) fn add_chunk(
        &mut self,
        what: RunItem,
        event: &Event<'_>,
        chunk: RecapFrame,
        list: &mut MessageList,
        side: PeerDialect,
    ) {
        let id = item_id(what, event);
        match self.position(what, &id) {
            Some(at) if self.items[at].is_chunk() => return self.items[at].opener.merge_chunk(chunk),
            Some(at) if matches!(self.items[at].stage, ItemStage::Ended(_)) => self.fold_item(at, list, side),
            Some(_) => return,
            None => {}
        }
        self.push(what, id, chunk, ItemStage::Chunk { answered: false });
    }

    /// Returns true if the message or one of its calls consists of chunks.
    pub(crate) fn has_chunks_of(&self, entry: &RecapMessage) -> bool {
        self.is_chunked(RunItem::Text, &entry.id)
            || self.is_chunked(RunItem::ReasoningMessage, &entry.id)
            || entry.calls.iter().flatten().any(|call| self.is_chunked(RunItem::ToolCall, &call.id))
    }

    /// Ends the chunks in closed lanes.
    pub(crate) fn close_chunks(&mut self, lanes: &ChunkLanes, list: &mut MessageList, side: PeerDialect) {
        let mut at = 0;
        while at < self.items.len() {
            let open = &self.items[at];
            let continues = |piece: &ChunkStreamKind| {
                piece.item() == open.kind && lanes.open_streams(*piece).any(|stream| stream.id.is_same(&open.id))
            };
            if !open.is_chunk() || ChunkStreamKind::ALL.iter().any(continues) {
                at += 1;
                continue;
            }
            let waits = matches!(open.stage, ItemStage::Chunk { answered: false }) && list.contains(open);
            let started = (open.kind == RunItem::ToolCall && waits && !side.dialect.is_versioned())
                .then(|| expand_call(open, side));
            match started.flatten() {
                Some((start, args, end)) => {
                    let open = &mut self.items[at];
                    open.opener = start;
                    open.content = vec![args];
                    open.stage = ItemStage::Ended(end);
                    at += 1;
                }
                None => self.fold_item(at, list, side),
            }
        }
    }

    pub(crate) fn add_encrypted(&mut self, event: &Event<'_>, frame: RecapFrame) {
        let Some(id) = event.get(Field::EntityId) else { return };
        let calls = event.get(Field::Subtype).is_some_and(|subtype| subtype.is_str("tool-call"));
        let is_it = |open: &&mut RecapItem| {
            (open.kind == RunItem::ToolCall) == calls && open.kind != RunItem::ReasoningSpan && open.id.is_same(id)
        };
        if let Some(open) = self.items.iter_mut().rev().find(is_it) {
            open.encrypted.push(frame);
        }
    }

    /// Drops content that an agent snapshot replaced.
    pub(crate) fn drop_content(&mut self, list: &MessageList, unchanged: &[Json<'_>]) {
        self.items.retain(|open| !matches!(open.stage, ItemStage::Ended(_)) || list.contains(open));
        let stays = |open: &RecapItem| {
            open.kind == RunItem::ReasoningMessage && unchanged.iter().any(|id| id.is_same(&open.id))
        };
        for open in self.items.iter_mut().filter(|open| !stays(open)) {
            open.content.clear();
            open.encrypted.clear();
        }
    }

    fn fold_item(&mut self, at: usize, list: &mut MessageList, side: PeerDialect) {
        let mut open = self.items.remove(at);
        if let ItemStage::Ended(end) = std::mem::replace(&mut open.stage, ItemStage::Open { answered: true }) {
            open.content.push(end);
        }
        list.close_item(&open, side);
    }

    pub(crate) fn byte_size(&self) -> usize {
        let frames = self.items.iter().flat_map(RecapItem::frames).map(RecapFrame::byte_size).sum::<usize>();
        frames + self.items.iter().map(|open| size_of::<RecapItem>() + open.id.as_str().len()).sum::<usize>()
    }
}

/// Turns a call's chunks into start, arguments and end, since chunks cannot express the end.
fn expand_call(open: &RecapItem, side: PeerDialect) -> Option<(RecapFrame, RecapFrame, RecapFrame)> {
    let data = open.opener.data();
    let mut members = json::parse_object(&data).ok()?.members;
    let delta = remove(&mut members, Field::Delta).unwrap_or(Json::EMPTY_STRING);
    let frame = |kind: EventType, members: Members<'_>| {
        let (_, row) = side.dialect.row_for_kind(kind, side.peer_version)?;
        let event = Event { kind, members, source: None };
        let data = json::to_event_object(row.wire, &event.members);
        Some(RecapFrame::from_event(row, &event, data.as_str(), side))
    };
    let named = || -> Members<'_> {
        let fields = [Field::ToolCallId, Field::SubagentRunId].into_iter();
        fields.filter_map(|field| Some((MemberKey::Known(field), get(&members, field)?.clone()))).collect()
    };
    let mut args = named();
    args.push((MemberKey::Known(Field::Delta), delta));
    let args = frame(EventType::ToolCallArgs, args)?;
    let end = frame(EventType::ToolCallEnd, named())?;
    Some((frame(EventType::ToolCallStart, members.clone())?, args, end))
}
