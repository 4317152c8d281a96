//! Checks the admin endpoints of a file, ignoring its other keys.

use crate::config::checker::{ConfigChecker, Place};
use crate::config::file::AdminEndpointsSpec;
use crate::config::listen::ListenerConfig;
use crate::config::problem::ConfigProblem;
use crate::config::section::FileValue;
use crate::config::source::SourceText;
use std::path::PathBuf;

pub(in crate::config) fn check_admin_endpoints(
    source: &SourceText<'_>,
    written: &AdminEndpointsSpec,
) -> Result<(Vec<ListenerConfig>, Option<PathBuf>), Vec<ConfigProblem>> {
    let mut checker = ConfigChecker::new(source);
    // The data plane is not checked: its certificate may be mid-replacement.
    let status = written.listeners.status.check(&mut checker, &Place::new("listeners.status"));
    let run_dir = written.run_dir.check(&mut checker, &Place::new("run_dir"));
    if let (Some(Some(run_dir)), Some(written)) = (&run_dir, &written.run_dir) {
        checker.check_run_dir(run_dir, written);
    }
    checker.finish(status.zip(run_dir))
}
