//! The file descriptor limit: each client connection needs one descriptor, and one more for the agent.

use crate::config::Config;
use crate::telemetry::internal_event::ConnectionLimitReduced;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const RESERVED_FILES: u64 = 64;

/// Raises the descriptor limit to its maximum. Returns how many connections it allows, up to the configured number.
pub(super) fn max_connections(config: &Config) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // If raising the limit fails, the old one stays, and is read below.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = getrlimit(Resource::Nofile).current.or(current);
    let connections = config.limits.max_connections().get();
    let Some(limit) = limit else { return connections };
    let room = usize::try_from(limit.saturating_sub(RESERVED_FILES) / 2).unwrap_or(usize::MAX).max(1);
    if room < connections {
        ConnectionLimitReduced { limit, connections, allowed: room }.emit();
    }
    connections.min(room)
}
