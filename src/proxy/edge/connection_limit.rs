//! Limits connections, in total and per client address, and HTTP/2 requests, of which one connection may bring many.

use super::descriptors;
use crate::config::Config;
use crate::config::access::TrustedProxies;
use crate::net::peer_addr::{PeerAddr, client_network};
use crate::policy::{CountedUse, UsageCounts};
use crate::telemetry::ListenerMetrics;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of refused connections that stay open until their clients have read the refusal, and at most a
/// quarter of the connections.
const MAX_LINGERING: usize = 256;

/// Maximum number of connections to the status listeners: far more than kubelet, Prometheus and operators need.
const MAX_STATUS_CONNECTIONS: usize = 256;

/// Counts a plane's connections, across all its listeners.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionLimit(Arc<ConnectionLimitState>);

#[derive(Debug)]
struct ConnectionLimitState {
    max: usize,
    open: AtomicUsize,
    /// addresses exempt from the per-address limit
    exempt: TrustedProxies,
    per_address: Option<NonZeroUsize>,
    addresses: Arc<UsageCounts<IpAddr>>,
    lingering: Arc<Semaphore>,
    /// open HTTP/2 requests, as many as connections
    requests: AtomicUsize,
}

impl ConnectionLimit {
    pub(crate) fn for_clients(config: &Config) -> Self {
        let per_address = config.limits.connections_per_address;
        ConnectionLimit::new(descriptors::max_connections(config), per_address, config.trusted_proxies.clone())
    }

    /// Creates the limit of the status plane, so that strangers there cannot take the files of runs, and no memory but
    /// that of a document each.
    pub(crate) fn for_status() -> Self {
        ConnectionLimit::new(MAX_STATUS_CONNECTIONS, None, TrustedProxies::default())
    }

    fn new(max: usize, per_address: Option<NonZeroUsize>, exempt: TrustedProxies) -> Self {
        let open = AtomicUsize::new(0);
        let addresses = Arc::default();
        let lingering = Arc::new(Semaphore::new((max / 4).clamp(1, MAX_LINGERING)));
        let requests = AtomicUsize::new(0);
        let state = ConnectionLimitState { max, open, exempt, per_address, addresses, lingering, requests };
        ConnectionLimit(Arc::new(state))
    }

    /// Returns the permit to keep a refused connection open for a moment.
    pub(super) fn try_linger(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.lingering).try_acquire_owned().ok()
    }

    pub(super) fn try_acquire(&self, metrics: &Arc<ListenerMetrics>) -> Option<ConnectionPermit> {
        let max = self.0.max;
        let open = &self.0.open;
        open.fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| (open < max).then_some(open + 1)).ok()?;
        metrics.connections.active.inc();
        Some(ConnectionPermit { shared: Arc::clone(&self.0), metrics: Arc::clone(metrics), address: None })
    }
}

/// The place of one HTTP/2 request.
#[derive(Debug)]
pub(super) struct RequestPermit(Arc<ConnectionLimitState>);

impl ConnectionLimit {
    /// Counts an HTTP/2 request, if there is room for it.
    pub(super) fn try_begin_request(&self) -> Option<RequestPermit> {
        let ConnectionLimitState { max, requests, .. } = &*self.0;
        requests.fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| (open < *max).then_some(open + 1)).ok()?;
        Some(RequestPermit(Arc::clone(&self.0)))
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

pub(super) struct ConnectionPermit {
    shared: Arc<ConnectionLimitState>,
    metrics: Arc<ListenerMetrics>,
    /// present if the connection counts for its address
    address: Option<CountedUse<IpAddr>>,
}

impl ConnectionPermit {
    /// Counts the connection for its address. Returns `false` if the limit is reached.
    #[must_use]
    pub(super) fn try_count_address(&mut self, origin: PeerAddr) -> bool {
        let Some(limit) = self.shared.per_address else { return true };
        let PeerAddr::Tcp(address) = origin else { return true };
        if self.shared.exempt.contains(address.ip()) {
            return true;
        }
        self.address = self.shared.addresses.count(client_network(address.ip()), limit);
        self.address.is_some()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::AcqRel);
        self.metrics.connections.active.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    fn metrics() -> Arc<ListenerMetrics> {
        Metrics::new().expect("unique names").listener("data", "here", false)
    }

    #[test]
    fn limits_connections_and_reuses_freed_slots() {
        let connections = ConnectionLimit::new(2, None, TrustedProxies::default());
        let metrics = metrics();
        let first = connections.try_acquire(&metrics).expect("a place");
        let second = connections.try_acquire(&metrics).expect("a place");
        assert!(connections.try_acquire(&metrics).is_none());
        drop(first);
        let third = connections.try_acquire(&metrics).expect("a place");
        drop((second, third));
        assert_eq!(connections.0.open.load(Ordering::Relaxed), 0);
        let requests = [connections.try_begin_request(), connections.try_begin_request()];
        assert!(requests.iter().all(Option::is_some) && connections.try_begin_request().is_none());
        drop(requests);
        assert!(connections.try_begin_request().is_some());
    }

    #[test]
    fn counts_connections_per_address_until_they_close() {
        let trusted = TrustedProxies { networks: vec!["10.0.0.0/8".parse().expect("a network")], unix: false };
        let connections = ConnectionLimit::new(100, NonZeroUsize::new(1), trusted);
        let metrics = metrics();
        let count = |address: &str| {
            let mut permit = connections.try_acquire(&metrics).expect("a place");
            let origin = address.parse().map_or(PeerAddr::Unix, PeerAddr::Tcp);
            permit.try_count_address(origin).then_some(permit)
        };
        let held: Vec<_> = ["192.0.2.1:1", "192.0.2.2:1", "[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1"]
            .map(|address| count(address).expect(address))
            .into();
        for same in ["192.0.2.1:2", "[::ffff:192.0.2.1]:3", "[2001:db8:0:1:ffff::1]:9"] {
            assert!(count(same).is_none(), "{same}");
        }
        let _free: Vec<_> = ["10.0.0.1:1", "10.0.0.1:2", "[::ffff:10.0.0.1]:3", "unix", "unix"]
            .map(|address| count(address).expect(address))
            .into();
        drop(held);
        assert!(connections.0.addresses.is_empty());
        assert!(count("192.0.2.1:4").is_some());
    }
}
