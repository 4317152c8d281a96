//! Limits on the output of a run to its client.
//!
//! Frames are counted as they are written: a frame that would exceed a limit is not sent, and after it only the
//! gateway's final error.

use crate::event::EventType;

/// A limit on a run's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetLimit {
    Events,
    Bytes,
}

#[derive(Debug)]
pub(super) struct OutputBudget {
    events: u64,
    bytes: u64,
    exceeded: Option<BudgetLimit>,
    /// whether the gateway's own error is exempt from every limit
    final_error_allowed: bool,
}

impl Default for OutputBudget {
    fn default() -> Self {
        OutputBudget { events: u64::MAX, bytes: u64::MAX, exceeded: None, final_error_allowed: false }
    }
}

impl OutputBudget {
    pub(crate) fn new(events: Option<u64>, bytes: Option<u64>) -> Self {
        OutputBudget { events: events.unwrap_or(u64::MAX), bytes: bytes.unwrap_or(u64::MAX), ..OutputBudget::default() }
    }

    /// Charges one frame; returns true if it may be sent.
    pub(crate) fn admit(&mut self, kind: EventType, bytes: usize) -> bool {
        if self.final_error_allowed && kind == EventType::RunError {
            return true;
        }
        if self.exceeded.is_some() {
            return false;
        }
        let events = self.events.checked_sub(1);
        let rest = self.bytes.checked_sub(bytes as u64);
        match (events, rest) {
            (Some(events), Some(bytes)) => (self.events, self.bytes) = (events, bytes),
            (None, _) => self.exceeded = Some(BudgetLimit::Events),
            (_, None) => self.exceeded = Some(BudgetLimit::Bytes),
        }
        self.exceeded.is_none()
    }

    pub(crate) fn exceeded(&self) -> Option<BudgetLimit> {
        self.exceeded.filter(|_| !self.final_error_allowed)
    }

    pub(crate) fn allow_final_error(&mut self) {
        self.final_error_allowed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withholds_the_first_event_over_a_bound_and_all_after_it() {
        let mut budget = OutputBudget::new(Some(2), Some(10));
        assert!(budget.admit(EventType::RunStarted, 4));
        assert!(
            !budget.admit(EventType::Custom, 7) && !budget.admit(EventType::Custom, 1),
            "nothing leaves behind a gap"
        );
        assert_eq!(budget.exceeded(), Some(BudgetLimit::Bytes));
        assert!(!budget.admit(EventType::RunError, 1), "the agent's own error is an event like others");
        budget.allow_final_error();
        assert!(budget.admit(EventType::RunError, 100) && !budget.admit(EventType::Custom, 1));
        assert_eq!(budget.exceeded(), None);

        let mut budget = OutputBudget::new(Some(2), None);
        assert!(budget.admit(EventType::RunStarted, 1 << 30) && budget.admit(EventType::RunFinished, 1 << 30));
        assert_eq!(budget.exceeded(), None);
        assert!(!budget.admit(EventType::Custom, 0));
        assert_eq!(budget.exceeded(), Some(BudgetLimit::Events));
    }
}
