//! `deploy/errors.md`: the errors that clients see, from the table in `src/error.rs`.

use diglot::error::{Rejection, RejectionKind};
use std::fmt::Write;
use std::path::Path;

/// The text above the table.
const HEAD: &str = r#"# Errors that clients see

<!-- Made from the table in src/error.rs: UPDATE=1 cargo test --test it pages -->

Before the stream has begun, the client gets a status and a problem document (RFC 9457). After that, the last event is a
`RUN_ERROR` with the same `code`, and the body ends cleanly. Clients whose dialect has its own codes get those as `code`
(`INVALID_REQUEST` for `cloudbase`); `type` keeps the code of this page. A run that did not finish never looks finished.

An agent that cannot be reached, and one that is killed in mid-stream:

EXAMPLES

`instance` is the id of the request: `x-request-id` of the response and `request_id` in the log, which has the cause.
`detail` is more specific than `title`; for a request that cannot be read it names the place, such as `/messages/0/role`.

- In the log, a refusal is a line `request refused` with its `code`, and a failure of the agent before the stream a line
  `request failed at the agent` (both level `info`). Both count in `diglot_refusals_total{reason="<code>"}`.
- Every run writes `run ended` (level `warn` if the agent is at fault, `error` for `internal_error`, otherwise `info`), with the
  `code` of its failure, and counts in `diglot_streams_total` by `outcome`; so does a run whose agent failed before the stream.
- If the agent has not answered after `keep_alive` (15 s), the stream begins with a comment, and a failure after that is a
  `RUN_ERROR`.
