//! Finds the message and the code in an agent's error, where a dialect file says that they are, and whether the agent
//! no longer knows the thread.

use super::path::find_value;
use super::sent_text::text_of;
use super::template::has_value;
use crate::codec::json::{self, JsonStep};
use crate::event::{Json, JsonType};

/// Describes an agent's errors: the paths of their message and code, in the order in which they are tried, and those
/// after which the agent no longer knows the thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorPaths {
    pub(crate) message: Vec<Vec<JsonStep>>,
    pub(crate) code: Vec<Vec<JsonStep>>,
    pub(crate) forget: Vec<ForgetRule>,
}

/// The code and the text of an error of an agent that no longer knows the thread, of which nothing is kept then.
pub(crate) const CONVERSATION_GONE: (&str, &str) =
    ("upstream_conversation_lost", "The agent no longer knows this conversation: the next message begins a new one.");

/// An error of an agent that no longer knows the thread. A list without elements holds for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForgetRule {
    pub(crate) statuses: Vec<u16>,
    pub(crate) codes: Vec<String>,
}

/// The message and the code that an error has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundError {
    pub(crate) message: Option<String>,
    pub(crate) code: Option<String>,
}

impl ErrorPaths {
    /// Finds the message, or takes the gateway's guess, and the code.
    pub(crate) fn find(&self, error: &Json<'_>, guess: Option<String>) -> FoundError {
        // An error is whatever the agent sent, so it is checked before paths enter it.
        let Some(error) = json::parse_value(error.as_str()) else { return FoundError::default() };
        FoundError { message: find_first(&self.message, &error).or(guess), code: find_first(&self.code, &error) }
    }

    /// Returns whether the agent no longer knows the thread after this error. One within a stream has no status.
    pub(crate) fn forgets(&self, status: Option<u16>, code: Option<&str>) -> bool {
        self.forget.iter().any(|ForgetRule { statuses, codes }| {
            let has_status = statuses.is_empty() || status.is_some_and(|status| statuses.contains(&status));
            let has_code = codes.is_empty() || code.is_some_and(|code| codes.iter().any(|own| own == code));
            has_status && has_code
        })
    }
}

impl FoundError {
    /// Returns the message with the code behind it; `None` if there is neither.
    pub(crate) fn into_text(self) -> Option<String> {
        match (self.message, self.code) {
            (Some(message), Some(code)) => Some(format!("{message} ({code})")),
            (None, Some(code)) => Some(format!("code {code}")),
            (message, None) => message,
        }
    }
}

/// Returns the first value that is one word or text. Lists and objects may repeat the request.
fn find_first(paths: &[Vec<JsonStep>], error: &Json<'_>) -> Option<String> {
    let is_plain = |value: &Json<'_>| !matches!(value.json_type(), JsonType::Array | JsonType::Object);
    let values = paths.iter().filter_map(|path| find_value(path, error.as_borrowed()));
    values.filter(is_plain).find(has_value).map(|value| text_of(&value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_message_and_code_by_path() {
        let member = |name: &str| JsonStep::Member(name.into());
        let paths = ErrorPaths {
            message: vec![vec![member("problem"), member("why")], vec![member("msg")]],
            code: vec![vec![member("problem"), member("no")]],
            forget: Vec::new(),
        };
        for (error, guess, expected) in [
            (r#"{"problem":{"why":"no turns","no":7}}"#, Some("guess"), Some("no turns (7)")),
            (r#"{"problem":{"why":""},"msg":"busy"}"#, None, Some("busy")),
            (r#"{"problem":{"no":"E7"}}"#, Some("guess"), Some("guess (E7)")),
            (r#"{"problem":{"no":"E7"}}"#, None, Some("code E7")),
            (r#"{"problem":{"why":{"input":"secret"}}}"#, None, None),
            (r#"{"problem":"#, None, None),
            ("[1]", Some("guess"), Some("guess")),
        ] {
            let found = paths.find(&Json::from_trusted(error), guess.map(str::to_owned)).into_text();
            assert_eq!(found.as_deref(), expected, "{error}");
        }
    }

    #[test]
    fn forgets_a_thread_after_the_errors_that_are_named() {
        let rule = |statuses: &[u16], codes: &[&str]| ForgetRule {
            statuses: statuses.to_vec(),
            codes: codes.iter().map(|code| (*code).to_owned()).collect(),
        };
        let forget = vec![rule(&[404, 410], &["gone"]), rule(&[], &["4002"]), rule(&[419], &[])];
        let paths = ErrorPaths { forget, ..ErrorPaths::default() };
        for (status, code, expected) in [
            (Some(404), Some("gone"), true),
            (Some(410), Some("gone"), true),
            (Some(404), Some("busy"), false),
            (Some(404), None, false),
            (Some(400), Some("gone"), false),
            (None, Some("gone"), false),
            (Some(200), Some("4002"), true),
            (None, Some("4002"), true),
            (Some(419), None, true),
            (None, None, false),
        ] {
            assert_eq!(paths.forgets(status, code), expected, "{status:?} {code:?}");
        }
        assert!(!ErrorPaths::default().forgets(Some(404), Some("gone")));
    }
}
