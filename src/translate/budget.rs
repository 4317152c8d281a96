//! Limits on the output of a run to its client.
//!
//! Frames are counted as they are written: a frame that would exceed a limit is not sent, and after it only the
//! gateway's final error.

/// A limit on a run's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetLimit {
    Events,
    Bytes,
}

/// The events and bytes that the client may still receive.
#[derive(Debug)]
pub(super) struct OutputBudget {
    events: u64,
    bytes: u64,
}

impl Default for OutputBudget {
    fn default() -> Self {
        OutputBudget::new(None, None)
    }
}

impl OutputBudget {
    pub(crate) fn new(events: Option<u64>, bytes: Option<u64>) -> Self {
        OutputBudget { events: events.unwrap_or(u64::MAX), bytes: bytes.unwrap_or(u64::MAX) }
    }

    /// Returns true if [`OutputBudget::charge`] would accept one frame.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.events > 0 && self.bytes >= bytes as u64
    }

    /// Charges one frame. After one that does not fit, no other fits, so that the client's stream has no gap.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), BudgetLimit> {
        let exceeded = match (self.events.checked_sub(1), self.bytes.checked_sub(bytes as u64)) {
            (Some(events), Some(bytes)) => {
                *self = OutputBudget { events, bytes };
                return Ok(());
            }
            (None, _) => BudgetLimit::Events,
            (_, None) => BudgetLimit::Bytes,
        };
        *self = OutputBudget { events: 0, bytes: 0 };
        Err(exceeded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withholds_the_first_frame_over_a_limit_and_all_after_it() {
        let mut budget = OutputBudget::new(Some(3), Some(10));
        assert_eq!(budget.charge(4), Ok(()));
        assert_eq!(budget.charge(7), Err(BudgetLimit::Bytes));
        assert!(budget.charge(1).is_err(), "a frame that would fit follows a gap");

        let mut budget = OutputBudget::new(Some(2), None);
        assert_eq!((budget.charge(1 << 30), budget.charge(1 << 30)), (Ok(()), Ok(())));
        assert_eq!(budget.charge(0), Err(BudgetLimit::Events));
    }
}
