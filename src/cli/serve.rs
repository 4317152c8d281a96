//! `diglot serve`: the gateway.

use super::{CliExit, print_error};
use crate::app::{App, ConfigSource, StartError, StartMode};
use crate::telemetry::log;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct ServeArgs {
    /// Configuration file
    #[arg(long, short, env = "DIGLOT_CONFIG", value_name = "FILE")]
    config: PathBuf,

    /// Take over from the gateway that listens in `run_dir`: it keeps the runs that it has, every new one comes here, and no
    /// connection is refused meanwhile. Starts as usual where there is none
    #[arg(long)]
    upgrade: bool,
}

pub(super) fn run(arguments: &ServeArgs) -> CliExit {
    match ConfigSource::read(&arguments.config) {
        Ok((config, origin)) => {
            let _log = log::init();
            let start = if arguments.upgrade { StartMode::Upgrade } else { StartMode::NewSockets };
            serve(App::bind(config, Some(origin), start))
        }
        Err(problems) => {
            print_error(problems);
            CliExit::Config
        }
    }
}

/// Serves what was bound, until a signal.
pub(super) fn serve(app: Result<App, StartError>) -> CliExit {
    match app.and_then(App::serve) {
        Ok(()) => CliExit::Ok,
        Err(error @ StartError::Unusable(_)) => {
            print_error(error);
            CliExit::Config
        }
        Err(error) => {
            print_error(error);
            CliExit::Unavailable
        }
    }
}
