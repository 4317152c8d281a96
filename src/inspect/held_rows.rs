//! Finds the row in which the client gets an event that was held: the first whose events name the same item.

use super::row::{AlignedRow, RowCause, RowEvent};
use crate::codec::json;
use crate::event::Json;
use std::collections::VecDeque;

/// Held rows whose events the client may still get; of more, the oldest are forgotten.
const MAX_HELD: usize = 256;

/// Members that name an item of a run.
const IDS: &[&str] = &["messageId", "toolCallId", "stepName", "interruptId", "id"];

#[derive(Debug, Default)]
pub(super) struct HeldRows {
    waiting: VecDeque<HeldRow>,
}

#[derive(Debug)]
struct HeldRow {
    n: u64,
    ids: Vec<String>,
}

impl HeldRows {
    /// Remembers the row if it is held, and otherwise lists in it those that it releases.
    pub(super) fn update(&mut self, row: &mut AlignedRow) {
        if row.cause == RowCause::Held {
            let ids = row.agent.as_ref().map(ids_of).unwrap_or_default();
            if self.waiting.len() == MAX_HELD {
                self.waiting.pop_front();
            }
            self.waiting.push_back(HeldRow { n: row.n, ids });
            return;
        }
        if self.waiting.is_empty() || row.client.is_empty() {
            return;
        }
        let written: Vec<String> = row.client.iter().flat_map(ids_of).collect();
        self.waiting.retain(|held| {
            let is_released = held.ids.iter().any(|id| written.iter().any(|own| is_same_item(own, id)));
            if is_released {
                row.releases.push(held.n);
            }
            !is_released
        });
    }
}

fn ids_of(event: &RowEvent) -> Vec<String> {
    let Some(Ok(object)) = event.data.as_deref().map(json::parse_open_object) else { return Vec::new() };
    let ids = object.members.iter().filter(|(key, _)| IDS.contains(&key.name()));
    ids.filter_map(|(_, value): &(_, Json<'_>)| value.text().map(std::borrow::Cow::into_owned)).collect()
}

/// Compares ids; the gateway may have added a kind to one that two items had.
fn is_same_item(written: &str, held: &str) -> bool {
    written.strip_prefix(held).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}