- With `errors: run_error` on a route, refusals are a `RUN_ERROR` too, on a stream of their own with status 200, which the
  AG-UI client displays better than a status ([access.md](access.md#refusals)).
- `upstream_status` is 502, or the agent's own 400, 409, 413, 422, 429 or 503, with its `Retry-After`. Its `detail` has the status and
  the id of the request as a reference; the agent's message is in the log under that id, shortened, with secrets masked. With
  `agent_errors: pass` on the route, `detail` is the agent's message ([upstreams.md](upstreams.md#error-texts-of-agents)).
- The `type` of `rate_limited`, `too_many_streams` and `overloaded` is a registered one
  (`https://iana.org/assignments/http-problem-types#…`, with the member `violated-policies`); that of all others is
  `urn:diglot:problem:<code>`.
- `Retry-After` is sent where the wait is known. A client that waits that long after `rate_limited` is let through.
- `token_expired` and `tool_not_allowed` can also occur in mid-run; `run_limit_reached`, `run_lost` and `run_abandoned` are
  failures of a run that has begun, and are sent as `RUN_ERROR`.
- See [resume.md](resume.md) for resuming runs, [upstreams.md](upstreams.md) for failing agents and
  [two-steps.md](two-steps.md) for runs in two steps.

## Seven failures

| failure | the client receives | log line (level) | counter |
|---|---|---|---|
FAILURES
A client that leaves ends its run, unless `on_disconnect` of the route lets the run continue: then the run ends as usual, or
as `run_abandoned` with the outcome `client_gone`. Nothing but its duration tells a client that stopped reading from one that left.

## All codes

| `code` | status | what happened | what to do |
|---|---|---|---|
"#;

/// The text below the table.
const FOOT: &str = "
Where the agent is at fault, the response also has `Proxy-Status` (RFC 9209):

| `code` | `error` of `Proxy-Status` |
|---|---|
";

/// A failure of the agent, the client, Redis or the gateway, and its traces, as cells of a table.
struct FailureRow {
    failure: &'static str,
    client: &'static str,
    log: &'static str,
    counter: &'static str,
}

#[rustfmt::skip]
const FAILURES: &[FailureRow] = &[
    FailureRow {
        failure: "the agent is not running",
        client: "status 502, `upstream_unreachable`",
        log: "`request failed at the agent` (info) and `run ended` (warn), both with the `code`; `cause` has the address",
        counter: r#"`diglot_refusals_total{reason="upstream_unreachable"}`, `diglot_streams_total{outcome="upstream_error"}`"#,
    },
    FailureRow {
        failure: "the agent is killed in mid-stream",
        client: "all events up to there, then `RUN_ERROR` with `upstream_truncated`, or `upstream_reset` if the connection was reset",
        log: "`run ended` (warn) with the `code`",
        counter: r#"`diglot_streams_total{outcome="upstream_error"}`"#,
    },
    FailureRow {
        failure: "the agent is silent",
        client: "comments every `keep_alive`; after `timeouts.first_byte` `upstream_timeout` (status 504, or `RUN_ERROR` after a comment), after `timeouts.idle` within the stream, or `timeouts.ping_only` if it still sends comments, `RUN_ERROR` with `upstream_idle`",
        log: "`run ended` (warn) with the `code`; before it `request failed at the agent` (info) if the status is 504",
        counter: r#"`diglot_streams_total{outcome="upstream_error"}`; with status 504 also `diglot_refusals_total{reason="upstream_timeout"}`"#,
    },
    FailureRow {
        failure: "the client leaves",
        client: "nothing; the request to the agent is cancelled",
        log: "`run ended` (info) with `outcome` `client_gone`",
        counter: r#"`diglot_streams_total{outcome="client_gone"}`"#,
    },
    FailureRow {
        failure: "the client stops reading",
        client: "what fits into the buffers; after 60 s its connection is closed (HTTP/1.1) or its stream reset (HTTP/2)",
        log: "`run ended` (info) with `outcome` `client_gone`",
        counter: r#"`diglot_streams_total{outcome="client_gone"}`"#,
    },
    FailureRow {
        failure: "Redis does not answer",
        client: "its events, while it reads from the replica of the run; with `redis.on_error: deny`, status 503 with `rate_limit_unavailable` or `threads_unavailable`; for runs of other replicas, status 503 with `replay_unavailable`",
        log: "`redis does not answer` (warn), once; later `redis answers` (info)",
        counter: "`diglot_ratelimit_backend_errors_total`, `diglot_replay_backend_errors_total`",
    },
    FailureRow {
        failure: "the gateway is killed (SIGKILL)",
        client: "a body without its end, which HTTP clients report as an error; with `replay.store: redis`, a client that reads or resumes the run on another replica gets `RUN_ERROR` with `run_lost`",
        log: "none of the killed process; `run lost with its replica` (warn) on a replica with readers of the run",
        counter: "none; all counters begin again at 0, and `process_start_time_seconds` changes",
    },
];

/// Shows a refusal and the end of a failed run as clients receive them.
fn examples() -> String {
    let refusal =
        Rejection::from(RejectionKind::UpstreamUnreachable).problem_document("01a20203-4007-704f-b2f6-aba12538ff08");
    let (text, code) = (RejectionKind::UpstreamTruncated.text(), RejectionKind::UpstreamTruncated.code());
    let content = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-r1","delta":"请先确认。"}"#;
    let failed = format!(r#"{{"type":"RUN_ERROR","message":"{text}","code":"{code}"}}"#);
    format!("```json\n{refusal}\n```\n\n```text\ndata: {content}\n\ndata: {failed}\n```")
}

fn page() -> String {
    let row = |FailureRow { failure, client, log, counter }: &FailureRow| {
        format!("| {failure} | {client} | {log} | {counter} |\n")
    };
    let failures: String = FAILURES.iter().map(row).collect();
    let mut out = HEAD.replace("EXAMPLES", &examples()).replace("FAILURES\n", &(failures + "\n"));
    for kind in RejectionKind::ALL {
        writeln!(out, "| `{}` | {} | {} | {} |", kind.code(), kind.status(), kind.text(), kind.hint())
            .expect("a string");
    }
    out.push_str(FOOT);
    for (kind, token) in RejectionKind::ALL.iter().filter_map(|kind| Some((kind, kind.proxy_status()?))) {
        writeln!(out, "| `{}` | `{token}` |", kind.code()).expect("a string");
    }
    out
}

#[test]
fn errors_page_matches_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/errors.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(&path, page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "deploy/errors.md is not what the table says: UPDATE=1 cargo test --test it pages");
}

/// Returns the texts in backticks.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn failures_name_existing_codes_log_lines_and_counters() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("the file can be read");
    let lines = read("src/telemetry/internal_event/run.rs") + &read("src/telemetry/internal_event/policy.rs");
    let metrics = read("deploy/metrics.md");
    let codes: Vec<_> = RejectionKind::ALL.iter().map(|kind| kind.code()).collect();
    for FailureRow { failure, client, log, counter } in FAILURES {
        for code in code_spans(client).filter(|span| span.contains('_') && span.is_ascii()) {
            let is_key =
                ["keep_alive", "timeouts.first_byte", "timeouts.ping_only", "redis.on_error: deny", "RUN_ERROR"]
                    .contains(&code);
            assert!(is_key || codes.contains(&code), "{failure}: {code} is not a code");
        }
        for message in code_spans(log).filter(|span| span.contains(' ')) {
            assert!(lines.contains(&format!("\"{message}\"")), "{failure}: no line `{message}`");
        }
        for series in code_spans(counter) {
            let (name, label) = series.split_once('{').unwrap_or((series, ""));
            assert!(metrics.contains(&format!("| `{name}` | ")), "{failure}: no metric {name}");
            if let Some(value) = label.split('"').nth(1) {
                assert!(metrics.contains(&format!("`{value}`")), "{failure}: no label value {value}");
            }
        }
    }
}
