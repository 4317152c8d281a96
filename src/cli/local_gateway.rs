//! What `drain` and `reload` have in common: the gateway on this machine that they speak to.

use super::{CliExit, print_error};
use crate::admin::{self, AdminResponse};
use crate::config::admin_endpoints::AdminEndpointsConfig;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

/// Where the gateway listens.
#[derive(clap::Args)]
pub(super) struct RunDirArgs {
    /// Configuration file of the gateway, for its `run_dir`
    #[arg(long, short, env = "DIGLOT_CONFIG", value_name = "FILE", required_unless_present = "run_dir")]
    config: Option<PathBuf>,

    /// The gateway's `run_dir`, in place of a configuration
    #[arg(long, value_name = "FOLDER")]
    run_dir: Option<PathBuf>,
}

impl RunDirArgs {
    /// The folder of the gateway's sockets.
    ///
    /// # Errors
    /// That there is none, said already.
    pub(super) fn run_dir(&self) -> Result<PathBuf, CliExit> {
        let (None, Some(file)) = (&self.run_dir, &self.config) else {
            return self.run_dir.clone().ok_or(CliExit::Usage);
        };
        // The gateway has its own: a mistake that this file has meanwhile must not keep it from being drained.
        match AdminEndpointsConfig::read(file).map(|reach| reach.run_dir) {
            Ok(Some(run_dir)) => Ok(run_dir),
            Ok(None) => {
                print_error(format_args!(
                    "{}: `run_dir` is not set, so its gateway hears signals alone; set it and restart, or send SIGTERM or SIGHUP",
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

/// Asks the gateway in `run_dir`.
///
/// # Errors
/// That none listens there, said already; other errors as they are.
pub(super) fn call_gateway(
    run_dir: &std::path::Path,
    method: &str,
    path: &str,
    timeout: Option<Duration>,
) -> Result<AdminResponse, Result<io::Error, CliExit>> {
    admin::send_request(run_dir, method, path, timeout).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied => {
            print_error(format_args!("no gateway can be spoken to in {}: {error}", run_dir.display()));
            Err(CliExit::Unavailable)
        }
        _ => Ok(error),
    })
}
