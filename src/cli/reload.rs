//! `diglot reload`: reloads the configuration of the gateway on this machine.

use super::local_gateway::{self, RunDirArgs};
use super::output::{CliExit, print_error, print_line};
use std::time::Duration;

/// Allows for the time to resolve the agents' host names.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(60);

const AFTER_HELP: &str = "\
Prints the changes to stdout. An invalid configuration changes nothing.

Exit codes: 0 ok, 2 usage, 69 no gateway is running there, 78 the configuration is invalid, with all problems on stderr, or \
has no `run_dir`.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
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
