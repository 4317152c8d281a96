//! Counts what a client shows behind the text of a message, so that more text of the message stands in another part of it.

/// The counts at one place of a run. Nothing is shown between two places with equal counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShownItems {
    /// calls, which are shown in their parent message, and their results behind it
    pub(crate) calls: u32,
    /// messages between agents, and what AG-UI names: reasoning and activities
    pub(crate) others: u32,
}

impl ShownItems {
    pub(crate) fn count_call(&mut self) {
        self.calls = self.calls.wrapping_add(1);
    }

    pub(crate) fn count_other(&mut self) {
        self.others = self.others.wrapping_add(1);
    }
}
