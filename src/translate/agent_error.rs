//! The error with which an agent ended its run, for the log.

use crate::event::{Event, Field, Json};

/// Maximum number of characters kept of each text.
const MAX_TEXT_CHARS: usize = 200;

/// Characters of a message that are kept until it is redacted, so that nothing is cut within what a pattern finds.
const MAX_READ_CHARS: usize = 10 * MAX_TEXT_CHARS;

/// The code and message of the agent's RUN_ERROR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentError {
    pub(crate) code: Option<String>,
    pub(crate) message: String,
}

impl AgentError {
    pub(super) fn from_event(event: &Event<'_>) -> AgentError {
        let text = |field, most| event.get(field).and_then(Json::text).map(|text| text.chars().take(most).collect());
        let message = text(Field::Message, MAX_READ_CHARS).unwrap_or_default();
        AgentError { code: text(Field::Code, MAX_TEXT_CHARS), message }
    }

    /// Cuts the message, once it is redacted.
    pub(crate) fn cut_message(&mut self) {
        if let Some((end, _)) = self.message.char_indices().nth(MAX_TEXT_CHARS) {
            self.message.truncate(end);
        }
    }
}
