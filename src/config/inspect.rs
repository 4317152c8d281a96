//! Settings for the inspector, which shows what both sides of a run said.

use regex::Regex;
use serde::Deserialize;

pub(crate) use super::file::InspectConfig;

/// The extent of a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
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
