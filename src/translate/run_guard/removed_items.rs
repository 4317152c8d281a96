//! Open items that a snapshot of the agent removes from the client's messages.
//!
//! "MESSAGES_SNAPSHOT: … absent ids dropped, except local … `reasoning` (unless it carries any reasoning)"
//! (`specs/ag-ui-1.0.md` §3.4). What comes for such an item afterwards goes nowhere, with or without the gateway, so it
//! is counted once. Clients that get a call only at its end get it behind the snapshot, and HAI clients get it again.

use super::RunGuard;
use crate::codec::json;
use crate::event::input::{MessageMembers, REASONING, has_role};
use crate::event::run::RunItem;
use crate::event::{Event, EventLoss, Field, IdMap, Json, get, get_owned};
use crate::translate::report::TranslationReport;

/// The items that a client has after a snapshot.
struct ListedItems {
    messages: IdMap<()>,
    calls: IdMap<()>,
    has_reasoning: bool,
}

impl RunGuard {
    /// Counts the open items that a snapshot lacks.
    pub(super) fn count_removed(&mut self, snapshot: &Event<'_>, report: &mut TranslationReport) {
        if self.run.open_count() == 0 {
            return;
        }
        let listed = ListedItems::from_snapshot(snapshot);
        for open in self.run.open_items_mut().filter(|open| !open.is_removed) {
            let loss = match open.item {
                RunItem::Text if !listed.messages.contains(&open.id) => EventLoss::TextNotShown,
                RunItem::ReasoningMessage if listed.replaces_thought(&open.id) => EventLoss::ReasoningNotShown,
                RunItem::ToolCall if self.streams_calls && !listed.calls.contains(&open.id) => EventLoss::EventNotShown,
                _ => continue,
            };
            open.is_removed = true;
            report.count_loss(loss);
        }
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

    fn replaces_thought(&self, id: &Json<'_>) -> bool {
        self.has_reasoning && !self.messages.contains(id)
    }
}
