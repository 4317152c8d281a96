//! Finds the message and the code in an agent's error, where a dialect file says that they are.

use super::path::find_value;
use super::sent_text::text_of;
use super::template::has_value;
use crate::codec::json::{self, JsonStep};
use crate::event::{Json, JsonType};

/// Paths into the JSON of an error, in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorPaths {
    pub(crate) message: Vec<Vec<JsonStep>>,
    pub(crate) code: Vec<Vec<JsonStep>>,
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
}
