//! The reasoning of an assistant's message. AG-UI has it in messages of its own, many agents in a member of the
//! message.
//!
//! ```text
//!   reasoning, reasoning, assistant      both are the assistant's
//!   assistant, reasoning, tool           the assistant's too: it thought between its text and its calls
//!   reasoning, user                      of an answer that was cut off
//! ```

use crate::codec::json;
use crate::event::{Field, Json, get, input};
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};

/// Finds the reasoning of a message of the assistant.
#[derive(Debug)]
pub(crate) struct MessageReasoning<'m> {
    messages: &'m [Json<'m>],
    /// by the id of the message; only requests whose template reads it need this
    by_answer: OnceCell<HashMap<String, AnswerReasoning>>,
    /// ids of messages of reasoning of which all is sent with another message
    sent_ids: RefCell<HashSet<String>>,
}

#[derive(Debug, Default)]
struct AnswerReasoning {
    text: String,
    /// ids of the messages that have no more than their part of the text
    message_ids: Vec<String>,
}

impl<'m> MessageReasoning<'m> {
    pub(super) fn new(messages: &'m [Json<'m>]) -> Self {
        MessageReasoning { messages, by_answer: OnceCell::new(), sent_ids: RefCell::default() }
    }

    pub(super) fn find(&self, message: &Json<'_>) -> Option<Json<'static>> {
        self.find_own(message).map(|own| Json::string(&own.text))
    }

    fn find_own(&self, message: &Json<'_>) -> Option<&AnswerReasoning> {
        let id = json::parse_member(message, Field::Id.camel())?;
        self.by_answer.get_or_init(|| collect_reasoning(self.messages)).get(&*id.text()?)
    }

    /// Takes note that a message is sent with its reasoning.
    pub(super) fn mark_sent(&self, message: &Json<'_>) {
        if let Some(own) = self.find_own(message) {
            self.sent_ids.borrow_mut().extend(own.message_ids.iter().cloned());
        }
    }

    /// Returns whether all of the message of reasoning with this id is sent with another message.
    pub(super) fn is_sent(&self, id: &str) -> bool {
        self.sent_ids.borrow().contains(id)
    }
}

/// Returns the id of a message of reasoning.
pub(super) fn find_reasoning_id(message: &Json<'_>) -> Option<String> {
    let message = json::parse_message(message).filter(|message| input::has_role(message, input::REASONING))?;
    get(&message, Field::Id)?.text().map(Into::into)
}

fn collect_reasoning(messages: &[Json<'_>]) -> HashMap<String, AnswerReasoning> {
    let mut by_answer = HashMap::<String, AnswerReasoning>::new();
    let (mut waiting, mut waiting_ids, mut last_answer) = (Vec::<String>::new(), Vec::<String>::new(), None);
    for message in messages.iter().filter_map(json::parse_message) {
        let text = |field| get(&message, field).and_then(Json::text).map(|text| text.into_owned());
        if input::has_role(&message, input::REASONING) {
            waiting.extend(text(Field::Content));
            waiting_ids.extend(text(Field::Id).filter(|_| get(&message, Field::EncryptedValue).is_none()));
            continue;
        }
        if input::has_role(&message, input::ACTIVITY) {
            continue;
        }
        if input::has_role(&message, input::ASSISTANT) {
            last_answer = text(Field::Id);
        } else if !input::has_role(&message, input::TOOL) {
            last_answer = None;
        }
        let (reasoning, ids) = (std::mem::take(&mut waiting).join("\n"), std::mem::take(&mut waiting_ids));
        if let Some(id) = last_answer.clone().filter(|_| !reasoning.is_empty()) {
            let known = by_answer.entry(id).or_default();
            if !known.text.is_empty() {
                known.text.push('\n');
            }
            known.text.push_str(&reasoning);
            known.message_ids.extend(ids);
        }
    }
    by_answer
}
