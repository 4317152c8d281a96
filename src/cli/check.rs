//! `diglot check`: everything that is wrong with a configuration.

use super::{Exit, complain, say};
use crate::config::load;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Configuration file
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Exit {
    match load::from_path(&arguments.file) {
        Ok(config) => {
            say(format_args!("{}: ok, {} route(s)", arguments.file.display(), config.routes.len()));
            for route in &config.routes {
                let hosts: Vec<&str> = route.upstreams.iter().map(|upstream| upstream.url.as_str()).collect();
                let (client, agent) = (route.client.name(), route.agent.name());
                say(format_args!(
                    "  {}  {client} clients at {} -> {agent} agent at {}",
                    route.name,
                    route.path,
                    hosts.join(", ")
                ));
            }
            Exit::Ok
        }
        Err(problems) => {
            let count = problems.as_slice().len();
            say(problems);
            complain(format_args!("{}: {count} problem(s)", arguments.file.display()));
            Exit::Config
        }
    }
}
