//! Decides what is carried to a peer along with its messages.

use crate::dialect::{PeerDialect, RunInputFormat};
use crate::event::input::{ASSISTANT, SYSTEM, TOOL, USER};

/// The roles that seed 003 prints; the other documents print some of them.
pub(super) const PLAIN_ROLES: [&str; 4] = [USER, ASSISTANT, SYSTEM, TOOL];

/// Determines whether members unknown to the dialect are carried.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CarryPolicy {
    /// in the recap of a run, whose messages the client had in this form
    InRecap,
    /// in an agent's snapshot
    InSnapshot,
    /// in a request, where the gateway's notes end
    InRequest,
    /// carries nothing and counts the lost members, because some peers would reject them
    Never(std::cell::Cell<u64>),
}

impl CarryPolicy {
    pub(crate) fn for_request(side: PeerDialect) -> Self {
        match side.dialect.message.lenient_since {
            Some(since) if side.peer_version < since => CarryPolicy::Never(std::cell::Cell::new(0)),
            _ => CarryPolicy::InRequest,
        }
    }

    pub(crate) fn lost_count(&self) -> u64 {
        match self {
            CarryPolicy::InRecap | CarryPolicy::InSnapshot | CarryPolicy::InRequest => 0,
            CarryPolicy::Never(count) => count.get(),
        }
    }

    /// Returns true if unknown members can be carried; counts one as lost otherwise.
    pub(crate) fn try_carry(&self) -> bool {
        if let CarryPolicy::Never(count) = self {
            count.set(count.get() + 1);
        }
        self.allows_carrying()
    }

    pub(crate) const fn allows_carrying(&self) -> bool {
        !matches!(self, CarryPolicy::Never(_))
    }

    /// Returns true if the client sends the messages back, and the gateway then reads its notes.
    pub(crate) const fn keeps_notes(&self) -> bool {
        matches!(self, CarryPolicy::InRecap | CarryPolicy::InSnapshot)
    }

    /// Returns true for a peer that gets no more than four roles and text.
    pub(crate) fn writes_plain_messages(&self, side: PeerDialect) -> bool {
        match self {
            CarryPolicy::InRequest => side.dialect.input == RunInputFormat::PlainMessages,
            CarryPolicy::InSnapshot => side.dialect.message.has_plain_snapshots,
            CarryPolicy::InRecap | CarryPolicy::Never(_) => false,
        }
    }
}
