//! `diglot mock-agent`: runs one of the demo agents, for tests.

use super::output::{CliExit, CliResult, print_line};
use crate::demo;
use crate::dialect::{self, Dialect, PeerDialect, choices_for};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

#[derive(clap::Args)]
pub(super) struct MockAgentArgs {
    /// Dialect of the agent
    #[arg(long, value_parser = dialect_parser())]
    dialect: &'static Dialect,
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

impl MockAgentArgs {
    fn agent(&self) -> PeerDialect {
        let mut agent = PeerDialect::new(self.dialect);
        let content = choices_for(CONTENT).find(|(_, choice, _)| *choice == self.content);
        if let Some((_, _, set)) = content.filter(|_| self.dialect.option_names.contains(&CONTENT)) {
            set(&mut agent);
        }
        agent
    }
}

pub(super) fn run(arguments: &MockAgentArgs) -> CliResult {
    let serving = async {
        let listener = tokio::net::TcpListener::bind(arguments.listen).await?;
        print_line(format_args!("agent {} http://{}/", arguments.dialect.name, listener.local_addr()?));
        print_line(format_args!("Ctrl-C ends it, in the background `kill {}`.", std::process::id()));
        let router = demo::router(arguments.agent(), Duration::from_millis(arguments.pace));
        demo::serve(listener, router, wait_for_signal()).await
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let served = runtime.and_then(|runtime| runtime.block_on(serving)).map_err(|error| {
        let way_out = if error.kind() == io::ErrorKind::AddrInUse {
            "; stop the process that listens there, or choose another port with --listen (0 for any free one)"
        } else {
            ""
        };
        CliExit::Unavailable.failure(format_args!("cannot serve an agent on {}: {error}{way_out}", arguments.listen))
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
