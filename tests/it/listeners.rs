//! What a connection meets before there is a request on it: TLS and its certificates, Unix sockets, the PROXY protocol,
//! limits on connections, and the clocks of those who say nothing.

mod limits;
mod patience;
mod proxy_protocol;
mod tls;
mod unix;

use super::support::agent::{Agent, Step, write};
use super::support::client::{INPUT, post};
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{HEAD, begun, whole};

/// An agent that answers each run.
fn answering() -> Agent {
    Agent::answering(HEAD.to_owned() + &whole())
}

/// An agent that begins a run and goes on with it when it is told to.
fn halfway() -> Agent {
    let end = whole()[begun().len()..].to_owned();
    Agent::playing(vec![Step::Read, write(HEAD.to_owned() + &begun()), Step::Pause, write(end)])
}

/// A request that starts a run at `/run`.
fn start() -> String {
    post("/run", "", INPUT)
}

/// As [`start`], with the end of the connection behind the answer.
fn start_and_end() -> String {
    post("/run", "Connection: close\r\n", INPUT)
}

/// A gateway with these listeners of the data plane behind a plain one, and more keys.
async fn gateway(agent: &Agent, data: &str, top: &str) -> Gateway {
    let listeners = format!("{{data: [127.0.0.1:0, {data}], status: 127.0.0.1:0}}");
    Gateway::start(Setup { upstreams: &[agent.url()], listeners: &listeners, top, ..Setup::default() }).await
}

/// The series of connections that were turned away from a listener for a reason.
fn turned(listener: &str, reason: &str) -> String {
    format!(r#"diglot_connections_refused_total{{listener="{listener}",plane="data",reason="{reason}"}}"#)
}
