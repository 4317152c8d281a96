//! `diglot reload`: has the gateway on this machine read its configuration again.

use super::local_gateway::{self, RunDirArgs};
use super::{CliExit, print_error, print_line};
use std::time::Duration;

/// Names of agents may have to be resolved.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
#[command(after_help = "stdout says what differs now. A configuration with mistakes changes nothing.\n\
                  \n\
                  Exit codes: 0 ok, 69 no gateway listens there, 78 bad configuration, with all that is wrong with it on stderr.")]
pub(super) struct ReloadArgs {
    #[command(flatten)]
    place: RunDirArgs,
}

pub(super) fn run(arguments: &ReloadArgs) -> CliExit {
    let run_dir = match arguments.place.run_dir() {
        Ok(run_dir) => run_dir,
        Err(exit) => return exit,
    };
    match local_gateway::call_gateway(&run_dir, "POST", "/reload", Some(RELOAD_TIMEOUT)) {
        Ok(answer) if answer.status == 200 => {
            print_line(answer.body.trim_end());
            CliExit::Ok
        }
        Ok(answer) => {
            print_error(answer.body.trim_end());
            CliExit::Config
        }
        Err(Ok(error)) => {
            print_error(error);
            CliExit::Unavailable
        }
        Err(Err(exit)) => exit,
    }
}
