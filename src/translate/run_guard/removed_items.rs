//! Open items that a snapshot of the agent removes from the client's messages.
//!
//! "MESSAGES_SNAPSHOT: … absent ids dropped, except local … `reasoning` (unless it carries any reasoning)"
//! (`specs/ag-ui-1.0.md` §3.4). What comes for such an item afterwards goes nowhere, with or without the gateway, so it
//! is counted once: by the snapshot, or, if the client shows nothing of it yet, by its first text. Chunks behind the
//! snapshot make another message, so what they made before it is counted. Clients that get a call only at its end get
//! it behind the snapshot, and HAI clients get it again.
//!
//! Agents give their messages other ids in snapshots, too. So an item is there (a guess) if a message of its role
//! behind the last one of the user begins as the item does.

use super::RunGuard;
use crate::codec::json;
use crate::event::heap_size::allocation_size;
use crate::event::input::{ASSISTANT, MessageMembers, REASONING, USER, has_role};
use crate::event::lane::ChunkStreamKind;
use crate::event::run::RunItem;
use crate::event::{Event, EventLoss, EventType, Field, IdMap, Json, get, get_owned};
use crate::translate::report::TranslationReport;
use std::sync::Arc;

/// Number of characters that are kept of an item's text.
const FIRST_TEXT_CHARS: usize = 32;

/// The items that a client has after a snapshot.
struct ListedItems<'s> {
    messages: IdMap<()>,
    calls: IdMap<()>,
    has_reasoning: bool,
    /// the messages behind the last one of the user
    latest: Vec<MessageMembers<'s>>,
}

impl RunGuard {
    /// Counts the items that a snapshot lacks while they are open.
    pub(super) fn count_removed(&mut self, snapshot: &Event<'_>, report: &mut TranslationReport) {
        let chunks = || ChunkStreamKind::ALL.into_iter().flat_map(|kind| self.lanes.open_streams(kind));
        if self.run.open_count() == 0 && chunks().next().is_none() {
            return;
        }
        let list = snapshot.get(Field::Messages).and_then(json::parse_elements).unwrap_or_default();
        let listed = ListedItems::from_snapshot(&list);
        for stream in chunks() {
            let (item, text) = (stream.kind.item(), stream.first_text.as_deref());
            let is_lost = listed.lacks(item, &stream.id, self.streams_calls) && listed.lacks_text(item, text);
            let loss = loss_of(item, self.hides_reasoning).filter(|_| is_lost);
            loss.into_iter().for_each(|loss| report.count_loss(loss));
        }
        let streams_calls = self.streams_calls;
        let hides_reasoning = self.hides_reasoning;
        for open in self.run.open_items_mut().filter(|open| !open.is_removed) {
            open.is_removed = listed.lacks(open.item, &open.id, streams_calls);
            if !open.is_removed {
                continue;
            }
            if listed.lacks_text(open.item, open.first_text.as_deref()) {
                loss_of(open.item, hides_reasoning).into_iter().for_each(|loss| report.count_loss(loss));
            } else {
                // Text behind the snapshot is not shown, and counts when it comes.
                open.first_text = None;
            }
        }
    }

    /// Notes that an open item has text; counts the item if a snapshot has removed it before.
    pub(super) fn note_shown(&mut self, event: &Event<'_>, report: &mut TranslationReport) {
        if !matches!(event.kind, EventType::TextMessageContent | EventType::ReasoningMessageContent) {
            return;
        }
        let Some(open) = self.run.last_item_mut().filter(|open| open.first_text.is_none()) else { return };
        let Some(text) = first_text(event) else { return };
        self.retained_bytes += allocation_size(text.len());
        open.first_text = Some(text);
        // Other clients show what comes behind the snapshot.
        let loss = loss_of(open.item, self.hides_reasoning).filter(|_| open.is_removed && self.streams_calls);
        loss.into_iter().for_each(|loss| report.count_loss(loss));
    }
}

/// Returns the beginning of what a client shows of the event's item: a call from its start, others from their text.
pub(super) fn first_text(event: &Event<'_>) -> Option<Arc<str>> {
    if event.kind == EventType::ToolCallChunk {
        return Some(Arc::default());
    }
    let text = event.text(Field::Delta).filter(|text| !text.is_empty())?;
    let end = text.char_indices().nth(FIRST_TEXT_CHARS).map_or(text.len(), |(at, _)| at);
    Some(text[..end].into())
}

/// Returns the loss if an item is dropped. Thinking that the client never shows was counted when it came.
const fn loss_of(item: RunItem, hides_reasoning: bool) -> Option<EventLoss> {
    match item {
        RunItem::Text => Some(EventLoss::TextNotShown),
        RunItem::ReasoningMessage if hides_reasoning => None,
        RunItem::ReasoningMessage => Some(EventLoss::ReasoningNotShown),
        RunItem::ToolCall => Some(EventLoss::EventNotShown),
        RunItem::Step | RunItem::ReasoningSpan | RunItem::Subagent => None,
    }
}

impl<'s> ListedItems<'s> {
    fn from_snapshot(list: &'s [Json<'s>]) -> Self {
        let messages: Vec<MessageMembers<'_>> = list.iter().filter_map(json::parse_message).collect();
        let ids = messages.iter().filter_map(|message| get_owned(message, Field::Id));
        let calls =
            messages.iter().filter_map(|message| get(message, Field::ToolCalls)).filter_map(json::parse_elements);
        let call_ids = calls.flatten().filter_map(|call| json::parse_member(&call, Field::Id.camel()));
        let turn = messages.iter().rposition(|message| has_role(message, USER)).map_or(0, |at| at + 1);
        ListedItems {
            messages: ids.map(|id| (id, ())).collect(),
            calls: call_ids.map(|id| (id, ())).collect(),
            has_reasoning: messages.iter().any(|message| has_role(message, REASONING)),
            latest: messages.into_iter().skip(turn).collect(),
        }
    }

    /// Returns true if the client has shown something of an item, and the snapshot has it under no other id.
    fn lacks_text(&self, item: RunItem, first_text: Option<&str>) -> bool {
        let role = match item {
            RunItem::Text => ASSISTANT,
            RunItem::ReasoningMessage => REASONING,
            _ => return first_text.is_some(),
        };
        let begins_with = |message: &MessageMembers<'_>, text: &str| {
            let content = get(message, Field::Content).and_then(Json::text);
            has_role(message, role) && content.is_some_and(|content| content.starts_with(text))
        };
        first_text.is_some_and(|text| !self.latest.iter().any(|message| begins_with(message, text)))
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
