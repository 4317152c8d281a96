//! `diglot check`: everything that is wrong with a configuration, and who may call each route of one that is right.

use super::{Exit, complain, say};
use crate::config::{Config, load};
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
                let callers = &route.access.methods;
                let callers = if callers.is_empty() { "anybody".to_owned() } else { callers.join(", ") };
                say(format_args!(
                    "  {}  {client} clients at {} -> {agent} agent at {}, for {callers}",
                    route.name,
                    route.path,
                    hosts.join(", ")
                ));
            }
            warn_of_open_routes(&config);
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

/// Says which routes the whole network may call. That may be meant, so it is no mistake.
fn warn_of_open_routes(config: &Config) {
    let reached: Vec<String> =
        config.data.iter().filter(|address| !address.ip().is_loopback()).map(ToString::to_string).collect();
    let open = config.routes.iter().filter(|route| route.access.methods.is_empty()).map(|route| route.name.as_str());
    let open: Vec<&str> = open.collect();
    if !reached.is_empty() && !open.is_empty() {
        complain(format_args!(
            "warning: whoever reaches {} may call {}; `auth` would ask who it is",
            reached.join(", "),
            open.join(", ")
        ));
    }
}
