//! `diglot drain`: shuts down the gateway on this machine, and can wait for its runs.

use super::local_gateway::{self, RunDirArgs};
use super::output::{CliExit, print_error, print_line};
use crate::config;
use std::io::ErrorKind;
use std::path::Path;
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

pub(super) fn run(arguments: &DrainArgs) -> CliExit {
    match arguments.place.run_dir().and_then(|run_dir| drain(&run_dir, arguments)) {
        Ok(message) => {
            print_line(&message);
            CliExit::Ok
        }
        Err(exit) => exit,
    }
}

fn drain(run_dir: &Path, arguments: &DrainArgs) -> Result<String, CliExit> {
    let failed = |error| match error {
        Ok(error) => {
            print_error(error);
            CliExit::Unavailable
        }
        Err(exit) => exit,
    };
    let answer = local_gateway::call_gateway(run_dir, "POST", "/drain", Some(ANSWER_TIMEOUT)).map_err(failed)?;
    if answer.status != 202 {
        print_error(answer.body.trim_end());
        return Err(CliExit::Unavailable);
    }
    if !arguments.wait {
        return Ok("draining".to_owned());
    }
    match local_gateway::call_gateway(run_dir, "GET", "/drain/wait", arguments.timeout) {
        Ok(answer) => Ok(answer.body.trim_end().to_owned()),
        Err(Ok(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            print_error("runs are still open; the gateway continues to drain");
            Err(CliExit::Problems)
        }
        // Without open runs, the gateway may exit before it answers.
        Err(_) => Ok("drained, and exited".to_owned()),
    }
}
