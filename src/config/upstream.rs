//! Upstreams of a route: addresses, protocols, health checks and ejection.

use super::file::TimeoutsConfig;
use super::listen::{ListenAddress, ListenerConfig};
use crate::net::url::{bracket_host, implied_port};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// An upstream's URL, split into the parts that a connection needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpstreamConfig {
    pub(crate) address: UpstreamAddress,
    /// The request target: a leading `/` and any query.
    pub(crate) path_and_query: String,
    /// The URL for logs: `scheme://authority/path` or `unix:/socket:/path`, without the query, which may contain keys.
    pub(crate) url: String,
    /// Each resolved address's relative share of the route's runs.
    pub(crate) weight: NonZeroU32,
    pub(crate) http: UpstreamHttpVersion,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum UpstreamAddress {
    Host {
        /// Set for `https`.
        tls: bool,
        /// A lower-case host name or an IP address; IPv6 without brackets.
        host: String,
        /// Explicit or implied by the scheme. Never zero.
        port: u16,
    },
    /// An absolute socket path.
    Socket(PathBuf),
}

/// What clients see of an agent's error response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentErrors {
    /// The status and a reference.
    Hide,
    /// The agent's message too.
    Pass,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum UpstreamHttpVersion {
    /// HTTP/1.1; over TLS, the protocol that the agent selects (ALPN).
    Auto,
    /// HTTP/1.1.
    One,
    /// HTTP/2 only, negotiated by ALPN over TLS and otherwise assumed.
    Two,
}

/// TLS settings for connections to agents. Changed files are reloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamTlsConfig {
    /// Certificate authorities in PEM; `None` to use the system's.
    pub(crate) ca: Option<PathBuf>,
    /// The gateway's own certificate chain and key, in PEM.
    pub(crate) identity: Option<UpstreamClientCert>,
    /// The expected name in agents' certificates, if it differs from the URL's host.
    pub(crate) server_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpstreamClientCert {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl TimeoutsConfig {
    /// Returns `first_event` or its default: what the other timeouts allow.
    pub(crate) fn first_event_limit(&self, is_two_step: bool) -> Duration {
        let steps = if is_two_step { 2 } else { 1 };
        self.first_event.unwrap_or_else(|| self.first_byte.saturating_mul(steps).saturating_add(self.idle))
    }

    /// Returns `ping_only` or its default.
    pub(crate) fn ping_only_limit(&self) -> Duration {
        self.ping_only.unwrap_or_else(|| self.idle.saturating_mul(3))
    }
}

impl UpstreamConfig {
    #[must_use]
    pub(crate) fn uses_tls(&self) -> bool {
        matches!(self.address, UpstreamAddress::Host { tls: true, .. })
    }

    /// Returns the `Host` value, with IPv6 in brackets and without a default port.
    #[must_use]
    pub fn authority(&self) -> String {
        match &self.address {
            UpstreamAddress::Host { tls, host, port } => {
                let host = bracket_host(host);
                if *port == implied_port(*tls) { host.into_owned() } else { format!("{host}:{port}") }
            }
            // A socket has no host, and agents refuse a request without one.
            UpstreamAddress::Socket(_) => "localhost".to_owned(),
        }
    }

    /// Returns the name for metrics and logs: `scheme://host:port` or `unix:/socket`.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.address {
            UpstreamAddress::Host { tls, host, port } => {
                let scheme = if *tls { "https" } else { "http" };
                format!("{scheme}://{}:{port}", bracket_host(host))
            }
            UpstreamAddress::Socket(path) => format!("unix:{}", path.display()),
        }
    }

    /// Returns whether the host is a DNS name, whose addresses may change.
    #[must_use]
    pub(crate) fn has_name(&self) -> bool {
        matches!(&self.address, UpstreamAddress::Host { host, .. } if host.parse::<IpAddr>().is_err())
    }

    pub(super) fn has_same_address(&self, other: &UpstreamConfig) -> bool {
        match (&self.address, &other.address) {
            (UpstreamAddress::Host { host, port, .. }, UpstreamAddress::Host { host: other, port: other_port, .. }) => {
                (host, port) == (other, other_port)
            }
            (one, other) => one == other,
        }
    }

    /// Returns whether a connection would reach `listener`, without resolving names.
    pub(super) fn leads_to(&self, listener: &ListenerConfig) -> bool {
        match &self.address {
            UpstreamAddress::Host { tls, host, port } => listener.is_reached_by(*tls, host, *port),
            UpstreamAddress::Socket(path) => {
                matches!(&listener.address, ListenAddress::Unix { path: own, .. } if own == path)
            }
        }
    }
}
