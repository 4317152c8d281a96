//! How the process lives and ends.

use std::path::PathBuf;

use super::{Check, position};
use crate::config::file::{File, Text};
use crate::config::process::Process;
use crate::config::scalar;

/// The longest path of a Unix socket: `sun_path` has 108 bytes, and the last is zero [unix(7)].
const LONGEST: usize = 107;

/// Room for the names of the sockets in the folder, with the number of a process in one of them.
const NAMES: usize = "/admin.4194304.sock".len();

impl Check<'_> {
    pub(super) fn process(&mut self, file: &File) -> Option<Process> {
        let drain_grace = self.value(&file.drain_grace, "drain_grace", scalar::duration_or_zero);
        let drain_timeout = self.value(&file.drain_timeout, "drain_timeout", scalar::duration_or_zero);
        let upgrade_timeout = self.value(&file.upgrade_timeout, "upgrade_timeout", scalar::duration_or_zero);
        let run_dir = file.run_dir.as_ref().map(|written| {
            let folder = self.run_dir(written)?;
            // What is not there is made.
            if folder.metadata().is_ok_and(|found| !found.is_dir()) {
                let hint = "name a folder for the sockets; it is made where it is not there";
                self.note("run_dir", position(written.defined), "there is a file of this name, and no folder", hint);
                return None;
            }
            Some(folder)
        });
        Some(Process {
            drain_grace: drain_grace?,
            drain_timeout: drain_timeout?,
            upgrade_timeout: upgrade_timeout?,
            run_dir: match run_dir {
                Some(read) => Some(read?),
                None => None,
            },
        })
    }

    pub(super) fn run_dir(&mut self, written: &Text) -> Option<PathBuf> {
        let folder = self.file_name(written, "run_dir")?;
        if folder.as_os_str().len() + NAMES <= LONGEST {
            return Some(folder);
        }
        let message = format!("the path has {} bytes, too many for sockets in it", folder.as_os_str().len());
        let hint = format!("name a folder of at most {} bytes, such as `/run/diglot`", LONGEST - NAMES);
        self.note("run_dir", position(written.defined), message, hint);
        None
    }
}
