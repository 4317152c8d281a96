//! Checked settings for drain, upgrade and the control socket of the process.

use std::path::PathBuf;
use std::time::Duration;

/// Timeouts for drains and upgrades, and the control socket directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessConfig {
    /// Time for which a draining process accepts connections and runs. May be zero.
    pub drain_grace: Duration,
    /// Time after `drain_grace` until running streams are ended. May be zero.
    pub drain_timeout: Duration,
    /// Time until a replaced process ends its running streams. May be zero.
    pub(crate) upgrade_timeout: Duration,
    /// The directory of the control sockets; `None` if only signals control the process.
    pub run_dir: Option<PathBuf>,
}
