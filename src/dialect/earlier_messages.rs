//! Messages that a client has from before a run: those of its request.
//!
//! A client that cannot go on with one of them needs another id for what begins with its id (`reopens_since` in
//! `table`).

use super::memory_limits;
use crate::event::input::{ACTIVITY, MessageMembers, REASONING, has_role};
use crate::event::{Field, Json, get_owned};

/// The messages of a request, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct EarlierMessages {
    pub(crate) messages: Vec<EarlierMessage>,
}

#[derive(Clone, Debug)]
pub(crate) struct EarlierMessage {
    /// the client's id
    pub(crate) id: Json<'static>,
    pub(crate) content: EarlierContent,
}

/// Content that an agent's list of messages may lack although the client shows it.
#[derive(Clone, Debug)]
pub(crate) enum EarlierContent {
    Reasoning { text: Json<'static> },
    Activity { activity_type: Json<'static>, content: Json<'static> },
    Other,
}

impl EarlierMessages {
    /// Returns about the bytes that it has allocated.
    pub(crate) fn heap_size(&self) -> usize {
        let texts = self.messages.iter().map(|message| message.id.as_str().len() + message.content.text_len());
        memory_limits::allocation_size(self.messages.capacity() * size_of::<EarlierMessage>()) + texts.sum::<usize>()
    }
}

impl EarlierContent {
    pub(crate) fn from_message(message: &MessageMembers<'_>) -> EarlierContent {
        let Some(content) = get_owned(message, Field::Content) else { return EarlierContent::Other };
        match get_owned(message, Field::ActivityType) {
            _ if has_role(message, REASONING) => EarlierContent::Reasoning { text: content },
            Some(activity_type) if has_role(message, ACTIVITY) => EarlierContent::Activity { activity_type, content },
            _ => EarlierContent::Other,
        }
    }

    pub(crate) fn mask(&mut self) {
        match self {
            EarlierContent::Reasoning { text } => *text = Json::string("***"),
            EarlierContent::Activity { content, .. } => *content = Json::from_trusted("{}"),
            EarlierContent::Other => {}
        }
    }

    pub(crate) fn text_len(&self) -> usize {
        match self {
            EarlierContent::Reasoning { text } => text.as_str().len(),
            EarlierContent::Activity { activity_type, content } => {
                activity_type.as_str().len() + content.as_str().len()
            }
            EarlierContent::Other => 0,
        }
    }
}
