//! `diglot serve`: runs the gateway.

use super::output::{CliExit, CliResult};
use crate::app::{App, ConfigSource, StartMode};
use crate::telemetry::log;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct ServeArgs {
    /// Configuration file
    #[arg(long, short, env = "DIGLOT_CONFIG", value_name = "FILE")]
    config: PathBuf,

    /// Take over from the gateway in `run_dir`: it finishes its open runs, this process gets all new ones, and no
    /// connection is refused in between. Without a running gateway, it starts as usual
    #[arg(long)]
    upgrade: bool,
}

pub(super) fn run(arguments: &ServeArgs) -> CliResult {
    let (config, source) = ConfigSource::read(&arguments.config)?;
    let _log = log::init();
    let mode = if arguments.upgrade { StartMode::Upgrade } else { StartMode::NewSockets };
    App::bind(config, Some(source), mode)?.serve()?;
    Ok(CliExit::Ok)
}
