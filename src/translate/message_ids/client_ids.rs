//! The ids that the client has for the agent's messages and calls.

use super::call_ids::CallIdMap;
use super::{IdUse, MessageIdMap};
use crate::event::Event;
use crate::event::input::MessageMembers;
use crate::translate::report::TranslationReport;
use serde_json::Value;

const CALLS: &str = "call_ids";

#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct ClientIds {
    messages: MessageIdMap,
    calls: CallIdMap,
}

impl ClientIds {
    /// Creates the ids from the messages before a run, whose metadata contains the original ones.
    pub(crate) fn from_messages(messages: &[MessageMembers<'_>], id_use: IdUse) -> ClientIds {
        let calls = CallIdMap::from_messages(messages, id_use.clone());
        ClientIds { messages: MessageIdMap::from_messages(messages, id_use), calls }
    }

    /// Renames the ids of an event; returns about the bytes of the calls' ids that it keeps.
    pub(crate) fn apply(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) -> usize {
        // First, since the ids of some messages are made of the agent's ids of calls.
        self.messages.apply(event, report);
        self.calls.apply(event, report)
    }

    /// Renames the message of a content event whose missing start the guard adds.
    pub(crate) fn apply_opened(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        self.messages.apply_opened(event, report);
    }

    /// Renames the parent of an added start, whose call already has the client's id.
    pub(crate) fn apply_opener(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        self.messages.apply(event, report);
    }

    /// Returns about the bytes that it has allocated.
    pub(crate) fn heap_size(&self) -> usize {
        self.messages.heap_size() + self.calls.0.heap_size()
    }

    /// Returns the ids as JSON, for recordings.
    pub(crate) fn to_recorded(&self) -> Value {
        let mut recorded = self.messages.to_recorded();
        recorded[CALLS] = self.calls.0.to_recorded();
        recorded
    }

    /// Reads what [`ClientIds::to_recorded`] returned, or before call ids were recorded.
    pub(crate) fn from_recorded(recorded: &Value) -> Option<ClientIds> {
        let calls = match &recorded[CALLS] {
            Value::Null => CallIdMap::default(),
            calls => CallIdMap(MessageIdMap::from_recorded(calls)?),
        };
        Some(ClientIds { messages: MessageIdMap::from_recorded(recorded)?, calls })
    }
}
