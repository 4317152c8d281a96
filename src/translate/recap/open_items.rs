//! The open items, and the frames that make them up.

use super::message_list::{MessageList, SnapshotChanges};
use super::recap_frame::{RecapFrame, push_merged};
use super::recap_item::{ItemStage, RecapItem, item_id, item_of};
use super::recap_message::RecapMessage;
use crate::codec::json;
use crate::dialect::PeerDialect;
use crate::event::heap_size::{list_size, tree_size};
use crate::event::lane::{ChunkLanes, ChunkStreamKind};
use crate::event::run::RunItem;
use crate::event::{Event, EventType, Field, IdMap, Json, MemberKey, Members, get, remove};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct RecapItems {
    items: BTreeMap<RunItem, IdMap<RecapItem>>,
    opened_count: usize,
    /// those that consist of chunks: as many as there are lanes, at most
    chunked: Vec<(RunItem, Json<'static>)>,
}

impl RecapItems {
    /// Returns the items in the order in which they were opened.
    pub(crate) fn in_order(&self) -> Vec<&RecapItem> {
        let mut items: Vec<_> = self.all().collect();
        items.sort_by_key(|open| open.number);
        items
    }

    fn all(&self) -> impl Iterator<Item = &RecapItem> {
        self.items.values().flat_map(|items| items.iter().map(|(_, open)| open))
    }

    fn find(&self, what: RunItem, id: &Json<'_>) -> Option<&RecapItem> {
        self.items.get(&what).and_then(|items| items.get(id))
    }

    fn find_mut(&mut self, what: RunItem, id: &Json<'_>) -> Option<&mut RecapItem> {
        self.items.get_mut(&what).and_then(|items| items.get_mut(id))
    }

    fn is_ended(&self, what: RunItem, id: &Json<'_>) -> Option<bool> {
        self.find(what, id).map(|open| matches!(open.stage, ItemStage::Ended(_)))
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
        match self.is_ended(what, &id) {
            Some(true) => self.fold_item(what, &id, list, side),
            // It starts again behind the snapshot that removed it.
            Some(false) if self.find(what, &id).is_some_and(|open| open.is_lost) => {}
            // Already open: no client accepts a second start, so nothing it received depends on this one.
            Some(false) => return,
            None => {}
        }
        self.push(what, id, start, ItemStage::Open { answered: false });
    }

    fn push(&mut self, what: RunItem, id: Json<'static>, opener: RecapFrame, stage: ItemStage) {
        self.opened_count += 1;
        let number = self.opened_count;
        let open = RecapItem {
            kind: what,
            id: id.clone(),
            number,
            opener,
            content: Vec::new(),
            encrypted: Vec::new(),
            stage,
            is_lost: false,
        };
        self.items.entry(what).or_default().insert(id, open);
    }

    pub(crate) fn add_content(
        &mut self,
        event: &Event<'_>,
        piece: RecapFrame,
        list: &mut MessageList,
        side: PeerDialect,
    ) {
        let open = item_of(event.kind).and_then(|what| self.find_mut(what, &item_id(what, event)));
        match open {
            // It belongs to the message that has the id now, which the start event must not create.
            Some(open) if open.is_lost => list.add_text(open.kind, &open.id, std::iter::once(&piece), side),
            Some(open) => push_merged(&mut open.content, piece),
            None => {}
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
        let Some(what) = item_of(event.kind) else { return };
        let id = item_id(what, event);
        let Some(open) = self.find_mut(what, &id) else { return };
        let unanswered = matches!(open.stage, ItemStage::Open { answered: false });
        if waits && unanswered && list.contains(open) {
            open.stage = ItemStage::Ended(end);
        } else {
            open.content.push(end);
            self.fold_item(what, &id, list, side);
        }
    }

    pub(crate) fn mark_answered(&mut self, id: Option<&Json<'_>>, list: &mut MessageList, side: PeerDialect) {
        let Some((id, open)) = id.and_then(|id| Some((id, self.find_mut(RunItem::ToolCall, id)?))) else { return };
        match &mut open.stage {
            ItemStage::Open { answered } | ItemStage::Chunk { answered } => *answered = true,
            ItemStage::Ended(_) => self.fold_item(RunItem::ToolCall, id, list, side),
        }
    }

    /// Returns true if the item consists of chunks that may continue.
    pub(crate) fn is_chunked(&self, what: RunItem, id: &Json<'_>) -> bool {
        self.find(what, id).is_some_and(RecapItem::is_chunk)
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
        if let Some(open) = self.find_mut(what, &id).filter(|open| open.is_chunk()) {
            return open.opener.merge_chunk(chunk);
        }
        match self.is_ended(what, &id) {
            Some(true) => self.fold_item(what, &id, list, side),
            Some(false) => return,
            None => {}
        }
        self.chunked.push((what, id.clone()));
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
        if self.chunked.is_empty() {
            return;
        }
        let streams: Vec<(RunItem, IdMap<()>)> = ChunkStreamKind::ALL
            .iter()
            .map(|kind| (kind.item(), lanes.open_streams(*kind).map(|stream| (stream.id.clone(), ())).collect()))
            .collect();
        for (what, id) in std::mem::take(&mut self.chunked) {
            let Some(open) = self.find_mut(what, &id).filter(|open| open.is_chunk()) else { continue };
            if streams.iter().any(|(kind, ids)| *kind == what && ids.contains(&id)) {
                self.chunked.push((what, id));
                continue;
            }
            let waits = matches!(open.stage, ItemStage::Chunk { answered: false }) && list.contains(open);
            let started =
                (what == RunItem::ToolCall && waits && !side.dialect.is_versioned()).then(|| expand_call(open, side));
            match started.flatten() {
                Some((start, args, end)) => {
                    open.opener = start;
                    open.content = vec![args];
                    open.stage = ItemStage::Ended(end);
                }
                None => self.fold_item(what, &id, list, side),
            }
        }
    }

    /// Keeps the encrypted value of an open call or message. A call creates its message if the client does not have it.
    pub(crate) fn add_encrypted(&mut self, event: &Event<'_>, frame: RecapFrame, list: &mut MessageList) {
        let Some(id) = event.get(Field::EntityId) else { return };
        let calls = event.get(Field::Subtype).is_some_and(|subtype| subtype.is_str("tool-call"));
        let is_it = |what: RunItem| (what == RunItem::ToolCall) == calls && what != RunItem::ReasoningSpan;
        let found = self.items.iter_mut().filter(|(what, _)| is_it(**what)).filter_map(|(_, items)| items.get_mut(id));
        if let Some(newest) = found.max_by_key(|open| open.number) {
            return newest.encrypted.push(frame);
        }
        let of_call = list.calls_of(id).find(|call| !calls && self.find(RunItem::ToolCall, call).is_some());
        if let Some(open) = of_call.and_then(|call| self.find_mut(RunItem::ToolCall, call)) {
            open.encrypted.push(frame);
        }
    }

    /// Drops content that an agent snapshot replaced.
    pub(crate) fn drop_content(&mut self, list: &MessageList, changes: &SnapshotChanges) {
        for (what, ids) in [
            (RunItem::Text, &changes.messages),
            (RunItem::ReasoningMessage, &changes.messages),
            (RunItem::ToolCall, &changes.calls),
        ] {
            let Some(items) = self.items.get_mut(&what) else { continue };
            for id in ids {
                let Some(open) = items.get_mut(id) else { continue };
                open.content.clear();
                open.encrypted.clear();
                open.is_lost = !list.contains(open);
                if open.is_lost && matches!(open.stage, ItemStage::Ended(_)) {
                    items.remove(id);
                }
            }
        }
    }

    fn fold_item(&mut self, what: RunItem, id: &Json<'_>, list: &mut MessageList, side: PeerDialect) {
        let Some(mut open) = self.items.get_mut(&what).and_then(|items| items.remove(id)) else { return };
        if let ItemStage::Ended(end) = std::mem::replace(&mut open.stage, ItemStage::Open { answered: true }) {
            open.content.push(end);
        }
        list.add_text(what, &open.id, open.text_frames(), side);
    }

    pub(crate) fn heap_size(&self) -> usize {
        let chunked = self.chunked.iter().map(|(_, id)| id.heap_size()).sum::<usize>();
        let items = self.items.values().map(|items| items.heap_size(RecapItem::heap_size)).sum::<usize>();
        let maps = tree_size::<(RunItem, IdMap<RecapItem>)>(self.items.len());
        maps + items + chunked + list_size::<(RunItem, Json<'_>)>(self.chunked.capacity())
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
