//! Parses agents' URLs and sockets, weights, and certificate names.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use http::Uri;

use super::ScalarError;
use super::host::parse_host_and_port;
use crate::config::{UpstreamAddress, UpstreamConfig, UpstreamHttpVersion};

/// Maximum length of a Unix socket path in bytes, without the final NUL (unix(7): `sun_path`, 108 on Linux; 104
/// elsewhere).
const MAX_SOCKET: usize = 103;

/// Parses an `http` or `https` URL, or a Unix socket.
pub(in crate::config) fn parse_upstream(text: &str) -> Result<UpstreamConfig, ScalarError> {
    const EXAMPLE: &str = "write a URL such as `http://127.0.0.1:9001/chat`";
    if let Some(rest) = text.strip_prefix("unix:") {
        return parse_unix_upstream(rest);
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        let looks_like_host = text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[');
        // A bare port means a port on this machine.
        let host = if text.parse::<u16>().is_ok() { "127.0.0.1:" } else { "" };
        let meant = looks_like_host.then(|| format!("http://{host}{text}"));
        return Err(ScalarError::new("has no scheme", EXAMPLE).with_suggestion(meant));
    };
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        _ => return Err(ScalarError::new("has a scheme other than `http` and `https`", EXAMPLE)),
    };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if authority.contains('@') {
        const HINT: &str = "remove it from the URL: everyone who can read the configuration or a log would see it";
        return Err(ScalarError::new("contains a user name or password", HINT));
    }
    check_sendable(text)?;
    let (host, port) = parse_host_and_port(authority, tls)?;
    let uri: Uri = text.parse().map_err(|_| ScalarError::new("is not a URL", EXAMPLE))?;
    let mut upstream = new_upstream(UpstreamAddress::Host { tls, host, port }, &uri);
    upstream.url = format!("{}://{}{}", if tls { "https" } else { "http" }, upstream.authority(), uri.path());
    Ok(upstream)
}

/// Parses a socket path and a request target: `/run/agent.sock:/chat`.
fn parse_unix_upstream(text: &str) -> Result<UpstreamConfig, ScalarError> {
    const EXAMPLE: &str = "write the socket's absolute path, and after a colon the request's path: \
                           `unix:/run/agent.sock:/chat`";
    // Other programs write `unix:///run/agent.sock`.
    let text = text.strip_prefix("//").unwrap_or(text);
    let (file, path) = text.split_once(':').unwrap_or((text, "/"));
    if !Path::new(file).is_absolute() || file.ends_with('/') {
        return Err(ScalarError::new("has no path of a socket", EXAMPLE));
    }
    if file.contains(['?', '#', '\0']) || !path.starts_with('/') {
        return Err(ScalarError::new("has a request path that does not begin with `:/`", EXAMPLE));
    }
    if file.len() > MAX_SOCKET {
        return Err(ScalarError::new("is too long for a socket's path", "write a path of at most 103 bytes"));
    }
    check_sendable(path)?;
    let uri: Uri = path.parse().map_err(|_| ScalarError::new("has an invalid request path", EXAMPLE))?;
    let mut upstream = new_upstream(UpstreamAddress::Socket(PathBuf::from(file)), &uri);
    upstream.url = format!("unix:{file}:{}", uri.path());
    Ok(upstream)
}

/// Rejects text that is invalid in a request line.
fn check_sendable(text: &str) -> Result<(), ScalarError> {
    if text.contains('#') {
        return Err(ScalarError::new("has a fragment, which is never sent", "remove `#` and everything after it"));
    }
    if !text.bytes().all(|each| each.is_ascii_graphic()) {
        let hint = "percent-encode it in the path or query (a space is `%20`); write a host name in its `xn--` form";
        return Err(ScalarError::new("contains white space or a non-ASCII character", hint));
    }
    Ok(())
}

fn new_upstream(place: UpstreamAddress, uri: &Uri) -> UpstreamConfig {
    // A query without a path is displayed with its `/`.
    let path_and_query = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
    UpstreamConfig {
        address: place,
        path_and_query,
        url: String::new(),
        weight: NonZeroU32::MIN,
        http: UpstreamHttpVersion::Auto,
    }
}

pub(in crate::config) fn parse_weight(text: &str) -> Result<NonZeroU32, ScalarError> {
    const HINT: &str = "write a whole number from 1 to 1000; to send no requests there, remove it from the list";
    match text.parse::<u32>().map(NonZeroU32::new) {
        Ok(Some(weight)) if weight.get() <= 1000 => Ok(weight),
        _ => Err(ScalarError::new("is not a weight", HINT)),
    }
}

pub(in crate::config) fn parse_server_name(text: &str) -> Result<String, ScalarError> {
    const EXAMPLE: &str = "write a host name or an IP address alone, such as `agent.internal`";
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    match parse_host_and_port(text, true) {
        Ok((host, _)) if host.eq_ignore_ascii_case(text) && !text.starts_with('[') => Ok(host),
        _ => Err(ScalarError::new("is not a valid name for a certificate", EXAMPLE)),
    }
}

pub(in crate::config) fn parse_health_path(text: &str) -> Result<String, ScalarError> {
    const EXAMPLE: &str = "write a path such as `/healthz`; it is requested from each upstream";
    check_sendable(text)?;
    if !text.starts_with('/') || text.starts_with("//") || text.parse::<Uri>().is_err() {
        return Err(ScalarError::new("is not a path", EXAMPLE));
    }
    Ok(text.to_owned())
}
