//! Checked settings for drain, upgrade and the control socket of the process.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

/// The environment variable that switches off the shortcut of translations for repeated frames. Its output is that of
/// the full way, so it is only for finding out whether a problem is the shortcut's.
const NO_SHORTCUT: &str = "DIGLOT_NO_SHORTCUT";

/// True if translations may use the shortcut for repeated frames.
pub(crate) static ALLOWS_SHORTCUT: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os(NO_SHORTCUT).is_none_or(|value| value.is_empty() || value == "0"));

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
