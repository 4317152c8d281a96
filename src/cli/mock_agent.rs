//! `diglot mock-agent`: runs an agent for tests: one of the demo, of a dialect file or of a recording.

use super::dialect_arg;
use super::example_agent;
use super::output::{CliExit, CliResult, print_line};
use super::recorded_agent::{ReplaySpeed, read_agent};
use crate::config::dialect_file::DialectFile;
use crate::config::dialect_text;
use crate::config::shipped_dialects::SHIPPED_DIALECTS;
use crate::demo;
use crate::dialect::{self, Dialect, PeerDialect, choices_for};
use clap::builder::PossibleValuesParser;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

const AFTER_HELP: &str = "\
An agent of a built-in dialect holds the conversation of `diglot demo`. An agent of a dialect file answers with the examples of the file: \
a message of the user with the word `tool` gets one with a call of a tool, `error` one that fails, the name of an example that one, \
and any other message the first plain answer. `truncate` and `reset` cut that off after half of it, `status` gets the first error status \
(503 without one), and `html` a page of a proxy. `diglot check --test` checks that the examples are what the dialect file makes of them.

Examples:
  diglot mock-agent --dialect hai --listen 127.0.0.1:9001
  diglot mock-agent --dialect openai-chat --pace 50
  diglot mock-agent --dialect acme-chat.yaml
  diglot mock-agent --recording run.ndjson

Exit codes: 0 ok, 2 usage, 69 the address cannot be used, or the file has no stream.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct MockAgentArgs {
    /// Dialect of the agent
    #[arg(long, value_name = "DIALECT", value_parser = parse_agent, help = agent_help(), required_unless_present = "recording")]
    dialect: Option<MockDialect>,
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

#[derive(Clone)]
enum MockDialect {
    BuiltIn(&'static Dialect),
    File(Arc<DialectFile>),
}

fn parse_agent(text: &str) -> Result<MockDialect, String> {
    match dialect_arg::read_dialect_file(text)? {
        Some(file) => Ok(MockDialect::File(Arc::new(file))),
        None if text.contains('#') => {
            Err(format!("{text} has no examples with which it could answer; name a built-in dialect or a dialect file"))
        }
        None => Ok(MockDialect::BuiltIn(dialect_text::parse_dialect(text)?.dialect)),
    }
}

fn agent_help() -> String {
    let built_in = dialect::ALL.iter().map(|dialect| format!("{} ({})", dialect.name, dialect.demo_agent.description));
    let shipped = SHIPPED_DIALECTS.iter().map(|(name, _)| (*name).to_owned());
    let names: Vec<String> = built_in.chain(shipped).collect();
    format!(
        "Dialect of the agent: {}, a dialect file, or one of a configuration, such as diglot.yaml#acme",
        names.join(", ")
    )
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
    match (&arguments.recording, &arguments.dialect) {
        (Some(file), _) => {
            let script = read_agent(file, ReplaySpeed::Max)?;
            serve_agent(arguments.listen, &file.display().to_string(), &[], demo::replay_router(script))
        }
        (None, Some(MockDialect::BuiltIn(dialect))) => {
            let agent = find_agent(dialect, &arguments.content);
            serve_agent(arguments.listen, dialect.name, &[], demo::router(agent, Duration::from_millis(arguments.pace)))
        }
        (None, Some(MockDialect::File(file))) => {
            let agent = example_agent::create(file, Duration::from_millis(arguments.pace))?;
            let offers = agent.offers().into_iter().map(|(word, example)| {
                let text = if word.is_empty() { "any other message".to_owned() } else { format!("`{word}` in it") };
                format!("  {text:<17}  {example}")
            });
            let offers: Vec<String> = offers.collect();
            serve_agent(arguments.listen, &file.dialect.name, &offers, demo::example_router(agent))
        }
        // Clap requires one of the two options.
        (None, None) => Ok(CliExit::Usage),
    }
}

/// Serves an agent until a signal. `name` is printed with its address, and `offers` below it.
pub(super) fn serve_agent(listen: SocketAddr, name: &str, offers: &[String], router: demo::AgentRouter) -> CliResult {
    let serving = async {
        let listener = tokio::net::TcpListener::bind(listen).await?;
        print_line(format_args!("agent {name} http://{}/", listener.local_addr()?));
        offers.iter().all(print_line);
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
