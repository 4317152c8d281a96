//! How many files the process may open: one for each connection, and one for its agent.

use crate::config::Config;
use crate::telemetry::occurrence::FewDescriptors;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files beside those of connections: logs, listeners, runtimes, connections to issuers and replicas.
const OTHERS: u64 = 64;

/// Raises the limit as far as the system lets us, and says where that is less than the configured connections need.
pub fn raise(config: &Config) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Whoever may not raise it keeps what there was, and that is looked at below.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = getrlimit(Resource::Nofile).current.or(current);
    let connections = config.limits.connections;
    let needed = 2 * u64::try_from(connections).unwrap_or(u64::MAX / 4) + OTHERS;
    if let Some(limit) = limit.filter(|limit| *limit < needed) {
        FewDescriptors { limit, connections }.emit();
    }
}
