//! `diglot drain`: lets the gateway on this machine end, and waits for its runs.

use super::local_gateway::{self, RunDirArgs};
use super::{CliExit, print_error, print_line};
use crate::config;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// For an answer that needs no waiting.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
#[command(
    after_help = "The gateway says 503 on /readyz, takes runs for `drain_grace` yet, lets open ones finish within `drain_timeout`,\n\
                  and ends. A SIGTERM that comes meanwhile changes nothing; a second one ends the runs at once.\n\
                  \n\
                  Exit codes: 0 ok, 1 runs are still open after --timeout, 69 no gateway listens there, 78 bad configuration."
)]
pub(super) struct DrainArgs {
    #[command(flatten)]
    place: RunDirArgs,

    /// Come back when no run is open any more
    #[arg(long)]
    wait: bool,

    /// How long to wait; the gateway goes on all the same
    #[arg(long, requires = "wait", value_parser = config::parse_duration, value_name = "DURATION")]
    timeout: Option<Duration>,
}

pub(super) fn run(arguments: &DrainArgs) -> CliExit {
    match arguments.place.run_dir().and_then(|run_dir| drain(&run_dir, arguments)) {
        Ok(said) => {
            print_line(said);
            CliExit::Ok
        }
        Err(exit) => exit,
    }
}

fn drain(run_dir: &Path, arguments: &DrainArgs) -> Result<&'static str, CliExit> {
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
        return Ok("draining");
    }
    match local_gateway::call_gateway(run_dir, "GET", "/drain/wait", arguments.timeout) {
        Ok(_) => Ok("drained"),
        Err(Ok(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            print_error("runs are still open; the gateway goes on draining");
            Err(CliExit::Problems)
        }
        // It had nothing to wait for, and ended before it could say so.
        Err(_) => Ok("drained, and ended"),
    }
}
