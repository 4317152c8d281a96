//! Checked settings for drain, upgrade and the control socket of the process.

use std::path::PathBuf;
use std::time::Duration;

/// The times of a drain and of a hand-over, and where the process is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessConfig {
    /// Time after the start of a drain during which connections and runs are still accepted. May be zero.
    pub drain_grace: Duration,
    /// Time after that until running streams are ended. May be zero.
    pub drain_timeout: Duration,
    /// Time until running streams are ended in a process whose sockets were taken over by another. May be zero.
    pub(crate) upgrade_timeout: Duration,
    /// The folder of the process's own sockets; none when it is spoken to by signals alone.
    pub run_dir: Option<PathBuf>,
}
