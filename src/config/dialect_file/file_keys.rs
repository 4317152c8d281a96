//! The keys of a dialect file's mappings.

pub(super) const FILE_KEYS: &[&str] = &["name", "payload", "request", "events", "error", "tests"];

pub(super) const RULE_KEYS: &[&str] =
    &["when", "has", "lacks", "each", "emit", "set", "append", "keep", "finish", "done", "fail", "ignore"];

/// Keys that make a rule do something.
pub(super) const EFFECT_KEYS: &[&str] = &["emit", "set", "append", "keep", "finish", "done", "fail", "ignore"];

pub(super) const FAIL_KEYS: &[&str] = &["message", "code"];

/// Keys of an event that are not AG-UI's.
pub(super) const KEY: &str = "key";
pub(super) const CONTENT: &str = "content";

pub(super) const REQUEST_KEYS: &[&str] = &["when", "has", "lacks", "path", "query", "headers", "body"];
pub(super) const ERROR_KEYS: &[&str] = &["message", "code", "forget"];

pub(super) const EXAMPLE_KEYS: &[&str] =
    &["name", "stream", "status", "answer", "events", "keep", "request", "body", "path", "headers", "thread"];
