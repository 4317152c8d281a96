//! Parses single scalars: sizes, durations, addresses, paths, names, URLs.
//!
//! An error completes a sentence that begins with the value as written: "`8MB`" + "is not a size". Its text is fixed,
//! so that it cannot reveal the value of a variable; the caller omits `suggestion` if the value must not be shown.

use crate::dialect::ToolName;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

use http::Uri;

use super::PathTemplate;
use super::replay::OnDisconnect;

mod access;
mod inspect;
mod listen;
mod host;
mod upstream;
mod url;

pub(super) use access::*;
pub(super) use inspect::*;
pub(super) use listen::*;
pub(super) use upstream::*;
pub(super) use url::*;

/// Maximum duration. A longer one probably has the wrong unit, and adding it to a point in time must not overflow.
const MAX_DURATION: Duration = Duration::from_secs(30 * 24 * 3600);

/// Maximum length of a name in bytes. Names are repeated in every metric series and log line.
const MAX_NAME: usize = 128;

/// The reason why text is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScalarError {
    /// Completes a sentence that begins with the value.
    pub(super) predicate: &'static str,
    pub(super) hint: Cow<'static, str>,
    /// A correction, derived from the value.
    pub(super) suggestion: Option<String>,
}

impl ScalarError {
    pub(super) fn new(predicate: &'static str, hint: impl Into<Cow<'static, str>>) -> ScalarError {
        ScalarError { predicate, hint: hint.into(), suggestion: None }
    }

    fn with_suggestion(self, meant: Option<String>) -> ScalarError {
        ScalarError { suggestion: meant, ..self }
    }
}

/// Parses a size in bytes: `65536` or `64KiB`.
pub(super) fn parse_size(text: &str) -> Result<usize, ScalarError> {
    const UNITS: &[(&str, u64, &[&str])] = &[
        ("B", 1, &["b", "byte", "bytes"]),
        ("KiB", 1 << 10, &["k", "kb", "kib"]),
        ("MiB", 1 << 20, &["m", "mb", "mib"]),
        ("GiB", 1 << 30, &["g", "gb", "gib"]),
    ];
    const HINT: &str = "write a whole number of bytes, alone or with B, KiB, MiB or GiB: `65536`, `64KiB`, `8MiB`";
    let fault = ScalarError::new("is not a size", HINT);
    let Some((digits, unit)) = split_unit(text) else { return Err(fault) };
    let factor = match UNITS.iter().find(|(name, ..)| *name == unit) {
        Some((_, factor, _)) => *factor,
        None if unit.is_empty() => 1,
        None => return Err(fault.with_suggestion(suggest_unit(digits, unit, UNITS))),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    match bytes.and_then(|bytes| usize::try_from(bytes).ok()) {
        Some(0) => Err(ScalarError::new("must be greater than zero", "write a size of at least one byte")),
        Some(bytes) => Ok(bytes),
        None => Err(ScalarError::new("is larger than any possible memory", HINT)),
    }
}

pub(super) fn parse_head_size(text: &str) -> Result<usize, ScalarError> {
    // hyper's smallest buffer.
    const LEAST: usize = 8 << 10;
    match parse_size(text)? {
        bytes if bytes < LEAST => Err(ScalarError::new("is too small for a request head", "write at least `8KiB`")),
        bytes if bytes > 1 << 20 => Err(ScalarError::new("is larger than any request head", "write at most `1MiB`")),
        bytes => Ok(bytes),
    }
}

pub(super) fn parse_count(text: &str) -> Result<NonZeroUsize, ScalarError> {
    const HINT: &str = "write a whole number of at least 1";
    match text.parse::<usize>().map(NonZeroUsize::new) {
        Ok(Some(count)) => Ok(count),
        Ok(None) => Err(ScalarError::new("must be greater than zero", HINT)),
        Err(_) => Err(ScalarError::new("is not a number", HINT)),
    }
}

/// Parses a duration, which may be zero: `500ms`, `15s`, `5m`, `1h`.
pub(super) fn parse_duration_or_zero(text: &str) -> Result<Duration, ScalarError> {
    const UNITS: &[(&str, u64, &[&str])] = &[
        ("ms", 1, &["msec", "millis", "millisecond", "milliseconds"]),
        ("s", 1000, &["", "sec", "secs", "second", "seconds"]),
        ("m", 60 * 1000, &["min", "mins", "minute", "minutes"]),
        ("h", 3600 * 1000, &["hr", "hour", "hours"]),
    ];
    const HINT: &str = "write one whole number and one of ms, s, m, h: `500ms`, `15s`, `5m`, `1h`";
    let fault = ScalarError::new("is not a duration", HINT);
    let Some((digits, unit)) = split_unit(text) else { return Err(fault) };
    let Some((_, factor, _)) = UNITS.iter().find(|(name, ..)| *name == unit) else {
        return Err(fault.with_suggestion(suggest_unit(digits, unit, UNITS)));
    };
    let millis = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor));
    match millis.map(Duration::from_millis) {
        Some(duration) if duration <= MAX_DURATION => Ok(duration),
        _ => Err(ScalarError::new("is longer than 30 days", "write at most `720h`")),
    }
}

