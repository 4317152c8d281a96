//! Names of fields of messages that no library names. Those of one user alone stand beside it.

use http::HeaderName;

/// The id of a request, on both sides.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The span that a request came from (W3C Trace Context), on both sides.
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Vendor-specific trace data, on both sides.
pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Behind which event a stream is to go on (WHATWG HTML §9.2.4).
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The prefix of fields with which proxies record the origin of a request.
pub(crate) const FORWARDED_PREFIX: &str = "x-forwarded-";

/// By way of which addresses a request came: what a proxy of old writes in place of `Forwarded`.
pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The scheme that the client asked with.
pub(crate) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The host that the client asked for.
pub(crate) const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The prefix of fields that identify the caller to the agent. Those sent by a client are dropped.
pub(crate) const IDENTITY_PREFIX: &str = "x-diglot-";

/// The caller's subject.
pub(crate) const SUBJECT: HeaderName = HeaderName::from_static("x-diglot-subject");

/// On whose behalf.
pub(crate) const TENANT: HeaderName = HeaderName::from_static("x-diglot-tenant");

/// The caller's scopes, separated by spaces.
pub(crate) const SCOPES: HeaderName = HeaderName::from_static("x-diglot-scopes");

/// The authentication method of the caller.
pub(crate) const METHOD: HeaderName = HeaderName::from_static("x-diglot-method");

/// The tier, which selects a quota.
pub(crate) const TIER: HeaderName = HeaderName::from_static("x-diglot-tier");

/// The limits that a request was counted against (draft-ietf-httpapi-ratelimit-headers-10 §3).
pub(crate) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The caller's remaining quota (§4).
pub(crate) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The same as many clients read it: how many.
pub(crate) const LEGACY_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");

/// The remaining requests.
pub(crate) const LEGACY_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");

/// The time until the quota is refilled.
pub(crate) const LEGACY_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
