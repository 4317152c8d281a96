//! Admin endpoints of a running gateway, for tools on the same host such as the health check of a container.
//!
//! Only `listeners.status` and `run_dir` are read, which no reload changes: the file may have mistakes by now.

use std::path::PathBuf;

use super::listen::ListenerConfig;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminEndpointsConfig {
    pub(crate) status: Vec<ListenerConfig>,
    pub(crate) run_dir: Option<PathBuf>,
}