pub(super) fn parse_duration(text: &str) -> Result<Duration, ScalarError> {
    match parse_duration_or_zero(text)? {
        Duration::ZERO => Err(ScalarError::new("must be greater than zero", "write a duration of at least `1ms`")),
        duration => Ok(duration),
    }
}

/// Parses `abort`, or `continue for` followed by a duration.
pub(super) fn parse_on_disconnect(text: &str) -> Result<OnDisconnect, ScalarError> {
    const HINT: &str = "write `abort`, or `continue for` and a duration: `continue for 5m`";
    if text == "abort" {
        return Ok(OnDisconnect::Abort);
    }
    let Some(rest) = text.strip_prefix("continue") else {
        return Err(ScalarError::new("is not a valid choice", HINT));
    };
    match rest.trim_start().strip_prefix("for ").map(|after| after.trim_start()) {
        Some(after) => parse_duration(after).map(OnDisconnect::Continue),
        None => Err(ScalarError::new("has no duration", HINT).with_suggestion(Some("continue for 5m".to_owned()))),
    }
}

fn split_unit(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|each: char| !each.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn suggest_unit(digits: &str, unit: &str, units: &[(&str, u64, &[&str])]) -> Option<String> {
    let unit = unit.trim().to_lowercase();
    let (name, ..) = units.iter().find(|(name, _, others)| *name == unit || others.contains(&unit.as_str()))?;
    Some(format!("{digits}{name}"))
}

pub(super) fn parse_socket_address(text: &str) -> Result<SocketAddr, ScalarError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let port = |text: &str| text.parse::<u16>().ok();
    let fault = match text.rsplit_once(':') {
        _ if text.parse::<Ipv6Addr>().is_ok() => {
            return Err(ScalarError::new(
                "is not an address with a port",
                "write IPv6 in brackets, then the port: `[::1]:8787`",
            ));
        }
        _ if text.parse::<IpAddr>().is_ok() => {
            return Err(ScalarError::new("has no port", "add one: `127.0.0.1:8787`")
                .with_suggestion(Some(format!("{text}:8787"))));
        }
        None if port(text).is_some() => Some(format!("127.0.0.1:{text}")),
        Some(("localhost", number)) if port(number).is_some() => Some(format!("127.0.0.1:{number}")),
        Some(("" | "*", number)) if port(number).is_some() => Some(format!("0.0.0.0:{number}")),
        _ => None,
    };
    const HINT: &str = "write an IP address and a port, such as `127.0.0.1:8787` for this host alone, `0.0.0.0:8787` \
                        for all of its IPv4 addresses, `[::]:8787` for IPv6; names are not looked up";
    Err(ScalarError::new("is not an address to listen on", HINT).with_suggestion(fault))
}

pub(super) fn parse_name(text: &str) -> Result<String, ScalarError> {
    if text.chars().any(char::is_control) {
        return Err(ScalarError::new("contains a control character", "write the name on one line, without tabs"));
    }
    if text.len() > MAX_NAME {
        return Err(ScalarError::new(
            "is longer than 128 bytes",
            "write a short name; it labels every metric of the route",
        ));
    }
    Ok(text.to_owned())
}

pub(super) fn parse_client_tool(text: &str) -> Result<ToolName, ScalarError> {
    let hint = "write the name that the client gives the tool, at most 64 bytes on one line";
    ToolName::new(text).ok_or(ScalarError::new("is not a valid tool name", hint))
}

