//! `diglot mock-agent`: runs one of the demo agents, for tests.

use super::output::{CliExit, CliResult, print_line};
use super::recorded_agent::{ReplaySpeed, read_agent};
use crate::demo;
use crate::dialect::{self, Dialect, PeerDialect, choices_for};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

#[derive(clap::Args)]
pub(super) struct MockAgentArgs {
    /// Dialect of the agent
    #[arg(long, value_parser = dialect_parser(), required_unless_present = "recording")]
    dialect: Option<&'static Dialect>,
    /// Answer with the agent's stream of a recording of `diglot record`, without waits, instead of the demo's
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dialect", "content", "pace"])]
    recording: Option<PathBuf>,
    /// Text format of a HAI agent: plain strings or output blocks
    #[arg(long, default_value = "string", value_parser = PossibleValuesParser::new(choices_for(CONTENT).map(|(_, choice, _)| *choice)))]
    content: String,
    /// Address to listen on; port 0 chooses a free port
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Milliseconds between two events
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pace: u64,
}

/// The dialect option that `--content` sets.
const CONTENT: &str = "content";

fn dialect_parser() -> impl TypedValueParser<Value = &'static Dialect> {
    let values =
        dialect::ALL.iter().map(|dialect| PossibleValue::new(dialect.name).help(dialect.demo_agent.description));
    PossibleValuesParser::new(values).try_map(|name| dialect::find_by_name(&name).ok_or("there is no such dialect"))
}

/// Returns the agent of a dialect with its text format.
fn find_agent(dialect: &'static Dialect, content: &str) -> PeerDialect {
    let mut agent = PeerDialect::new(dialect);
    let content = choices_for(CONTENT).find(|(_, choice, _)| *choice == content);
    if let Some((_, _, set)) = content.filter(|_| dialect.option_names.contains(&CONTENT)) {
        set(&mut agent);
    }
    agent
}

pub(super) fn run(arguments: &MockAgentArgs) -> CliResult {
    match (&arguments.recording, arguments.dialect) {
        (Some(file), _) => {
            let script = read_agent(file, ReplaySpeed::Max)?;
            serve_agent(arguments.listen, &file.display().to_string(), demo::replay_router(script))
        }
        (None, Some(dialect)) => {
            let agent = find_agent(dialect, &arguments.content);
            serve_agent(arguments.listen, dialect.name, demo::router(agent, Duration::from_millis(arguments.pace)))
        }
        // Clap requires one of the two options.
        (None, None) => Ok(CliExit::Usage),
    }
}

/// Serves an agent until a signal. `name` is printed with its address.
pub(super) fn serve_agent(listen: SocketAddr, name: &str, router: demo::AgentRouter) -> CliResult {
    let serving = async {
        let listener = tokio::net::TcpListener::bind(listen).await?;
        print_line(format_args!("agent {name} http://{}/", listener.local_addr()?));
        print_line(format_args!("Ctrl-C ends it, in the background `kill {}`.", std::process::id()));
        demo::serve(listener, router, wait_for_signal()).await
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let served = runtime.and_then(|runtime| runtime.block_on(serving)).map_err(|error| {
        let way_out = if error.kind() == io::ErrorKind::AddrInUse {
            "; stop the process that listens there, or choose another port with --listen (0 for any free one)"
        } else {
            ""
        };
        CliExit::Unavailable.failure(format_args!("cannot serve an agent on {listen}: {error}{way_out}"))
    });
    served.map(|()| CliExit::Ok)
}

async fn wait_for_signal() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
}
