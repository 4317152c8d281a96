//! The message with which a gateway would end a run whose stream cannot be translated further.

use crate::error::RejectionKind;
use crate::translate::StreamError;

/// Returns the message of the run's error event.
pub(super) fn message(fault: &StreamError) -> String {
    match fault {
        StreamError::Violation(violation) => violation.to_string(),
        fault => RejectionKind::from(fault).text().to_owned(),
    }
}
