//! Measures for how long an agent sends nothing.

use serde::Serialize;

/// A part of a run, in milliseconds since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RunSpan {
    pub(crate) from_ms: u64,
    pub(crate) until_ms: u64,
}

impl RunSpan {
    pub(crate) const fn length_ms(self) -> u64 {
        self.until_ms.saturating_sub(self.from_ms)
    }

    /// Returns whether this is most of another span.
    pub(crate) fn explains(self, other: RunSpan) -> bool {
        let both = self.until_ms.min(other.until_ms).saturating_sub(self.from_ms.max(other.from_ms));
        2 * both >= other.length_ms()
    }
}

/// The longest time between two reads of an agent's body, and before the first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AgentSilence {
    longest: RunSpan,
    first_read_ms: Option<u64>,
    last_read_ms: u64,
}

impl AgentSilence {
    pub(super) fn end_at(&mut self, now_ms: u64) {
        self.longest = self.longest_until(now_ms);
        self.first_read_ms.get_or_insert(now_ms);
        self.last_read_ms = now_ms;
    }

    pub(super) const fn longest(&self) -> RunSpan {
        self.longest
    }

    /// Returns the longest one, if the agent is silent since its last read.
    pub(super) fn longest_until(&self, now_ms: u64) -> RunSpan {
        let current = RunSpan { from_ms: self.last_read_ms, until_ms: now_ms };
        if current.length_ms() > self.longest.length_ms() { current } else { self.longest }
    }

    pub(super) const fn first_read_ms(&self) -> Option<u64> {
        self.first_read_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silence_may_be_the_first_or_the_last() {
        let mut silence = AgentSilence::default();
        for now_ms in [3_000, 3_100, 5_000] {
            silence.end_at(now_ms);
        }
        assert_eq!(silence.longest(), RunSpan { from_ms: 0, until_ms: 3_000 });
        assert_eq!(silence.longest_until(7_000), RunSpan { from_ms: 0, until_ms: 3_000 });
        assert_eq!(silence.longest_until(9_000), RunSpan { from_ms: 5_000, until_ms: 9_000 });
        assert_eq!(silence.first_read_ms(), Some(3_000));
    }

    #[test]
    fn a_span_explains_another_of_which_it_is_at_least_half() {
        let silence = RunSpan { from_ms: 1_000, until_ms: 2_000 };
        for (from_ms, until_ms, expected) in [(0, 1_500, true), (0, 1_499, false), (1_600, 9_000, false)] {
            assert_eq!(RunSpan { from_ms, until_ms }.explains(silence), expected, "{from_ms}");
        }
    }
}
