//! Limits on the output of a run to its client.
//!
//! Frames are counted as they are written: a frame that would exceed a limit is not sent, and after it only the
//! gateway's final error.
//!
//! The configured limits are [`OutputBudget`]. [`OutputGrowth`] always applies: a client may get the id of a message,
//! which can be megabytes, with each of its pieces, and the agent sends it once.

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

/// Bytes for the client for each byte of the agent. The shortest pieces become about thirty times as long.
pub(super) const GROWTH_LIMIT: usize = 128;

/// The bytes that the client may still receive for the frames that the agent has sent so far. They do not depend on the
/// pieces in which those arrived, so a run that is replayed ends at the same frame.
#[derive(Debug)]
pub(super) struct OutputGrowth(usize);

impl OutputGrowth {
    /// Creates that of a run which may write `spare` bytes beyond the multiple.
    pub(crate) const fn new(spare: usize) -> Self {
        OutputGrowth(spare)
    }

    /// Adds what is allowed for a frame of the agent.
    pub(crate) const fn add(&mut self, frame_length: usize) {
        self.0 = self.0.saturating_add(frame_length.saturating_mul(GROWTH_LIMIT));
    }

    /// Takes the bytes of one frame. Returns false, taking nothing, if there are not so many.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
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

    #[test]
    fn output_may_be_longer_than_input_up_to_a_multiple() {
        let mut growth = OutputGrowth::new(100);
        assert!(growth.take(60) && !growth.take(41) && growth.take(40));
        growth.add(3);
        assert!(growth.take(3 * GROWTH_LIMIT) && !growth.take(1));
    }
}
