//! The address of the other end of a connection.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The peer of a request's connection, an extension of every request.
#[derive(Clone, Copy, Debug)]
pub struct PeerInfo {
    /// the peer's address
    pub addr: PeerAddr,
    /// whether the connection uses TLS
    pub tls: bool,
}

/// A peer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddr {
    /// from the connection, or from a trusted proxy's PROXY header
    Tcp(SocketAddr),
    /// a Unix socket; per-address limits treat all its clients as one
    Unix,
}

/// Returns the part of an address that a client cannot vary: the whole IPv4 address, or the IPv6 /64 network.
pub(crate) fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}
