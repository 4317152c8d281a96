//! `diglot drain`: shuts down the gateway on this machine, and can wait for its runs.

use super::local_gateway::{self, RunDirArgs};
use super::output::{CliExit, CliResult, print_result};
use crate::{admin, config};
use std::io::ErrorKind;
use std::time::Duration;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

const AFTER_HELP: &str = "\
The gateway answers 503 on /readyz, accepts new runs for `drain_grace`, lets open runs finish within `drain_timeout`, and \
exits; runs that are still open then end with an error, and --wait prints their number. A SIGTERM during the drain has no effect; a second one ends the runs at once.

Exit codes: 0 ok, 1 runs are still open after --timeout, 2 usage, 69 no gateway is running there, 78 the configuration is \
invalid or has no `run_dir`.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct DrainArgs {
    #[command(flatten)]
    place: RunDirArgs,

    /// Wait until no run is open
    #[arg(long)]
    wait: bool,

    /// Longest time to wait; the gateway continues to drain afterwards
    #[arg(long, requires = "wait", value_parser = config::parse_duration, value_name = "DURATION")]
    timeout: Option<Duration>,
}

pub(super) fn run(arguments: &DrainArgs) -> CliResult {
    let run_dir = arguments.place.run_dir()?;
    let answer = local_gateway::send_command(&run_dir, "/drain", ANSWER_TIMEOUT)?;
    if answer.status != 202 {
        return Err(CliExit::Unavailable.failure(answer.body.trim_end()));
    }
    if !arguments.wait {
        return print_result("draining");
    }
    match admin::send_request(&run_dir, "GET", "/drain/wait", arguments.timeout) {
        Ok(answer) => print_result(answer.body.trim_end()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Err(CliExit::Problems.failure("runs are still open; the gateway continues to drain"))
        }
        // Without open runs, the gateway may exit before it answers.
        Err(_) => print_result("drained, and exited"),
    }
}
