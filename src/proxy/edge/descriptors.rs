//! How many files the process may open: one for each connection, and one for its agent.

use crate::config::Config;
use crate::telemetry::internal_event::ConnectionLimitReduced;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files beside those of connections: logs, listeners, runtimes, connections to issuers and replicas.
const RESERVED_FILES: u64 = 64;

/// Raises the limit as far as the system lets us, and gives how many connections there may be: as many as configured, or
/// fewer where that limit is too low for them, which is said.
pub(super) fn max_connections(config: &Config) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Whoever may not raise it keeps what there was, and that is looked at below.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = getrlimit(Resource::Nofile).current.or(current);
    let connections = config.limits.connections;
    let Some(limit) = limit else { return connections };
    let room = usize::try_from(limit.saturating_sub(RESERVED_FILES) / 2).unwrap_or(usize::MAX).max(1);
    if room < connections {
        ConnectionLimitReduced { limit, connections, allowed: room }.emit();
    }
    connections.min(room)
}
