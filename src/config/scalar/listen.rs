//! Parses addresses and permissions of listeners, and trusted proxies.

use std::path::PathBuf;

use super::{ScalarError, parse_network, parse_socket_address};
use crate::config::access::TrustedProxy;
use crate::config::listen::ListenAddress;

const UNIX_PREFIX: &str = "unix:";

/// Read and write access for Diglot's user and group.
pub(in crate::config) const DEFAULT_MODE: &str = "0660";

/// Maximum length of a Unix socket path: 108 bytes including the final NUL [unix(7)].
const MAX_SOCKET_PATH: usize = 107;

/// Parses a listener address. A Unix socket gets the default permissions.
pub(in crate::config) fn parse_listen_address(text: &str) -> Result<ListenAddress, ScalarError> {
    let Some(path) = text.strip_prefix(UNIX_PREFIX) else { return parse_socket_address(text).map(ListenAddress::Tcp) };
    let fault = |is, suggestion| {
        const HINT: &str = "write `unix:` and the absolute path of a socket, such as `unix:/run/diglot/data.sock`";
        Err(ScalarError { predicate: is, hint: HINT.into(), suggestion })
    };
    if let Some(rest) = path.strip_prefix("//") {
        return fault("is a URL, not an address", rest.starts_with('/').then(|| format!("{UNIX_PREFIX}{rest}")));
    }
    if !path.starts_with('/') || path.ends_with('/') || path.contains(['\0', '\n']) {
        return fault("has no absolute path of a socket", None);
    }
    if path.len() > MAX_SOCKET_PATH {
        return fault("is longer than the 107 bytes that a socket's path may have", None);
    }
    Ok(ListenAddress::Unix { path: PathBuf::from(path), mode: parse_mode(DEFAULT_MODE)? })
}

/// Parses octal socket file permissions.
pub(in crate::config) fn parse_mode(text: &str) -> Result<u32, ScalarError> {
    const HINT: &str = "write them in octal: `0600` for the user alone, `0660` for its group too, `0666` for all users";
    match u32::from_str_radix(text.strip_prefix("0o").unwrap_or(text), 8) {
        Ok(mode) if mode <= 0o777 && mode & 0o200 != 0 => Ok(mode),
        Ok(_) => Err(ScalarError::new("are permissions that do not let any user connect", HINT)),
        Err(_) => Err(ScalarError::new("is not an octal number", HINT)),
    }
}

/// Parses an address, a network, or `unix` for any peer on a Unix socket.
pub(in crate::config) fn parse_trusted_proxy(text: &str) -> Result<TrustedProxy, ScalarError> {
    if text == "unix" {
        return Ok(TrustedProxy::Unix);
    }
    parse_network(text).map(TrustedProxy::Network)
}
