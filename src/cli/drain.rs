//! `diglot drain`: lets the gateway on this machine end, and waits for its runs.

use super::local::{self, Place};
use super::{Exit, complain, say};
use crate::config;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// For an answer that needs no waiting.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
#[command(
    after_help = "The gateway says 503 on /readyz, takes runs for `drain_grace` yet, lets open ones finish within `drain_timeout`,\n\
                  and ends. A SIGTERM that comes meanwhile changes nothing; a second one ends the runs at once.\n\
                  \n\
                  Exit codes: 0 ok, 1 runs are still open after --timeout, 69 no gateway listens there, 78 bad configuration."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: Place,

    /// Come back when no run is open any more
    #[arg(long)]
    wait: bool,

    /// How long to wait; the gateway goes on all the same
    #[arg(long, requires = "wait", value_parser = config::duration, value_name = "DURATION")]
    timeout: Option<Duration>,
}

pub(super) fn run(arguments: &Arguments) -> Exit {
    match arguments.place.run_dir().and_then(|run_dir| drain(&run_dir, arguments)) {
        Ok(said) => {
            say(said);
            Exit::Ok
        }
        Err(exit) => exit,
    }
}

fn drain(run_dir: &Path, arguments: &Arguments) -> Result<&'static str, Exit> {
    let failed = |error| match error {
        Ok(error) => {
            complain(error);
            Exit::Unavailable
        }
        Err(exit) => exit,
    };
    let answer = local::ask(run_dir, "POST", "/drain", Some(PATIENCE)).map_err(failed)?;
    if answer.status != 202 {
        complain(answer.text.trim_end());
        return Err(Exit::Unavailable);
    }
    if !arguments.wait {
        return Ok("draining");
    }
    match local::ask(run_dir, "GET", "/drain/wait", arguments.timeout) {
        Ok(_) => Ok("drained"),
        Err(Ok(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            complain("runs are still open; the gateway goes on draining");
            Err(Exit::Problems)
        }
        // It had nothing to wait for, and ended before it could say so.
        Err(_) => Ok("drained, and ended"),
    }
}
