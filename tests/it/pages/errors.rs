//! `deploy/errors.md`: what clients hear when something goes wrong, from the table in `src/error.rs`.

use diglot::error::{Rejection, RejectionKind};
use std::fmt::Write;
use std::path::Path;

/// What stands above the table.
const HEAD: &str = r#"# What clients hear when something goes wrong

<!-- Made from the table in src/error.rs: UPDATE=1 cargo test --test it pages -->

Before the stream has begun the client gets a status and a problem document (RFC 9457); after that, a `RUN_ERROR` with the
same `code` as the last event, and a clean end of the body. A run that did not finish never looks finished.

An agent that is not there, and one that is killed in mid-sentence:

EXAMPLES

`instance` is the id of the request: it is `x-request-id` of the answer and `request_id` in the log, where the cause is.
`detail` says what exactly; of a request that cannot be read it names the place, such as `/messages/0/role`.

- An agent that has not answered after `keep_alive` (15 s) no longer holds the client back: the stream begins with a comment,
  and a failure after that is a `RUN_ERROR`.
- With `errors: run_error` on a route refusals are `RUN_ERROR` too, on a stream of their own with status 200, which the AG-UI
  client shows better than a status ([access.md](access.md#how-a-refusal-is-heard)).
- `upstream_status` is 502, or the agent's own 400, 409, 413, 422, 429 or 503, with its message and its `Retry-After`.
- `Retry-After` says when to come back where that is known; who comes back then after `rate_limited` is let pass.
- `token_expired` and `tool_not_allowed` may also come in mid-run; `run_limit_reached`, `run_lost` and `run_abandoned` are
  failures of a run that has begun, and come as `RUN_ERROR`.
- Coming back to runs is in [resume.md](resume.md), agents that fail in [upstreams.md](upstreams.md), runs in two steps in
  [two-steps.md](two-steps.md).

| `code` | status | what happened | what to do |
|---|---|---|---|
"#;

/// What stands below it.
const FOOT: &str = "
Where an agent is to blame, `Proxy-Status` (RFC 9209) says it in the words of that standard as well:

| `code` | `error` of `Proxy-Status` |
|---|---|
";

/// A refusal, and the end of a run that failed, as they leave.
fn examples() -> String {
    let refusal =
        Rejection::from(RejectionKind::UpstreamUnreachable).problem_document("01a20203-4007-704f-b2f6-aba12538ff08");
    let (text, code) = (RejectionKind::UpstreamTruncated.text(), RejectionKind::UpstreamTruncated.code());
    let said = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-r1","delta":"请先确认。"}"#;
    let failed = format!(r#"{{"type":"RUN_ERROR","message":"{text}","code":"{code}"}}"#);
    format!("```json\n{refusal}\n```\n\n```text\ndata: {said}\n\ndata: {failed}\n```")
}

fn page() -> String {
    let mut out = HEAD.replace("EXAMPLES", &examples());
    for kind in RejectionKind::ALL {
        writeln!(out, "| `{}` | {} | {} | {} |", kind.code(), kind.status(), kind.text(), kind.hint())
            .expect("a string");
    }
    out.push_str(FOOT);
    for (kind, said) in RejectionKind::ALL.iter().filter_map(|kind| Some((kind, kind.proxy_status()?))) {
        writeln!(out, "| `{}` | `{said}` |", kind.code()).expect("a string");
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
