//! The rejection table: every reason for rejecting a request or failing a run, as clients see it.
//!
//! Each row has the HTTP status, headers and problem document of a rejection before the stream begins, the RUN_ERROR
//! code of a later failure, and a hint. Internal details are logged, never sent to the client.

use crate::translate::{RunStateLimit, StreamError};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use std::borrow::Cow;
use std::sync::Arc;

/// Explains why a response did not come from the upstream (RFC 9209).
pub(crate) const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

struct RejectionSpec {
    status: u16,
    code: &'static str,
    text: &'static str,
    hint: &'static str,
    /// `error` parameter of `Proxy-Status` (RFC 9209 §2.3), if the agent is at fault
    proxy_status: Option<&'static str>,
    /// registered problem type (draft-ietf-httpapi-ratelimit-headers-10 §5); `urn:diglot:problem:<code>` otherwise
    problem_type: Option<&'static str>,
    /// value of `Allow`
    allow: Option<&'static str>,
    /// `Retry-After` in seconds, unless the rejection has its own
    retry_after: Option<u32>,
    /// sends `Connection: close`: the rest of the request is not read, so the connection cannot be reused
    close: bool,
    /// sent as RUN_ERROR on routes with `errors: run_error`; as a problem document otherwise
    run_error: bool,
}

/// Defaults for the columns that a row may omit.
const DEFAULTS: RejectionSpec = RejectionSpec {
    status: 500,
    code: "",
    text: "",
    hint: "",
    proxy_status: None,
    problem_type: None,
    allow: None,
    retry_after: None,
    close: false,
    run_error: true,
};

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// A row is `Name = status "code" [other columns], "text", "hint";`.
macro_rules! rejections {
    ($($name:ident = $status:literal $code:literal $([$($column:ident: $value:expr),+])?, $text:literal, $hint:literal;)+) => {
        /// The reason why a request was rejected or a run failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the rows of the table are their own documentation")]
        pub enum RejectionKind { $($name,)+ }

        impl RejectionKind {
            /// All rows of the table.
            pub const ALL: &'static [RejectionKind] = &[$(RejectionKind::$name,)+];

            const SPECS: &'static [RejectionSpec] = &[
                $(RejectionSpec {
                    status: $status, code: $code, text: $text, hint: $hint, $($($column: $value,)+)? ..DEFAULTS
                },)+
            ];
        }
    };
}

