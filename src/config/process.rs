//! How the process lives and ends, as the program runs on it.

use std::path::PathBuf;
use std::time::Duration;

/// The times of a drain and of a hand-over, and where the process is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessConfig {
    /// How long connections and runs are still taken once a drain has begun. May be zero.
    pub drain_grace: Duration,
    /// How long running streams may go on behind that. May be zero.
    pub drain_timeout: Duration,
    /// How long running streams may go on in a process whose sockets another one has taken over. May be zero.
    pub(crate) upgrade_timeout: Duration,
    /// The folder of the process's own sockets; none when it is spoken to by signals alone.
    pub run_dir: Option<PathBuf>,
}
