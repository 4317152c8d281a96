//! `diglot reload`: reloads the configuration of the gateway on this machine.

use super::local_gateway::{self, RunDirArgs};
use super::output::{CliExit, CliResult, print_result};
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

pub(super) fn run(arguments: &ReloadArgs) -> CliResult {
    let answer = local_gateway::send_command(&arguments.place.run_dir()?, "/reload", RELOAD_TIMEOUT)?;
    let text = answer.body.trim_end();
    if answer.status == 200 { print_result(text) } else { Err(CliExit::Config.failure(text)) }
}
