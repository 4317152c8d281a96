//! The error with which a gateway would end a run whose stream cannot be translated further, and its cause.

use crate::config::load;
use crate::error::RejectionKind;
use crate::translate::StreamError;
use crate::translate::foreign_stream::UnknownFrames;

/// Returns the message of the run's error event.
pub(super) fn message(fault: &StreamError) -> String {
    match fault {
        StreamError::Violation(violation) => violation.to_string(),
        fault => RejectionKind::from(fault).text().to_owned(),
    }
}

/// Describes a stream of which the dialect of `option` knows no event.
pub(super) fn describe_unknown(frames: &UnknownFrames, option: &str) -> String {
    let foreign = frames.explain(&load::known_file_dialects());
    match foreign.looks_like {
        Some(dialect) => format!("{foreign}: write `{option} {dialect}`"),
        None => format!(
            "{foreign}; `diglot detect` names the dialect of a recording, and deploy/legacy-agents.md describes your own"
        ),
    }
}
