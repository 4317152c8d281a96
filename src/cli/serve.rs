//! `diglot serve`: runs the gateway.

use super::output::{CliExit, print_error};
use crate::app::{App, ConfigSource, StartError, StartMode};
use crate::telemetry::log;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct ServeArgs {
    /// Configuration file
    #[arg(long, short, env = "DIGLOT_CONFIG", value_name = "FILE")]
    config: PathBuf,

    /// Take over from the gateway in `run_dir`: it finishes its open runs, this process gets all new ones, and no connection is
    /// refused in between. Without a running gateway starts as usual
    #[arg(long)]
    upgrade: bool,
}

pub(super) fn run(arguments: &ServeArgs) -> CliExit {
    match ConfigSource::read(&arguments.config) {
        Ok((config, source)) => {
            let _log = log::init();
            let mode = if arguments.upgrade { StartMode::Upgrade } else { StartMode::NewSockets };
            serve(App::bind(config, Some(source), mode))
        }
        Err(problems) => {
            print_error(problems);
            CliExit::Config
        }
    }
}

/// Serves until the process receives a signal.
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
