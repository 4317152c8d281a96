//! The calls of a conversation that have results. A run that was cut off, or a question in place of a result, leaves
//! calls without one, which many agents refuse.

use crate::codec::json;
use crate::event::{Field, Json, get, input};
use std::cell::OnceCell;
use std::collections::HashSet;

/// Finds the calls of a message to which the conversation has results.
#[derive(Debug)]
pub(crate) struct AnsweredCalls<'m> {
    messages: &'m [Json<'m>],
    /// ids of the calls with results; only requests whose template reads them need these
    ids: OnceCell<HashSet<String>>,
}

impl<'m> AnsweredCalls<'m> {
    pub(super) const fn new(messages: &'m [Json<'m>]) -> Self {
        AnsweredCalls { messages, ids: OnceCell::new() }
    }

    pub(super) fn filter_calls<'c>(&self, message: &'c Json<'_>) -> Vec<Json<'c>> {
        let calls = json::parse_member(message, Field::ToolCalls.camel());
        let calls = calls.as_ref().and_then(json::parse_elements).unwrap_or_default();
        let ids = self.ids.get_or_init(|| self.messages.iter().filter_map(find_answered_id).collect());
        let is_answered = |call: &Json<'_>| {
            let id = json::parse_member(call, Field::Id.camel());
            id.and_then(|id| id.text().map(|id| ids.contains(&*id))).unwrap_or_default()
        };
        calls.into_iter().filter(is_answered).map(Json::into_owned).collect()
    }
}

/// Returns the id of the call whose result a message is.
fn find_answered_id(message: &Json<'_>) -> Option<String> {
    let message = json::parse_message(message).filter(|message| input::has_role(message, input::TOOL))?;
    get(&message, Field::ToolCallId)?.text().map(Into::into)
}
