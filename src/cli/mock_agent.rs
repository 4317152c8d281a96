//! `diglot mock-agent`: runs one of the demo agents, for tests.

use super::output::{CliExit, print_error, print_line};
use crate::demo::{self, DemoAgent};
use clap::ValueEnum;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

#[derive(clap::Args)]
pub(super) struct MockAgentArgs {
    /// Dialect of the agent
    #[arg(long, value_enum)]
    dialect: MockDialect,
    /// Text format of a HAI agent
    #[arg(long, value_enum, default_value_t = MockContent::String)]
    content: MockContent,
    /// Address to listen on; port 0 chooses a free port
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Milliseconds between two events
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pace: u64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum MockDialect {
    /// HAI
    Hai,
    /// AG-UI 1.0
    AgUi,
    /// AG-UI 0.x
    #[value(name = "ag-ui-0")]
    AgUi0,
    /// AG-UI with snake_case ids
    AgUiSnake,
    /// CloudBase
    Cloudbase,
    /// social-app
    SocialApp,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum MockContent {
    /// plain strings
    String,
    /// output blocks
    Blocks,
}

pub(super) fn run(arguments: &MockAgentArgs) -> CliExit {
    let agent = match (arguments.dialect, arguments.content) {
        (MockDialect::AgUi, _) => DemoAgent::AgUi,
        (MockDialect::AgUi0, _) => DemoAgent::AgUi0,
        (MockDialect::AgUiSnake, _) => DemoAgent::AgUiSnake,
        (MockDialect::Cloudbase, _) => DemoAgent::Cloudbase,
        (MockDialect::SocialApp, _) => DemoAgent::SocialApp,
        (MockDialect::Hai, MockContent::String) => DemoAgent::HaiString,
        (MockDialect::Hai, MockContent::Blocks) => DemoAgent::HaiBlocks,
    };
    let value = arguments.dialect.to_possible_value().unwrap_or_default();
    let name = value.get_name();
    let serving = async {
        let listener = tokio::net::TcpListener::bind(arguments.listen).await?;
        print_line(format_args!("agent {name} http://{}/", listener.local_addr()?));
        let router = demo::router(agent, Duration::from_millis(arguments.pace));
        demo::serve(listener, router, wait_for_signal()).await
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(serving)) {
        Ok(()) => CliExit::Ok,
        Err(error) => {
            print_error(format_args!("cannot serve an agent on {}: {error}", arguments.listen));
            CliExit::Unavailable
        }
    }
}

async fn wait_for_signal() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
}

#[cfg(test)]
mod tests {
    use super::MockDialect;
    use crate::dialect;
    use clap::ValueEnum;

    /// A new dialect needs a demo agent in `src/demo`, which no table can supply.
    #[test]
    fn every_dialect_has_a_mock_agent() {
        let values = MockDialect::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let mut mocked: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
        let mut dialects: Vec<&str> = dialect::ALL.iter().map(|dialect| dialect.name).collect();
        mocked.sort();
        dialects.sort_unstable();
        assert_eq!(mocked, dialects);
    }
}
