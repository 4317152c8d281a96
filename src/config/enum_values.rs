//! The closed words of the configuration: each list is read by `check`, and shown by `schema` and the reference.

use super::access::{Errors, OnError, OnExpiry, PolicyKey};
use super::replay::Keeper;
use super::upstream::Http;
use crate::translate::Mode;

/// The words for a choice, and what each stands for.
pub type Words<T> = &'static [(&'static str, T)];

/// What is done about an agent that breaks a rule.
pub const GUARD: Words<Mode> = &[("repair", Mode::Repair), ("strict", Mode::Strict), ("report", Mode::Report)];

/// Whether a thread belongs to the caller who opened it.
pub const THREADS: Words<bool> = &[("shared", false), ("owned", true)];

/// What becomes of a run whose caller's token expires.
pub const ON_TOKEN_EXPIRY: Words<OnExpiry> =
    &[("finish", OnExpiry::Finish), ("run_error", OnExpiry::RunError), ("close", OnExpiry::Close)];

/// How a caller hears of a refusal.
pub const ERRORS: Words<Errors> = &[("http", Errors::Http), ("run_error", Errors::RunError)];

/// Where runs are kept.
pub const STORE: Words<Keeper> = &[("memory", Keeper::Memory), ("redis", Keeper::Redis)];

/// What is done without an answer of Redis.
pub const ON_ERROR: Words<OnError> = &[("local", OnError::Local), ("allow", OnError::Allow), ("deny", OnError::Deny)];

/// Whether a client without a certificate is turned away.
pub const CLIENT_AUTH: Words<bool> = &[("required", true), ("optional", false)];

/// Which HTTP an agent is spoken to in.
pub const HTTP: Words<Http> = &[("auto", Http::Auto), ("1", Http::One), ("2", Http::Two)];

/// Truth.
pub const TRUTH: Words<bool> = &[("true", true), ("false", false)];

/// The word for a choice.
#[must_use]
pub fn of<T: PartialEq>(words: Words<T>, choice: &T) -> &'static str {
    words.iter().find(|(_, known)| known == choice).map_or("", |(word, _)| word)
}

/// Whose requests a rate limit counts together, where one word says it.
pub const LIMIT_KEY: Words<PolicyKey> = &[
    ("caller", PolicyKey::Caller),
    ("tenant", PolicyKey::Tenant),
    ("address", PolicyKey::Address),
    ("route", PolicyKey::Route),
];

/// A claim, by the name behind the word.
pub const CLAIM: &str = "claim";

/// A field of requests, by the name behind the word.
pub const HEADER: &str = "header";
