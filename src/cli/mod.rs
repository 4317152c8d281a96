//! The commands, one file each. All commands share `output`; those about a running gateway share `local_gateway`.
//! `terminal_text` shows text of others. `input` opens files, `recorded_input` recognises recordings of `record`,
//! `input_framing` splits streams, and `recording_reader` returns their events.
//!
//! Commands write data to stdout and logs and errors to stderr, and exit quietly if stdout is closed.

mod dialect_arg;
mod output;
mod completions;
mod config;
mod healthcheck;
mod input;
mod recorded_input;
mod input_framing;
mod local_gateway;
mod terminal_text;
mod capture_modes;
mod capture_switch;
mod metrics_text;
mod run_cause;
mod run_line;
mod inspect;
mod tap;
mod top;
mod drain;
mod recorded_agent;
mod example_agent;
mod mock_agent;
mod recording_reader;
mod event_diff;
mod recording_target;
mod record;
mod replay_client;
mod replay;
mod detect;
mod reload;
mod schema;
mod serve;
mod demo;
mod token;
mod translate_explain;
mod explain_route;
mod frame_sink;
mod stream_failure;
mod check_recordings;
mod example_run;
mod path_hint;
mod condition_words;
mod rule_faults;
mod example_coverage;
mod ignored_frames;
mod unused_tables;
mod example_difference;
mod request_origins;
mod check_examples;
mod check;
mod translate_recording;
mod translate;
mod verify;
mod version;

use self::output::{CliExit, CliFailure};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Exit codes: 0 ok, 1 problems found or run failed, 2 usage, 69 unavailable (port, input), 78 invalid configuration.
DIGLOT_LOG sets the log level on stderr (default: info).";

/// Gateway between AI agents and their user interfaces. Translates between the dialects of AG-UI and HAI, in both
/// directions, event by event
#[derive(Parser)]
#[command(
    name = "diglot",
    version,
    propagate_version = true,
    after_help = AFTER_HELP
)]
struct CliArgs {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Run the gateway
    Serve(serve::ServeArgs),
    /// Shut down the gateway on this machine when its runs have ended
    Drain(drain::DrainArgs),
    /// Reload the configuration of the gateway on this machine
    Reload(reload::ReloadArgs),
    /// Capture runs of the gateway on this machine to look at them, and print the address of the page
    Inspect(inspect::InspectArgs),
    /// Show both sides of the runs of the gateway on this machine, as they happen
    Tap(tap::TapArgs),
    /// Show routes and runs of the gateway on this machine, every second
    Top(top::TopArgs),
    /// Check whether a gateway is healthy, for container health checks
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Run a gateway with built-in agents, to try it without configuration or network
    Demo(demo::DemoArgs),
    /// Check configuration files, and list who may call their routes
    Check(check::CheckArgs),
    /// Print a configuration with all defaults and masked secrets
    Config(config::ConfigArgs),
    /// Print the JSON Schema of the configuration, for editors
    Schema(schema::SchemaArgs),
    /// Explain how the gateway would handle a request: its route, its checks and the request to the agent
    ExplainRoute(explain_route::ExplainRouteArgs),
    /// Translate a recorded stream or request, offline
    Translate(Box<translate::TranslateArgs>),
    /// Check whether the AG-UI client would accept a recorded stream, and list its violations
    Verify(verify::VerifyArgs),
    /// Detect the dialect of a recorded stream or request
    Detect(detect::DetectArgs),
    /// Write the runs of the gateway on this machine to files, to play them again
    Record(record::RecordArgs),
    /// Play the agent of a recorded run, or its client
    Replay(Box<replay::ReplayArgs>),
    /// Create API keys, and tokens for testing
    Token(Box<token::TokenArgs>),
    /// Run an agent for tests: one of the demo, of a dialect file or of a recording
    MockAgent(mock_agent::MockAgentArgs),
    /// Print a shell completion script
    Completions(completions::CompletionsArgs),
    /// Print the version and build
    Version,
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let result = match CliArgs::try_parse() {
        Ok(CliArgs { command }) => match command {
            CliCommand::Serve(arguments) => serve::run(&arguments),
            CliCommand::Drain(arguments) => drain::run(&arguments),
            CliCommand::Reload(arguments) => reload::run(&arguments),
            CliCommand::Inspect(arguments) => inspect::run(&arguments),
            CliCommand::Tap(arguments) => tap::run(&arguments),
            CliCommand::Top(arguments) => top::run(&arguments),
            CliCommand::Healthcheck(arguments) => healthcheck::run(&arguments),
            CliCommand::Demo(arguments) => demo::run(&arguments),
            CliCommand::Check(arguments) => check::run(&arguments),
            CliCommand::Config(arguments) => config::run(&arguments),
            CliCommand::Schema(arguments) => schema::run(&arguments),
            CliCommand::ExplainRoute(arguments) => explain_route::run(&arguments),
            CliCommand::Translate(arguments) => translate::run(&arguments),
            CliCommand::Verify(arguments) => verify::run(&arguments),
            CliCommand::Detect(arguments) => detect::run(&arguments),
            CliCommand::Record(arguments) => record::run(&arguments),
            CliCommand::Replay(arguments) => replay::run(&arguments),
            CliCommand::Token(arguments) => token::run(&arguments),
            CliCommand::MockAgent(arguments) => mock_agent::run(&arguments),
            CliCommand::Completions(arguments) => completions::run(&arguments, CliArgs::command()),
            CliCommand::Version => version::run(),
        },
        Err(error) => {
            // `--help` and `--version` are also errors here, but with stdout and exit code 0.
            let _ = error.print();
            Ok(if error.use_stderr() { CliExit::Usage } else { CliExit::Ok })
        }
    };
    result.unwrap_or_else(CliFailure::report).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clap wraps every help line, and a wrapped example cannot be copied.
    #[test]
    fn examples_fit_a_terminal_of_80_columns() {
        for command in CliArgs::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().filter(|line| line.starts_with("  ")) {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
        }
    }

    /// Clap would wrap hand-wrapped lines again.
    #[test]
    fn paragraphs_are_not_wrapped_by_hand() {
        for command in CliArgs::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for paragraph in help.split("\n\n") {
                let lines = paragraph.lines().filter(|line| !line.starts_with("  ")).count();
                assert!(lines <= 1, "{}: {paragraph}", command.get_name());
            }
        }
    }
}
