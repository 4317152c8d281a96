//! Which address a request comes from.

use super::{Gate, Guard};
use crate::config::Config;
use crate::config::access::TrustedProxies;
use crate::error::Rejection;
use http::request::Parts;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The other end of the connection, among the extensions of every request.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// The client's address: that of the peer, or what a trusted proxy says. Among the extensions behind [`Address`].
#[derive(Clone, Copy, Debug)]
pub struct Client(pub IpAddr);

/// Whose word about clients is taken.
#[derive(Debug)]
pub struct Addresses {
    #[expect(dead_code, reason = "skeleton")]
    trusted: TrustedProxies,
}

impl Addresses {
    /// As configured.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Addresses { trusted: config.trusted_proxies.clone() }
    }
}

/// The gate that finds the address.
#[derive(Clone, Debug)]
pub struct Address(pub Arc<Guard>);

impl Gate for Address {
    async fn pass(&self, head: &mut Parts) -> Result<(), Rejection> {
        let _ = &self.0.addresses;
        if let Some(Peer(peer)) = head.extensions.get::<Peer>().copied() {
            head.extensions.insert(Client(peer.ip()));
        }
        Ok(())
    }
}