rejections! {
    InvalidRequest = 400 "invalid_request",
        "The request cannot be read.", "Correct the request and send it again.";
    RouteNotFound = 404 "route_not_found",
        "No route has this path.", "Paths are compared exactly; check `routes` in the gateway's configuration.";
    MethodNotAllowed = 405 "method_not_allowed" [allow: Some("POST")],
        "A run is started with POST.", "Send the request with the method POST.";
    ResumptionUnsupported = 400 "resumption_unsupported",
        "Streams of this route cannot be resumed.",
        "Start the run again and read its events without Last-Event-ID, or set `on_disconnect: continue for 5m` on the route.";
    EventsNotFound = 404 "events_not_found",
        "No run of this thread is waiting for a reader.",
        "Start a run with POST and read its events once, before `timeouts.reader` passes; they cannot be read again.";
    InvalidCursor = 400 "invalid_cursor",
        "The Last-Event-ID was not issued by this gateway.", "Send the `id` of the last event unchanged, or no Last-Event-ID.";
    RunNotFound = 404 "run_not_found",
        "No run with this id is kept for this caller.",
        "Start one with POST and without Last-Event-ID; a run is kept until `replay.age` after its end, and only for its caller.";
    CursorGone = 410 "cursor_gone",
        "The run cannot be resumed after this event.",
        "Send the request without Last-Event-ID: the stream then begins with a snapshot of the run so far.";
    RunNotKept = 410 "run_not_kept",
        "The run is too large to be resumed.", "Raise `replay.run_bytes` or `replay.bytes`, or start over with a new runId.";
    RunIdTaken = 409 "run_id_taken",
        "Another run with this id is still open.",
        "To rejoin it, send Last-Event-ID, repeat the same body, or GET its events; for another run, use a new runId.";
    TooManyReaders = 429 "too_many_readers" [retry_after: Some(1)],
        "This run has reached its reader limit.", "Close one of its streams and try again.";
    RunAbandoned = 410 "run_abandoned",
        "The run was abandoned: no client was connected for longer than `on_disconnect` allows.",
        "Start it again, or raise `on_disconnect` of the route.";
    RunLost = 410 "run_lost",
        "The run was lost with the replica that ran it.", "Start it again with a new runId.";
    ConversationLost = 410 "conversation_lost",
        "The gateway has nothing from the earlier runs of this conversation, which the agent needs for this request.",
        "Send a message of the user: the agent then begins a new conversation, with the history.";
    ReplayUnavailable = 503 "replay_unavailable" [retry_after: Some(1)],
        "The gateway cannot check right now whether another replica has this run.", "Try again after the time in `Retry-After`.";
    ReplayMemoryFull = 503 "replay_memory_full" [problem_type: Some(REDUCED_CAPACITY), retry_after: Some(1)],
        "The kept runs take all the memory that they may use together.",
        "Try again shortly, resume with Last-Event-ID, or raise `replay.bytes`.";
    EventsMethodNotAllowed = 405 "events_method_not_allowed" [allow: Some("GET")],
        "The events of a run are read with GET.", "Send the request with the method GET.";
    ThreadBusy = 409 "thread_busy",
        "A run of this thread is already waiting for a reader.",
        "Read its events first, or wait until `timeouts.reader` of the route has passed.";
    TooManyWaiting = 503 "too_many_waiting" [retry_after: Some(1)],
        "Too many runs are waiting for a reader.", "Try again shortly; a run waits until its events are requested.";
    NotAcceptable = 406 "not_acceptable",
        "A run is sent as text/event-stream.", "Send `Accept: text/event-stream`.";
    RequestTimeout = 408 "request_timeout" [close: true],
        "The request body did not arrive in time.", "Send the whole body without a pause.";
    HeadersTooLarge = 431 "headers_too_large" [run_error: false],
        "The request headers exceed the gateway's limit.",
        "Send fewer or shorter headers, or raise `limits.headers` or `limits.header_bytes`.";
    BodyTooLarge = 413 "body_too_large" [close: true],
        "The request body exceeds the gateway's limit.", "Send a smaller body, or raise `limits.request_body`.";
    BodiesFull = 503 "bodies_full" [problem_type: Some(REDUCED_CAPACITY), retry_after: Some(1), close: true],
        "Too many request bodies are in memory.", "Try again shortly, or raise `limits.request_bodies`.";
    UnsupportedMediaType = 415 "unsupported_media_type",
        "The request body must be JSON without a content coding.",
        "Send `Content-Type: application/json` and no Content-Encoding.";
    AuthenticationRequired = 401 "authentication_required",
        "The route requires a credential.",
        "Send a credential of a kind that the route accepts.";
    InvalidToken = 401 "invalid_token",
        "The credential is not accepted.", "Get a new token from an issuer that the route accepts, or check the API key.";
    TokenExpired = 401 "token_expired",
        "The credential has expired.", "Get a new one and send the request again.";
    KeysUnavailable = 503 "keys_unavailable",
        "Tokens cannot be checked right now: the issuer's keys are unavailable.",
        "Try again shortly; `/readyz?verbose` on the status port names the issuer that does not answer.";
    InsufficientScope = 403 "insufficient_scope",
        "The credential lacks a scope that the route requires.", "Get a credential with the scopes that the route requires.";
    Forbidden = 403 "forbidden",
        "The caller may not use this route.", "Use a credential that meets `require` of the route.";
    ToolNotAllowed = 403 "tool_not_allowed",
        "A tool is not allowed on this route.", "Remove the tool from the request, or add it to `tools` of the route.";
    ThreadNotOwned = 403 "thread_not_owned",
        "The thread belongs to another caller.", "Start a thread of your own with a new `threadId`.";
    ThreadsUnavailable = 503 "threads_unavailable" [retry_after: Some(1)],
        "Thread ownership cannot be checked right now.",
        "Try again shortly; see `redis.on_error` in the gateway's configuration.";
    OriginNotAllowed = 403 "origin_not_allowed" [run_error: false],
        "Pages of this origin may not call the route.", "Add the origin to `cors.origins` of the route.";
    RateLimited = 429 "rate_limited" [problem_type: Some(QUOTA_EXCEEDED)],
        "Too many requests.", "Wait for the time in `Retry-After` and send the request again.";
    RateLimitUnavailable = 503 "rate_limit_unavailable",
        "The rate limit cannot be checked right now.",
        "Try again shortly; see `redis.on_error` in the gateway's configuration.";
    TooManyStreams = 429 "too_many_streams" [problem_type: Some(QUOTA_EXCEEDED), retry_after: Some(1)],
        "The caller has too many open runs.", "Wait until one of them has ended, or raise `max_streams_per_caller` of the route.";
    Overloaded = 503 "overloaded" [problem_type: Some(REDUCED_CAPACITY), retry_after: Some(1)],
        "The gateway has reached its limit of open runs.", "Try again shortly, or raise `max_streams`.";
    RunLimitReached = 502 "run_limit_reached",
        "The run exceeded a limit of the route on its size or duration.", "Request less at once, or raise `run_limits` of the route.";
    RunMemoryFull = 503 "run_memory_full" [problem_type: Some(REDUCED_CAPACITY), retry_after: Some(1)],
        "The runs in progress take all the memory that they may use together.",
        "Run it again shortly, with fewer messages or smaller events of the agent, or raise `limits.run_memory`.";
    Internal = 500 "internal_error",
        "The gateway had an internal error.", "Report it to the operator with the request id, which is also in the log.";
    Draining = 503 "gateway_draining" [close: true],
        "The gateway is shutting down.", "Send the request again; another instance will serve it.";
    UpstreamUnreachable = 502 "upstream_unreachable" [proxy_status: Some("destination_unavailable")],
        "The agent cannot be reached.", "Check that the agent is running and that `upstream` names it.";
    UpstreamBusy = 503 "upstream_busy" [proxy_status: Some("connection_limit_reached"), retry_after: Some(1)],
        "The agent takes no further run at the moment.",
        "Try again shortly, or let the agent allow more HTTP/2 streams at a time (SETTINGS_MAX_CONCURRENT_STREAMS).";
    UpstreamTls = 502 "upstream_tls" [proxy_status: Some("tls_protocol_error")],
        "The TLS connection to the agent failed.",
        "Check the agent's certificate and `upstream_tls` of the route; the gateway's log has the cause.";
    UpstreamTimeout = 504 "upstream_timeout" [proxy_status: Some("http_response_timeout")],
        "The agent did not answer in time.", "Try again later, or raise `timeouts` of the route.";
    UpstreamIdle = 504 "upstream_idle" [proxy_status: Some("http_response_timeout")],
        "The agent sent no event for too long.", "Try again later, or raise `timeouts.idle` of the route, or `timeouts.ping_only` for an agent that still sends comments.";
    UpstreamStatus = 502 "upstream_status" [proxy_status: Some("http_request_error")],
        "The agent answered with an error status.",
        "See the agent's own log for the reason. After 401 or 403, check the credentials that the agent gets; after 404, the path in `upstream`; after 429, the agent's own limits.";
    UpstreamContentType = 502 "upstream_content_type" [proxy_status: Some("http_protocol_error")],
        "The agent's response is not an event stream.", "Check that `upstream` is the agent's streaming endpoint.";
    UpstreamContentEncoding = 502 "upstream_content_encoding" [proxy_status: Some("http_response_content_coding")],
        "The agent's response has a content coding that was not requested.",
        "Turn off compression of event streams at the agent.";
    UpstreamProtocol = 502 "upstream_protocol" [proxy_status: Some("http_protocol_error")],
        "The agent's response is not valid HTTP.", "Check that `upstream` names an HTTP server.";
    UpstreamTruncated = 502 "upstream_truncated" [proxy_status: Some("http_response_incomplete")],
        "The agent's stream ended before its run did.", "Run it again; see the agent's own log for why it stopped.";
    UpstreamDialect = 502 "upstream_dialect" [proxy_status: Some("http_protocol_error")],
        "The agent's events are not known to the gateway.",
        "Set `agent` of the route to the agent's own dialect: `diglot detect` names that of a recording.";
    UpstreamConversationLost = 410 "upstream_conversation_lost" [proxy_status: Some("http_request_error")],
        "The agent no longer knows this conversation: the next message begins a new one.",
        "Send the message again. The agent knows the earlier messages only if its request has them.";
    UpstreamReset = 502 "upstream_reset" [proxy_status: Some("connection_terminated")],
        "The connection to the agent broke.", "Run it again; see the agent's own log for why it stopped.";
    ProtocolViolation = 502 "protocol_violation" [proxy_status: Some("http_protocol_error")],
        "The agent broke a rule of its protocol.",
        "Fix the agent, or let the gateway repair its stream: `guard: repair` on the route.";
    FrameTooLarge = 502 "frame_too_large" [proxy_status: Some("http_response_incomplete")],
        "An event of the agent exceeds the gateway's limit.", "Let the agent send smaller events, or raise `limits.frame`.";
    TooMuchOpen = 502 "too_much_open" [proxy_status: Some("http_response_incomplete")],
        "The agent's run has more messages, calls and steps than the gateway can follow.",
        "Let the agent end what it starts, send shorter snapshots, and divide very long runs.";
}

