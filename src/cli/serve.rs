//! `diglot serve`: the gateway.

use super::{Exit, complain};
use crate::app::{App, StartError};
use crate::config::load;
use crate::telemetry::log;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Configuration file
    #[arg(long, short, env = "DIGLOT_CONFIG", value_name = "FILE")]
    config: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Exit {
    match load::from_path(&arguments.config) {
        Ok(config) => {
            let _log = log::init();
            serve(App::bind(config))
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
