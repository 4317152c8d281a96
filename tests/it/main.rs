//! The integration tests, one binary. What each module covers:
//!
//! - `access`: API keys, requirements of routes, thread ownership, `diglot token`.
//! - `access_log`: the log lines of runs and refusals; every field is documented.
//! - `arbitrary_streams`: the run guard makes any agent stream acceptable, as judged by the verifier.
//! - `architecture`: rules for the source text, the glossary and CONTRIBUTING.md; runs nothing.
//! - `auth`: tokens, issuers and their keys, responses to bad credentials.
//! - `auto`: routes that detect the dialect.
//! - `buffer_limits`: limits on the data that a run makes the gateway keep.
//! - `check`: problems of configurations, as text, JSON and annotations.
//! - `cli`: output and exit codes of the commands.
//! - `client`: clients that leave a run or stop reading.
//! - `cors`: pages of other origins.
//! - `custom_dialects`: dialects that the configuration defines, and output for older agents.
//! - `dialect_files`: agents whose dialects are described by files, and mistakes in those files.
//! - `dialect_file_pieces`: how pieces of texts and calls of dialect files open and close what they belong to.
//! - `dialect_file_examples`: what examples of dialect files state, and the mock agents that answer with them.
//! - `dialect_file_hints`: what `diglot check --test` warns of that only examples show, and the lines that made what differs.
//! - `dialect_file_rules`: what rules of dialect files make of values, ids, lists and ends of runs.
//! - `dialect_file_tools`: the commands with dialect files: check, verify, detect, translate, replay, mock agents.
//! - `dialect_requests`: where the requests of dialect files go, what values do on the way, and errors of agents.
//! - `drain`: connections and runs during a drain.
//! - `earlier_runs`: ids of earlier runs, for clients that do not go on with their messages.
//! - `exact_json`: comparison of JSON by its digits, for other modules.
//! - `explain_route`: `diglot explain-route` reports what the gateway does.
//! - `faults`: agents that fail, and the result for the client.
//! - `forwarded`: the client's address, and the header fields that the agent receives.
//! - `golden`: translations of streams and requests as folders, at every split.
//! - `run_guard`: repairs, violations and losses, one row per rule.
//! - `h2`: HTTP/2 frames that no library would send.
//! - `hostile_runs`: runs that are expensive to translate, and the runs next to them.
//! - `inspect`: what is captured of runs, how much, and who may look.
//! - `inspect_cli`: `diglot inspect`, `tap` and `top` with a running gateway.
//! - `kubernetes`: manifests and chart, validated with their tools, and the gateway of each pod.
//! - `laws`: losslessness over generated streams (`translation.md` §2).
//! - `lifecycle`: start, drain and end of the process; exit codes.
//! - `limits`: rate limits and limits on concurrent runs, in memory and in a real Redis.
//! - `listeners`: connections before HTTP: TLS, Unix sockets, the PROXY protocol, limits, timeouts.
//! - `load`: many events, many streams, memory.
//! - `log_losses`: lines dropped while nobody reads stderr.
//! - `metrics`: the metrics as Prometheus reads them.
//! - `models`: the states of a run over two replicas and of a handover, searched one by one.
//! - `monitoring`: alerts, runbook and dashboard, compared with the metrics and run in a real Prometheus.
//! - `network_faults`: broken networks between client, gateway, agent and Redis; a killed gateway.
//! - `packaging`: image, compose, systemd, health checks, completions.
//! - `pages`: the generated pages are up to date.
//! - `playground`: the playground of the page is a client like any other, behind the token of the inspector.
//! - `policy`: allowed tools and expiring credentials during a run.
//! - `proto`: the protobuf transport in both directions.
//! - `readme`: links of the pages, and the README in two languages.
//! - `recordings`: recorded runs: downloaded, translated, replayed from either side, compared with a configuration.
//! - `refusals`: refusals as events (`errors: run_error`).
//! - `reload`: changes of the configuration in a running process, and the admin socket.
//! - `requests`: translated requests, and requests that are refused.
//! - `resume`: runs that outlive their clients: joining, stopping, retention.
//! - `forgotten_threads`: agents that no longer know a conversation, and the next run of its thread.
//! - `schema`: the JSON Schemas of the configuration and of dialect files, compared with a validator and with `diglot check`.
//! - `secrets`: no credential appears in logs, metrics, responses or the output of commands.
//! - `shortcut`: the shortcut for repeated frames gives what the full way gives.
//! - `smuggling`: ambiguous HTTP/1 requests.
//! - `soak`: a mixed load for a long time, which only `make soak` runs.
//! - `status`: the status plane.
//! - `support`: the gateway as a process, scripted agents, a small HTTP client.
//! - `thread_values`: what the runs of a thread keep for later ones, over several replicas and a Redis that fails.
//! - `traces`: trace context at the agent and in the log, and export to a collector.
//! - `truncation`: agent streams that end after every byte of the corpus.
//! - `two_steps`: runs that are started with POST and read with GET, on either side.
//! - `upgrade`: a process takes over the sockets of another.
//! - `upstreams`: choice of endpoint, connections, failing agents.
//! - `verify`: the verifier accepts what the gateway writes.

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
mod dialect_file_tools;
mod dialect_file_examples;
mod dialect_file_pieces;
mod dialect_file_hints;
mod dialect_file_rules;
mod dialect_files;
mod dialect_requests;
mod forgotten_threads;
mod drain;
mod earlier_runs;
mod exact_json;
mod explain_route;
mod faults;
mod forwarded;
mod golden;
mod h2;
mod hostile_runs;
mod inspect;
mod inspect_cli;
mod kubernetes;
mod laws;
mod lifecycle;
mod limits;
mod listeners;
mod load;
mod log_losses;
mod metrics;
mod models;
mod monitoring;
mod network_faults;
mod packaging;
mod pages;
mod playground;
mod policy;
mod proto;
mod readme;
mod recordings;
mod refusals;
mod reload;
mod requests;
mod resume;
mod run_guard;
mod schema;
mod secrets;
mod shortcut;
mod smuggling;
mod soak;
mod status;
mod support;
mod thread_values;
mod traces;
mod truncation;
mod two_steps;
mod upgrade;
mod upstreams;
mod verify;
