//! Parses values about callers: networks, fields, claims, scopes, digests, dates, limits.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, header};
use ipnet::IpNet;

use super::{ScalarError, parse_duration, parse_duration_or_zero, parse_size};
use crate::config::access::{Algorithm, RateLimitKey};
use crate::config::enum_values;
use crate::config::header_names::{
    FORWARDED_PREFIX, IDENTITY_PREFIX, LAST_EVENT_ID, REQUEST_ID, TRACEPARENT, TRACESTATE,
};

pub(in crate::config) fn parse_network(text: &str) -> Result<IpNet, ScalarError> {
    const HINT: &str = "write an address or a network, such as `10.0.0.7`, `10.0.0.0/8` or `fd00::/8`; for proxies \
                        on a Unix socket `unix`";
    let read = text.parse::<IpNet>().or_else(|_| text.parse().map(|address: std::net::IpAddr| address.into()));
    match read {
        Ok(network) if network == network.trunc() => Ok(network),
        Ok(network) => {
            let meant = Some(network.trunc().to_string());
            Err(ScalarError::new("is an address in a network, not a network", HINT).with_suggestion(meant))
        }
        Err(_) => Err(ScalarError::new("is neither an address nor a network", HINT)),
    }
}

pub(in crate::config) fn parse_file_name(text: &str) -> Result<PathBuf, ScalarError> {
    if text.contains('\0') {
        return Err(ScalarError::new("is not a valid file name", "write a path without the character NUL"));
    }
    Ok(PathBuf::from(text))
}

/// Parses an externally defined name: an audience, a claim, a tenant.
pub(in crate::config) fn parse_word(text: &str) -> Result<String, ScalarError> {
    if text.chars().any(char::is_control) {
        return Err(ScalarError::new("contains a control character", "write it on one line, without tabs"));
    }
    Ok(text.to_owned())
}

const ONE_DAY: Duration = Duration::from_secs(24 * 3600);

/// The `auth` value that allows calls without a credential.
pub(in crate::config) const NONE: &str = "none";

/// Parses the name of an issuer or API key list.
pub(in crate::config) fn parse_method_name(text: &str) -> Result<String, ScalarError> {
    match super::parse_name(text)? {
        name if name == NONE => {
            let predicate = "is reserved: in routes it means that no credential is required";
            Err(ScalarError::new(predicate, "give it another name"))
        }
        name => Ok(name),
    }
}

pub(in crate::config) fn parse_scope(text: &str) -> Result<String, ScalarError> {
    // RFC 6749 §3.3: scope-token = 1*( %x21 / %x23-5B / %x5D-7E )
    if text.bytes().all(|each| matches!(each, 0x21 | 0x23..=0x5B | 0x5D..=0x7E)) {
        return Ok(text.to_owned());
    }
    Err(ScalarError::new(
        "is not a scope",
        "write one scope of visible ASCII without `\"` and `\\`; several are a list: `[read, write]`",
    ))
}

pub(in crate::config) fn parse_tool_name(text: &str) -> Result<String, ScalarError> {
    const MAX: usize = 256;
    let hint = "write the name as in `tools` of the request, at most 256 bytes on one line";
    if text.len() > MAX || text.chars().any(char::is_control) {
        return Err(ScalarError::new("is not a valid tool name", hint));
    }
    Ok(text.to_owned())
}

pub(in crate::config) fn parse_algorithm(text: &str) -> Result<Algorithm, ScalarError> {
    const HINT: &str = "write HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA";
    let named = |name: &str| Algorithm::ALL.iter().copied().find(|known| known.name() == name);
    if let Some(known) = named(text) {
        return Ok(known);
    }
    if text.eq_ignore_ascii_case("none") {
        return Err(ScalarError::new("would allow unsigned tokens", HINT));
    }
    let meant = Algorithm::ALL.iter().find(|known| known.name().eq_ignore_ascii_case(text));
    Err(ScalarError::new("is not a supported algorithm", HINT)
        .with_suggestion(meant.map(|known| known.name().to_owned())))
}

/// Parses an accepted token `typ`. The result is in lower case, without `application/`.
pub(in crate::config) fn parse_token_type(text: &str) -> Result<String, ScalarError> {
    // RFC 7515 §4.1.9: case-insensitive media types; "application/" may be omitted.
    let lower = text.to_ascii_lowercase();
    let short = lower.strip_prefix("application/").unwrap_or(&lower);
    if short.is_empty() || !short.bytes().all(|each| each.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&each)) {
        return Err(ScalarError::new("is not a media type", "write the value of `typ`, such as `JWT` or `at+jwt`"));
    }
    Ok(short.to_owned())
}

