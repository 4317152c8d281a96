//! Open items that a snapshot of the agent removes from the client's messages.
//!
//! "MESSAGES_SNAPSHOT: … absent ids dropped, except local … `reasoning` (unless it carries any reasoning)"
//! (`specs/ag-ui-1.0.md` §3.4). What comes for such an item afterwards goes nowhere, with or without the gateway, so it
//! is counted once: by the snapshot, or, if the client shows nothing of it yet, by its first text. Chunks behind the
//! snapshot make another message, so what they made before it is counted. Clients that get a call only at its end get
//! it behind the snapshot, and HAI clients get it again.

use super::RunGuard;
use crate::codec::json;
use crate::event::input::{MessageMembers, REASONING, has_role};
use crate::event::lane::ChunkStreamKind;
use crate::event::run::RunItem;
use crate::event::{Event, EventLoss, EventType, Field, IdMap, Json, get, get_owned};
use crate::translate::report::TranslationReport;

/// The items that a client has after a snapshot.
struct ListedItems {
    messages: IdMap<()>,
    calls: IdMap<()>,
    has_reasoning: bool,
}

impl RunGuard {
    /// Counts the items that a snapshot lacks while they are open.
    pub(super) fn count_removed(&mut self, snapshot: &Event<'_>, report: &mut TranslationReport) {
        let chunks = || ChunkStreamKind::ALL.into_iter().flat_map(|kind| self.lanes.open_streams(kind));
        if self.run.open_count() == 0 && chunks().next().is_none() {
            return;
        }
        let listed = ListedItems::from_snapshot(snapshot);
        for stream in chunks().filter(|stream| stream.is_shown) {
            let item = stream.kind.item();
            let loss = loss_of(item).filter(|_| listed.lacks(item, &stream.id, self.streams_calls));
            loss.into_iter().for_each(|loss| report.count_loss(loss));
        }
        let streams_calls = self.streams_calls;
        for open in self.run.open_items_mut().filter(|open| !open.is_removed) {
            open.is_removed = listed.lacks(open.item, &open.id, streams_calls);
            let loss = loss_of(open.item).filter(|_| open.is_removed && open.is_shown);
            loss.into_iter().for_each(|loss| report.count_loss(loss));
        }
    }

    /// Notes that an open item has text; counts the item if a snapshot has removed it before.
    pub(super) fn note_shown(&mut self, event: &Event<'_>, report: &mut TranslationReport) {
        if !matches!(event.kind, EventType::TextMessageContent | EventType::ReasoningMessageContent) || !has_text(event)
        {
            return;
        }
        let Some(open) = self.run.last_item_mut().filter(|open| !open.is_shown) else { return };
        open.is_shown = true;
        // Other clients show what comes behind the snapshot.
        let loss = loss_of(open.item).filter(|_| open.is_removed && self.streams_calls);
        loss.into_iter().for_each(|loss| report.count_loss(loss));
    }
}

/// Returns true if a client shows something of the event's item: a call from its start, others from their text.
pub(super) fn has_text(event: &Event<'_>) -> bool {
    event.kind == EventType::ToolCallChunk || event.get(Field::Delta).is_some_and(|delta| !delta.is_str(""))
}

const fn loss_of(item: RunItem) -> Option<EventLoss> {
    match item {
        RunItem::Text => Some(EventLoss::TextNotShown),
        RunItem::ReasoningMessage => Some(EventLoss::ReasoningNotShown),
        RunItem::ToolCall => Some(EventLoss::EventNotShown),
        RunItem::Step | RunItem::ReasoningSpan | RunItem::Subagent => None,
    }
}

impl ListedItems {
    fn from_snapshot(snapshot: &Event<'_>) -> Self {
        let list = snapshot.get(Field::Messages).and_then(json::parse_elements).unwrap_or_default();
        let messages: Vec<MessageMembers<'_>> = list.iter().filter_map(json::parse_message).collect();
        let ids = messages.iter().filter_map(|message| get_owned(message, Field::Id));
        let calls =
            messages.iter().filter_map(|message| get(message, Field::ToolCalls)).filter_map(json::parse_elements);
        let call_ids = calls.flatten().filter_map(|call| json::parse_member(&call, Field::Id.camel()));
        ListedItems {
            messages: ids.map(|id| (id, ())).collect(),
            calls: call_ids.map(|id| (id, ())).collect(),
            has_reasoning: messages.iter().any(|message| has_role(message, REASONING)),
        }
    }

    /// Returns true if the client does not have the item after the snapshot; `streams_calls` means that it had open
    /// calls before.
    fn lacks(&self, item: RunItem, id: &Json<'_>, streams_calls: bool) -> bool {
        match item {
            RunItem::Text => !self.messages.contains(id),
            RunItem::ReasoningMessage => self.has_reasoning && !self.messages.contains(id),
            RunItem::ToolCall => streams_calls && !self.calls.contains(id),
            RunItem::Step | RunItem::ReasoningSpan | RunItem::Subagent => false,
        }
    }
}
