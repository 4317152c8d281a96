//! Parses the host and the port of a URL.

use std::net::Ipv6Addr;

use super::ScalarError;
use crate::net::url::implied_port;

/// Parses a host with its port, explicit or implied.
pub(super) fn parse_host_and_port(authority: &str, tls: bool) -> Result<(String, u16), ScalarError> {
    const EXAMPLE: &str = "write a host name or an IP address, IPv6 in brackets: `http://[::1]:9001/`";
    let port_error = || ScalarError::new("has a port outside 1 to 65535", "correct the port, or leave out `:`");
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let fault = ScalarError::new("has an IPv6 address that cannot be read", EXAMPLE);
            let Some((inside, after)) = bracketed.split_once(']') else { return Err(fault) };
            let address: Ipv6Addr = inside.parse().map_err(|_| fault)?;
            (address.to_string(), after)
        }
        None => {
            let colon = authority.find(':').unwrap_or(authority.len());
            (authority[..colon].to_ascii_lowercase(), &authority[colon..])
        }
    };
    if host.is_empty() {
        return Err(ScalarError::new("has no host", EXAMPLE));
    }
    let port = match port.strip_prefix(':') {
        // `u16` also parses `+80`.
        Some(digits) if digits.bytes().all(|each| each.is_ascii_digit()) => digits.parse().map_err(|_| port_error())?,
        None if port.is_empty() => implied_port(tls),
        _ => return Err(port_error()),
    };
    let letter = |each: u8| each.is_ascii_alphanumeric() || b"-_.:".contains(&each);
    let empty_label = host.strip_suffix('.').unwrap_or(&host).split('.').any(str::is_empty);
    match port {
        0 => Err(port_error()),
        _ if empty_label || !host.bytes().all(letter) => Err(ScalarError::new("has an invalid host name", EXAMPLE)),
        port => Ok((host, port)),
    }
}
