//! `deploy/errors.md`: the errors that clients see, from the table in `src/error.rs`.

use diglot::error::{Rejection, RejectionKind};
use std::fmt::Write;
use std::path::Path;

/// The text above the table.
const HEAD: &str = r#"# Errors that clients see

<!-- Made from the table in src/error.rs: UPDATE=1 cargo test --test it pages -->

Before the stream has begun, the client gets a status and a problem document (RFC 9457). After that, the last event is a
`RUN_ERROR` with the same `code`, and the body ends cleanly. A run that did not finish never looks finished.

An agent that cannot be reached, and one that is killed in mid-stream:

EXAMPLES

`instance` is the id of the request: `x-request-id` of the response and `request_id` in the log, which has the cause.
`detail` is more specific than `title`; for a request that cannot be read it names the place, such as `/messages/0/role`.

- In the log, a refusal is a line `request refused` with its `code`, and a failure of the agent before the stream a line
  `request failed at the agent` (both level `info`). Both count in `diglot_refusals_total{reason="<code>"}`. A failure after
  that is the `code` in the line `run ended` (level `warn` if the agent is at fault, `error` for `internal_error`, otherwise
  `info`), which counts in `diglot_streams_total` by `outcome`.
- If the agent has not answered after `keep_alive` (15 s), the stream begins with a comment, and a failure after that is a
  `RUN_ERROR`.
- With `errors: run_error` on a route, refusals are a `RUN_ERROR` too, on a stream of their own with status 200, which the
  AG-UI client displays better than a status ([access.md](access.md#refusals)).
- `upstream_status` is 502, or the agent's own 400, 409, 413, 422, 429 or 503, with its message and its `Retry-After`.
- `Retry-After` is sent where the wait is known. A client that waits that long after `rate_limited` is let through.
- `token_expired` and `tool_not_allowed` can also occur in mid-run; `run_limit_reached`, `run_lost` and `run_abandoned` are
  failures of a run that has begun, and are sent as `RUN_ERROR`.
- See [resume.md](resume.md) for resuming runs, [upstreams.md](upstreams.md) for failing agents and
  [two-steps.md](two-steps.md) for runs in two steps.

| `code` | status | what happened | what to do |
|---|---|---|---|
"#;

/// The text below the table.
const FOOT: &str = "
Where the agent is at fault, the response also has `Proxy-Status` (RFC 9209):

| `code` | `error` of `Proxy-Status` |
|---|---|
";

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
    let mut out = HEAD.replace("EXAMPLES", &examples());
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
