//! Finds the events that go on with another id than the item that is open.

use super::row::{AlignedRow, IdChange};
use crate::event::run::{ItemAction, RunItem};
use crate::event::{EventLoss, EventRepair};
use crate::translate::explain_trace::TraceEntry;

/// Open items that are remembered; of more, the oldest are forgotten.
const MAX_OPEN: usize = 64;

/// Characters that are shown of an id.
const SHOWN_CHARACTERS: usize = 64;

/// The items that the agent has open.
#[derive(Debug, Default)]
pub(super) struct OpenIds {
    open: Vec<(RunItem, String)>,
}

impl OpenIds {
    /// Follows the items of a row, and adds to it an id that was not started while another item of its kind was open.
    pub(super) fn update(&mut self, row: &mut AlignedRow, entries: &[TraceEntry]) {
        let is_mended = entries.iter().any(|entry| match entry {
            TraceEntry::Repair(repair) => *repair == EventRepair::OpenerSupplied,
            TraceEntry::Loss(loss) => *loss == EventLoss::StrayBoundary,
            _ => false,
        });
        for entry in entries {
            let TraceEntry::Item(item, action, id) = entry else { continue };
            let at = self.open.iter().position(|(own, other)| (own, other) == (item, id));
            if let (None, true, Some((_, before))) = (at, is_mended, self.open.iter().rfind(|(own, _)| own == item)) {
                row.id_change.get_or_insert_with(|| IdChange { before: cut(before), after: cut(id) });
            }
            match (action, at) {
                (ItemAction::Close, Some(at)) => drop(self.open.remove(at)),
                (ItemAction::Close, None) | (_, Some(_)) => {}
                (ItemAction::Open | ItemAction::Use, None) => {
                    if self.open.len() == MAX_OPEN {
                        self.open.remove(0);
                    }
                    self.open.push((*item, id.clone()));
                }
            }
        }
    }
}

fn cut(id: &str) -> String {
    id.chars().take(SHOWN_CHARACTERS).collect()
}
