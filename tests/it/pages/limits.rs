//! `deploy/limits.md`, generated from the rows below. Numbers come from the source: a bound is a constant or a default there.

use super::{assert_up_to_date, write_line};
use std::fs;
use std::path::Path;

const HEAD: &str = "\
# Bounds

<!-- Made from tests/it/pages/limits.rs and the constants that it names: UPDATE=1 cargo test --test it pages -->

Everything in the gateway that clients, agents, issuers or Redis can make grow: its bound, the key that sets it, the metric that
shows it, what happens at the bound, and the test that pushes it. Bounds without a key are constants of the program. A bound
without a metric holds little memory, which nobody needs to watch.

| what grows | bound | key | metric | at the bound | memory at most | test |
|---|---|---|---|---|---|---|
";

const FOOT: &str = "
## In 256 MiB

The default bounds in bytes are bounds of the process. With 512 MiB or more they are those above; with less, they are as much less.
In 256 MiB, request bodies have 32 MiB, kept runs 16 MiB, slow clients 16 MiB, unfinished events and what runs remember
32 MiB, the inspector 16 MiB where it is on; what HTTP/2 clients have not taken 16 MiB in any process. An allocator needs more than
what is counted: 32 MiB of kept runs take about 45 MiB. Large requests and events take up to 100 MiB for the moment in
which they are translated: one of the largest size at a time. Connections and runs come on top: an idle connection takes 8 KiB (17 KiB with
HTTP/2, and 60 KiB once all its streams were used), one that sends a head without an end up to 48 KiB, one whose body is awaited about 24 KiB, a run 41 KiB, a kept run
46 KiB. Their number follows from the memory: `limits.connections` is by default one per 128 KiB of the memory limit, 2048 in
256 MiB; so are HTTP/2 requests and runs (`max_streams`). The gateway survives each of these bounds when it is pushed, several at once
(`tests/it/limits/small_process.rs`), and was attacked at all of them together: with bodies, kept runs, slow clients, unfinished events,
large requests and 2048 connections, 1400 of which waited with the head of an agent's response, it took at most 220 of 256 MiB. `make stress` repeats this.
With the bounds of 512 MiB it was killed, so do this sum if you set them.

## What follows from these bounds

Maps that count by caller, address or run (request bodies, `max_streams_per_caller`, `limits.connections_per_address`, runs in
progress, slow clients, runs copied to Redis) have an entry for as long as what they count is open, so the bounds of connections,
streams and kept runs bound them. A preflight is answered without a body and without the agent. Tasks belong to a connection, a
run, a refused body or the configuration.

## What has no bound

- Runs of a route (`max_streams`), those of a caller (`max_streams_per_caller`) and connections from one address
  (`limits.connections_per_address`) are unlimited unless set; until then `limits.connections` and `limits.max_streams` bound them, and
  one client can use all of them.
- Connections to the admin socket: only the gateway's user can open it.
- The time of a run, unless `run_limits` sets it. A run whose agent sends events continues: one within `timeouts.ping_only`,
  and something within `timeouts.idle`.
- What the configuration adds: routes, upstreams, keys and series grow with it, not with requests. A reload keeps the previous
  configuration until its requests and runs have ended.
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
    /// file without its ending, and function
    test: &'static str,
}

const FILE: &str = "src/config/file.rs";
const LIMITS: &str = "LimitsSpec";
const INSPECT: &str = "src/config/file/inspect.rs";
const REPLAY: &str = "src/config/file/replay.rs";

macro_rules! bounds {
    ($($what:literal, $source:expr, $bound:literal, $key:literal, $metric:literal, $effect:literal, $memory:literal, $test:literal;)+) => {
        &[$(BoundRow { what: $what, source: $source, bound: $bound, key: $key, metric: $metric, effect: $effect, memory: $memory, test: $test }),+]
    };
}

