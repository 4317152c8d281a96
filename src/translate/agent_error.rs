//! The error with which an agent ended its run, for the log.

use crate::event::{Event, Field, Json};

/// Maximum number of characters kept of each text.
const MAX_TEXT_CHARS: usize = 200;

/// The code and message of the agent's RUN_ERROR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentError {
    pub(crate) code: Option<String>,
    pub(crate) message: String,
}

impl AgentError {
    pub(super) fn from_event(event: &Event<'_>) -> AgentError {
        let text =
            |field| event.get(field).and_then(Json::text).map(|text| text.chars().take(MAX_TEXT_CHARS).collect());
        AgentError { code: text(Field::Code), message: text(Field::Message).unwrap_or_default() }
    }
}
