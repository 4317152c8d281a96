//! Agents: their URLs and sockets, their weights, the names on their certificates.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use http::Uri;

use super::{Fault, host_and_port};
use crate::config::{Http, Place, Upstream};

/// What the field of a Unix socket's address holds, in bytes, less the NUL at its end (unix(7): `sun_path`, 108 on Linux;
/// 104 elsewhere).
const MAX_SOCKET: usize = 103;

/// Where an agent is: an `http` or `https` URL, or a Unix socket.
pub(in crate::config) fn upstream(text: &str) -> Result<Upstream, Fault> {
    const EXAMPLE: &str = "write a URL such as `http://127.0.0.1:9001/chat`";
    if let Some(rest) = text.strip_prefix("unix:") {
        return socket(rest);
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        let looks_like_host = text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[');
        // A port alone is one of this machine.
        let host = if text.parse::<u16>().is_ok() { "127.0.0.1:" } else { "" };
        let meant = looks_like_host.then(|| format!("http://{host}{text}"));
        return Err(Fault::new("has no scheme", EXAMPLE).suggest(meant));
    };
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        _ => return Err(Fault::new("has a scheme other than `http` and `https`", EXAMPLE)),
    };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if authority.contains('@') {
        const HINT: &str = "take it out of the URL: whoever reads the configuration or a log would read it too";
        return Err(Fault::new("carries a user name or password", HINT));
    }
    sendable(text)?;
    let (host, port) = host_and_port(authority, tls)?;
    let uri: Uri = text.parse().map_err(|_| Fault::new("is no URL", EXAMPLE))?;
    let mut upstream = at(Place::Host { tls, host, port }, &uri);
    upstream.url = format!("{}://{}{}", if tls { "https" } else { "http" }, upstream.authority(), uri.path());
    Ok(upstream)
}

/// A Unix socket and, behind a colon, what is asked for there: `/run/agent.sock:/chat`.
fn socket(text: &str) -> Result<Upstream, Fault> {
    const EXAMPLE: &str = "write the socket's whole path, and behind a colon that of the request: \
                           `unix:/run/agent.sock:/chat`";
    // `unix:///run/agent.sock` is how URLs of other programs spell it.
    let text = text.strip_prefix("//").unwrap_or(text);
    let (file, path) = text.split_once(':').unwrap_or((text, "/"));
    if !Path::new(file).is_absolute() || file.ends_with('/') {
        return Err(Fault::new("names no socket", EXAMPLE));
    }
    if file.contains(['?', '#', '\0']) || !path.starts_with('/') {
        return Err(Fault::new("has a path of the request that does not begin with `:/`", EXAMPLE));
    }
    if file.len() > MAX_SOCKET {
        return Err(Fault::new("is longer than the name of a socket can be", "write a path of at most 103 bytes"));
    }
    sendable(path)?;
    let uri: Uri = path.parse().map_err(|_| Fault::new("has a path of the request that is none", EXAMPLE))?;
    let mut upstream = at(Place::Socket(PathBuf::from(file)), &uri);
    upstream.url = format!("unix:{file}:{}", uri.path());
    Ok(upstream)
}

/// Whether a text can be sent in a request line.
fn sendable(text: &str) -> Result<(), Fault> {
    if text.contains('#') {
        return Err(Fault::new("has a fragment, which is never sent", "take `#` and what follows away"));
    }
    if !text.bytes().all(|each| each.is_ascii_graphic()) {
        let hint = "percent-encode it in the path or query (a space is `%20`); write a host name in its `xn--` form";
        return Err(Fault::new("holds white space or a character that is not ASCII", hint));
    }
    Ok(())
}

fn at(place: Place, uri: &Uri) -> Upstream {
    // Displayed, a query without a path gets its `/`.
    let path_and_query = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
    Upstream { place, path_and_query, url: String::new(), weight: NonZeroU32::MIN, http: Http::Auto }
}

/// A share of runs.
pub(in crate::config) fn weight(text: &str) -> Result<NonZeroU32, Fault> {
    const HINT: &str = "write a whole number from 1 to 1000; to send nothing there, take it out of the list";
    match text.parse::<u32>().map(NonZeroU32::new) {
        Ok(Some(weight)) if weight.get() <= 1000 => Ok(weight),
        _ => Err(Fault::new("is no weight", HINT)),
    }
}

/// The name that a certificate is for.
pub(in crate::config) fn server_name(text: &str) -> Result<String, Fault> {
    const EXAMPLE: &str = "write a host name or an IP address alone, such as `agent.internal`";
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    match host_and_port(text, true) {
        Ok((host, _)) if host.eq_ignore_ascii_case(text) && !text.starts_with('[') => Ok(host),
        _ => Err(Fault::new("is no name that a certificate is for", EXAMPLE)),
    }
}

/// What a health check asks for.
pub(in crate::config) fn health_path(text: &str) -> Result<String, Fault> {
    const EXAMPLE: &str = "write a path such as `/healthz`; it is asked for at each upstream";
    sendable(text)?;
    if !text.starts_with('/') || text.starts_with("//") || text.parse::<Uri>().is_err() {
        return Err(Fault::new("is no path", EXAMPLE));
    }
    Ok(text.to_owned())
}
