//! `deploy/limits.md`, generated from the rows below. Numbers come from the source: a bound is a constant or a default there.

use super::{assert_up_to_date, write_line};
use std::fs;
use std::path::Path;

const HEAD: &str = "\
# Bounds

<!-- Made from tests/it/pages/limits.rs and the constants that it names: UPDATE=1 cargo test --test it pages -->

Everything in the gateway that clients or agents can make grow: its bound, the key that sets it, the metric that shows it,
and what happens at the bound. Bounds without a key are constants of the program.

| what grows | bound | key | metric | at the bound | memory at most |
|---|---|---|---|---|---|
";

const FOOT: &str = "
## In 256 MiB

The rows do not add up to a fixed sum: connections and runs have no common bound in bytes. For a sidecar with 256 MiB, set
`limits.connections`, `max_streams` and `connections_per_address` to what your agent can serve, and divide. The largest parts
are request bodies and the replay log, each with a bound for the whole process.

## What has no bound

- Runs (`max_streams`, `max_streams_per_caller`) and connections from one address (`limits.connections_per_address`) are
  unlimited unless set; until then `limits.connections` and the HTTP/2 streams of each connection bound them.
- Connections to the status listener: kubelet and Prometheus must always get through. Keep it away from strangers.
- Connections to the admin socket: only the gateway's user can open it.
- Runs in one process have no common bound in bytes: each run can hold a frame of its agent, and what its guard remembers.
- The time of a run, unless `run_limits` sets it. A run whose agent sends something within `timeouts.idle` continues.
- What the configuration adds: routes, upstreams, keys and series grow with it, not with requests.
";

