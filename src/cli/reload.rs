//! `diglot reload`: has the gateway on this machine read its configuration again.

use super::local::{self, Place};
use super::{Exit, complain, say};
use std::time::Duration;

/// Names of agents may have to be resolved.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
#[command(after_help = "stdout says what differs now. A configuration with mistakes changes nothing.\n\
                  \n\
                  Exit codes: 0 ok, 69 no gateway listens there, 78 bad configuration, with all that is wrong with it on stderr.")]
pub(super) struct Arguments {
    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: &Arguments) -> Exit {
    let run_dir = match arguments.place.run_dir() {
        Ok(run_dir) => run_dir,
        Err(exit) => return exit,
    };
    match local::ask(&run_dir, "POST", "/reload", Some(PATIENCE)) {
        Ok(answer) if answer.status == 200 => {
            say(answer.text.trim_end());
            Exit::Ok
        }
        Ok(answer) => {
            complain(answer.text.trim_end());
            Exit::Config
        }
        Err(Ok(error)) => {
            complain(error);
            Exit::Unavailable
        }
        Err(Err(exit)) => exit,
    }
}
