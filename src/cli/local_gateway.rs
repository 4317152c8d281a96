//! What `drain` and `reload` have in common: the gateway on this machine that they speak to.

use super::{Exit, complain};
use crate::admin::{self, Answer};
use crate::config::reach::Reach;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

/// Where the gateway listens.
#[derive(clap::Args)]
pub(super) struct Place {
    /// Configuration file of the gateway, for its `run_dir`
    #[arg(long, short, env = "DIGLOT_CONFIG", value_name = "FILE", required_unless_present = "run_dir")]
    config: Option<PathBuf>,

    /// The gateway's `run_dir`, in place of a configuration
    #[arg(long, value_name = "FOLDER")]
    run_dir: Option<PathBuf>,
}

impl Place {
    /// The folder of the gateway's sockets.
    ///
    /// # Errors
    /// That there is none, said already.
    pub(super) fn run_dir(&self) -> Result<PathBuf, Exit> {
        let (None, Some(file)) = (&self.run_dir, &self.config) else {
            return self.run_dir.clone().ok_or(Exit::Usage);
        };
        // The gateway has its own: a mistake that this file has meanwhile must not keep it from being drained.
        match Reach::read(file).map(|reach| reach.run_dir) {
            Ok(Some(run_dir)) => Ok(run_dir),
            Ok(None) => {
                complain(format_args!(
                    "{}: `run_dir` is not set, so its gateway hears signals alone; set it and restart, or send SIGTERM or SIGHUP",
                    file.display()
                ));
                Err(Exit::Config)
            }
            Err(problems) => {
                complain(problems);
                Err(Exit::Config)
            }
        }
    }
}

/// Asks the gateway in `run_dir`.
///
/// # Errors
/// That none listens there, said already; other errors as they are.
pub(super) fn ask(
    run_dir: &std::path::Path,
    method: &str,
    path: &str,
    patience: Option<Duration>,
) -> Result<Answer, Result<io::Error, Exit>> {
    admin::ask(run_dir, method, path, patience).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied => {
            complain(format_args!("no gateway can be spoken to in {}: {error}", run_dir.display()));
            Err(Exit::Unavailable)
        }
        _ => Ok(error),
    })
}
