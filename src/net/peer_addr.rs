//! The address of the other end of a connection.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The peer of a request's connection; an extension of every request.
#[derive(Clone, Copy, Debug)]
pub struct PeerInfo {
    /// address of the peer
    pub addr: PeerAddr,
    /// whether the connection uses TLS
    pub tls: bool,
}

/// The address of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddr {
    /// from the connection, or from a trusted proxy's PROXY header
    Tcp(SocketAddr),
    /// a Unix socket; limits by address count all its clients as one
    Unix,
}

/// Returns the part of an address that a client cannot vary: the whole IPv4 address, or the /64 network of IPv6.
pub(crate) fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}