impl RejectionKind {
    const fn spec(self) -> &'static RejectionSpec {
        &RejectionKind::SPECS[self as usize]
    }

    /// Returns the HTTP status of a rejection before the stream begins.
    #[must_use]
    pub const fn status(self) -> u16 {
        self.spec().status
    }

    /// Returns the `code` of the problem document and of RUN_ERROR.
    #[must_use]
    pub const fn code(self) -> &'static str {
        self.spec().code
    }

    /// Finds the kind that has a `code`.
    pub(crate) fn from_code(code: &str) -> Option<RejectionKind> {
        RejectionKind::ALL.iter().copied().find(|kind| kind.code() == code)
    }

    /// Returns the `error` parameter of `Proxy-Status` (RFC 9209 §2.3), if the agent is at fault.
    #[must_use]
    pub const fn proxy_status(self) -> Option<&'static str> {
        self.spec().proxy_status
    }

    /// Describes the cause in one sentence that is safe to show to clients.
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.spec().text
    }

    /// Describes in one sentence how to fix the problem.
    #[must_use]
    pub const fn hint(self) -> &'static str {
        self.spec().hint
    }
}

/// One rejected request or failed run.
#[derive(Clone, Debug)]
pub struct Rejection {
    pub(crate) kind: RejectionKind,
    /// shown to the client in place of the row's text
    pub(crate) detail: Option<Cow<'static, str>>,
    /// shown in place of the row's hint
    pub(crate) hint: Option<Box<str>>,
    /// overrides the row's status, for example with the agent's more specific one
    pub(crate) status: Option<u16>,
    /// `Retry-After` value from the agent or a limit, in place of the row's
    pub(crate) retry_after: Option<Box<str>>,
    /// internal cause, only logged
    pub(crate) cause: Option<Box<str>>,
    /// where in the cause begins how the agent refused the request
    pub(crate) answer_start: Option<u8>,
    /// whether the detail is a text of the agent, in which the route redacts something
    pub(crate) has_secret_detail: bool,
    /// name of the limit or rule that caused the rejection, from the configuration
    pub(crate) policy: Option<Arc<str>>,
    /// sent in addition to the row's headers
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

impl From<&StreamError> for RejectionKind {
    /// Returns the kind with which a run ends whose stream cannot be translated further.
    fn from(fault: &StreamError) -> RejectionKind {
        match fault {
            StreamError::Truncated { .. } => RejectionKind::UpstreamTruncated,
            StreamError::UnknownDialect => RejectionKind::UpstreamDialect,
            StreamError::Framing(_)
            | StreamError::TooMuchState(
                RunStateLimit::PendingText { .. } | RunStateLimit::WrittenEvent { .. } | RunStateLimit::Growth,
            ) => RejectionKind::FrameTooLarge,
            StreamError::TooMuchState(
                RunStateLimit::OpenItems | RunStateLimit::ListElements | RunStateLimit::RetainedIds,
            ) => RejectionKind::TooMuchOpen,
            StreamError::ForbiddenTool(_) => RejectionKind::ToolNotAllowed,
            StreamError::OverBudget(_) => RejectionKind::RunLimitReached,
            StreamError::Violation(_) => RejectionKind::ProtocolViolation,
        }
    }
}

impl From<RejectionKind> for Rejection {
    fn from(kind: RejectionKind) -> Self {
        Rejection {
            kind,
            detail: None,
            hint: None,
            status: None,
            retry_after: None,
            cause: None,
            answer_start: None,
            has_secret_detail: false,
            policy: None,
            headers: Vec::new(),
        }
    }
}

impl Rejection {
    pub(crate) fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn with_cause(mut self, cause: impl std::fmt::Display) -> Self {
        self.cause = Some(cause.to_string().into());
        self
    }

