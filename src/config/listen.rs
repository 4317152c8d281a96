//! Checked listeners: addresses, TLS and PROXY protocol.

use super::inspect::CaptureMode;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// One listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerConfig {
    pub(crate) address: ListenAddress,
    /// `None` for plain text.
    pub tls: Option<ListenerTlsConfig>,
    /// Set if each connection begins with a PROXY protocol header.
    pub(crate) proxy_protocol: bool,
    /// capture of runs, on routes without a mode of their own
    pub(crate) inspect: CaptureMode,
}

/// An address, displayed as written in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    /// port 0 binds any free port
    Tcp(SocketAddr),
    Unix {
        /// absolute, and within the system's length limit
        path: PathBuf,
        mode: u32,
    },
}

/// A listener's TLS files, which were valid when the configuration was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerTlsConfig {
    /// the certificate chain, including intermediates
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client: Option<ClientAuthConfig>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientAuthConfig {
    /// the authorities that issue client certificates
    pub(crate) ca: PathBuf,
    /// rejects clients without a certificate
    pub(crate) required: bool,
}

impl ListenerConfig {
    /// Returns the address and port of a TCP listener.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match self.address {
            ListenAddress::Tcp(address) => Some(address),
            ListenAddress::Unix { .. } => None,
        }
    }

    /// Returns whether other machines can connect.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.tcp_address().is_some_and(|address| !address.ip().is_loopback())
    }

    /// Returns whether a connection to a host and port reaches this listener, without resolving names.
    pub(super) fn is_reached_by(&self, tls: bool, host: &str, port: u16) -> bool {
        // A connection to the wildcard address goes to loopback.
        let local = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
        let Some(address) = self.tcp_address() else { return false };
        let here = address.ip();
        let reached = match host.parse().map(|ip: IpAddr| ip.to_canonical()) {
            // The IPv6 wildcard also accepts IPv4.
            Ok(there) if here.is_ipv6() && here.is_unspecified() => local(there),
            Ok(there) if there.is_ipv4() != here.is_ipv4() => false,
            Ok(there) => {
                there == here || (local(there) && local(here) && (here.is_unspecified() || there.is_unspecified()))
            }
            Err(_) => host == "localhost" && local(here),
        };
        tls == self.tls.is_some() && port == address.port() && reached
    }

    /// Returns whether the listeners conflict: same address and port, a wildcard of the same family, or the same file.
    /// Port 0 never conflicts.
    pub(super) fn overlaps(&self, other: &ListenerConfig) -> bool {
        match (&self.address, &other.address) {
            (ListenAddress::Tcp(one), ListenAddress::Tcp(other)) => {
                let wildcard = one.ip().is_unspecified() || other.ip().is_unspecified();
                one.port() != 0
                    && one.port() == other.port()
                    && (one.ip() == other.ip() || (wildcard && one.is_ipv4() == other.is_ipv4()))
            }
            (ListenAddress::Unix { path: one, .. }, ListenAddress::Unix { path: other, .. }) => one == other,
            _ => false,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(out),
            ListenAddress::Unix { path, .. } => write!(out, "unix:{}", path.display()),
        }
    }
}
