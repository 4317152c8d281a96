//! The test levers of a request: what a test asks of a demo agent beside its conversation.

use std::fmt;

use serde_json::Value;

/// A failure that a test asks for. When it strikes is said in the table of the module `demo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fail {
    Truncate,
    Reset,
    Error,
    Status,
    Html,
}

/// The levers of one request; the default is a plain conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Levers {
    /// How many numbered pieces stand in place of the scripted text.
    pub(super) events: Option<u64>,
    /// Whether the agent falls silent after its first text piece.
    pub(super) idle: bool,
    /// How the run fails, if it does.
    pub(super) fail: Option<Fail>,
}

/// A lever whose value means nothing; its text names the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLever(&'static str);

impl fmt::Display for BadLever {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadLever {}

impl Levers {
    /// Reads `forwardedProps.diglot` (or `forwarded_props.diglot`) of a request.
    ///
    /// # Errors
    /// A member is there and has a value that the table does not list. Unknown members are left alone.
    pub(super) fn read(input: &Value) -> Result<Self, BadLever> {
        let props = input.get("forwardedProps").or_else(|| input.get("forwarded_props"));
        let Some(asked) = props.and_then(|props| props.get("diglot")) else {
            return Ok(Self::default());
        };
        Ok(Self {
            events: match asked.get("events") {
                None => None,
                Some(count) => Some(
                    count.as_u64().ok_or(BadLever("forwardedProps.diglot.events must be a whole number, 0 or more"))?,
                ),
            },
            idle: match asked.get("idle") {
                None => false,
                Some(idle) => idle.as_bool().ok_or(BadLever("forwardedProps.diglot.idle must be true or false"))?,
            },
            fail: match asked.get("fail") {
                None => None,
                Some(fail) => Some(Self::fail(fail.as_str())?),
            },
        })
    }

    fn fail(name: Option<&str>) -> Result<Fail, BadLever> {
        match name {
            Some("truncate") => Ok(Fail::Truncate),
            Some("reset") => Ok(Fail::Reset),
            Some("error") => Ok(Fail::Error),
            Some("status") => Ok(Fail::Status),
            Some("html") => Ok(Fail::Html),
            _ => Err(BadLever("forwardedProps.diglot.fail must be truncate, reset, error, status or html")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_levers_is_a_plain_conversation() {
        for input in [json!({}), json!({"forwardedProps": {"other": 1}})] {
            assert_eq!(Levers::read(&input), Ok(Levers::default()));
        }
    }

    #[test]
    fn levers_are_read_in_both_spellings() {
        let expected = Levers { events: Some(7), idle: true, fail: Some(Fail::Reset) };
        let asked = json!({"diglot": {"events": 7, "idle": true, "fail": "reset"}});
        for member in ["forwardedProps", "forwarded_props"] {
            assert_eq!(Levers::read(&json!({ member: asked })), Ok(expected));
        }
    }

    #[test]
    fn a_lever_that_means_nothing_is_refused() {
        for asked in [
            json!({"events": -1}),
            json!({"events": "7"}),
            json!({"idle": 1}),
            json!({"fail": "explode"}),
            json!({"fail": true}),
        ] {
            assert!(Levers::read(&json!({"forwardedProps": {"diglot": asked}})).is_err());
        }
    }
}
