//! Upstreams of a route: addresses, protocols, health checks and ejection.

use super::listen::{ListenAddress, ListenerConfig};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// One upstream, taken apart for the connector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamConfig {
    pub(crate) address: UpstreamAddress,
    /// The request target: begins with `/`, includes the query.
    pub(crate) path_and_query: String,
    /// For logs: `scheme://authority/path` or `unix:/socket:/path`, without the query, since queries carry keys.
    pub(crate) url: String,
    /// Its share of the runs, beside the others of the route; each of its addresses has it.
    pub(crate) weight: NonZeroU32,
    pub(crate) http: UpstreamHttpVersion,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum UpstreamAddress {
    /// On a port of a host.
    Host {
        /// `https` rather than `http`.
        tls: bool,
        /// A host name in lower case, or an IP address; IPv6 without brackets.
        host: String,
        /// The port, written or implied by the scheme. Never zero.
        port: u16,
    },
    /// On a Unix socket of this machine: an absolute path.
    Socket(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum UpstreamHttpVersion {
    /// HTTP/1.1; over TLS what the agent prefers of HTTP/2 and HTTP/1.1 (ALPN).
    Auto,
    /// HTTP/1.1.
    One,
    /// HTTP/2 and nothing else: by prior knowledge, over TLS by ALPN.
    Two,
}

/// TLS settings for connections of a route. Files are reloaded when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamTlsConfig {
    /// Certificates in PEM that the agents' ones have to come from; those of the system where it is `None`.
    pub(crate) ca: Option<PathBuf>,
    /// The gateway's own certificate, with those between it and its root, and its key, in PEM.
    pub(crate) identity: Option<UpstreamClientCert>,
    /// The name that agents' certificates have to be for, in place of the host of the URL.
    pub(crate) server_name: Option<String>,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamClientCert {
    /// The file of the certificate.
    pub(crate) cert: PathBuf,
    /// The file of its key.
    pub(crate) key: PathBuf,
}

impl UpstreamConfig {
    /// Returns whether connections to it use TLS.
    #[must_use]
    pub(crate) fn uses_tls(&self) -> bool {
        matches!(self.address, UpstreamAddress::Host { tls: true, .. })
    }

    /// The value of the `Host` header: IPv6 in brackets, the port only where the scheme does not imply it.
    #[must_use]
    pub fn authority(&self) -> String {
        match &self.address {
            UpstreamAddress::Host { tls, host, port } => {
                let implied = *port == implied_port(*tls);
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                if implied { host } else { format!("{host}:{port}") }
            }
            // A socket has no host, and agents refuse a request without one.
            UpstreamAddress::Socket(_) => "localhost".to_owned(),
        }
    }

    /// The upstream in metrics and logs: `scheme://host:port` with the port always, or `unix:/socket`.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.address {
            UpstreamAddress::Host { tls, host, port } => {
                let scheme = if *tls { "https" } else { "http" };
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                format!("{scheme}://{host}:{port}")
            }
            UpstreamAddress::Socket(path) => format!("unix:{}", path.display()),
        }
    }

    /// Returns whether it is a name, whose addresses may change.
    #[must_use]
    pub(crate) fn has_name(&self) -> bool {
        matches!(&self.address, UpstreamAddress::Host { host, .. } if host.parse::<IpAddr>().is_err())
    }

    /// Returns whether both are the same port of the same host, or the same socket.
    pub(super) fn has_same_address(&self, other: &UpstreamConfig) -> bool {
        match (&self.address, &other.address) {
            (UpstreamAddress::Host { host, port, .. }, UpstreamAddress::Host { host: other, port: other_port, .. }) => {
                (host, port) == (other, other_port)
            }
            (one, other) => one == other,
        }
    }

    /// Returns whether a connection to it ends at `listener`, as far as that is known without resolving names.
    pub(super) fn leads_to(&self, listener: &ListenerConfig) -> bool {
        match &self.address {
            UpstreamAddress::Host { tls, host, port } => listener.is_reached_by(*tls, host, *port),
            UpstreamAddress::Socket(path) => {
                matches!(&listener.address, ListenAddress::Unix { path: own, .. } if own == path)
            }
        }
    }
}

/// RFC 9110, section 4.2: "If the port subcomponent is empty or not given, TCP port 80 (443) is the default."
pub(super) fn implied_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}
