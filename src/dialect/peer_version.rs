//! The versions of AG-UI before 1.0 that differ in what they accept.

/// The AG-UI version of an older peer: the first of each range of versions that accept the same (`specs/ag-ui-1.0.md`
/// §1.4). Everything written for a version is accepted by every later one below 1.0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerVersion {
    /// unknown: writes only what all versions accept
    #[default]
    Any,
    /// `ag-ui-protocol` 0.1.5 to 0.1.8 of Python: these reject lists of parts, and requests with members that their
    /// types lack
    V0_1,
    /// the base set of events
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