    /// Sets the cause: how the agent refused the request, behind an introduction.
    pub(crate) fn set_agent_answer(&mut self, introduction: &'static str, answer: &str) {
        self.cause = Some(format!("{introduction}{answer}").into());
        self.answer_start = u8::try_from(introduction.len()).ok();
    }

    /// Returns how the agent refused the request, in its own words as far as they are logged: masked, and bounded.
    pub(crate) fn agent_answer(&self) -> Option<&str> {
        self.cause.as_deref().zip(self.answer_start).and_then(|(cause, start)| cause.get(usize::from(start)..))
    }

    pub(crate) fn with_policy(mut self, name: &Arc<str>) -> Self {
        self.policy = Some(Arc::clone(name));
        self
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn status(&self) -> u16 {
        self.status.unwrap_or_else(|| self.kind.status())
    }

    /// Adds the rejection's headers, including those of its row.
    pub(crate) fn add_headers(&self, headers: &mut HeaderMap) {
        let RejectionSpec { allow, close, .. } = self.kind.spec();
        if let Some(token) = self.kind.proxy_status() {
            insert_header(headers, PROXY_STATUS, &format!("diglot; error={token}"));
        }
        if let Some(seconds) = self.retry_after() {
            insert_header(headers, header::RETRY_AFTER, &seconds);
        }
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        if let Some(method) = allow {
            insert_header(headers, header::ALLOW, method);
        }
        if *close {
            insert_header(headers, header::CONNECTION, "close");
        }
    }

    fn retry_after(&self) -> Option<Box<str>> {
        self.retry_after.clone().or_else(|| self.kind.spec().retry_after.map(|seconds| seconds.to_string().into()))
    }

    /// Returns whether routes with `errors: run_error` send this rejection as an event. Malformed HTTP, which closes
    /// its connection, gets a problem document.
    pub(crate) fn is_run_error(&self) -> bool {
        let malformed = self.headers.iter().any(|(name, _)| *name == header::CONNECTION);
        self.kind.spec().run_error && !malformed
    }

    /// Returns the `message` of RUN_ERROR and `detail` of the problem document.
    pub(crate) fn message(&self) -> &str {
        self.detail.as_deref().unwrap_or_else(|| self.kind.text())
    }

    /// Returns the message and the hint as sentences.
    pub(crate) fn message_and_hint(&self) -> String {
        let message = self.message();
        let stop = if message.ends_with('.') { "" } else { "." };
        format!("{message}{stop} {}", self.hint())
    }

    /// Returns the internal cause, or else the explanation that replaces the row's text.
    pub(crate) fn logged_cause(&self) -> Option<&str> {
        self.cause.as_deref().or(self.detail.as_deref())
    }

    pub(crate) fn hint(&self) -> &str {
        self.hint.as_deref().unwrap_or_else(|| self.kind.hint())
    }

    /// Returns the problem document (RFC 9457); `instance` is the request id.
    #[must_use]
    pub fn problem_document(&self, instance: &str) -> String {
        self.problem_document_with(instance, self.kind.code())
    }

    /// Returns the problem document with the client's name for the code; `type` keeps the gateway's.
    pub(crate) fn problem_document_with(&self, instance: &str, code: &str) -> String {
        let registered = self.kind.spec().problem_type;
        let mut problem = serde_json::json!({
            "type": registered.map_or_else(|| format!("urn:diglot:problem:{}", self.kind.code()), str::to_owned),
            "title": self.kind.text(),
            "status": self.status(),
            "detail": self.message(),
            "instance": instance,
            "code": code,
            "hint": self.hint(),
        });
        if let Some(policy) = &self.policy {
            problem["policy"] = (**policy).into();
            // Both registered types have the member "violated-policies".
            if registered.is_some() {
                problem["violated-policies"] = serde_json::json!([**policy]);
            }
        }
        problem.to_string()
    }
}

fn insert_header(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_are_unique_and_texts_end_with_a_full_stop() {
        let codes: HashSet<_> = RejectionKind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(codes.len(), RejectionKind::ALL.len());
        for kind in RejectionKind::ALL {
            assert!((400..600).contains(&kind.status()), "{kind:?}");
            assert!(kind.text().ends_with('.') && kind.hint().ends_with('.'), "{kind:?}");
            let agents = kind.code().starts_with("upstream")
                || matches!(
                    kind,
                    RejectionKind::FrameTooLarge | RejectionKind::TooMuchOpen | RejectionKind::ProtocolViolation
                );
            assert_eq!(kind.proxy_status().is_some(), agents, "{kind:?}");
        }
    }

    /// The core cannot import this table, and has this error within a stream.
    #[test]
    fn a_lost_conversation_has_one_code_and_one_text() {
        let kind = RejectionKind::UpstreamConversationLost;
        assert_eq!((kind.code(), kind.text()), crate::dialect::CONVERSATION_GONE);
    }

    /// 常见错误码 of CloudBase has a code for each error of an agent.
    #[test]
    fn cloudbase_has_a_code_for_each_error_of_an_agent() {
        let cloudbase = crate::dialect::find_by_name("cloudbase").expect("a dialect");
        for kind in RejectionKind::ALL.iter().filter(|kind| kind.proxy_status().is_some()) {
            let alias = cloudbase.value_aliases.iter().find(|alias| alias.canonical == kind.code());
            assert!(alias.is_some_and(|alias| ["MODEL_ERROR", "TIMEOUT"].contains(&alias.wire)), "{kind:?}");
        }
    }

    /// The core cannot import this table, so the dialects' aliases for our codes are checked here.
    #[test]
    fn dialects_name_only_codes_of_the_error_table() {
        let aliases = crate::dialect::ALL
            .iter()
            .flat_map(|dialect| dialect.value_aliases.iter().map(|alias| (dialect.name, alias)));
        let codes: Vec<_> = aliases.filter(|(_, alias)| alias.field == crate::event::Field::Code).collect();
        assert!(!codes.is_empty(), "no dialect has aliases of codes");
        for (dialect, alias) in codes {
            assert!(
                RejectionKind::ALL.iter().any(|kind| kind.code() == alias.canonical),
                "{dialect}: {} is not a code",
                alias.canonical
            );
        }
    }
}
