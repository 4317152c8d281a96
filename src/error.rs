//! The rejection table: everything that can go wrong with a request or a run, as its client hears it.
//!
//! One row gives the name, the HTTP status and problem document for a refusal before the stream began, the code of the
//! RUN_ERROR for a failure after it, the `Proxy-Status` token, and the way out. Details of the inside go to the log, never
//! out.

use http::{HeaderName, HeaderValue};
use std::borrow::Cow;
use std::sync::Arc;

macro_rules! rejections {
    ($($name:ident = $status:literal $code:literal $proxy:expr, $text:literal, $hint:literal;)+) => {
        /// What went wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the rows of the table are their own documentation")]
        pub enum RejectionKind { $($name,)+ }

        impl RejectionKind {
            /// Every row of the table.
            pub const ALL: &'static [RejectionKind] = &[$(RejectionKind::$name,)+];

            /// HTTP status, when nothing was said yet.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(RejectionKind::$name => $status,)+ }
            }

            /// `code` of the problem document and of RUN_ERROR.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(RejectionKind::$name => $code,)+ }
            }

            /// Error type for `Proxy-Status` (RFC 9209 §2.3), where the agent is to blame.
            #[must_use]
            pub const fn proxy_status(self) -> Option<&'static str> {
                match self { $(RejectionKind::$name => $proxy,)+ }
            }

            /// What happened, for everybody.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(RejectionKind::$name => $text,)+ }
            }

            /// What to do about it.
            #[must_use]
            pub const fn hint(self) -> &'static str {
                match self { $(RejectionKind::$name => $hint,)+ }
            }
        }
    };
}

