//! `diglot mock-agent`: one of the demo's agents alone, for tests and for trying a gateway.

use super::{Exit, complain, say};
use crate::demo::{self, Agent};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// What the agent speaks
    #[arg(long, value_enum)]
    dialect: Dialect,
    /// How a HAI agent writes text
    #[arg(long, value_enum, default_value_t = Content::String)]
    content: Content,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Milliseconds between two events
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pace: u64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Dialect {
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
enum Content {
    /// plain strings
    String,
    /// output blocks
    Blocks,
}

pub(super) fn run(arguments: &Arguments) -> Exit {
    let (agent, name) = match (arguments.dialect, arguments.content) {
        (Dialect::AgUi, _) => (Agent::AgUi, "ag-ui"),
        (Dialect::AgUi0, _) => (Agent::AgUi0, "ag-ui-0"),
        (Dialect::AgUiSnake, _) => (Agent::AgUiSnake, "ag-ui-snake"),
        (Dialect::Cloudbase, _) => (Agent::Cloudbase, "cloudbase"),
        (Dialect::SocialApp, _) => (Agent::SocialApp, "social-app"),
        (Dialect::Hai, Content::String) => (Agent::HaiString, "hai"),
        (Dialect::Hai, Content::Blocks) => (Agent::HaiBlocks, "hai"),
    };
    let serving = async {
        let listener = tokio::net::TcpListener::bind(arguments.listen).await?;
        say(format_args!("agent {name} http://{}/", listener.local_addr()?));
        let router = demo::router(agent, Duration::from_millis(arguments.pace));
        demo::serve(listener, router, interrupted()).await
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(serving)) {
        Ok(()) => Exit::Ok,
        Err(error) => {
            complain(format_args!("cannot serve an agent on {}: {error}", arguments.listen));
            Exit::Unavailable
        }
    }
}

async fn interrupted() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
}
