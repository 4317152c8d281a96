//! Names of fields of messages that no library names. Those of one user alone stand beside it.

use http::HeaderName;

/// The id of a request, on both sides.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The span that a request came from (W3C Trace Context), on both sides.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// What tracing systems on its way say of it, on both sides.
pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Behind which event a stream is to go on (WHATWG HTML §9.2.4).
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What fields begin with that say where a request came from, and that proxies write.
pub(crate) const FORWARDED_PREFIX: &str = "x-forwarded-";

/// By way of which addresses a request came: what a proxy of old writes in place of `Forwarded`.
pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The scheme that the client asked with.
pub(crate) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The host that the client asked for.
pub(crate) const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// What fields begin with in which the agent hears who calls. None of them comes from a client.
pub(crate) const IDENTITY_PREFIX: &str = "x-diglot-";

/// Who calls.
pub(crate) const SUBJECT: HeaderName = HeaderName::from_static("x-diglot-subject");

/// On whose behalf.
pub(crate) const TENANT: HeaderName = HeaderName::from_static("x-diglot-tenant");

/// What the caller may do, with blanks between.
pub(crate) const SCOPES: HeaderName = HeaderName::from_static("x-diglot-scopes");

/// How the caller showed who it is.
pub(crate) const METHOD: HeaderName = HeaderName::from_static("x-diglot-method");

/// Which of the quotas.
pub(crate) const TIER: HeaderName = HeaderName::from_static("x-diglot-tier");

/// The limits that a request was counted against (draft-ietf-httpapi-ratelimit-headers-10 §3).
pub(crate) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// How its caller stands with them (§4).
pub(crate) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The same as many clients read it: how many.
pub(crate) const LEGACY_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");

/// How many remain.
pub(crate) const LEGACY_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");

/// When they come back.
pub(crate) const LEGACY_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
