//! Commands, one file each (`explain` and `recording` belong to `translate`, `local` to `drain` and `reload`). stdout is data, stderr is log and complaint;
//! a closed pipe ends a command quietly.

mod check;
mod completions;
mod config;
mod demo;
mod detect;
mod drain;
mod explain;
mod explain_route;
mod form;
mod healthcheck;
mod local;
mod mock_agent;
mod recording;
mod reload;
mod schema;
mod serve;
mod side;
mod token;
mod translate;
mod verify;
mod version;

use clap::{CommandFactory, Parser, Subcommand};
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Ways for a command to end, by the conventions of `sysexits.h` where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    /// everything is as it should be
    Ok = 0,
    /// problems were found, or a run failed
    Problems = 1,
    /// the command line cannot be understood
    Usage = 2,
    /// something that is needed cannot be had: a port, a file
    Unavailable = 69,
    /// the configuration is wrong
    Config = 78,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Diglot stands between agents and their user interfaces and translates between the dialects of AG-UI and HAI that they
/// speak, both ways, event by event.
#[derive(Parser)]
#[command(
    name = "diglot",
    version,
    propagate_version = true,
    after_help = "Exit codes: 0 ok, 1 problems found or run failed, 2 usage, 69 unavailable (port, input), 78 bad configuration.\n\
                  DIGLOT_LOG sets what is logged to stderr (default: info)."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway
    Serve(serve::Arguments),
    /// Let the gateway on this machine end when its runs have
    Drain(drain::Arguments),
    /// Have the gateway on this machine read its configuration again
    Reload(reload::Arguments),
    /// Say whether a gateway is well, for health checks of containers
    Healthcheck(healthcheck::Arguments),
    /// Run a gateway with agents of its own, to try it: no configuration, no network
    Demo(demo::Arguments),
    /// Say what is wrong with a configuration file, and who may call its routes
    Check(check::Arguments),
    /// Print a configuration with all defaults, and without its secrets
    Config(config::Arguments),
    /// Print the JSON Schema of the configuration, for editors
    Schema(schema::Arguments),
    /// Say what would become of a request: its route, what is asked of it, and what the agent gets
    ExplainRoute(explain_route::Arguments),
    /// Translate a recorded stream or request, offline
    Translate(Box<translate::Arguments>),
    /// Say whether the real client would accept a recorded stream, and what else is wrong with it
    Verify(verify::Arguments),
    /// Name the dialect of a recorded stream or request, and say what tells it
    Detect(detect::Arguments),
    /// Make tokens and API keys to try a gateway with
    Token(Box<token::Arguments>),
    /// Run one of the demo's agents alone
    MockAgent(mock_agent::Arguments),
    /// Print a script that completes this command line in a shell
    Completions(completions::Arguments),
    /// Print which build this is
    Version,
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let exit = match Arguments::try_parse() {
        Ok(Arguments { command }) => match command {
            Command::Serve(arguments) => serve::run(&arguments),
            Command::Drain(arguments) => drain::run(&arguments),
            Command::Reload(arguments) => reload::run(&arguments),
            Command::Healthcheck(arguments) => healthcheck::run(&arguments),
            Command::Demo(arguments) => demo::run(&arguments),
            Command::Check(arguments) => check::run(&arguments),
            Command::Config(arguments) => config::run(&arguments),
            Command::Schema(arguments) => schema::run(&arguments),
            Command::ExplainRoute(arguments) => explain_route::run(&arguments),
            Command::Translate(arguments) => translate::run(&arguments),
            Command::Verify(arguments) => verify::run(&arguments),
            Command::Detect(arguments) => detect::run(&arguments),
            Command::Token(arguments) => token::run(&arguments),
            Command::MockAgent(arguments) => mock_agent::run(&arguments),
            Command::Completions(arguments) => completions::run(&arguments, Arguments::command()),
            Command::Version => version::run(),
        },
        Err(error) => {
            // `--help` and `--version` come this way too, for stdout and with success.
            let _ = error.print();
            if error.use_stderr() { Exit::Usage } else { Exit::Ok }
        }
    };
    exit.into()
}

/// Says on stderr why a command cannot go on.
fn complain(what: impl Display) {
    // Nobody is left to tell when stderr is gone.
    let _ = writeln!(io::stderr(), "diglot: {what}");
}

/// Prints a line of data at once. `false` when the reader of stdout has left.
fn say(line: impl Display) -> bool {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}
