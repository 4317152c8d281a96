//! The versions of AG-UI before 1.0, as far as what peers accept differs.

/// The version of AG-UI that an older peer has: the first of each stretch in which what it takes is the same
/// (`specs/ag-ui-1.0.md` §1.4). What leaves for a version is accepted by every later one below 1.0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerVersion {
    /// any of them: what all take
    #[default]
    Any,
    /// `ag-ui-protocol` 0.1.5 to 0.1.8 of Python: whoever reads a request there refuses every member that its types do not
    /// have, and lists of parts
    V0_1,
    /// the base set of events
    V0_0_35,
    /// THINKING_*; roles may be missing, events may interleave
    V0_0_39,
    /// ACTIVITY_*
    V0_0_42,
    /// REASONING_*
    V0_0_45,
    /// as before
    V0_0_47,
    /// empty deltas
    V0_0_53,
    /// outcomes
    V0_0_57,
    /// SUBAGENT_*, metadata on messages
    V0_0_59,
}
