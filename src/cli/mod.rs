//! Commands, one file each (`explain` and `recording` belong to `translate`, `local` to `drain` and `reload`). stdout is data, stderr is log and complaint;
//! a closed pipe ends a command quietly.

mod check;
mod completions;
mod config;
mod demo;
mod detect;
mod dialect_arg;
mod drain;
mod explain_route;
mod healthcheck;
mod input_framing;
mod local_gateway;
mod mock_agent;
mod recording_reader;
mod reload;
mod schema;
mod serve;
mod token;
mod translate;
mod translate_explain;
mod verify;

mod version;

use clap::{CommandFactory, Parser, Subcommand};
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Ways for a command to end, by the conventions of `sysexits.h` where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CliExit {
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

impl From<CliExit> for ExitCode {
    fn from(exit: CliExit) -> Self {
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
struct CliArgs {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Run the gateway
    Serve(serve::ServeArgs),
    /// Let the gateway on this machine end when its runs have
    Drain(drain::DrainArgs),
    /// Have the gateway on this machine read its configuration again
    Reload(reload::ReloadArgs),
    /// Say whether a gateway is well, for health checks of containers
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Run a gateway with agents of its own, to try it: no configuration, no network
    Demo(demo::DemoArgs),
    /// Say what is wrong with a configuration file, and who may call its routes
    Check(check::CheckArgs),
    /// Print a configuration with all defaults, and without its secrets
    Config(config::ConfigArgs),
    /// Print the JSON Schema of the configuration, for editors
    Schema(schema::SchemaArgs),
    /// Say what would become of a request: its route, what is asked of it, and what the agent gets
    ExplainRoute(explain_route::ExplainRouteArgs),
    /// Translate a recorded stream or request, offline
    Translate(Box<translate::TranslateArgs>),
    /// Say whether the real client would accept a recorded stream, and what else is wrong with it
    Verify(verify::VerifyArgs),
    /// Name the dialect of a recorded stream or request, and say what tells it
    Detect(detect::DetectArgs),
    /// Make tokens and API keys to try a gateway with
    Token(Box<token::TokenArgs>),
    /// Run one of the demo's agents alone
    MockAgent(mock_agent::MockAgentArgs),
    /// Print a script that completes this command line in a shell
    Completions(completions::CompletionsArgs),
    /// Print which build this is
    Version,
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let exit = match CliArgs::try_parse() {
        Ok(CliArgs { command }) => match command {
            CliCommand::Serve(arguments) => serve::run(&arguments),
            CliCommand::Drain(arguments) => drain::run(&arguments),
            CliCommand::Reload(arguments) => reload::run(&arguments),
            CliCommand::Healthcheck(arguments) => healthcheck::run(&arguments),
            CliCommand::Demo(arguments) => demo::run(&arguments),
            CliCommand::Check(arguments) => check::run(&arguments),
            CliCommand::Config(arguments) => config::run(&arguments),
            CliCommand::Schema(arguments) => schema::run(&arguments),
            CliCommand::ExplainRoute(arguments) => explain_route::run(&arguments),
            CliCommand::Translate(arguments) => translate::run(&arguments),
            CliCommand::Verify(arguments) => verify::run(&arguments),
            CliCommand::Detect(arguments) => detect::run(&arguments),
            CliCommand::Token(arguments) => token::run(&arguments),
            CliCommand::MockAgent(arguments) => mock_agent::run(&arguments),
            CliCommand::Completions(arguments) => completions::run(&arguments, CliArgs::command()),
            CliCommand::Version => version::run(),
        },
        Err(error) => {
            // `--help` and `--version` come this way too, for stdout and with success.
            let _ = error.print();
            if error.use_stderr() { CliExit::Usage } else { CliExit::Ok }
        }
    };
    exit.into()
}

/// Says on stderr why a command cannot go on.
fn print_error(what: impl Display) {
    // Nobody is left to tell when stderr is gone.
    let _ = writeln!(io::stderr(), "diglot: {what}");
}

/// Prints a line of data at once. `false` when the reader of stdout has left.
fn print_line(line: impl Display) -> bool {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}
