//! Parses URLs of issuers, keys and Redis, and web origins.

use super::ScalarError;
use super::host::parse_host_and_port;
use super::upstream::parse_upstream;
use crate::codec::percent::percent_encode;
use crate::config::UpstreamAddress;
use crate::net::url::{bracket_host, is_loopback};

/// Parses the URL of a trusted resource: https, or http on loopback.
pub(in crate::config) fn parse_web_url(text: &str) -> Result<String, ScalarError> {
    let UpstreamAddress::Host { tls, host, .. } = parse_upstream(text)?.address else {
        return Err(ScalarError::new("has a scheme other than `http` and `https`", "write an https URL"));
    };
    if !tls && !is_loopback(&host) {
        const HINT: &str =
            "write `https://`: data sent over http can be modified in transit; only loopback addresses may use http";
        return Err(ScalarError::new("is not an https URL", HINT));
    }
    Ok(text.to_owned())
}

/// Parses the URL of an issuer that uses discovery.
pub(in crate::config) fn parse_discovery_issuer(text: &str) -> Result<String, ScalarError> {
    const HINT: &str = "write the issuer's https URL, or configure its keys: `jwks_url`, `jwks_file`, \
                        `public_key_file`, `secret_file` or `secret`";
    // OpenID Connect Discovery 1.0 §2: the issuer is a URL "that uses the https scheme and has no query or fragment
    // components".
    match parse_web_url(text) {
        Ok(url) if !url.contains('?') => Ok(url),
        _ => Err(ScalarError::new("is not an https URL, so its keys cannot be discovered", HINT)),
    }
}

/// Parses the gateway's own URL, as clients know it.
pub(in crate::config) fn parse_resource(text: &str) -> Result<String, ScalarError> {
    parse_web_url(text)?;
    if text.contains('?') {
        return Err(ScalarError::new("has a query", "write the URL without it: it names the gateway, not a request"));
    }
    match text.strip_suffix('/') {
        Some(shorter) => {
            let meant = Some(shorter.trim_end_matches('/').to_owned());
            Err(ScalarError::new("ends with `/`", "remove the last slash").with_suggestion(meant))
        }
        None => Ok(text.to_owned()),
    }
}

/// Parses a web origin or `*`.
pub(in crate::config) fn parse_origin(text: &str) -> Result<String, ScalarError> {
    const EXAMPLE: &str = "write scheme, host and port as in the browser's `Origin` header: `https://app.example.com`";
    match text {
        "*" => return Ok(text.to_owned()),
        "null" => {
            const HINT: &str =
                "every sandboxed frame and local file has the origin `null`, so allowing it would allow all of them";
            return Err(ScalarError::new("does not identify one origin", HINT));
        }
        _ if text.contains('*') => {
            return Err(ScalarError::new(
                "looks like a pattern",
                "write each origin in full; `*` alone allows any origin",
            ));
        }
        _ => {}
    }
    let lower = text.to_ascii_lowercase();
    let Some((scheme, rest)) = lower.split_once("://") else {
        let named = lower.starts_with(|first: char| first.is_ascii_alphanumeric()).then(|| format!("https://{lower}"));
        return Err(ScalarError::new("has no scheme", EXAMPLE).with_suggestion(named));
    };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase())
        && scheme.bytes().all(|each| each.is_ascii_alphanumeric() || b"+-.".contains(&each));
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if authority.contains('@') || !is_scheme || !lower.is_ascii() {
        return Err(ScalarError::new("is not an origin", EXAMPLE));
    }
    // Other schemes have no default port here; any explicit port except 0 is kept.
    let (host, port) = parse_host_and_port(authority, scheme != "http")?;
    let shown = bracket_host(&host);
    let implied = matches!((scheme, port), ("http", 80) | ("https", 443));
    let written = authority.rsplit_once(']').map_or(authority, |(_, after)| after).contains(':');
    let serialised =
        if written && !implied { format!("{scheme}://{shown}:{port}") } else { format!("{scheme}://{shown}") };
    if serialised != text {
        // RFC 6454 §6.2: lower case, no default port, no path.
        return Err(
            ScalarError::new("is not in the form that browsers send", EXAMPLE).with_suggestion(Some(serialised))
        );
    }
    Ok(serialised)
}

/// The parts of a Redis URL, so that the password can be set or omitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RedisUrl {
    scheme: &'static str,
    user: String,
    password: Option<String>,
    host: String,
    database: String,
}

impl RedisUrl {
    pub(in crate::config) fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Sets the password, which may contain any character.
    pub(in crate::config) fn with_password(self, password: &str) -> RedisUrl {
        RedisUrl { password: Some(percent_encode(password)), ..self }
    }

    pub(in crate::config) fn to_url(&self) -> String {
        let RedisUrl { scheme, user, password, host, database } = self;
        match password {
            Some(password) => format!("{scheme}://{user}:{password}@{host}{database}"),
            None if user.is_empty() => self.to_redacted_url(),
            None => format!("{scheme}://{user}@{host}{database}"),
        }
    }

    pub(in crate::config) fn to_redacted_url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.host, self.database)
    }
}

pub(in crate::config) fn parse_redis(text: &str) -> Result<RedisUrl, ScalarError> {
    const EXAMPLE: &str = "write a URL such as `redis://127.0.0.1:6379/0`, or `rediss://` for TLS";
    const SCHEMES: &[(&str, &str)] = &[("redis://", "redis"), ("rediss://", "rediss")];
    let found = SCHEMES.iter().find_map(|(start, scheme)| Some((text.strip_prefix(start)?, *scheme)));
    let Some((rest, scheme)) = found else {
        return Err(ScalarError::new("has a scheme other than `redis` and `rediss`", EXAMPLE));
    };
    if rest.contains(['?', '#']) {
        return Err(ScalarError::new("has a query or a fragment", "remove it; TLS certificates are always verified"));
    }
    if !rest.bytes().all(|each| each.is_ascii_graphic()) {
        return Err(ScalarError::new("contains white space or a non-ASCII character", "percent-encode it"));
    }
    // A password may contain an unencoded `/`, although URLs forbid it; the host follows the last `@`.
    let (credentials, rest) = rest.rsplit_once('@').map_or(("", rest), |(before, after)| (before, after));
    let (user, password) = match credentials.split_once(':') {
        Some((user, password)) => (user, Some(password.to_owned()).filter(|password| !password.is_empty())),
        None => (credentials, None),
    };
    if credentials.contains('/') {
        return Err(ScalarError::new("has a `/` before its host", "write `%2F` for a `/` in a password"));
    }
    let (authority, database) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let digits = database.strip_prefix('/').unwrap_or_default();
    if !digits.bytes().all(|each| each.is_ascii_digit()) || digits.len() > 6 {
        return Err(ScalarError::new("has a database that is not a number", "write its number after the host: `/0`"));
    }
    parse_host_and_port(authority, true)?;
    Ok(RedisUrl {
        scheme,
        user: user.to_owned(),
        password,
        host: authority.to_owned(),
        database: if digits.is_empty() { String::new() } else { database.to_owned() },
    })
}