#[rustfmt::skip]
const BOUNDS: &[BoundRow] = bounds! {
    "client connections", Constant("src/config/memory_limit.rs", "DEFAULT_CONNECTIONS"), "@, or one per 128 KiB of the memory limit: 2048 in 256 MiB", "limits.connections", "diglot_connections_active", "503 and the connection is closed", "8 KiB each, 17 KiB with HTTP/2, and a head or a run", "tests/it/listeners/limits::answers_503_at_the_connection_limit_and_recovers";
    "refused connections that stay open for their 503", Constant("src/proxy/edge/connection_limit.rs", "MAX_LINGERING"), "@, and a quarter of the connections; each for 1 s and 64 KiB", "", "diglot_connections_refused_total", "the 503 may be lost with a reset", "1 KiB each", "tests/it/listeners/limits::sends_503_also_to_clients_that_are_still_sending";
    "connections to the status listeners", Constant("src/proxy/edge/connection_limit.rs", "MAX_STATUS_CONNECTIONS"), "@", "", "diglot_connections_active", "503 and the connection is closed", "a document each", "src/proxy/edge/connection_limit::limits_connections_and_reuses_freed_slots";
    "a TLS handshake", Constant("src/proxy/edge/plane.rs", "HANDSHAKE_TIMEOUT"), "@; as many as connections", "", "diglot_connections_refused_total", "the connection is closed", "within the connections", "tests/it/listeners/tls::times_out_unfinished_tls_handshakes";
    "encrypted bytes for one client", Constant("src/proxy/edge/listener_tls.rs", "WRITE_BUFFER_LIMIT"), "@ per TLS connection", "", "diglot_connections_active", "writing pauses", "@ per connection", "no test: rustls keeps it";
    "a PROXY header", Constant("src/net/proxy_protocol.rs", "V2_HEADER_LIMIT"), "@ bytes, within 5 s", "", "diglot_connections_refused_total", "the connection is closed", "none", "tests/it/listeners/proxy_protocol::times_out_on_half_a_proxy_header";
    "requests that a client pipelines behind a stream", Constant("src/proxy/edge/http1_handoff.rs", "READ_AHEAD_LIMIT"), "@ per connection", "", "diglot_connections_active", "nothing more is read", "@ per connection", "tests/it/listeners/timeouts::ends_the_run_of_a_client_that_pipelines_and_leaves";
    "streams of one HTTP/2 connection", Constant("src/proxy/edge/server.rs", "H2_MAX_STREAMS"), "@, 40 of them if the process may use less than 2 GiB, and 4 to a status listener", "", "diglot_streams_active", "the stream is refused, as HTTP/2 clients expect", "1.4 KiB each until the connection ends, and the next rows", "tests/it/limits/small_process_http2::survives_idle_connections_that_were_busy_once";
    "HTTP/2 requests of all connections", Constant("src/config/memory_limit.rs", "DEFAULT_CONNECTIONS"), "as many as connections", "limits.connections", "diglot_http2_requests_refused_total", "the stream is refused", "16 KiB each, and a run", "tests/it/limits/small_process_http2::survives_untaken_responses";
    "what all HTTP/2 clients have been sent and have not taken, with the places of its pieces, which h2 keeps until the connection ends", Constant("src/proxy/edge/http2_output.rs", "UNSENT_LIMIT"), "@; 48 KiB per stream; 64 places per connection are free", "", "diglot_http2_unsent_bytes", "the connection that holds most is closed", "@", "tests/it/limits/small_process_http2::survives_clients_that_open_windows_and_read_nothing";
    "what an HTTP/2 client sends before it is read", Constant("src/proxy/edge/server.rs", "H2_STREAM_WINDOW"), "@ per stream, 1 MiB per connection", "", "", "the client waits", "@ per request, while its token is checked", "no test: h2 keeps it";
    "streams that an HTTP/2 client resets before they are served", Constant("src/proxy/edge/server.rs", "H2_MAX_PENDING_RESETS"), "@ per connection", "", "", "GOAWAY", "small", "tests/it/h2::closes_connections_that_flood";
    "streams that an HTTP/2 client makes the gateway reset", Constant("src/proxy/edge/server.rs", "H2_MAX_LOCAL_RESETS"), "@ per connection", "", "", "GOAWAY", "small", "tests/it/h2::closes_connections_that_flood";
    "the head of a request", Default(FILE, LIMITS, "header_bytes"), "@", "limits.header_bytes", "diglot_connections_refused_total", "431, with the reason head_too_large; over HTTP/2 in diglot_http2_heads_refused_total", "twice @ per connection, or per HTTP/2 stream; while a body is awaited, within all request bodies", "tests/it/limits/small_process_http2::survives_heads_without_an_end";
    "the fields of a request", Default(FILE, LIMITS, "headers"), "@", "limits.headers", "diglot_connections_refused_total", "431, with the reason head_too_large; over HTTP/2 in diglot_requests_total", "within the head", "tests/it/smuggling::applies_the_configured_head_limits";
    "one request body", Default(FILE, LIMITS, "request_body"), "@", "limits.request_body", "diglot_refusals_total", "413 `body_too_large`", "within all bodies", "tests/it/requests::answers_413_to_bodies_over_the_limit";
    "all request bodies, and the requests whose bodies are awaited, with 16 KiB and their heads each", Default(FILE, LIMITS, "request_bodies"), "@; a quarter for one caller", "limits.request_bodies", "diglot_request_body_bytes", "503 `bodies_full`", "@", "tests/it/limits/small_process::serves_others_in_little_memory_while_bounds_are_pushed";
    "the rest of a refused body", Constant("src/proxy/request_body.rs", "DISCARD_LIMIT"), "@ and 5 s per request; nothing is kept", "", "", "the connection is closed", "none", "no test: nothing is kept, and the connection ends in 5 s";
    "a slow body", Constant("src/proxy/request_body.rs", "LEAST_BYTES"), "at least @ in 5 s beyond the first 64 KiB", "", "diglot_refusals_total", "408", "within all bodies", "src/proxy/request_body::rejects_a_large_body_that_trickles";
    "messages of a request", Constant("src/translate/request_messages.rs", "MESSAGES_LIMIT"), "@", "", "diglot_refusals_total", "400", "within the body", "src/translate/request::limits_messages_and_keeps_no_more_than_it_takes";
    "elements of the lists of a request: messages, calls, parts, tools, context entries, answers", Constant("src/dialect/memory_limits.rs", "ELEMENTS_LIMIT"), "@ together", "", "diglot_refusals_total", "400", "about 12 MiB while the request is translated", "tests/it/limits/amplified::refuses_requests_of_tiny_elements_in_little_memory";
    "the id of a run, and that of its thread", Constant("src/translate/request.rs", "MAX_RUN_ID_LEN"), "@", "", "diglot_refusals_total", "400", "a few times its length per run", "tests/it/limits/grown_output::refuses_long_ids_of_runs";
    "elements of the lists that a dialect file takes apart in a request or a frame", Constant("src/dialect/memory_limits.rs", "ELEMENTS_LIMIT"), "@ together", "", "diglot_refusals_total", "400; for a frame `RUN_ERROR` `too_much_open`", "about 12 MiB while it is translated", "tests/it/limits/grown_output::ends_runs_at_lists_that_dialect_files_take_apart";
    "what a dialect file makes of a frame or a request", Constant("src/dialect/mapped/list_allowance.rs", "ALLOWED_BYTES"), "@, and 3 times the request or frame", "", "diglot_refusals_total", "400; for a frame `RUN_ERROR` `too_much_open`", "twice as much while it is translated", "tests/it/limits/grown_output::refuses_requests_that_grow_in_the_lists_of_a_dialect_file";
    "what a dialect file makes of all frames of a run", Constant("src/dialect/mapped/list_allowance.rs", "RUN_BYTES"), "@, and 16 times what the agent has sent", "", "diglot_refusals_total", "`RUN_ERROR` `too_much_open`", "none", "tests/it/dialect_file_tools::a_long_value_is_not_used_with_any_number_of_frames";
    "values in a text that is read as blocks or parts", Constant("src/codec/json/sequence.rs", "SEQUENCE_LIMIT"), "@", "", "", "it is read as text", "within the row above", "src/translate/list_budget::counts_lists_that_a_message_carries_or_has_in_its_text";
    "path, query and headers that a dialect file adds to a request", Constant("src/dialect/mapped/request_target.rs", "MAX_TARGET_LEN"), "@", "", "diglot_refusals_total", "400", "within the body", "src/dialect/mapped/request_target::no_value_leads_out_of_its_place";
    "the body that the agent gets", Constant("src/proxy/body_budget.rs", "MAX_BODY_GROWTH"), "@ times `limits.request_body`, or 3 MiB", "limits.request_body", "diglot_request_body_bytes", "413 `body_too_large`", "within all bodies", "src/proxy/body_budget::counts_what_the_agent_gets_and_refuses_a_body_that_grew_too_much";
    "large requests and events (over 256 KiB) that are translated at once", Constant("src/net/cpu_work.rs", "PART"), "4 parts of @; a smaller one counts as a part, a larger one takes no more than all", "", "", "further ones wait", "about ten times the size of each: 100 MiB", "tests/it/limits/amplified::translates_large_ordinary_snapshots_one_after_another";
    "nested levels of JSON", Constant("src/codec/json.rs", "DEPTH_LIMIT"), "@", "", "diglot_refusals_total", "400, or the run ends", "small", "src/codec/json/scan_tests::limits_nesting_depth_without_recursion";
    "addresses in X-Forwarded-For", Constant("src/policy/client_addr.rs", "MAX_HOPS"), "@", "", "", "the others are ignored", "within the head", "src/policy/client_addr::reads_at_most_max_hops_of_a_list";
    "tracestate that is passed on", Constant("src/telemetry/trace_context.rs", "STATE_LIMIT"), "@ bytes", "", "", "members are dropped", "within the head", "src/telemetry/trace_context::forwards_only_valid_tracestates";
    "the size of a token", Constant("src/policy/auth/jwt.rs", "MAX_TOKEN_BYTES"), "@", "", "diglot_auth_total", "401", "within the head", "src/policy/auth/jwt/tests::refuses_tokens_over_the_limit_unread";
    "keys of rate limits: authenticated callers", Constant("src/policy/limit/local.rs", "MAX_VOUCHED_KEYS"), "@ per limit", "", "diglot_ratelimit_keys", "further keys share buckets", "about 10 MiB per limit", "src/policy/limit/tests::bounds_tracked_keys_under_a_flood_and_forgets_them";
    "keys of rate limits: other callers", Constant("src/policy/limit/local.rs", "MAX_UNVOUCHED_KEYS"), "@ per limit", "", "diglot_ratelimit_keys", "further keys share buckets", "about 6 MiB per limit", "src/policy/limit/tests::bounds_tracked_keys_under_a_flood_and_forgets_them";
    "values that dialect files keep for threads", Constant("src/proxy/thread_store.rs", "MAX_THREADS"), "@ threads, each with 512 bytes; in Redis for 7 days", "", "", "the callers with the most threads lose those used longest ago; longer values are forgotten, with a line in the log", "about 14 MiB", "src/proxy/thread_store::forgets_the_threads_of_the_caller_that_has_most";
    "owners of threads", Constant("src/policy/thread_owner.rs", "MAX_THREADS"), "@ per route with `threads: owned`; each for 24 h", "", "", "the callers with most lose those used longest ago", "about 15 MiB per route", "src/policy/thread_owner::remembers_the_most_recently_used_threads";
    "callers of one issuer whose tokens are remembered", Constant("src/policy/auth/verified_callers.rs", "MAX_REMEMBERED_BYTES"), "@ of tokens", "", "", "those used longest ago are verified again", "about 2 MiB per issuer", "src/policy/auth/verified_callers::remembers_the_callers_in_use_and_never_more_than_the_limit";
    "keys of one issuer", Constant("src/policy/auth/key_set.rs", "MAX_KEYS"), "@; one fetch at a time", "", "diglot_jwks_keys", "further keys are ignored", "small", "src/policy/auth/jwt/tests/keys::uses_good_keys_of_a_set_and_reports_the_others";
    "fetches for unknown keys", Constant("src/policy/auth/jwks.rs", "REFETCH_INTERVAL"), "one per @ and issuer", "", "diglot_jwks_refreshes_total", "401 without a fetch", "none", "tests/it/auth/issuers::fetches_once_for_a_flood_of_unknown_keys";
    "requests that wait for the keys of an issuer", Constant("src/policy/auth/jwks.rs", "MAX_WAITING"), "@ per issuer; each for 1.2 s", "", "diglot_auth_total", "a further one does not wait: 401, or 503 `keys_unavailable` while there are no keys", "64 KiB each over HTTP/2", "src/policy/auth/jwks::limits_the_requests_that_wait";
    "a document of an issuer", Constant("src/policy/auth/document.rs", "MAX_DOCUMENT_BYTES"), "@ within 5 s; one at a time", "", "diglot_jwks_refreshes_total", "the previous keys stay", "@ per issuer", "tests/it/auth/issuers::keeps_serving_with_cached_keys_while_the_issuer_is_down";
    "a file that is watched", Constant("src/net/read_file.rs", "MAX_FILE_BYTES"), "@", "", "", "the previous content stays", "@ while it is read", "src/net/file_watcher::refuses_unusable_files_and_names_their_path";
    "events buffered for one client", Default(FILE, LIMITS, "client_buffer"), "@", "limits.client_buffer", "diglot_streams_active", "reading from the agent pauses", "@ per run", "tests/it/limits/small_process::serves_others_in_little_memory_while_bounds_are_pushed";
    "the buffers of all slow clients", Default(FILE, LIMITS, "client_buffers"), "@", "limits.client_buffers", "diglot_slow_client_bytes", "the client that has waited longest is disconnected, of the caller that holds most", "@", "tests/it/buffer_limits::disconnects_clients_that_wait_longest_over_the_limit";
    "a client that reads nothing", Constant("src/proxy/pipe.rs", "SEND_TIMEOUT"), "@", "", "diglot_streams_total", "the connection is closed, or the stream reset", "as its buffer", "src/proxy/edge/server::closes_the_connection_of_a_client_that_stops_reading";
    "an HTTP/2 client that takes no whole response, or no rest of one", Constant("src/proxy/pipe.rs", "SEND_TIMEOUT"), "@", "", "diglot_connections_active", "the connection is closed", "small", "src/proxy/edge/server::closes_the_connection_of_a_client_that_never_takes_a_whole_response";
    "what clients have not read of ended runs", Constant("src/proxy/pipe.rs", "LARGE_REMAINDER"), "@ per connection; more counts as a slow client", "", "diglot_slow_client_bytes", "as for slow clients", "@ per connection", "src/proxy/pipe/tests::the_rest_of_an_ended_run_counts_as_a_slow_clients";
    "one frame of an agent", Default(FILE, LIMITS, "frame"), "@", "limits.frame", "diglot_streams_total", "`RUN_ERROR` `frame_too_large`", "@ per run", "tests/it/faults/broken_streams::ends_the_run_at_an_event_over_the_limit";
    "elements of the lists of one event: messages, calls, parts, operations, interrupts", Constant("src/dialect/memory_limits.rs", "ELEMENTS_LIMIT"), "@ together", "", "diglot_streams_total", "`RUN_ERROR` `too_much_open`", "about 12 MiB while the event is translated", "tests/it/limits/amplified::ends_runs_at_snapshots_of_tiny_elements_in_little_memory";
    "what one frame of an agent becomes for a client", Constant("src/translate/writer/mod.rs", "MAX_GROWTH"), "@ times `limits.frame`, or 3 MiB", "limits.frame", "diglot_streams_total", "`RUN_ERROR` `frame_too_large`", "within the large events", "src/translate/writer/frames::withholds_a_frame_that_is_three_times_as_long_as_one_of_an_agent";
    "all events for one client", Constant("src/translate/budget.rs", "GROWTH_LIMIT"), "@ bytes for each byte of the agent, beyond 3 times `limits.frame`, or 3 MiB", "limits.frame", "diglot_streams_total", "`RUN_ERROR` `frame_too_large`", "none", "tests/it/limits/grown_output::ends_a_run_that_repeats_a_long_id_too_often";
    "what a run makes for its client before it is written", Constant("src/proxy/translation_sink.rs", "MAX_OUTPUT"), "@, and the events of one frame", "", "diglot_streams_active", "it is written before the run reads on", "@, and one event", "tests/it/limits/grown_output::writes_long_ids_that_repeat_in_little_memory";
    "unfinished events of all agents, and what all runs remember", Default(FILE, LIMITS, "run_memory"), "@; 8 KiB of each run are free. An eighth is for runs that hold no more than that, and a caller that holds half reads on only up to 5/8", "limits.run_memory", "diglot_run_memory_bytes", "reading pauses; after 10 s in which no run returns memory `RUN_ERROR` `run_memory_full`", "@, one event, and up to 24 KiB of each run", "tests/it/limits/small_process_runs::bounds_the_unfinished_events_of_many_runs_together";
    "what runs keep of their requests: the ids of messages and calls, for the translation and the guard", Constant("src/proxy/run_memory.rs", "CONVERSATION_SHARE"), "1/@ of `limits.run_memory`, a quarter of it for one caller; a single run may take more; 8 KiB of each run are free", "limits.run_memory", "diglot_run_memory_bytes", "503 `run_memory_full`", "within the row above", "tests/it/buffer_limits::refuses_runs_that_keep_too_much_of_their_requests";
    "frames kept to name the dialect of an agent of which none is known", Constant("src/translate/foreign_stream.rs", "MAX_KEPT_BYTES"), "@, at most 8", "", "diglot_streams_active", "later ones are only counted", "@ per run", "src/translate/foreign_stream::keeps_a_bounded_beginning";
    "events kept to detect the dialect of an `auto` agent", Constant("src/translate/detect.rs", "MAX_KEPT_BYTES"), "@ and the first event; 1024 events", "", "diglot_streams_active", "a later sign counts only if no other dialect has the type of the event", "@ per run", "src/translate/detect::keeps_few_events_of_a_stream";
    "chunks without an id: open streams", Constant("src/event/lane.rs", "LANES_LIMIT"), "@ per run", "", "", "the stream used longest ago is forgotten", "within the ids", "src/event/lane::keeps_the_latest_lanes_up_to_the_limit";
    "the head of an agent's HTTP/1.1 response", Constant("src/proxy/upstream/http1_exchange.rs", "HEAD_LIMIT"), "@, and 128 fields", "", "diglot_upstream_requests_total", "502 `upstream_protocol`", "@ per run, until the response begins", "src/proxy/upstream/http1_exchange/tests::refuses_heads_that_are_not_valid";
    "the head of an agent's HTTP/2 response", Constant("src/proxy/upstream/http1_exchange.rs", "HEAD_LIMIT"), "@, with 32 bytes for each field", "", "diglot_upstream_requests_total", "502 `upstream_protocol`", "about twice @ per run, until the response begins", "tests/it/upstreams/http2::refuses_a_head_of_many_fields";
    "what an HTTP/2 agent sends before it is read", Constant("src/proxy/upstream/h2_pool.rs", "STREAM_WINDOW"), "@ per run", "", "diglot_streams_active", "the agent waits", "@ per run", "tests/it/upstreams/http2::runs_share_one_h2_connection";
    "ids that the guard of a run remembers", Constant("src/dialect/memory_limits.rs", "RETAINED_IDS_LIMIT"), "@ per run", "", "diglot_streams_total", "`RUN_ERROR` `too_much_open`", "@ per run", "tests/it/buffer_limits::limits_the_ids_it_remembers";
    "messages, calls, steps and subagents that a run has open", Constant("src/dialect/memory_limits.rs", "OPEN_ITEMS_LIMIT"), "@ per run", "", "diglot_streams_total", "`RUN_ERROR` `too_much_open`", "within the row above", "tests/it/hostile_runs::ends_a_run_that_leaves_too_much_open_for_every_kind_of_item";
    "snapshots to which a thought or a block is added for a HAI client", Constant("src/dialect/hai/kept_messages.rs", "MAX_SNAPSHOTS"), "@", "", "diglot_losses_total", "further snapshots lack it", "none", "src/dialect/hai/kept_messages::adds_a_message_to_a_limited_number_of_snapshots";
    "frames that are added for a HAI client where `}` and `{` meet in a text", Constant("src/dialect/hai/blocks.rs", "MAX_DIVISIONS"), "@ per event", "", "", "the rest of the text is not divided", "about 100 KiB per event", "src/dialect/hai/blocks::divides_a_text_a_limited_number_of_times";
    "waiting two-step runs of a route", Constant("src/proxy/pending_runs.rs", "PENDING_LIMIT"), "@", "", "diglot_refusals_total", "503", "16 MiB per route", "src/proxy/pending_runs::limits_reservations_and_frees_dropped_ones";
    "waiting two-step runs of a caller", Constant("src/proxy/pending_runs.rs", "PENDING_LIMIT_PER_CALLER"), "@ per route", "", "diglot_refusals_total", "503", "4 MiB", "tests/it/two_steps/ownership::limits_the_waiting_runs_of_one_caller";
    "kept runs", Default(REPLAY, "ReplaySpec", "runs"), "@", "replay.runs", "diglot_replay_runs", "the run that ended first is evicted, of the caller that has most", "within the next row", "tests/it/resume/retention::evicts_the_oldest_runs_over_the_run_limit";
    "memory of kept runs", Default(REPLAY, "ReplaySpec", "bytes"), "@", "replay.bytes", "diglot_replay_bytes", "ended runs are evicted, first those of the caller that holds most, then running ones condensed; 410 for their readers", "@, with the places in lists and maps", "tests/it/limits/small_process_runs::survives_kept_runs_of_many_tiny_messages";
    "memory of one kept run", Default(REPLAY, "ReplaySpec", "run_bytes"), "@, and no event beyond it", "replay.run_bytes", "diglot_replay_bytes", "it is condensed, or no longer kept", "@ per run", "tests/it/resume/retention::bounds_the_memory_of_a_long_run";
    "values of a state or an activity that patches open in a kept run", Constant("src/dialect/patched_json.rs", "OPENING_CREDIT"), "@, and 8 times the patches", "", "diglot_replay_bytes", "the value stays text, and the patches are kept beside it", "within the rows above", "tests/it/limits/small_process_runs::survives_patches_of_long_lists";
    "runs that the inspector keeps", Default(INSPECT, "InspectSpec", "runs"), "@", "inspect.runs", "diglot_inspect_bytes", "the run that ended first is evicted", "within the next row", "tests/it/inspect::keeps_no_more_than_the_bounds";
    "memory of runs that the inspector keeps", Default(INSPECT, "InspectSpec", "bytes"), "@", "inspect.bytes", "diglot_inspect_bytes", "ended runs are evicted; nothing more is kept of running ones", "@, only where `inspect` is on", "tests/it/inspect::keeps_no_more_than_the_bounds";
    "memory of one run that the inspector keeps", Default(INSPECT, "InspectSpec", "run_bytes"), "@", "inspect.run_bytes", "diglot_inspect_bytes", "its beginning is kept", "within the row above", "tests/it/inspect::keeps_no_more_than_the_bounds";
    "numbers of evicted runs of which the inspector knows why", Constant("src/inspect/kept_runs.rs", "REMEMBERED_EVICTIONS"), "@", "", "", "the oldest is forgotten", "24 KiB", "tests/it/inspect_cli/missed_runs::tap_of_an_evicted_run_names_the_bound";
    "readers of one run", Constant("src/replay/log.rs", "MAX_READERS"), "@", "", "", "refused", "a read buffer each", "tests/it/resume/ownership::limits_the_readers_of_a_run";
    "recaps of one run that are not read yet", Constant("src/replay/log/reader.rs", "MAX_UNREAD_RECAPS"), "@", "", "diglot_replay_bytes", "refused", "within `replay.bytes`", "src/replay/log/tests::limits_the_number_of_unread_recaps";
    "frames for Redis that wait", Constant("src/replay/replication.rs", "MAX_COPIES"), "none beside the kept run; @ runs are written at once", "", "diglot_replay_bytes", "a summary replaces them", "within `replay.bytes`", "tests/it/resume/shared::keeps_streaming_while_redis_hangs";
    "entries of one answer of Redis", Constant("src/replay/replication/follower.rs", "MAX_ENTRIES"), "@ and 1 MiB, or one larger entry, per copy of a run; 16 answers at once", "", "diglot_replay_followed", "the next answer has the rest", "as the reads below", "tests/it/resume/shared::serves_many_readers_on_another_replica";
    "runs of other replicas that are read here", Constant("src/replay/replication.rs", "MAX_FOLLOWED"), "@", "", "diglot_replay_followed", "503 `replay_unavailable`", "within `replay.bytes`", "tests/it/resume/redis_bounds::limits_the_runs_of_other_replicas_that_are_read_here";
    "reads of kept runs from Redis", Constant("src/replay/replication.rs", "MAX_READS"), "@ at once, each of 1 MiB or one larger entry", "", "", "further reads wait", "16 MiB, or 16 times `limits.frame`", "no test: a semaphore";
    "kept runs in Redis (`store: redis`)", Default(REPLAY, "ReplaySpec", "bytes"), "about @ per replica; each until `replay.age`", "replay.bytes", "diglot_replay_bytes", "a run that its replica evicts is deleted there", "none here; in Redis @ per replica, and for a running one whose log was dropped up to twice `replay.run_bytes`", "tests/it/resume/redis_bounds::deletes_runs_in_redis_that_their_replica_evicts";
    "evicted runs that wait to be deleted in Redis", Constant("src/replay/replication.rs", "MAX_EVICTED_QUEUE"), "@", "", "", "further ones stay in Redis until their age", "200 KiB", "no test: a bounded channel";
    "idle HTTP/1.1 connections to agents", Constant("src/proxy/upstream/dialer.rs", "POOL_SIZE"), "@; each for 4 s", "", "process_open_fds", "the oldest is closed", "about 10 KiB each", "tests/it/upstreams/load_balancing::reuses_connections_for_later_runs";
    "HTTP/2 connections to one address of an agent", Constant("src/proxy/upstream/h2_pool.rs", "MAX_CONNECTIONS"), "@; 100 runs each, or fewer if the agent says so; idle ones for 30 s", "", "process_open_fds", "503 `upstream_busy`", "as runs", "tests/it/upstreams/http2::answers_503_at_once_beyond_the_connections_of_an_address";
    "the time of an agent that sends nothing", Default(FILE, "TimeoutsSpec", "idle"), "@", "timeouts.idle", "diglot_streams_total", "`RUN_ERROR` `upstream_idle`", "none", "tests/it/faults/silent_agents::ends_the_run_of_an_idle_agent";
    "the time of an agent that only sends comments, or one endless event", Default(FILE, "TimeoutsSpec", "idle"), "three times `timeouts.idle` (@), or the key", "timeouts.ping_only", "diglot_streams_total", "`RUN_ERROR` `upstream_idle`", "within one frame", "tests/it/faults/silent_agents::ends_the_run_of_an_agent_that_only_pings";
    "the time to the first event", Default(FILE, "TimeoutsSpec", "first_byte"), "`timeouts.first_byte` (@) and `timeouts.idle` together, or the key", "timeouts.first_event", "diglot_streams_total", "`RUN_ERROR` `upstream_timeout`", "none", "tests/it/faults/silent_agents::limits_the_time_to_the_first_event_by_default";
    "addresses of one host name", Constant("src/proxy/upstream/upstream_set.rs", "MAX_ADDRESSES"), "@; one look-up at a time, each for 10 s", "", "", "further addresses get no runs", "small", "src/proxy/upstream/upstream_set::uses_a_bounded_number_of_addresses_of_a_name";
    "attempts to send a run", Constant("src/proxy/upstream/cluster.rs", "ATTEMPTS"), "@", "", "diglot_upstream_requests_total", "502", "none", "tests/it/upstreams/failover::answers_502_after_trying_each_address_once";
    "an answer to a health check", Constant("src/proxy/upstream/health_check.rs", "RESPONSE_LIMIT"), "@; one check at a time per address", "", "", "the rest is not read", "@ per address", "tests/it/upstreams/failover::health_checks_remove_and_restore_an_agent";
    "what an agent sends after the end of its run", Constant("src/proxy/run/late_events.rs", "REST_LIMIT"), "@ and 1 s", "", "", "the connection is closed", "none", "tests/it/faults/broken_streams::drops_events_after_the_terminal_one";
    "an agent's body with an error status", Constant("src/proxy/agent_response.rs", "RESPONSE_LIMIT"), "@", "", "diglot_upstream_requests_total", "the rest is not read", "@ per failing run", "tests/it/faults/answers::hides_pages_and_streams_with_an_error_status";
    "threads for large events and requests, files and look-ups of names", Constant("src/app.rs", "MAX_BLOCKING_THREADS"), "@ per runtime", "", "process_threads", "the other runs of a thread wait until the event is translated", "about 150 KiB each; idle ones end after 10 s", "tests/it/load::large_events_of_many_runs_need_few_threads";
    "the buffer of a thread for batches of its runs", Constant("src/proxy/spare_buffer.rs", "MAX_CAPACITY"), "one per thread; a larger one is freed", "", "", "freed", "@ per thread", "src/proxy/spare_buffer::keeps_one_buffer_of_ordinary_size";
    "log lines that wait for stderr", Constant("src/telemetry/log.rs", "MAX_BUFFERED_LINES"), "@", "", "diglot_log_lines_dropped_total", "further lines are dropped and counted", "about 8 MiB", "tests/it/log_losses::counts_dropped_lines_and_reports_them_when_stderr_is_read";
    "spans that wait for the trace collector", Constant("src/telemetry/trace/collector.rs", "MAX_QUEUED_SPANS"), "@, unless `OTEL_BSP_MAX_QUEUE_SIZE` says otherwise", "", "diglot_spans_dropped_total", "further spans are dropped and counted", "about 4 MiB", "tests/it/traces::drops_spans_when_the_queue_is_full";
    "text of clients and agents in a log line", Constant("src/telemetry/internal_event/mod.rs", "MAX_TEXT_CHARS"), "@ characters", "", "", "cut", "within the queue", "tests/it/access_log::escapes_and_truncates_ids_in_log_lines";
    "reloads that wait", Constant("src/admin/commands.rs", "MAX_PENDING_RELOADS"), "@", "", "", "SIGHUPs are combined, commands wait", "small", "no test: a bounded channel; only the gateway's user fills it";
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
                if let Some((_, whole)) = field.split_once("mebibytes(") {
                    return format!("{} MiB", whole.trim_end_matches(')'));
                }
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
        let test = if row.test.starts_with("no test: ") { row.test.to_owned() } else { code(row.test) };
        write_line(
            &mut out,
            format_args!("| {what} | {bound} | {} | {} | {effect} | {memory} | {test} |", code(key), code(metric)),
        );
    }
    out + FOOT
}

#[test]
fn limits_page_matches_the_code() {
    assert_up_to_date("deploy/limits.md", &page());
}

/// Each bound is pushed by a test.
#[test]
fn bounds_name_existing_tests() {
    for BoundRow { what, test, .. } in BOUNDS {
        if test.strip_prefix("no test: ").is_some_and(|reason| reason.len() > 10) {
            continue;
        }
        let (file, name) = test.rsplit_once("::").unwrap_or_else(|| panic!("{what}: {test}"));
        assert!(read(&format!("{file}.rs")).contains(&format!("fn {name}(")), "{what}: no test {test}");
    }
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
