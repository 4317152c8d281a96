//! A route's upstreams and their current endpoints.

use super::upstream_endpoint::UpstreamEndpoint;
use crate::config::{UpstreamAddress, UpstreamConfig};
use crate::telemetry::{Metrics, UpstreamMetrics, internal_event};
use async_trait::async_trait;
use futures_util::future::join_all;
use parking_lot::Mutex;
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_load_balancing::Backend;
use pingora_load_balancing::discovery::ServiceDiscovery;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::unix::net::SocketAddr as UnixAddress;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum number of addresses of one host name; further ones get no runs.
const MAX_ADDRESSES: usize = 256;

const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct UpstreamSet {
    pub(crate) route: Arc<str>,
    pub(crate) entries: Vec<UpstreamEntry>,
    /// endpoints of each upstream, from its last successful resolution
    endpoints: Mutex<Vec<Vec<Arc<UpstreamEndpoint>>>>,
}

pub(super) struct UpstreamEntry {
    pub(crate) upstream: UpstreamConfig,
    /// name in metrics and logs
    pub(crate) label: Arc<str>,
    pub(crate) metrics: UpstreamMetrics,
}

/// Adapts the set to pingora's service discovery.
pub(super) struct UpstreamDiscovery(pub(crate) Arc<UpstreamSet>);

impl UpstreamSet {
    pub(super) fn new(route: &str, upstreams: &[UpstreamConfig], metrics: &Metrics) -> Self {
        let mut entries = Vec::new();
        for upstream in upstreams {
            let label = upstream.label();
            let metrics = metrics.upstream(route, &label);
            entries.push(UpstreamEntry { upstream: upstream.clone(), metrics, label: label.into() });
        }
        let endpoints = Mutex::new(entries.iter().map(|_| Vec::new()).collect());
        UpstreamSet { route: route.into(), entries, endpoints }
    }

    pub(super) fn entry(&self, target: &UpstreamEndpoint) -> &UpstreamEntry {
        &self.entries[target.upstream_index]
    }

    /// Returns whether every upstream has at least one endpoint.
    pub(super) fn is_resolved(&self) -> bool {
        self.endpoints.lock().iter().all(|targets| !targets.is_empty())
    }

    pub(super) fn update_metrics(&self) {
        for (member, targets) in self.entries.iter().zip(self.endpoints.lock().iter()) {
            member.metrics.on_route.up.set(targets.iter().any(|target| target.is_available()).into());
        }
    }

    pub(super) fn report(&self) -> Vec<(bool, String)> {
        let endpoints = self.endpoints.lock();
        let reports = self.entries.iter().zip(endpoints.iter()).map(|(member, targets)| {
            let fit = targets.iter().filter(|target| target.is_available()).count();
            let unhealthy = targets.iter().filter(|target| !target.is_healthy()).count();
            let runs: usize = targets.iter().map(|target| target.in_flight()).sum();
            let state = match (targets.len(), fit) {
                (0, _) => "not resolved".to_owned(),
                (all, fit) if fit == all => "ok".to_owned(),
                (all, fit) => {
                    format!("{fit} of {all} addresses, {unhealthy} unhealthy, {} ejected", all - fit - unhealthy)
                }
            };
            (
                fit > 0,
                format!(
                    "upstream {} of {} {state}, {runs} {}",
                    member.label,
                    self.route,
                    if runs == 1 { "run" } else { "runs" }
                ),
            )
        });
        reports.collect()
    }

    /// Resolves all names. If resolving a name fails, its endpoints are kept.
    async fn resolve_all(&self) {
        let found = join_all(self.entries.iter().map(|member| resolve_addresses(&member.upstream))).await;
        let mut known = self.endpoints.lock();
        for (index, (member, found)) in self.entries.iter().zip(found).enumerate() {
            let found = match found {
                Ok(found) => found,
                Err(cause) => {
                    internal_event::UpstreamResolveFailed {
                        route: &self.route,
                        cause: format!("{}: {cause}", member.label),
                    }
                    .emit();
                    continue;
                }
            };
            // An unchanged address keeps its runs and outlier state.
            let weight = member.upstream.weight.get();
            let before = std::mem::take(&mut known[index]);
            for address in found {
                let same = before.iter().find(|endpoint| endpoint.address == address).cloned();
                let endpoint = same.unwrap_or_else(|| Arc::new(UpstreamEndpoint::new(index, address, weight)));
                known[index].push(endpoint);
            }
        }
        drop(known);
        self.update_metrics();
    }
}

#[derive(Debug, thiserror::Error)]
enum ResolveError {
    #[error("no answer within {} s", RESOLVE_TIMEOUT.as_secs())]
    Timeout,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the name has no address")]
    NoAddress,
}

async fn resolve_addresses(upstream: &UpstreamConfig) -> Result<BTreeSet<SocketAddr>, ResolveError> {
    match &upstream.address {
        UpstreamAddress::Host { host, port, .. } => {
            let found = timeout(RESOLVE_TIMEOUT, tokio::net::lookup_host((host.as_str(), *port))).await;
            let found: BTreeSet<_> = take_addresses(found.map_err(|_| ResolveError::Timeout)??);
            if found.is_empty() { Err(ResolveError::NoAddress) } else { Ok(found) }
        }
        UpstreamAddress::Socket(path) => Ok([SocketAddr::Unix(UnixAddress::from_pathname(path)?)].into()),
    }
}

fn take_addresses(found: impl Iterator<Item = std::net::SocketAddr>) -> BTreeSet<SocketAddr> {
    found.take(MAX_ADDRESSES).map(SocketAddr::Inet).collect()
}

#[async_trait]
impl ServiceDiscovery for UpstreamDiscovery {
    async fn discover(&self) -> pingora_core::Result<(BTreeSet<Backend>, HashMap<u64, bool>)> {
        self.0.resolve_all().await;
        let mut backends = BTreeSet::new();
        for target in self.0.endpoints.lock().iter().flatten() {
            // pingora distinguishes backends by address and weight, but two upstreams may share an address (hosts of
            // one ingress). Our balancer ignores this weight, so it carries the upstream's index.
            let mut backend =
                Backend { addr: target.address.clone(), weight: target.upstream_index, ext: Default::default() };
            backend.ext.insert(Arc::clone(target));
            backends.insert(backend);
        }
        Ok((backends, HashMap::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddrV4};

    #[test]
    fn uses_a_bounded_number_of_addresses_of_a_name() {
        let found = (0..100_000).map(|number: u32| SocketAddrV4::new(Ipv4Addr::from(number), 80).into());
        assert_eq!(take_addresses(found).len(), MAX_ADDRESSES);
    }
}