rejections! {
    InvalidRequest = 400 "invalid_request" None,
        "The request cannot be read.", "Mend what the detail names and send the request again.";
    RouteNotFound = 404 "route_not_found" None,
        "No route has this path.", "Paths are compared exactly; see `routes` in the gateway's configuration.";
    MethodNotAllowed = 405 "method_not_allowed" None,
        "A run is started with POST.", "Send the request with the method POST.";
    ResumptionUnsupported = 400 "resumption_unsupported" None,
        "The streams of this route cannot be taken up again in the middle.", "Start the run again and read its events without Last-Event-ID, or write `on_disconnect: continue for 5m` on the route.";
    EventsNotFound = 404 "events_not_found" None,
        "No run of this thread waits to be read.",
        "Start one with POST and read its events once: a second reader, a run that is over and one that nobody read in time find nothing.";
    InvalidCursor = 400 "invalid_cursor" None,
        "The Last-Event-ID is none of ours.", "Send the `id` of the last event as it came, or no Last-Event-ID.";
    RunNotFound = 404 "run_not_found" None,
        "No run of this id is kept for the caller.",
        "Start one with POST and without Last-Event-ID; a run is kept for `replay.age` behind its end, and for its caller alone.";
    CursorGone = 410 "cursor_gone" None,
        "The run cannot be taken up behind this event.", "Ask again without Last-Event-ID: the run begins with a snapshot of what it said.";
    RunNotKept = 410 "run_not_kept" None,
        "The run is too large to be taken up again.", "Raise `replay.run_bytes` or `replay.bytes`; a run with a new runId starts over.";
    RunIdTaken = 409 "run_id_taken" None,
        "Another run of this id goes on.", "To come back to it send Last-Event-ID, the very same body, or GET its events; for another run use a new runId.";
    TooManyReaders = 429 "too_many_readers" None,
        "As many read this run as may.", "Close one of its streams, and try again.";
    RunAbandoned = 410 "run_abandoned" None,
        "Nobody listened to the run for as long as it may go on alone.", "Start it again, or raise `on_disconnect` of the route.";
    RunLost = 410 "run_lost" None,
        "The replica that ran this is gone, and the run with it.", "Start it again with a new runId.";
    ReplayUnavailable = 503 "replay_unavailable" None,
        "Whether another replica has this run cannot be found out now.", "Try again shortly, as `Retry-After` says.";
    EventsMethodNotAllowed = 405 "events_method_not_allowed" None,
        "The events of a run are read with GET.", "Send the request with the method GET.";
    ThreadBusy = 409 "thread_busy" None,
        "A run of this thread waits to be read already.", "Read its events first, or wait for `timeouts.reader` of the route to pass.";
    TooManyWaiting = 503 "too_many_waiting" None,
        "Too many runs wait to be read.", "Try again shortly; a run waits until its events are asked for.";
    NotAcceptable = 406 "not_acceptable" None,
        "A run is answered as text/event-stream.", "Send `Accept: text/event-stream`.";
    RequestTimeout = 408 "request_timeout" None,
        "The request body did not arrive in time.", "Send the whole body without a pause.";
    HeadersTooLarge = 431 "headers_too_large" None,
        "The head of the request is larger than the gateway takes.", "Send fewer or shorter fields, or raise `limits.headers` or `limits.header_bytes`.";
    BodyTooLarge = 413 "body_too_large" None,
        "The request body is larger than the gateway takes.", "Send less, or raise `limits.request_body`.";
    UnsupportedMediaType = 415 "unsupported_media_type" None,
        "The request body must be JSON without content coding.", "Send `Content-Type: application/json` and no Content-Encoding.";
    AuthenticationRequired = 401 "authentication_required" None,
        "The route wants to know who calls.", "Send a credential: `Authorization: Bearer <token>`, or an API key in the header that the detail names.";
    InvalidToken = 401 "invalid_token" None,
        "The credential is not accepted.", "Get a new token from the issuer that the route believes, or check the API key.";
    TokenExpired = 401 "token_expired" None,
        "The credential has expired.", "Get a new one and send the request again.";
    KeysUnavailable = 503 "keys_unavailable" None,
        "Tokens cannot be checked now: the issuer's keys cannot be had.", "Try again shortly; `/readyz?verbose` on the status port says which issuer does not answer.";
    InsufficientScope = 403 "insufficient_scope" None,
        "The credential lacks a scope that the route wants.", "Ask for a credential with the scopes that the detail names.";
    Forbidden = 403 "forbidden" None,
        "The caller may not use this route.", "Use a credential that the route's `require` lets in.";
    ToolNotAllowed = 403 "tool_not_allowed" None,
        "A tool is not allowed on this route.", "Leave the tool out, or add it to `tools` of the route.";
    ThreadNotOwned = 403 "thread_not_owned" None,
        "The thread belongs to another caller.", "Begin a thread of your own with a new `threadId`.";
    ThreadsUnavailable = 503 "threads_unavailable" None,
        "Whose thread this is cannot be found out now.", "Try again shortly; see `redis.on_error` in the gateway's configuration.";
    OriginNotAllowed = 403 "origin_not_allowed" None,
        "Pages of this origin may not call the route.", "Add the origin to `cors.origins` of the route.";
    RateLimited = 429 "rate_limited" None,
        "Too many requests.", "Wait as long as `Retry-After` says and send the request again.";
    RateLimitUnavailable = 503 "rate_limit_unavailable" None,
        "The quota cannot be checked now.", "Try again shortly; see `redis.on_error` in the gateway's configuration.";
    TooManyStreams = 429 "too_many_streams" None,
        "The caller has too many runs open.", "Wait until one of them has ended, or raise `max_streams_per_caller` of the route.";
    Overloaded = 503 "overloaded" None,
        "The gateway has as many runs open as it takes.", "Try again shortly, or raise `max_streams`.";
    RunLimitReached = 502 "run_limit_reached" None,
        "The run got larger or longer than the route lets it.", "Ask for less at once, or raise `run_limits` of the route.";
    Internal = 500 "internal_error" None,
        "The gateway failed.", "Report it with the request id.";
    Draining = 503 "gateway_draining" None,
        "The gateway is shutting down.", "Send the request again; another instance will take it.";
    UpstreamUnreachable = 502 "upstream_unreachable" Some("destination_unavailable"),
        "The agent cannot be reached.", "Check that the agent runs and that `upstream` names it.";
    UpstreamTls = 502 "upstream_tls" Some("tls_protocol_error"),
        "No TLS connection to the agent can be made.", "Check the agent's certificate and `upstream_tls` of the route; the gateway's log says what was wrong.";
    UpstreamTimeout = 504 "upstream_timeout" Some("http_response_timeout"),
        "The agent did not answer in time.", "Try again later, or raise `timeouts` of the route.";
    UpstreamIdle = 504 "upstream_idle" Some("http_response_timeout"),
        "The agent fell silent.", "Try again later, or raise `timeouts.idle` of the route.";
    UpstreamStatus = 502 "upstream_status" Some("http_request_error"),
        "The agent refused the request.", "See the agent's own log.";
    UpstreamContentType = 502 "upstream_content_type" Some("http_protocol_error"),
        "The agent answered something that is no event stream.", "Check that `upstream` is the agent's streaming endpoint.";
    UpstreamContentEncoding = 502 "upstream_content_encoding" Some("http_response_content_coding"),
        "The agent answered with a content coding that was not asked for.", "Turn compression of event streams off at the agent.";
    UpstreamProtocol = 502 "upstream_protocol" Some("http_protocol_error"),
        "The agent answered something that is no HTTP.", "Check that `upstream` names an HTTP server.";
    UpstreamTruncated = 502 "upstream_truncated" Some("http_response_incomplete"),
        "The agent's stream ended before its run did.", "Run it again; see the agent's own log for why it stopped.";
    UpstreamReset = 502 "upstream_reset" Some("connection_terminated"),
        "The connection to the agent broke.", "Run it again; see the agent's own log for why it stopped.";
    ProtocolViolation = 502 "protocol_violation" Some("http_protocol_error"),
        "The agent broke a rule of its protocol.", "Mend the agent, or let the gateway do it: `guard: repair` on the route.";
    FrameTooLarge = 502 "frame_too_large" Some("http_response_incomplete"),
        "An event of the agent is larger than the gateway takes.", "Send smaller events, or raise `limits.frame`.";
}