/// Parses a path and normalizes it for comparison with request paths.
pub(super) fn parse_path(text: &str) -> Result<String, ScalarError> {
    const EXACT: &str = "a route matches one path exactly; write a separate route for each path";
    let segments = || text.split('/').skip(1);
    let without_empty = || {
        let joined: Vec<&str> = text.split('/').filter(|segment| !segment.is_empty()).collect();
        Some(format!("/{}", joined.join("/")))
    };
    let plain = |each: u8| each.is_ascii_alphanumeric() || b"/-._~!$&'()+,=:@".contains(&each);
    if text.contains("://") {
        return Err(ScalarError::new("is a URL, not a path", "write the path alone, such as `/agents/chat`"));
    }
    if !text.starts_with('/') {
        return Err(ScalarError::new("does not begin with `/`", "write a path such as `/agents/chat`")
            .with_suggestion(Some(format!("/{text}"))));
    }
    if text.contains(['?', '#']) {
        return Err(ScalarError::new(
            "has a query or a fragment",
            "write only the path; the query of a request does not affect routing",
        ));
    }
    if text.contains(['*', '{', '}']) {
        return Err(ScalarError::new("looks like a pattern", EXACT));
    }
    if text.contains(['%', ';', '\\']) {
        return Err(ScalarError::new(
            "contains `%`, `;` or `\\`, which servers interpret differently",
            "write a path of letters, digits and `-._~`",
        ));
    }
    if !text.bytes().all(plain) {
        return Err(ScalarError::new(
            "contains a character that is not allowed in a request line",
            "write a path of letters (a-z), digits and `-._~`",
        ));
    }
    if segments().any(|segment| segment == "." || segment == "..") {
        return Err(ScalarError::new("has a `.` or `..` segment", "write the resolved path, as clients send it"));
    }
    if text.contains("//") {
        return Err(
            ScalarError::new("has an empty segment (`//`)", "write single slashes").with_suggestion(without_empty())
        );
    }
    if text.len() > 1 && text.ends_with('/') {
        return Err(ScalarError::new("ends with `/`", "remove the last slash").with_suggestion(without_empty()));
    }
    Ok(text.to_owned())
}

/// Parses a path with a `{thread_id}` segment.
pub(super) fn parse_events_path(text: &str) -> Result<PathTemplate, ScalarError> {
    const PLACEHOLDER: &str = "{thread_id}";
    const EXAMPLE: &str = "write a path with `{thread_id}` as one of its segments, such as `/runs/{thread_id}/events`";
    let plain = text.replacen(PLACEHOLDER, "thread_id", 1);
    if plain.contains(['{', '}']) {
        return Err(ScalarError::new("must contain `{thread_id}` once and no other placeholder", EXAMPLE));
    }
    // The rest is an ordinary path.
    parse_path(&plain).map_err(|fault| ScalarError { suggestion: None, ..fault })?;
    let whole = text.split('/').any(|segment| segment == PLACEHOLDER);
    match PathTemplate::parse(text) {
        Some(template) if whole => Ok(template),
        _ => Err(ScalarError::new("must have `{thread_id}` as one whole segment", EXAMPLE)),
    }
}

/// Parses the path and query of an agent's events endpoint.
pub(super) fn parse_agent_events(text: &str) -> Result<PathTemplate, ScalarError> {
    const EXAMPLE: &str = "write a path with `{thread_id}`, such as `/api/v1/agent/runs/{thread_id}/events`";
    if text.contains("://") {
        const HINT: &str = "write only the path: the events are requested from the host that accepted the run";
        return Err(ScalarError::new("is a URL, not a path", HINT));
    }
    if !text.starts_with('/') {
        return Err(ScalarError::new("does not begin with `/`", EXAMPLE).with_suggestion(Some(format!("/{text}"))));
    }
    if text.contains('#') {
        return Err(ScalarError::new("has a fragment, which is never sent", "remove `#` and everything after it"));
    }
    if !text.bytes().all(|each| each.is_ascii_graphic()) {
        return Err(ScalarError::new("contains white space or a non-ASCII character", "percent-encode it"));
    }
    match PathTemplate::parse(text).filter(|_| text.contains("{thread_id}")) {
        Some(template) if template.fill("t", "r").is_some_and(|path| path.parse::<Uri>().is_ok()) => Ok(template),
        Some(_) => Err(ScalarError::new("is not a path", EXAMPLE)),
        None => Err(ScalarError::new(
            "must contain `{thread_id}`, and no placeholders other than `{thread_id}` and `{run_id}`",
            EXAMPLE,
        )),
    }
}
