//! Checks the settings for drain, upgrade and the control socket.

use std::path::PathBuf;

use super::{ConfigChecker, position};
use crate::config::file::{ConfigFile, Scalar};
use crate::config::process::ProcessConfig;
use crate::config::scalar;
use crate::config::schema::kind;

/// The longest path of a Unix socket: `sun_path` has 108 bytes, and the last is zero [unix(7)].
const MAX_SOCKET_PATH: usize = 107;

/// Room for the names of the sockets in the folder, with the number of a process in one of them.
const SOCKET_NAME_LENGTH: usize = "/admin.4194304.sock".len();

impl ConfigChecker<'_> {
    pub(super) fn check_process(&mut self, file: &ConfigFile) -> Option<ProcessConfig> {
        let drain_grace = self.read_value(&file.drain_grace, "drain_grace", scalar::parse_duration_or_zero);
        let drain_timeout = self.read_value(&file.drain_timeout, "drain_timeout", scalar::parse_duration_or_zero);
        let upgrade_timeout = self.read_value(&file.upgrade_timeout, "upgrade_timeout", scalar::parse_duration_or_zero);
        let run_dir = file.run_dir.as_ref().map(|written| {
            let folder = self.check_run_dir(written)?;
            // A missing directory is created.
            if folder.metadata().is_ok_and(|found| !found.is_dir()) {
                let hint = "name a directory for the sockets; it is created if it does not exist";
                self.report_error("run_dir", position(written.defined), "this is a file, not a directory", hint);
                return None;
            }
            Some(folder)
        });
        Some(ProcessConfig {
            drain_grace: drain_grace?,
            drain_timeout: drain_timeout?,
            upgrade_timeout: upgrade_timeout?,
            run_dir: match run_dir {
                Some(read) => Some(read?),
                None => None,
            },
        })
    }

    pub(super) fn check_run_dir(&mut self, written: &Scalar<kind::FileName>) -> Option<PathBuf> {
        let folder = self.resolve_file_name(written, "run_dir")?;
        if folder.as_os_str().len() + SOCKET_NAME_LENGTH <= MAX_SOCKET_PATH {
            return Some(folder);
        }
        let message =
            format!("the path has {} bytes, which is too long for the sockets in it", folder.as_os_str().len());
        let hint = format!(
            "name a directory of at most {} bytes, such as `/run/diglot`",
            MAX_SOCKET_PATH - SOCKET_NAME_LENGTH
        );
        self.report_error("run_dir", position(written.defined), message, hint);
        None
    }
}
