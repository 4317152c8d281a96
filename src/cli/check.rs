//! `diglot check`: everything that is wrong with a configuration, and who may call each route of one that is right.

use super::{Exit, complain, say};
use crate::config::{Config, load};
use crate::guard::Guard;
use crate::telemetry::Metrics;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Configuration file
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Exit {
    let file = arguments.file.display();
    let wrong = |problems: &dyn Display, count| {
        say(problems);
        complain(format_args!("{file}: {count} problem(s)"));
        Exit::Config
    };
    let config = match load::from_path(&arguments.file) {
        Ok(config) => config,
        Err(problems) => return wrong(&problems, problems.as_slice().len()),
    };
    if let Err(why) = startable(&config) {
        return wrong(&format_args!("{file}: {why}"), 1);
    }
    say(format_args!("{file}: ok, {} route(s)", config.routes.len()));
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

/// Whether `serve` could start with it: only the guard knows which keys can check a signature.
fn startable(config: &Config) -> Result<(), String> {
    let metrics = Metrics::new().map_err(|error| error.to_string())?;
    Guard::new(config, &Arc::new(metrics)).map(drop)
}

/// Says which routes the whole network may call. That may be meant, so it is no mistake.
fn warn_of_open_routes(config: &Config) {
    let reached: Vec<String> =
        config.data.iter().filter(|one| one.is_public()).map(|one| one.address.to_string()).collect();
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
