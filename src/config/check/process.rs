//! Checks the control socket directory.

use std::path::Path;

use crate::config::checker::{ConfigChecker, Place};
use crate::config::kind;
use crate::config::text::Scalar;

/// Maximum length of a Unix socket path: `sun_path` has 108 bytes, including the final NUL [unix(7)].
const MAX_SOCKET_PATH: usize = 107;

/// Room for the longest socket name, which contains the process id.
const SOCKET_NAME_LENGTH: usize = "/admin.4194304.sock".len();

impl ConfigChecker<'_> {
    pub(super) fn check_run_dir(&mut self, run_dir: &Path, written: &Scalar<kind::FileName>) {
        let at = Place::new("run_dir").with_position_of(written);
        let length = run_dir.as_os_str().len();
        if length + SOCKET_NAME_LENGTH > MAX_SOCKET_PATH {
            let message = format!("the path has {length} bytes, which is too long for the sockets in it");
            let longest = MAX_SOCKET_PATH - SOCKET_NAME_LENGTH;
            let hint = format!("name a directory of at most {longest} bytes, such as `/run/diglot`");
            self.report_error(&at, message, hint);
        } else if run_dir.metadata().is_ok_and(|found| !found.is_dir()) {
            // A missing directory is created.
            let hint = "name a directory for the sockets; it is created if it does not exist";
            self.report_error(&at, "this is a file, not a directory", hint);
        }
    }
}
