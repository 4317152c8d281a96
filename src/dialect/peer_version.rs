//! The pre-1.0 AG-UI versions that differ in what they accept.

/// The AG-UI version of an older peer. Each variant is the first in a range of versions that accept the same events
/// (`specs/ag-ui-1.0.md` §1.4). From [`PeerVersion::V0_0_35`] on, each accepts whatever is written for an earlier one;
/// what is written for [`PeerVersion::Any`] is accepted since 0.0.42.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerVersion {
    /// unknown: write what seed 001 prints, which clients since 0.0.42 accept
    #[default]
    Any,
    /// Python's `ag-ui-protocol` 0.1.5 to 0.1.8, which rejects content part lists, and requests with unknown members
    V0_1,
    /// supports only the basic events
    V0_0_35,
    /// THINKING_*; roles may be missing, events may interleave
    V0_0_39,
    /// ACTIVITY_*
    V0_0_42,
    /// REASONING_*
    V0_0_45,
    /// accepts the same as 0.0.45
    V0_0_47,
    /// empty deltas
    V0_0_53,
    /// outcomes
    V0_0_57,
    /// SUBAGENT_*, metadata on messages
    V0_0_59,
}

impl PeerVersion {
    /// Returns whether clients of this version take one open item at a time, and text of the assistant alone.
    pub(crate) const fn is_sequential(self) -> bool {
        matches!(self, PeerVersion::V0_1 | PeerVersion::V0_0_35)
    }

    /// Returns the version that accepts what `0.0.<patch>` does: the last one that is not above it.
    pub(super) const fn from_patch(patch: u8) -> PeerVersion {
        match patch {
            ..39 => PeerVersion::V0_0_35,
            39..42 => PeerVersion::V0_0_39,
            42..45 => PeerVersion::V0_0_42,
            45..47 => PeerVersion::V0_0_45,
            47..53 => PeerVersion::V0_0_47,
            53..57 => PeerVersion::V0_0_53,
            57..59 => PeerVersion::V0_0_57,
            59.. => PeerVersion::V0_0_59,
        }
    }
}