impl RejectionKind {
    /// The problem type that others know as well (draft-ietf-httpapi-ratelimit-headers-10 §5), where there is one.
    const fn registered_problem(self) -> Option<&'static str> {
        match self {
            RejectionKind::RateLimited | RejectionKind::TooManyStreams => {
                Some("https://iana.org/assignments/http-problem-types#quota-exceeded")
            }
            RejectionKind::Overloaded => {
                Some("https://iana.org/assignments/http-problem-types#temporary-reduced-capacity")
            }
            _ => None,
        }
    }
}

/// One refusal or failure.
#[derive(Clone, Debug)]
pub struct Rejection {
    /// which row of the table
    pub(crate) kind: RejectionKind,
    /// what exactly, safe to show; the row's own text otherwise
    pub(crate) detail: Option<Cow<'static, str>>,
    /// status to answer with in place of the row's own (a status of the agent that says more)
    pub(crate) status: Option<u16>,
    /// `Retry-After`: the agent's, passed on, or that of a limit
    pub(crate) retry_after: Option<String>,
    /// what happened inside, for the log alone
    pub(crate) cause: Option<String>,
    /// the limit or rule that refused, by its name in the configuration
    pub(crate) policy: Option<Arc<str>>,
    /// fields that the refusal is answered with beside those of its kind
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

impl From<RejectionKind> for Rejection {
    fn from(kind: RejectionKind) -> Self {
        Rejection {
            kind,
            detail: None,
            status: None,
            retry_after: None,
            cause: None,
            policy: None,
            headers: Vec::new(),
        }
    }
}

impl Rejection {
    /// The same, with what exactly went wrong. It reaches the client.
    #[must_use]
    pub(crate) fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same, with what happened inside. It reaches the log.
    #[must_use]
    pub(crate) fn with_cause(mut self, cause: impl std::fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// The same, refused by the limit or rule of this name.
    #[must_use]
    pub(crate) fn with_policy(mut self, name: &Arc<str>) -> Self {
        self.policy = Some(Arc::clone(name));
        self
    }

    /// The same, answered with one field more.
    #[must_use]
    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// HTTP status of the refusal.
    #[must_use]
    pub(crate) fn status(&self) -> u16 {
        self.status.unwrap_or_else(|| self.kind.status())
    }

    /// `message` of RUN_ERROR, and `detail` of the problem document.
    #[must_use]
    pub(crate) fn message(&self) -> &str {
        self.detail.as_deref().unwrap_or_else(|| self.kind.text())
    }

    /// The problem document (RFC 9457), `instance` being the id of the request.
    #[must_use]
    pub fn problem_document(&self, instance: &str) -> String {
        let registered = self.kind.registered_problem();
        let mut problem = serde_json::json!({
            "type": registered.map_or_else(|| format!("urn:diglot:problem:{}", self.kind.code()), str::to_owned),
            "title": self.kind.text(),
            "status": self.status(),
            "detail": self.message(),
            "instance": instance,
            "code": self.kind.code(),
            "hint": self.kind.hint(),
        });
        if let Some(policy) = &self.policy {
            problem["policy"] = (**policy).into();
            // "violated-policies" is the member that both registered types have.
            if registered.is_some() {
                problem["violated-policies"] = serde_json::json!([**policy]);
            }
        }
        problem.to_string()
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
                || matches!(kind, RejectionKind::FrameTooLarge | RejectionKind::ProtocolViolation);
            assert_eq!(kind.proxy_status().is_some(), agents, "{kind:?}");
        }
    }

    /// The core cannot see this table, so a dialect's words for our codes are held against it here.
    #[test]
    fn dialects_name_only_codes_of_the_error_table() {
        let words = crate::dialect::ALL
            .iter()
            .flat_map(|dialect| dialect.value_aliases.iter().map(|word| (dialect.name, word)));
        let codes: Vec<_> = words.filter(|(_, word)| word.field == crate::event::Field::Code).collect();
        assert!(!codes.is_empty(), "no dialect has words for codes");
        for (dialect, word) in codes {
            assert!(
                RejectionKind::ALL.iter().any(|kind| kind.code() == word.canonical),
                "{dialect}: {} is no code",
                word.canonical
            );
        }
    }
}