/// Where a number is written.
enum BoundSource {
    /// a constant: file and name
    Constant(&'static str, &'static str),
    /// the default of a key: file, section and name
    Default(&'static str, &'static str, &'static str),
}

use BoundSource::{Constant, Default};

/// A bound; `@` in `bound` and `memory` is the number of `source`.
struct BoundRow {
    what: &'static str,
    source: BoundSource,
    bound: &'static str,
    key: &'static str,
    metric: &'static str,
    effect: &'static str,
    memory: &'static str,
}

const FILE: &str = "src/config/file.rs";
const LIMITS: &str = "LimitsSpec";
const REPLAY: &str = "src/config/file/replay.rs";

macro_rules! bounds {
    ($($what:literal, $source:expr, $bound:literal, $key:literal, $metric:literal, $effect:literal, $memory:literal;)+) => {
        &[$(BoundRow { what: $what, source: $source, bound: $bound, key: $key, metric: $metric, effect: $effect, memory: $memory }),+]
    };
}

#[rustfmt::skip]
const BOUNDS: &[BoundRow] = bounds! {
    "client connections", Default(FILE, LIMITS, "connections"), "@", "limits.connections", "diglot_connections_active", "503 and the connection is closed", "buffers of each connection";
    "refused connections that stay open for their 503", Constant("src/proxy/edge/connection_limit.rs", "MAX_LINGERING"), "@, and a quarter of the connections; each for 1 s and 64 KiB", "", "diglot_connections_refused_total", "the 503 may be lost with a reset", "1 KiB each";
    "streams of one HTTP/2 connection", Constant("src/proxy/edge/server.rs", "H2_MAX_STREAMS"), "@", "", "diglot_streams_active", "the stream is refused, as HTTP/2 clients expect", "as runs";
    "streams that an HTTP/2 client resets before they are served", Constant("src/proxy/edge/server.rs", "H2_MAX_PENDING_RESETS"), "@ per connection", "", "", "GOAWAY", "small";
    "the head of a request", Default(FILE, LIMITS, "header_bytes"), "@", "limits.header_bytes", "diglot_requests_total", "431", "@ per connection";
    "the fields of a request", Default(FILE, LIMITS, "headers"), "@", "limits.headers", "diglot_requests_total", "431", "within the head";
    "one request body", Default(FILE, LIMITS, "request_body"), "@", "limits.request_body", "diglot_refusals_total", "413 `body_too_large`", "within all bodies";
    "all request bodies", Default(FILE, LIMITS, "request_bodies"), "@; a quarter for one caller", "limits.request_bodies", "diglot_request_body_bytes", "503 `bodies_full`", "@";
    "the rest of a refused body", Constant("src/proxy/request_body.rs", "DISCARD_LIMIT"), "@ and 5 s per request; nothing is kept", "", "", "the connection is closed", "none";
    "messages of a request", Constant("src/translate/request.rs", "MESSAGES_LIMIT"), "@", "", "diglot_refusals_total", "400", "within the body";
    "nested levels of JSON", Constant("src/codec/json.rs", "DEPTH_LIMIT"), "@", "", "diglot_refusals_total", "400, or the run ends", "small";
    "the size of a token", Constant("src/policy/auth/jwt.rs", "MAX_TOKEN_BYTES"), "@", "", "diglot_auth_total", "401", "within the head";
    "keys of rate limits: authenticated callers", Constant("src/policy/limit/local.rs", "MAX_VOUCHED_KEYS"), "@ per limit", "", "diglot_ratelimit_keys", "further keys share buckets", "about 10 MiB per limit";
    "keys of rate limits: other callers", Constant("src/policy/limit/local.rs", "MAX_UNVOUCHED_KEYS"), "@ per limit", "", "diglot_ratelimit_keys", "further keys share buckets", "about 6 MiB per limit";
    "owners of threads", Constant("src/policy/thread_owner.rs", "MAX_THREADS"), "@ per route with `threads: owned`; each for 24 h", "", "", "the callers with most lose those used longest ago", "about 15 MiB per route";
    "keys of one issuer", Constant("src/policy/auth/key_set.rs", "MAX_KEYS"), "@; one fetch at a time", "", "diglot_jwks_keys", "further keys are ignored", "small";
    "fetches for unknown keys", Constant("src/policy/auth/jwks.rs", "REFETCH_INTERVAL"), "one per @ and issuer", "", "diglot_jwks_refreshes_total", "401 without a fetch", "none";
    "events buffered for one client", Default(FILE, LIMITS, "client_buffer"), "@", "limits.client_buffer", "diglot_streams_active", "reading from the agent pauses", "@ per run";
    "the buffers of all slow clients", Default(FILE, LIMITS, "client_buffers"), "@", "limits.client_buffers", "diglot_slow_client_bytes", "the client that has waited longest is disconnected, of the caller that holds most", "@";
    "a client that reads nothing", Constant("src/proxy/pipe.rs", "SEND_TIMEOUT"), "@", "", "diglot_streams_total", "the connection is closed, or the stream reset", "as its buffer";
    "one frame of an agent", Default(FILE, LIMITS, "frame"), "@", "limits.frame", "diglot_streams_total", "`RUN_ERROR` `frame_too_large`", "@ per run";
    "ids that the guard of a run remembers", Constant("src/dialect/memory_limits.rs", "RETAINED_IDS_LIMIT"), "@ per run", "", "diglot_streams_total", "`RUN_ERROR` `frame_too_large`", "@ per run";
    "waiting two-step runs of a route", Constant("src/proxy/pending_runs.rs", "PENDING_LIMIT"), "@", "", "diglot_refusals_total", "503", "16 MiB per route";
    "waiting two-step runs of a caller", Constant("src/proxy/pending_runs.rs", "PENDING_LIMIT_PER_CALLER"), "@ per route", "", "diglot_refusals_total", "429", "4 MiB";
    "kept runs", Default(REPLAY, "ReplaySpec", "runs"), "@", "replay.runs", "diglot_replay_runs", "the run that ended first is evicted, of the caller that has most", "within the next row";
    "memory of kept runs", Default(REPLAY, "ReplaySpec", "bytes"), "@", "replay.bytes", "diglot_replay_bytes", "ended runs are evicted, first those of the caller that holds most, then running ones condensed; 410 for their readers", "@";
    "memory of one kept run", Default(REPLAY, "ReplaySpec", "run_bytes"), "@", "replay.run_bytes", "diglot_replay_bytes", "it is condensed, or no longer kept", "@ per run";
    "readers of one run", Constant("src/replay/log.rs", "MAX_READERS"), "@", "", "", "refused", "a read buffer each";
    "runs of other replicas that are read here", Constant("src/replay/replication.rs", "MAX_FOLLOWED"), "@", "", "diglot_replay_followed", "503 `replay_unavailable`", "within `replay.bytes`";
    "reads of kept runs from Redis", Constant("src/replay/replication.rs", "MAX_READS"), "@ at once, each of 1 MiB or one larger entry", "", "", "further reads wait", "16 MiB, or 16 times `limits.frame`";
    "kept runs in Redis (`store: redis`)", Default(REPLAY, "ReplaySpec", "bytes"), "about @ per replica; each until `replay.age`", "replay.bytes", "diglot_replay_bytes", "a run that its replica evicts is deleted there", "none here; in Redis @ per replica, and for a running one whose log was dropped up to twice `replay.run_bytes`";
    "evicted runs that wait to be deleted in Redis", Constant("src/replay/replication.rs", "MAX_EVICTED_QUEUE"), "@", "", "", "further ones stay in Redis until their age", "200 KiB";
    "idle connections to agents", Constant("src/proxy/upstream/dialer.rs", "POOL_SIZE"), "@; each for 4 s", "", "process_open_fds", "the oldest is closed", "about 10 KiB each";
    "an agent's body with an error status", Constant("src/proxy/agent_response.rs", "RESPONSE_LIMIT"), "@", "", "diglot_upstream_requests_total", "the rest is not read", "@ per failing run";
    "log lines that wait for stderr", Constant("src/telemetry/log.rs", "MAX_BUFFERED_LINES"), "@", "", "diglot_log_lines_dropped_total", "further lines are dropped and counted", "about 8 MiB";
    "text of clients and agents in a log line", Constant("src/telemetry/internal_event/mod.rs", "MAX_TEXT_CHARS"), "@ characters", "", "", "cut", "within the queue";
    "reloads that wait", Constant("src/admin/commands.rs", "MAX_PENDING_RELOADS"), "@", "", "", "SIGHUPs are combined, commands wait", "small";
};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("no {start}"));
    rest.split_once(end).unwrap_or_else(|| panic!("no {end} after {start}")).0
}

