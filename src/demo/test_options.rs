//! Test options: sizes and failures that a test can request from a demo agent.

use std::fmt;

use serde_json::Value;

/// A requested failure; see the table in the module `demo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InjectedFault {
    Truncate,
    Reset,
    Error,
    Status,
    Html,
}

impl InjectedFault {
    pub(super) fn from_word(word: &str) -> Option<InjectedFault> {
        Some(match word {
            "truncate" => InjectedFault::Truncate,
            "reset" => InjectedFault::Reset,
            "error" => InjectedFault::Error,
            "status" => InjectedFault::Status,
            "html" => InjectedFault::Html,
            _ => return None,
        })
    }
}

/// The options for one request; the default is a plain conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TestOptions {
    /// number of text pieces instead of the scripted ones
    pub(super) events: Option<u64>,
    /// whether the agent pauses forever after its first text piece
    pub(super) idle: bool,
    pub(super) fail: Option<InjectedFault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidTestOption(&'static str);

impl fmt::Display for InvalidTestOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for InvalidTestOption {}

impl TestOptions {
    /// Reads `forwardedProps.diglot` (or `forwarded_props.diglot`) from a request.
    ///
    /// # Errors
    /// Returns an error if a member has an invalid value. Unknown members are ignored.
    pub(super) fn read(input: &Value) -> Result<Self, InvalidTestOption> {
        let props = input.get("forwardedProps").or_else(|| input.get("forwarded_props"));
        let Some(options) = props.and_then(|props| props.get("diglot")) else {
            return Ok(Self::default());
        };
        Ok(Self {
            events: match options.get("events") {
                None => None,
                Some(count) => Some(
                    count
                        .as_u64()
                        .ok_or(InvalidTestOption("forwardedProps.diglot.events must be a whole number, 0 or more"))?,
                ),
            },
            idle: match options.get("idle") {
                None => false,
                Some(idle) => {
                    idle.as_bool().ok_or(InvalidTestOption("forwardedProps.diglot.idle must be true or false"))?
                }
            },
            fail: match options.get("fail") {
                None => None,
                Some(fail) => Some(Self::parse_fault(fail.as_str())?),
            },
        })
    }

    fn parse_fault(name: Option<&str>) -> Result<InjectedFault, InvalidTestOption> {
        let invalid = InvalidTestOption("forwardedProps.diglot.fail must be truncate, reset, error, status or html");
        name.and_then(InjectedFault::from_word).ok_or(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_to_a_plain_conversation() {
        for input in [json!({}), json!({"forwardedProps": {"other": 1}})] {
            assert_eq!(TestOptions::read(&input), Ok(TestOptions::default()));
        }
    }

    #[test]
    fn reads_levers_in_both_spellings() {
        let expected = TestOptions { events: Some(7), idle: true, fail: Some(InjectedFault::Reset) };
        let options = json!({"diglot": {"events": 7, "idle": true, "fail": "reset"}});
        for member in ["forwardedProps", "forwarded_props"] {
            assert_eq!(TestOptions::read(&json!({ member: options })), Ok(expected));
        }
    }

    #[test]
    fn refuses_meaningless_lever_values() {
        for options in [
            json!({"events": -1}),
            json!({"events": "7"}),
            json!({"idle": 1}),
            json!({"fail": "explode"}),
            json!({"fail": true}),
        ] {
            assert!(TestOptions::read(&json!({"forwardedProps": {"diglot": options}})).is_err());
        }
    }
}