pub(in crate::config) fn parse_leeway(text: &str) -> Result<Duration, ScalarError> {
    const HINT: &str = "write at most `60s`; every token stays valid for that much longer";
    let max = Duration::from_secs(60);
    limit_duration(parse_duration_or_zero(text)?, max, ScalarError::new("is longer than clocks usually differ", HINT))
}

/// Parses a quota's refill period.
pub(in crate::config) fn parse_period(text: &str) -> Result<Duration, ScalarError> {
    limit_duration(parse_duration(text)?, ONE_DAY, ScalarError::new("is longer than a day", "write at most `24h`"))
}

/// Parses the time that browsers may cache a preflight response.
pub(in crate::config) fn parse_max_age(text: &str) -> Result<Duration, ScalarError> {
    let error = ScalarError::new("is longer than any browser caches it", "write at most `24h`");
    limit_duration(parse_duration_or_zero(text)?, ONE_DAY, error)
}

/// Parses the shared quota timeout, which can delay each request.
pub(in crate::config) fn parse_deadline(text: &str) -> Result<Duration, ScalarError> {
    const HINT: &str = "write `1ms` to `1s`; every request may wait this long";
    let max = Duration::from_secs(1);
    limit_duration(parse_duration(text)?, max, ScalarError::new("is longer than a request should wait", HINT))
}

fn limit_duration(duration: Duration, max: Duration, error: ScalarError) -> Result<Duration, ScalarError> {
    if duration <= max { Ok(duration) } else { Err(error) }
}

pub(in crate::config) fn parse_request_count(text: &str) -> Result<NonZeroU32, ScalarError> {
    const HINT: &str = "write a whole number from 1 to 4294967295";
    match text.parse().map(NonZeroU32::new) {
        Ok(Some(count)) => Ok(count),
        Ok(None) => Err(ScalarError::new("must be greater than zero", HINT)),
        Err(_) => Err(ScalarError::new("is not a number of requests", HINT)),
    }
}

pub(in crate::config) fn parse_event_count(text: &str) -> Result<NonZeroU64, ScalarError> {
    let count = super::parse_count(text)?;
    NonZeroU64::try_from(count).map_err(|_| ScalarError::new("is not a number", "write a whole number of at least 1"))
}

pub(in crate::config) fn parse_byte_count(text: &str) -> Result<NonZeroU64, ScalarError> {
    let bytes = u64::try_from(parse_size(text)?).ok().and_then(NonZeroU64::new);
    bytes.ok_or(ScalarError::new("is not a size", "write a size of at least one byte"))
}

pub(in crate::config) fn parse_field_name(text: &str) -> Result<HeaderName, ScalarError> {
    const HINT: &str = "write the header name in lower case, such as `x-tenant`";
    // RFC 9110 §5.1: field names are case-insensitive; only lower case is accepted here.
    let lower = text.to_ascii_lowercase();
    match HeaderName::from_bytes(lower.as_bytes()) {
        Ok(name) if lower == text => Ok(name),
        Ok(_) => Err(ScalarError::new("is not in lower case", HINT).with_suggestion(Some(lower))),
        Err(_) => Err(ScalarError::new("is not a valid header name", HINT)),
    }
}

/// Rejects header fields that the gateway itself sets or removes.
fn reject_managed_field(name: HeaderName) -> Result<HeaderName, ScalarError> {
    // RFC 9110 §7.6.1: fields that "need to be removed before forwarding", and those that a `Connection` could name.
    const HOP: &[&str] = &[
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
        "max-forwards",
    ];
    const MESSAGE: &[&str] =
        &["host", "content-length", "content-type", "content-encoding", "accept", "accept-encoding", "range", "via"];
    const OURS: [HeaderName; 4] = [LAST_EVENT_ID, REQUEST_ID, TRACEPARENT, TRACESTATE];
    if HOP.contains(&name.as_str()) {
        let hint =
            "remove it: it applies to one connection (RFC 9110 §7.6.1), and the connection to the agent is another";
        return Err(ScalarError::new("belongs to a connection, not to a request", hint));
    }
    if MESSAGE.contains(&name.as_str()) || OURS.contains(&name) || name.as_str().starts_with(IDENTITY_PREFIX) {
        return Err(ScalarError::new(
            "is set by the gateway itself",
            "remove it: the gateway sends it to the agent when it is needed",
        ));
    }
    Ok(name)
}

