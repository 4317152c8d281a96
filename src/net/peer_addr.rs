//! The address of the other end of a connection.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The other end of a request's connection; among the extensions of every request.
#[derive(Clone, Copy, Debug)]
pub struct PeerInfo {
    /// the address of the peer
    pub addr: PeerAddr,
    /// true if the connection uses TLS
    pub tls: bool,
}

/// The address of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddr {
    /// as the network shows it, or a trusted proxy's PROXY protocol header
    Tcp(SocketAddr),
    /// any process that may open the Unix socket: limits by address count all of them as one
    Unix,
}

/// Returns the part of an address that its user cannot choose: all of IPv4, also where mapped into IPv6, and the /64
/// network of IPv6.
pub(crate) fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}
