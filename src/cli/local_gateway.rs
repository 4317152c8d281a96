//! The admin socket of this machine's gateway, for the commands about a running gateway.

use super::output::{CliExit, CliFailure};
use crate::admin::{self, AdminResponse};
use crate::config::admin_endpoints::AdminEndpointsConfig;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
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
    pub(super) fn run_dir(&self) -> Result<PathBuf, CliFailure> {
        if let Some(run_dir) = &self.run_dir {
            return Ok(run_dir.clone());
        }
        // Clap requires one of the two options.
        let file = self.config.clone().unwrap_or_default();
        // The running gateway has its own copy: a mistake made in the file since then must not prevent a drain.
        AdminEndpointsConfig::read(&file)?.run_dir.ok_or_else(|| {
            CliExit::Config.failure(format_args!(
                "{}: `run_dir` is not set, so the gateway has no admin socket; set it and restart (SIGTERM drains, SIGHUP reloads without it)",
                file.display()
            ))
        })
    }
}

/// Sends a command to the gateway in `run_dir`.
pub(super) fn send_command(run_dir: &Path, path: &str, timeout: Duration) -> Result<AdminResponse, CliFailure> {
    admin::send_request(run_dir, "POST", path, Some(timeout)).map_err(|error| connection_failure(run_dir, &error))
}

/// Explains why the gateway in `run_dir` did not answer.
pub(super) fn connection_failure(run_dir: &Path, error: &io::Error) -> CliFailure {
    if is_unreachable(error) {
        let way_out = match error.kind() {
            ErrorKind::PermissionDenied => "only the gateway's user may; run this as that user",
            _ => "start it, or name the `run_dir` of its configuration",
        };
        return CliExit::Unavailable
            .failure(format_args!("cannot connect to a gateway in {}: {error}; {way_out}", run_dir.display()));
    }
    CliExit::Unavailable.failure(error)
}

/// Returns whether there is no gateway, rather than one that answers with an error.
pub(super) fn is_unreachable(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied)
}

/// Runs a command that reads streams of the gateway; see [`admin::open_stream`].
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, CliFailure>>) -> Result<T, CliFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| CliExit::Unavailable.failure(error))?.block_on(work)
}