pub(in crate::config) fn parse_forwarded_field(text: &str) -> Result<HeaderName, ScalarError> {
    let name = parse_field_name(text)?;
    if [header::AUTHORIZATION, header::COOKIE].contains(&name) {
        const HINT: &str = "remove it, and write `forward_credentials: true` if the agent needs it";
        return Err(ScalarError::new("carries the caller's credentials", HINT));
    }
    if name == header::FORWARDED || name.as_str().starts_with(FORWARDED_PREFIX) || name.as_str() == "x-real-ip" {
        const HINT: &str = "remove it: callers can put any address in it";
        return Err(ScalarError::new("claims where a request comes from, and any caller can set it", HINT));
    }
    // CGI and its descendants such as WSGI read `-` as `_`: to many agents `x_diglot_subject` is `x-diglot-subject`
    // (RFC 3875 §4.1.18).
    if name.as_str().contains('_') {
        const HINT: &str = "have callers send it with `-`";
        return Err(ScalarError::new("can be confused with another header by agents that treat `_` as `-`", HINT));
    }
    reject_managed_field(name)
}

pub(in crate::config) fn parse_set_field(text: &str) -> Result<HeaderName, ScalarError> {
    reject_managed_field(parse_field_name(text)?)
}

pub(in crate::config) fn parse_rate_limit_key(text: &str) -> Result<RateLimitKey, ScalarError> {
    const HINT: &str = "write `caller`, `tenant`, `claim:<name>`, `address`, `header:<name>` or `route`";
    if let Some((_, key)) = enum_values::LIMIT_KEY.iter().find(|(word, _)| *word == text) {
        return Ok(key.clone());
    }
    match text.split_once(':') {
        Some((enum_values::CLAIM_PREFIX, name)) if !name.trim().is_empty() => {
            parse_word(name.trim()).map(RateLimitKey::Claim)
        }
        Some((enum_values::HEADER_PREFIX, name)) => parse_field_name(name.trim())
            .map(RateLimitKey::Header)
            .map_err(|fault| ScalarError { suggestion: None, ..fault }),
        _ => Err(ScalarError::new("is not a key that requests can be counted by", HINT)),
    }
}

pub(in crate::config) fn parse_digest(text: &str) -> Result<[u8; 32], ScalarError> {
    const HINT: &str = "write the SHA-256 digest of the key, 64 hexadecimal digits: `printf %s KEY | sha256sum`";
    let mut digest = [0; 32];
    hex::decode_to_slice(text, &mut digest).map_err(|_| ScalarError::new("is not a SHA-256 digest", HINT))?;
    Ok(digest)
}

/// Parses a date, which means midnight UTC, or an RFC 3339 date and time, into seconds since the epoch.
pub(in crate::config) fn parse_timestamp(text: &str) -> Result<u64, ScalarError> {
    const HINT: &str = "write a date or a time with its offset: `2027-01-31`, `2027-01-31T12:00:00Z` or \
                        `2027-01-31T12:00:00+08:00`";
    parse_rfc3339(text).ok_or(ScalarError::new("is not a date", HINT))
}

fn parse_rfc3339(text: &str) -> Option<u64> {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let [year, month, day] = split_numbers(date, '-', [4, 2, 2])?;
    let days = days_since_epoch(year, month, day)?;
    let Some(time) = time else { return u64::try_from(days * 86_400).ok() };
    // RFC 3339 §5.6: time-offset = "Z" / ("+" / "-") time-hour ":" time-minute
    let (clock, offset) = match time.strip_suffix(['Z', 'z']) {
        Some(clock) => (clock, 0),
        None => {
            let (clock, offset) = time.split_at(time.rfind(['+', '-'])?);
            let [hours, minutes] = split_numbers(&offset[1..], ':', [2, 2])?;
            let seconds = (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
            (clock, if offset.starts_with('-') { -seconds } else { seconds })
        }
    };
    let whole = match clock.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() && fraction.bytes().all(|each| each.is_ascii_digit()) => whole,
        Some(_) => return None,
        None => clock,
    };
    let [hour, minute, second] = split_numbers(whole, ':', [2, 2, 2])?;
    // A leap second counts as the second after it.
    (hour < 24 && minute < 60 && second <= 60).then_some(())?;
    u64::try_from(days * 86_400 + hour * 3600 + minute * 60 + second - offset).ok()
}

/// Splits text into numbers with the given digit counts.
fn split_numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        (part.len() == width && part.bytes().all(|each| each.is_ascii_digit())).then_some(())?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// Counts the days since the Unix epoch. Returns `None` for a date that does not exist in the Gregorian calendar.
fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let index = usize::try_from(month - 1).ok().filter(|index| *index < 12)?;
    let length = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    (1..=length).contains(&day).then_some(())?;
    // Leap days from year 1 to the year before this one.
    let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    Some(years + BEFORE[index] + i64::from(leap && month > 2) + day - 1)
}
