//! Ids for frames of messages that have none (a guess: the builders of seed §4.2 require them).
//!
//! Text and an end belong to the message that was opened last. A start has the run's message id, as §4.2 uses one id for
//! everything, or one derived from the run's if that is taken.

use super::BlockReader;
use crate::dialect::adapter::CanonicalSink;
use crate::event::{Event, EventRepair, EventType, Field, Json};

impl BlockReader {
    /// Remembers the message id of the run's start for the first message without one.
    pub(crate) fn start_run(&mut self, message: Option<Json<'static>>) {
        self.first_id = message.filter(|id| !id.is_null());
    }

    pub(crate) fn set_run_id(&mut self, run_id: &Json<'static>) {
        self.run_id = Some(run_id.clone());
    }

    pub(crate) fn supply_id(&mut self, event: &mut Event<'_>, sink: &mut dyn CanonicalSink) {
        if event.get(Field::MessageId).is_some_and(|id| !id.is_null()) {
            return;
        }
        let last = self.open_messages.last().map(|(id, _)| id.clone());
        let id = match (event.kind, last) {
            // "Omitted id continues the open stream" (specs §3.2).
            (EventType::TextMessageChunk, Some(last)) => return event.set(Field::MessageId, last),
            (EventType::TextMessageContent | EventType::TextMessageEnd, Some(last)) => last,
            (EventType::TextMessageEnd, None) => return,
            _ => self.unused_id(),
        };
        sink.count_repair(EventRepair::MemberSupplied);
        event.set(Field::MessageId, id);
    }

    fn unused_id(&mut self) -> Json<'static> {
        let is_used = |id: &Json<'_>| self.open_messages.contains(id) || self.closed_messages.contains(id);
        if let Some(first) = self.first_id.take().filter(|id| !is_used(id)) {
            return first;
        }
        let run = self.run_id.clone().unwrap_or(Json::EMPTY_STRING);
        loop {
            self.supplied_ids += 1;
            let id = run.with_suffix(&format!(":message:{}", self.supplied_ids));
            if !(self.open_messages.contains(&id) || self.closed_messages.contains(&id)) {
                return id;
            }
        }
    }
}
