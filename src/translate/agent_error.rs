//! The error with which an agent ended its run, for the log.

use crate::event::{Event, Field, Json};
use std::borrow::Cow;

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
        let text = |field| event.get(field).and_then(Json::text).map(Cow::into_owned);
        AgentError { code: text(Field::Code), message: text(Field::Message).unwrap_or_default() }
    }

    /// Rewrites both texts, and cuts them then: nothing may be cut within what a pattern finds.
    pub(crate) fn shorten(&mut self, rewrite: impl Fn(&str) -> String) {
        for text in self.code.iter_mut().chain([&mut self.message]) {
            *text = rewrite(text).chars().take(MAX_TEXT_CHARS).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_behind_what_rewrites_them() {
        let secret = format!("<{}>", "x".repeat(3_000));
        let mut error = AgentError { code: Some(secret.clone()), message: secret.clone() + &"y".repeat(300) };
        error.shorten(|text| text.replace(&secret, "***"));
        assert_eq!(error.code.as_deref(), Some("***"));
        assert_eq!(error.message, format!("***{}", "y".repeat(197)));
    }
}
