//! The closed words of the configuration: each list is read by `check`, and shown by `schema` and the reference.

use super::access::{OnError, OnExpiry, RateLimitKey, RouteErrorFormat};
use super::replay::ReplayStoreKind;
use super::upstream::UpstreamHttpVersion;
use crate::translate::GuardMode;

/// The words for a choice, and what each stands for.
pub(crate) type EnumValues<T> = &'static [(&'static str, T)];

pub(crate) const GUARD: EnumValues<GuardMode> =
    &[("repair", GuardMode::Repair), ("strict", GuardMode::Strict), ("report", GuardMode::Report)];

/// Set if a thread belongs to the caller who opened it.
pub(crate) const THREADS: EnumValues<bool> = &[("shared", false), ("owned", true)];

/// The policy for a run whose caller's token expires.
pub(crate) const ON_TOKEN_EXPIRY: EnumValues<OnExpiry> =
    &[("finish", OnExpiry::Finish), ("run_error", OnExpiry::RunError), ("close", OnExpiry::Close)];

/// The format of error responses to callers.
pub(crate) const ERRORS: EnumValues<RouteErrorFormat> =
    &[("http", RouteErrorFormat::Http), ("run_error", RouteErrorFormat::RunError)];

pub(crate) const STORE: EnumValues<ReplayStoreKind> =
    &[("memory", ReplayStoreKind::Memory), ("redis", ReplayStoreKind::Redis)];

/// The policy while Redis does not answer.
pub(crate) const ON_ERROR: EnumValues<OnError> =
    &[("local", OnError::Local), ("allow", OnError::Allow), ("deny", OnError::Deny)];

/// True if a client without a certificate is rejected.
pub(crate) const CLIENT_AUTH: EnumValues<bool> = &[("required", true), ("optional", false)];

pub(crate) const HTTP: EnumValues<UpstreamHttpVersion> =
    &[("auto", UpstreamHttpVersion::Auto), ("1", UpstreamHttpVersion::One), ("2", UpstreamHttpVersion::Two)];

/// Truth.
pub(crate) const BOOLEAN: EnumValues<bool> = &[("true", true), ("false", false)];

/// The word for a choice.
#[must_use]
pub(crate) fn name_of<T: PartialEq>(values: EnumValues<T>, choice: &T) -> &'static str {
    values.iter().find(|(_, known)| known == choice).map_or("", |(word, _)| word)
}

/// The keys of rate limits that are a single word.
pub(crate) const LIMIT_KEY: EnumValues<RateLimitKey> = &[
    ("caller", RateLimitKey::Caller),
    ("tenant", RateLimitKey::Tenant),
    ("address", RateLimitKey::Address),
    ("route", RateLimitKey::Route),
];

/// A claim, by the name behind the word.
pub(crate) const CLAIM_PREFIX: &str = "claim";

/// A field of requests, by the name behind the word.
pub(crate) const HEADER_PREFIX: &str = "header";
