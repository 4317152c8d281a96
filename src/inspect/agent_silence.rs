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

    /// Returns whether this is half of another span, or more.
    pub(crate) fn covers_half_of(self, other: RunSpan) -> bool {
        let both = self.until_ms.min(other.until_ms).saturating_sub(self.from_ms.max(other.from_ms));
        2 * both >= other.length_ms()
    }
}

/// The longest time between two reads of an agent's body, and before the first, and the time since the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AgentSilence {
    longest: Option<RunSpan>,
    first_read_ms: Option<u64>,
    last_read_ms: u64,
}

impl AgentSilence {
    /// Notes a read. `is_silence` decides whether the time before it was one, if it is longer than those so far.
    pub(super) fn end_at(&mut self, now_ms: u64, is_silence: impl FnOnce(RunSpan) -> bool) {
        let current = self.since_last_read(now_ms);
        if current.length_ms() > self.longest.map_or(0, RunSpan::length_ms) && is_silence(current) {
            self.longest = Some(current);
        }
        self.first_read_ms.get_or_insert(now_ms);
        self.last_read_ms = now_ms;
    }

    pub(super) const fn longest(&self) -> Option<RunSpan> {
        self.longest
    }

    pub(super) const fn since_last_read(&self, now_ms: u64) -> RunSpan {
        RunSpan { from_ms: self.last_read_ms, until_ms: now_ms }
    }

    pub(super) const fn first_read_ms(&self) -> Option<u64> {
        self.first_read_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silence_is_none_that_is_explained() {
        let mut silence = AgentSilence::default();
        for (now_ms, is_silence) in [(3_000, true), (3_100, true), (5_000, true), (9_000, false), (11_900, true)] {
            silence.end_at(now_ms, |_| is_silence);
        }
        assert_eq!(silence.longest(), Some(RunSpan { from_ms: 0, until_ms: 3_000 }));
        assert_eq!(silence.since_last_read(12_000), RunSpan { from_ms: 11_900, until_ms: 12_000 });
        assert_eq!(silence.first_read_ms(), Some(3_000));
    }

    #[test]
    fn a_span_covers_half_of_another() {
        let silence = RunSpan { from_ms: 1_000, until_ms: 2_000 };
        for (from_ms, until_ms, expected) in [(0, 1_500, true), (0, 1_499, false), (1_600, 9_000, false)] {
            assert_eq!(RunSpan { from_ms, until_ms }.covers_half_of(silence), expected, "{from_ms}");
        }
    }
}
