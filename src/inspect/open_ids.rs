//! Follows the items that the agent has open: finds those that it never ends, and events that go on with another id.

use super::row::{AlignedRow, IdChange, LeftOpen, RowCause};
use crate::event::run::{ItemAction, RunItem};
use crate::event::{EventLoss, EventRepair, EventType};
use crate::translate::explain_trace::TraceEntry;

/// Open items that are remembered; of more, the oldest are forgotten.
const MAX_OPEN: usize = 64;

/// Characters that are shown of an id or a name.
const SHOWN_CHARACTERS: usize = 64;

/// The items that the agent has open.
#[derive(Debug, Default)]
pub(super) struct OpenIds {
    open: Vec<OpenId>,
    /// calls that ended, and have no result yet
    unanswered: Vec<OpenId>,
}

#[derive(Debug)]
struct OpenId {
    item: RunItem,
    id: String,
    /// of the tool
    name: Option<String>,
    /// the row that opened it
    n: u64,
}

impl OpenIds {
    /// Follows the items of a row. Adds to it an id that was not started while another item of its kind was open, and
    /// at the end of a run the items that the agent did not end. An agent may leave them open if it ends the run with
    /// an error. Where the run was cut, calls without a result are added: the agent probably hung in one.
    pub(super) fn update(&mut self, row: &mut AlignedRow, entries: &[TraceEntry]) {
        let mut ended = Vec::new();
        self.follow(row, entries, &mut ended);
        let supplied = entries.iter().filter(|entry| is_repair(entry, EventRepair::CloserSupplied)).count();
        let has = |kind| entries.iter().any(|entry| matches!(entry, TraceEntry::Canonical(own, ..) if *own == kind));
        let is_finished = has(EventType::RunFinished);
        let is_cut = matches!(row.cause, RowCause::Gateway | RowCause::End | RowCause::Disconnect);
        if !is_finished && !is_cut && !has(EventType::RunError) {
            self.unanswered.extend(ended.into_iter().filter(|own| own.item == RunItem::ToolCall));
            self.unanswered.truncate(MAX_OPEN);
            return;
        }
        if is_finished || is_cut {
            // The reader ends calls itself whose arguments came as objects.
            ended.retain(|own| own.item == RunItem::ToolCall && own.n < row.n && supplied > self.open.len());
            row.left_open = ended.iter().chain(&self.open).map(|own| own.describe("end")).collect();
        }
        if is_cut {
            row.left_open.extend(self.unanswered.iter().map(|own| own.describe("result")));
        }
        *self = OpenIds::default();
    }

    fn follow(&mut self, row: &mut AlignedRow, entries: &[TraceEntry], ended: &mut Vec<OpenId>) {
        let is_mended = entries.iter().any(|entry| {
            let is_stray = matches!(entry, TraceEntry::Loss(EventLoss::StrayBoundary));
            is_stray || is_repair(entry, EventRepair::OpenerSupplied)
        });
        for entry in entries {
            match entry {
                TraceEntry::CallResult(call) => {
                    self.unanswered.retain(|own| own.id != *call);
                    ended.retain(|own| own.item != RunItem::ToolCall || own.id != *call);
                }
                // The agent goes on.
                TraceEntry::Canonical(EventType::TextMessageChunk | EventType::ReasoningMessageChunk, ..) => {
                    self.unanswered.clear();
                }
                _ => {}
            }
            let TraceEntry::Item { item, action, id, name } = entry else { continue };
            let at = self.open.iter().position(|own| (own.item, &own.id) == (*item, id));
            if let (None, true, Some(before)) = (at, is_mended, self.open.iter().rfind(|own| own.item == *item)) {
                row.id_change.get_or_insert_with(|| IdChange { before: cut(&before.id), after: cut(id) });
            }
            // The agent goes on.
            if matches!(item, RunItem::Text | RunItem::ReasoningMessage) && *action != ItemAction::Close {
                self.unanswered.clear();
            }
            match (action, at) {
                (ItemAction::Close, Some(at)) => ended.push(self.open.remove(at)),
                (ItemAction::Close, None) | (_, Some(_)) => {}
                (ItemAction::Open | ItemAction::Use, None) => {
                    if self.open.len() == MAX_OPEN {
                        self.open.remove(0);
                    }
                    self.open.push(OpenId { item: *item, id: id.clone(), name: name.clone(), n: row.n });
                }
            }
        }
    }
}

impl OpenId {
    fn describe(&self, lacks: &'static str) -> LeftOpen {
        let item = match self.item {
            RunItem::Step => "step",
            RunItem::Text => "message",
            RunItem::ReasoningMessage | RunItem::ReasoningSpan => "thought",
            RunItem::ToolCall => "call",
            RunItem::Subagent => "subagent",
        };
        LeftOpen { item, id: cut(&self.id), name: self.name.as_deref().map(cut), lacks, n: self.n }
    }
}

fn is_repair(entry: &TraceEntry, kind: EventRepair) -> bool {
    matches!(entry, TraceEntry::Repair(repair) if *repair == kind)
}

fn cut(id: &str) -> String {
    id.chars().take(SHOWN_CHARACTERS).collect()
}
