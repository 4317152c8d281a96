//! Admin endpoints of a running gateway, for tools on the same host such as the health check of a container.
//!
//! The file may have mistakes while the gateway runs on the last valid one. So only `listeners.status` and `run_dir` are
//! read, which no reload changes.

use std::path::PathBuf;

use super::listen::ListenerConfig;

/// The admin endpoints of a gateway, according to a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminEndpointsConfig {
    /// `listeners.status`
    pub(crate) status: Vec<ListenerConfig>,
    /// `run_dir`
    pub(crate) run_dir: Option<PathBuf>,
}
