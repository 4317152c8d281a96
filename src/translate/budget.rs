//! How much of a run its client gets at most.
//!
//! Frames are counted where they are written, one by one: what would pass a bound does not leave, and nothing behind it does,
//! but the gateway's own last word.

use crate::event::Kind;

/// A bound on what a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// on how many events
    Events,
    /// on how many bytes
    Bytes,
}

/// What is left of the bounds.
#[derive(Debug)]
pub(super) struct Budget {
    events: u64,
    bytes: u64,
    passed: Option<Bound>,
    /// whether the gateway says its own error now, which has room in every budget
    last_word: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { events: u64::MAX, bytes: u64::MAX, passed: None, last_word: false }
    }
}

impl Budget {
    /// So many of each; no bound where it is `None`.
    pub fn of(events: Option<u64>, bytes: Option<u64>) -> Self {
        Budget { events: events.unwrap_or(u64::MAX), bytes: bytes.unwrap_or(u64::MAX), ..Budget::default() }
    }

    /// Whether one more frame, for an event of this kind, may leave; takes note of it.
    pub fn admits(&mut self, kind: Kind, bytes: usize) -> bool {
        if self.last_word && kind == Kind::RunError {
            return true;
        }
        if self.passed.is_some() {
            return false;
        }
        let (events, rest) = (self.events.checked_sub(1), self.bytes.checked_sub(bytes as u64));
        match (events, rest) {
            (Some(events), Some(bytes)) => (self.events, self.bytes) = (events, bytes),
            (None, _) => self.passed = Some(Bound::Events),
            (_, None) => self.passed = Some(Bound::Bytes),
        }
        self.passed.is_none()
    }

    /// The bound that was passed, until the gateway has said so.
    pub fn passed(&self) -> Option<Bound> {
        self.passed.filter(|_| !self.last_word)
    }

    /// From here on the gateway's own error has room.
    pub fn last_word(&mut self) {
        self.last_word = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_pass_a_bound_stays_and_what_is_behind_it_too() {
        let mut budget = Budget::of(Some(2), Some(10));
        assert!(budget.admits(Kind::RunStarted, 4));
        assert!(!budget.admits(Kind::Custom, 7) && !budget.admits(Kind::Custom, 1), "nothing leaves behind a gap");
        assert_eq!(budget.passed(), Some(Bound::Bytes));
        assert!(!budget.admits(Kind::RunError, 1), "the agent's own error is an event like others");
        budget.last_word();
        assert!(budget.admits(Kind::RunError, 100) && !budget.admits(Kind::Custom, 1));
        assert_eq!(budget.passed(), None);

        let mut budget = Budget::of(Some(2), None);
        assert!(budget.admits(Kind::RunStarted, 1 << 30) && budget.admits(Kind::RunFinished, 1 << 30));
        assert_eq!(budget.passed(), None);
        assert!(!budget.admits(Kind::Custom, 0));
        assert_eq!(budget.passed(), Some(Bound::Events));
    }
}
