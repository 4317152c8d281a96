//! Checks the admin endpoints of a file, ignoring its other keys.

use super::{ConfigChecker, collect_values};
use crate::config::admin_endpoints::AdminEndpointsConfig;
use crate::config::file;
use crate::config::problem::ConfigProblem;
use crate::config::source::SourceText;

/// Checks these keys of a file, which was read from `source`.
pub(in crate::config) fn check_admin_endpoints(
    source: &SourceText<'_>,
    written: &file::AdminEndpointsSpec,
) -> Result<AdminEndpointsConfig, Vec<ConfigProblem>> {
    let mut check = ConfigChecker::new(source);
    // The data plane is not looked at: its certificate may be on its way from one to the next.
    let status = check.check_sockets(&written.listeners.status, "listeners.status", None);
    let run_dir = written.run_dir.as_ref().map(|folder| check.check_run_dir(folder));
    let read = collect_values(status).zip(run_dir.map_or(Some(None), |read| read.map(Some)));
    check.finish(read.map(|(status, run_dir)| AdminEndpointsConfig { status, run_dir }))
}
