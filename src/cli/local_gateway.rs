//! The admin socket of this machine's gateway, for `drain` and `reload`.

use super::output::{CliExit, print_error};
use crate::admin::{self, AdminResponse};
use crate::config::admin_endpoints::AdminEndpointsConfig;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
pub(super) struct RunDirArgs {
    /// Configuration file of the gateway, for its `run_dir`
    #[arg(long, short, env = "DIGLOT_CONFIG", value_name = "FILE", required_unless_present = "run_dir")]
    config: Option<PathBuf>,

    /// The gateway's `run_dir`, instead of a configuration
    #[arg(long, value_name = "FOLDER")]
    run_dir: Option<PathBuf>,
}

impl RunDirArgs {
    /// Returns the directory that contains the gateway's sockets.
    ///
    /// # Errors
    /// Prints a message and fails if there is no such directory.
    pub(super) fn run_dir(&self) -> Result<PathBuf, CliExit> {
        let (None, Some(file)) = (&self.run_dir, &self.config) else {
            return self.run_dir.clone().ok_or(CliExit::Usage);
        };
        // The running gateway has its own copy: a mistake made in the file since then must not prevent a drain.
        match AdminEndpointsConfig::read(file).map(|reach| reach.run_dir) {
            Ok(Some(run_dir)) => Ok(run_dir),
            Ok(None) => {
                print_error(format_args!(
                    "{}: `run_dir` is not set, so the gateway has no admin socket; set it and restart, or send SIGTERM or SIGHUP",
                    file.display()
                ));
                Err(CliExit::Config)
            }
            Err(problems) => {
                print_error(problems);
                Err(CliExit::Config)
            }
        }
    }
}

/// Sends a request to the gateway in `run_dir`.
///
/// # Errors
/// Fails on an I/O error, or if no gateway is running there; prints a message in the latter case.
pub(super) fn call_gateway(
    run_dir: &std::path::Path,
    method: &str,
    path: &str,
    timeout: Option<Duration>,
) -> Result<AdminResponse, Result<io::Error, CliExit>> {
    admin::send_request(run_dir, method, path, timeout).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied => {
            print_error(format_args!("cannot connect to a gateway in {}: {error}", run_dir.display()));
            Err(CliExit::Unavailable)
        }
        _ => Ok(error),
    })
}
