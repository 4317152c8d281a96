//! Settings for the inspector, which shows what both sides of a run said.

use super::scalar::ScalarError;
use regex::Regex;

pub(crate) use super::file::InspectConfig;

/// Maximum length of a pattern, and of its compiled form, in bytes.
const MAX_PATTERN: usize = 1 << 10;
const MAX_COMPILED: usize = 256 << 10;

/// What is captured of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaptureMode {
    /// Nothing.
    #[default]
    Off,
    /// The events of both sides.
    Events,
    /// The events, and both requests.
    Full,
}

/// Content that is replaced before a run is captured.
#[derive(Debug, Clone)]
pub enum RedactRule {
    /// the value at this path
    Path(Vec<PathStep>),
    /// every part of a string that matches
    Pattern(Regex),
}

/// A step of a path through JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    /// the member of this name
    Member(String),
    /// every member or element
    Each,
    /// any number of steps
    Deep,
}

impl PartialEq for RedactRule {
    fn eq(&self, other: &RedactRule) -> bool {
        match (self, other) {
            (RedactRule::Path(one), RedactRule::Path(other)) => one == other,
            (RedactRule::Pattern(one), RedactRule::Pattern(other)) => one.as_str() == other.as_str(),
            _ => false,
        }
    }
}

impl Eq for RedactRule {}

/// Parses `user.email`, `messages.*.content`, `**.password` or `/pattern/`.
pub(super) fn parse_redact_rule(text: &str) -> Result<RedactRule, ScalarError> {
    if let Some(pattern) = text.strip_prefix('/').and_then(|text| text.strip_suffix('/')) {
        let compiled = regex::RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build();
        return match compiled {
            Ok(pattern) if !pattern.as_str().is_empty() && pattern.as_str().len() <= MAX_PATTERN => {
                Ok(RedactRule::Pattern(pattern))
            }
            _ => Err(ScalarError::new(
                "is not a valid pattern",
                "write a regular expression between slashes, such as `/[0-9]{16}/`, of at most 1 KiB",
            )),
        };
    }
    let hint = "write the names of members with dots, such as `user.email`, `messages.*.content` or `**.password`, with at \
                most one `**`";
    let path = text.strip_prefix("$.").unwrap_or(text);
    let steps = path.split('.').map(|step| match step {
        "*" => PathStep::Each,
        "**" => PathStep::Deep,
        name => PathStep::Member(name.to_owned()),
    });
    let steps: Vec<PathStep> = steps.collect();
    let is_empty = steps.iter().any(|step| matches!(step, PathStep::Member(name) if name.is_empty()));
    let deep = steps.iter().filter(|step| **step == PathStep::Deep).count();
    if is_empty || deep > 1 || steps.last() == Some(&PathStep::Deep) {
        return Err(ScalarError::new("is not a valid path", hint));
    }
    Ok(RedactRule::Path(steps))
}