/// Writes a constant's expression as a person would.
fn evaluate(expression: &str) -> String {
    if let Some(seconds) = expression.strip_prefix("Duration::from_secs(") {
        return format!("{} s", seconds.trim_end_matches(')'));
    }
    let number = |text: &str| text.replace('_', "").parse::<u64>().unwrap_or_else(|_| panic!("{expression}"));
    match expression.split_once(" << ") {
        Some((base, "10")) => format!("{base} KiB"),
        Some((base, "20")) => format!("{base} MiB"),
        Some((base, bits)) => (number(base) << number(bits)).to_string(),
        None => number(expression).to_string(),
    }
}

impl BoundSource {
    fn value(&self) -> String {
        match self {
            Constant(file, name) => {
                let text = read(file);
                let declaration = between(&text, &format!("const {name}: "), ";");
                evaluate(between(&(declaration.to_owned() + ";"), " = ", ";"))
            }
            Default(file, section, name) => {
                let text = read(file);
                let section = between(&text, &format!("struct {section} "), "\n    }\n");
                let field = between(section, &format!(" {name}: Scalar<"), ";");
                between(field, "text(\"", "\")").replace("iB", " iB").replace("M iB", " MiB").replace("K iB", " KiB")
            }
        }
    }
}

fn page() -> String {
    let mut out = HEAD.to_owned();
    let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
    for row in BOUNDS {
        let value = row.source.value();
        let (bound, memory) = (row.bound.replace('@', &value), row.memory.replace('@', &value));
        let BoundRow { what, effect, key, metric, .. } = row;
        write_line(
            &mut out,
            format_args!("| {what} | {bound} | {} | {} | {effect} | {memory} |", code(key), code(metric)),
        );
    }
    out + FOOT
}

#[test]
fn limits_page_matches_the_code() {
    assert_up_to_date("deploy/limits.md", &page());
}

#[test]
fn bounds_name_existing_metrics_and_codes() {
    let (metrics, errors) = (read("deploy/metrics.md"), read("deploy/errors.md"));
    for BoundRow { what, metric, effect, .. } in BOUNDS {
        assert!(metric.is_empty() || metrics.contains(&format!("| `{metric}` | ")), "{what}: no metric {metric}");
        for code in effect.split('`').skip(1).step_by(2).filter(|span| *span != "RUN_ERROR") {
            assert!(errors.contains(&format!("| `{code}` |")), "{what}: no code {code}");
        }
    }
}
