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
use std::cell::OnceCell;
use std::collections::HashMap;

/// Finds the reasoning of a message of the assistant.
#[derive(Debug)]
pub(crate) struct MessageReasoning<'m> {
    messages: &'m [Json<'m>],
    /// by the id of the message; only requests whose template reads it need this
    texts: OnceCell<HashMap<String, String>>,
}

impl<'m> MessageReasoning<'m> {
    pub(super) const fn new(messages: &'m [Json<'m>]) -> Self {
        MessageReasoning { messages, texts: OnceCell::new() }
    }

    pub(super) fn find(&self, message: &Json<'_>) -> Option<Json<'static>> {
        let id = json::parse_member(message, Field::Id.camel())?;
        let texts = self.texts.get_or_init(|| collect_texts(self.messages));
        texts.get(&*id.text()?).map(|text| Json::string(text))
    }
}

fn collect_texts(messages: &[Json<'_>]) -> HashMap<String, String> {
    let mut texts = HashMap::<String, String>::new();
    let (mut waiting, mut last_answer) = (Vec::<String>::new(), None);
    for message in messages.iter().filter_map(json::parse_message) {
        let text = |field| get(&message, field).and_then(Json::text).map(|text| text.into_owned());
        if input::has_role(&message, input::REASONING) {
            waiting.extend(text(Field::Content));
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
        let reasoning = std::mem::take(&mut waiting).join("\n");
        if let Some(id) = last_answer.clone().filter(|_| !reasoning.is_empty()) {
            let known = texts.entry(id).or_default();
            if !known.is_empty() {
                known.push('\n');
            }
            known.push_str(&reasoning);
        }
    }
    texts
}
