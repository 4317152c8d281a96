//! The state before a run begins, as JSON, for recordings.

use super::super::allowed_tools::PriorCalls;
use super::super::call_tracker::CallTracker;
use super::super::message_ids::MessageIdMap;
use super::ConversationState;
use serde_json::{Value, json};

impl ConversationState {
    /// Returns the state as JSON, for recordings.
    pub(crate) fn to_recorded(&self) -> Value {
        let calls: Vec<_> = self.call_tracker.calls().collect();
        json!({"messages": self.message_ids.to_recorded(), "calls": calls, "prior_calls": self.prior_calls})
    }

    /// Reads what [`ConversationState::to_recorded`] returned.
    pub(crate) fn from_recorded(recorded: &Value) -> Option<ConversationState> {
        let message_ids = MessageIdMap::from_recorded(&recorded["messages"])?;
        let mut call_tracker = CallTracker::default();
        for call in recorded["calls"].as_array()? {
            call_tracker.insert(call[0].as_str()?, call[1].as_bool()?);
        }
        let mut prior_calls = PriorCalls::default();
        for call in recorded["prior_calls"].as_array()? {
            prior_calls.insert((Box::from(call[0].as_str()?), Box::from(call[1].as_str()?)));
        }
        let retained_bytes = message_ids.heap_size() + call_tracker.heap_size();
        let mut known =
            ConversationState { message_ids, call_tracker, prior_calls: PriorCalls::default(), retained_bytes };
        known.add_prior_calls(prior_calls);
        Some(known)
    }
}
