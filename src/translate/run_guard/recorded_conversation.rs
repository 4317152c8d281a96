//! The state before a run begins, as JSON, for recordings.

use super::super::allowed_tools::PriorCalls;
use super::super::call_tracker::CallTracker;
use super::super::message_ids::ClientIds;
use super::ConversationState;
use crate::codec::json::parse_value;
use crate::dialect::{EarlierContent, EarlierMessage, EarlierMessages};
use crate::event::Json;
use serde_json::{Value, json};

impl ConversationState {
    /// Returns the state as JSON, for recordings.
    pub(crate) fn to_recorded(&self) -> Value {
        let calls: Vec<_> = self.call_tracker.calls().collect();
        let earlier: Vec<_> = self.earlier_messages.messages.iter().map(to_recorded_message).collect();
        let (messages, prior_calls) = (self.client_ids.to_recorded(), &self.prior_calls);
        json!({"messages": messages, "calls": calls, "prior_calls": prior_calls, "earlier": earlier})
    }

    /// Reads what [`ConversationState::to_recorded`] returned.
    pub(crate) fn from_recorded(recorded: &Value) -> Option<ConversationState> {
        let client_ids = ClientIds::from_recorded(&recorded["messages"])?;
        let mut call_tracker = CallTracker::default();
        for call in recorded["calls"].as_array()? {
            call_tracker.insert(call[0].as_str()?, call[1].as_bool()?);
        }
        let mut prior_calls = PriorCalls::default();
        for call in recorded["prior_calls"].as_array()? {
            prior_calls.insert((Box::from(call[0].as_str()?), Box::from(call[1].as_str()?)));
        }
        let retained_bytes = client_ids.heap_size() + call_tracker.heap_size();
        let mut known = ConversationState { client_ids, call_tracker, retained_bytes, ..ConversationState::default() };
        known.add_prior_calls(prior_calls);
        let earlier = recorded["earlier"].as_array()?.iter().map(read_recorded_message);
        known.add_earlier_messages(EarlierMessages { messages: earlier.collect::<Option<_>>()? });
        Some(known)
    }
}

/// Returns a list of the id, the type of an activity or null, and the content that the agent may lack, or null.
fn to_recorded_message(message: &EarlierMessage) -> Value {
    let id = message.id.as_str();
    match &message.content {
        EarlierContent::Reasoning { text } => json!([id, null, text.as_str()]),
        EarlierContent::Activity { activity_type, content } => json!([id, activity_type.as_str(), content.as_str()]),
        EarlierContent::Other => json!([id, null, null]),
    }
}

fn read_recorded_message(recorded: &Value) -> Option<EarlierMessage> {
    let value = |index: usize| -> Option<Json<'static>> { Some(parse_value(recorded[index].as_str()?)?.into_owned()) };
    let content = match (value(1), value(2)) {
        (Some(activity_type), Some(content)) => EarlierContent::Activity { activity_type, content },
        (None, Some(text)) => EarlierContent::Reasoning { text },
        (_, None) => EarlierContent::Other,
    };
    Some(EarlierMessage { id: value(0)?, content })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_earlier_messages_and_masks_what_they_contain() {
        let secret = || Json::string("a secret");
        let contents = [
            EarlierContent::Reasoning { text: secret() },
            EarlierContent::Activity { activity_type: Json::string("PLAN"), content: secret() },
            EarlierContent::Other,
        ];
        let messages = contents.map(|content| EarlierMessage { id: Json::string("m"), content }).into();
        let mut known = ConversationState::default();
        known.add_earlier_messages(EarlierMessages { messages });
        let recorded = known.to_recorded();
        let message = |activity_type, content| json!(["\"m\"", activity_type, content]);
        let text = "\"a secret\"";
        let expected = [message(None, Some(text)), message(Some("\"PLAN\""), Some(text)), message(None, None)];
        assert_eq!(recorded["earlier"], json!(expected));
        let mut read = ConversationState::from_recorded(&recorded).expect("a state");
        assert_eq!(read.to_recorded(), recorded);
        read.mask_contents();
        let masked = read.to_recorded().to_string();
        assert!(!masked.contains("secret") && masked.contains("PLAN"), "{masked}");
    }
}
