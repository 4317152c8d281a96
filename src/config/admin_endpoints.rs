//! Admin endpoints of a running gateway, for tools on the same host such as a container health check.
//!
//! Reads only `listeners.status` and `run_dir`, which a reload cannot change; mistakes elsewhere do not matter.

use std::path::PathBuf;

use super::listen::ListenerConfig;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminEndpointsConfig {
    pub(crate) status: Vec<ListenerConfig>,
    pub(crate) run_dir: Option<PathBuf>,
}
