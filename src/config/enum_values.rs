//! Lists of the words that `check` accepts and that the schema and the reference show.

use super::access::{OnError, OnExpiry, RateLimitKey, RouteErrorFormat};
use super::inspect::CaptureMode;
use super::replay::ReplayStoreKind;
use super::upstream::{AgentErrors, UpstreamHttpVersion};
use crate::translate::GuardMode;

/// An enumeration's accepted words and their values.
pub(crate) type EnumValues<T> = &'static [(&'static str, T)];

pub(crate) const GUARD: EnumValues<GuardMode> =
    &[("repair", GuardMode::Repair), ("strict", GuardMode::Strict), ("report", GuardMode::Report)];

/// The value is true if only the caller who opened a thread may use it.
pub(crate) const THREADS: EnumValues<bool> = &[("shared", false), ("owned", true)];

pub(crate) const ON_TOKEN_EXPIRY: EnumValues<OnExpiry> =
    &[("finish", OnExpiry::Finish), ("run_error", OnExpiry::RunError), ("close", OnExpiry::Close)];

pub(crate) const AGENT_ERRORS: EnumValues<AgentErrors> = &[("hide", AgentErrors::Hide), ("pass", AgentErrors::Pass)];

pub(crate) const ERRORS: EnumValues<RouteErrorFormat> =
    &[("http", RouteErrorFormat::Http), ("run_error", RouteErrorFormat::RunError)];

pub(crate) const STORE: EnumValues<ReplayStoreKind> =
    &[("memory", ReplayStoreKind::Memory), ("redis", ReplayStoreKind::Redis)];

pub(crate) const INSPECT: EnumValues<CaptureMode> =
    &[("off", CaptureMode::Off), ("events", CaptureMode::Events), ("full", CaptureMode::Full)];

pub(crate) const ON_ERROR: EnumValues<OnError> =
    &[("local", OnError::Local), ("allow", OnError::Allow), ("deny", OnError::Deny)];

/// The value is true if clients need a certificate.
pub(crate) const CLIENT_AUTH: EnumValues<bool> = &[("required", true), ("optional", false)];

pub(crate) const HTTP: EnumValues<UpstreamHttpVersion> =
    &[("auto", UpstreamHttpVersion::Auto), ("1", UpstreamHttpVersion::One), ("2", UpstreamHttpVersion::Two)];

pub(crate) const BOOLEAN: EnumValues<bool> = &[("true", true), ("false", false)];

#[must_use]
pub(crate) fn name_of<T: PartialEq>(values: EnumValues<T>, choice: &T) -> &'static str {
    values.iter().find(|(_, known)| known == choice).map_or("", |(word, _)| word)
}

/// Single-word rate limit keys.
pub(crate) const LIMIT_KEY: EnumValues<RateLimitKey> = &[
    ("caller", RateLimitKey::Caller),
    ("tenant", RateLimitKey::Tenant),
    ("address", RateLimitKey::Address),
    ("route", RateLimitKey::Route),
];

/// The rate limit key prefix for a claim name.
pub(crate) const CLAIM_PREFIX: &str = "claim";

/// The rate limit key prefix for a request header name.
pub(crate) const HEADER_PREFIX: &str = "header";
