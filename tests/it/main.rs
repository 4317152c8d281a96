//! The integration tests, one binary. A line per module on what belongs there:
//!
//! - `access`: API keys, what routes want of their callers, whose a thread is; `diglot token`.
//! - `access_log`: the lines that runs and refusals leave; every field of theirs is documented.
//! - `architecture`: rules for the text of the sources, and for the glossary and CONTRIBUTING.md; runs nothing.
//! - `auth`: who is believed: tokens, their issuers' keys, and how a refusal is said; an authority for one server's TLS.
//! - `auto`: routes whose dialects are told by what is said.
//! - `between`: what networks do between client, gateway, agent and Redis; a gateway that is killed.
//! - `check`: what is said of configurations, to people and to machines.
//! - `cli`: what the commands say to a person, and their exit codes.
//! - `client`: what a client can do to a run: leave, stop reading.
//! - `cors`: pages of other origins.
//! - `edges`: what a connection meets before HTTP: TLS, Unix sockets, the PROXY protocol, limits, clocks.
//! - `cuts`: an agent that stops after every byte of the corpus.
//! - `drain`: connections and runs while the process ends.
//! - `exact`: JSON compared with its digits, for the two modules below.
//! - `explain_route`: what `diglot explain-route` says, held against what the gateway does.
//! - `faults`: what an agent can do to a run, and what its client then sees.
//! - `forwarded`: what the agent hears about its caller, and what of that a client can forge: nothing.
//! - `golden`: streams and requests as folders: what goes in, what has to come out, at every split.
//! - `guard`: what the run guard of a stream mends, refuses and counts, a row per rule.
//! - `h2`: HTTP/2 that no library would write.
//! - `held`: how much a run may have the gateway hold.
//! - `kubernetes`: the manifests and the chart of `deploy/`, by the tools that take them, and each pod's gateway for real.
//! - `laws`: nothing is lost, over generated streams (`translation.md` §2).
//! - `lifecycle`: start, drain and end of the process; exit codes.
//! - `limits`: how often callers may call and how much at once, counted here and in a real Redis.
//! - `load`: many events, many streams, memory.
//! - `packaging`: where it is installed: image, compose, systemd, health checks, completions.
//! - `metrics`: the metrics, as Prometheus reads them.
//! - `monitoring`: alerts, their runbook and the dashboard, held against the metrics and a real Prometheus.
//! - `pages`: pages that are made from the code, held equal to it.
//! - `policy`: what a route lets a run do.
//! - `proto`: the protobuf transport, both ways.
//! - `readme`: links of the pages, and the README in two languages.
//! - `refusals`: refusals that a client hears of in events.
//! - `reload`: another configuration while the gateway serves; the socket that it is spoken to by.
//! - `requests`: what reaches the agent, and what is refused before.
//! - `resume`: runs that outlive their clients: coming back to them, stopping them, what is kept.
//! - `schema`: the JSON Schema of the configuration against a validator and against the check.
//! - `secrets`: what must not stand in logs, metrics, answers, and what commands say.
//! - `sides`: words and errors of an operator's own dialect, and how much an older agent is not told.
//! - `smuggling`: requests that mean two things, of HTTP/1 on a bare socket.
//! - `status`: the status plane.
//! - `support`: the gateway as a process, a scripted agent, a small HTTP client.
//! - `traces`: the trace of a request at the agent and in the log, and a collector of its spans.
//! - `two_steps`: runs that are started with POST and read with GET, on either side.
//! - `upgrade`: a process takes over from another.
//! - `upstreams`: which agent is asked, over which connection, and what happens when one fails.
//! - `verify`: what the gateway writes, held against the verifier.
//! - `wild`: whatever an agent says, what leaves is accepted.

mod access;
mod access_log;
mod arbitrary_streams;
mod architecture;
mod auth;
mod auto;
mod buffer_limits;
mod check;
mod cli;
mod client;
mod cors;
mod custom_dialects;
mod drain;
mod exact_json;
mod explain_route;
mod faults;
mod forwarded;
mod golden;
mod guard;
mod h2;
mod kubernetes;
mod laws;
mod lifecycle;
mod limits;
mod listeners;
mod load;
mod metrics;
mod monitoring;
mod network_faults;
mod packaging;
mod pages;
mod policy;
mod proto;
mod readme;
mod refusals;
mod reload;
mod requests;
mod resume;
mod schema;
mod secrets;
mod smuggling;
mod status;
mod support;
mod traces;
mod truncation;
mod two_steps;
mod upgrade;
mod upstreams;
mod verify;
