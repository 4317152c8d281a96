//! Connections before their first request: TLS and its certificates, Unix sockets, the PROXY protocol, limits on
//! connections, and timeouts of silent clients.

mod limits;
mod proxy_protocol;
mod timeouts;
mod tls;
mod unix;

use super::support::agent::{Agent, Step, write};
use super::support::client::{INPUT, post};
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{HEAD, complete_run, run_beginning};

/// An agent that answers each run.
fn start_agent() -> Agent {
    Agent::with_response(HEAD.to_owned() + &complete_run())
}

/// Starts an agent that begins a run and continues when the test resumes it.
fn start_paused_agent() -> Agent {
    let end = complete_run()[run_beginning().len()..].to_owned();
    Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::Pause, write(end)])
}

/// A request that starts a run at `/run`.
fn run_request() -> String {
    post("/run", "", INPUT)
}

/// Like [`start`], and closes the connection after the response.
fn closing_run_request() -> String {
    post("/run", "Connection: close\r\n", INPUT)
}

/// A gateway with these listeners of the data plane behind a plain one, and more keys.
async fn start_gateway(agent: &Agent, data: &str, top: &str) -> Gateway {
    let listeners = format!("{{data: [127.0.0.1:0, {data}], status: 127.0.0.1:0}}");
    Gateway::start(Setup { upstreams: &[agent.url()], listeners: &listeners, top, ..Setup::default() }).await
}

/// The series of connections that were turned away from a listener for a reason.
fn refused_series(listener: &str, reason: &str) -> String {
    format!(r#"diglot_connections_refused_total{{listener="{listener}",plane="data",reason="{reason}"}}"#)
}
