//! `diglot serve`: the gateway.

use super::{Exit, complain};
use crate::app::{App, Origin, Start, StartError};
use crate::telemetry::log;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Configuration file
    #[arg(long, short, env = "DIGLOT_CONFIG", value_name = "FILE")]
    config: PathBuf,

    /// Take over from the gateway that listens in `run_dir`: it keeps the runs that it has, every new one comes here, and no
    /// connection is refused meanwhile. Starts as usual where there is none
    #[arg(long)]
    upgrade: bool,
}

pub(super) fn run(arguments: &Arguments) -> Exit {
    match Origin::read(&arguments.config) {
        Ok((config, origin)) => {
            let _log = log::init();
            let start = if arguments.upgrade { Start::Upgrade } else { Start::Fresh };
            serve(App::bind(config, Some(origin), start))
        }
        Err(problems) => {
            complain(problems);
            Exit::Config
        }
    }
}

/// Serves what was bound, until a signal.
pub(super) fn serve(app: Result<App, StartError>) -> Exit {
    match app.and_then(App::serve) {
        Ok(()) => Exit::Ok,
        Err(error @ StartError::Unusable(_)) => {
            complain(error);
            Exit::Config
        }
        Err(error) => {
            complain(error);
            Exit::Unavailable
        }
    }
}
