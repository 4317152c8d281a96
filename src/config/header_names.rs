//! Header names used by several modules that the `http` crate does not define.

use http::HeaderName;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Carries the trace id (W3C Trace Context).
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Sent by reconnecting event stream clients (WHATWG HTML §9.2.4).
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(crate) const FORWARDED_PREFIX: &str = "x-forwarded-";

/// The predecessor of `Forwarded`.
pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

pub(crate) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

pub(crate) const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The prefix of header fields that identify the caller to the agent. Clients' own fields are dropped.
pub(crate) const IDENTITY_PREFIX: &str = "x-diglot-";

pub(crate) const SUBJECT: HeaderName = HeaderName::from_static("x-diglot-subject");

pub(crate) const TENANT: HeaderName = HeaderName::from_static("x-diglot-tenant");

/// A space-separated list of scopes.
pub(crate) const SCOPES: HeaderName = HeaderName::from_static("x-diglot-scopes");

pub(crate) const METHOD: HeaderName = HeaderName::from_static("x-diglot-method");

/// The tier that selects the caller's quota.
pub(crate) const TIER: HeaderName = HeaderName::from_static("x-diglot-tier");

/// Quota policies (draft-ietf-httpapi-ratelimit-headers-10 §3).
pub(crate) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The remaining quota (§4 of the same draft).
pub(crate) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

pub(crate) const LEGACY_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");

pub(crate) const LEGACY_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");

/// The time until the quota is refilled.
pub(crate) const LEGACY_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
