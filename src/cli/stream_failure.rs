//! The error with which a gateway would end a run whose stream cannot be translated further.

use crate::error::RejectionKind;
use crate::translate::{RunStateLimit, StreamError};

pub(super) const fn rejection_kind(fault: &StreamError) -> RejectionKind {
    match fault {
        StreamError::Truncated { .. } => RejectionKind::UpstreamTruncated,
        StreamError::Framing(_)
        | StreamError::TooMuchState(RunStateLimit::PendingText { .. } | RunStateLimit::WrittenEvent { .. }) => {
            RejectionKind::FrameTooLarge
        }
        StreamError::TooMuchState(_) => RejectionKind::TooMuchOpen,
        StreamError::ForbiddenTool(_) => RejectionKind::ToolNotAllowed,
        StreamError::OverBudget(_) => RejectionKind::RunLimitReached,
        StreamError::Violation(_) => RejectionKind::ProtocolViolation,
    }
}

/// Returns the message of the run's error event.
pub(super) fn message(fault: &StreamError) -> String {
    match fault {
        StreamError::Violation(violation) => violation.to_string(),
        fault => rejection_kind(fault).text().to_owned(),
    }
}
