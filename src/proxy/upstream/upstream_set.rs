//! The upstreams of a route and the addresses that they have now.

use super::target::Target;
use crate::config::{Place, Upstream};
use crate::telemetry::{Metrics, UpstreamMetrics, occurrence};
use async_trait::async_trait;
use futures_util::future::join_all;
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_load_balancing::Backend;
use pingora_load_balancing::discovery::ServiceDiscovery;
use std::collections::{BTreeSet, HashMap};
use std::os::unix::net::SocketAddr as UnixAddress;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// How long a look-up may take before it counts as failed.
const LOOK_UP: Duration = Duration::from_secs(10);

/// The upstreams of a route.
pub(super) struct Roster {
    pub route: Arc<str>,
    pub members: Vec<Member>,
    /// the addresses of each: what its name meant the last time that it could be looked up
    known: Mutex<Vec<Vec<Arc<Target>>>>,
}

/// One upstream of the configuration.
pub(super) struct Member {
    pub upstream: Upstream,
    /// how metrics and logs call it
    pub label: Arc<str>,
    pub metrics: UpstreamMetrics,
}

/// The same roster, as pingora asks for addresses.
pub(super) struct Hosts(pub Arc<Roster>);

impl Roster {
    pub(super) fn new(route: &str, upstreams: &[Upstream], metrics: &Metrics) -> Self {
        let member = |upstream: &Upstream| {
            let label = upstream.label();
            Member { upstream: upstream.clone(), metrics: metrics.upstream(route, &label), label: label.into() }
        };
        let members: Vec<_> = upstreams.iter().map(member).collect();
        let known = Mutex::new(members.iter().map(|_| Vec::new()).collect());
        Roster { route: route.into(), members, known }
    }

    pub(super) fn member(&self, target: &Target) -> &Member {
        &self.members[target.member]
    }

    /// Whether every upstream has an address.
    pub(super) fn is_known(&self) -> bool {
        self.known().iter().all(|targets| !targets.is_empty())
    }

    /// Says in the metrics which upstreams are asked.
    pub(super) fn show(&self) {
        for (member, targets) in self.members.iter().zip(self.known().iter()) {
            member.metrics.up(targets.iter().any(|target| target.is_trusted()));
        }
    }

    /// How each upstream is: whether it is asked for runs, and in words.
    pub(super) fn report(&self) -> Vec<(bool, String)> {
        let line = |(member, targets): (&Member, &Vec<Arc<Target>>)| {
            let fit = targets.iter().filter(|target| target.is_trusted()).count();
            let unhealthy = targets.iter().filter(|target| !target.is_healthy()).count();
            let runs: usize = targets.iter().map(|target| target.in_flight()).sum();
            let state = match (targets.len(), fit) {
                (0, _) => "not resolved".to_owned(),
                (all, fit) if fit == all => "ok".to_owned(),
                (all, fit) => {
                    format!("{fit} of {all} addresses, {unhealthy} unhealthy, {} left out", all - fit - unhealthy)
                }
            };
            (fit > 0, format!("upstream {} of {} {state}, {runs} run(s)", member.label, self.route))
        };
        self.members.iter().zip(self.known().iter()).map(line).collect()
    }

    /// Looks all names up. One that cannot be looked up now keeps the addresses that it had; the others are not its
    /// business.
    async fn look_up(&self) {
        let found = join_all(self.members.iter().map(|member| addresses(&member.upstream))).await;
        let mut known = self.known();
        for (index, (member, found)) in self.members.iter().zip(found).enumerate() {
            let found = match found {
                Ok(found) => found,
                Err(cause) => {
                    occurrence::Unresolved { route: &self.route, cause: format!("{}: {cause}", member.label) }.emit();
                    continue;
                }
            };
            // An address that stays keeps its runs and its standing.
            let weight = member.upstream.weight.get();
            let before = std::mem::take(&mut known[index]);
            let target = |address: SocketAddr| {
                let same = before.iter().find(|target| target.address == address);
                same.cloned().unwrap_or_else(|| Arc::new(Target::new(index, address, weight)))
            };
            known[index] = found.into_iter().map(target).collect();
        }
        drop(known);
        self.show();
    }

    fn known(&self) -> MutexGuard<'_, Vec<Vec<Arc<Target>>>> {
        // Nothing panics while the lock is held.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The addresses of an upstream: at least one.
async fn addresses(upstream: &Upstream) -> Result<BTreeSet<SocketAddr>, String> {
    match &upstream.place {
        Place::Host { host, port, .. } => {
            let found = timeout(LOOK_UP, tokio::net::lookup_host((host.as_str(), *port))).await;
            let found = found.map_err(|_| format!("no answer within {} s", LOOK_UP.as_secs()))?;
            let found: BTreeSet<_> = found.map_err(|error| error.to_string())?.map(SocketAddr::Inet).collect();
            if found.is_empty() { Err("it has no address".to_owned()) } else { Ok(found) }
        }
        Place::Socket(path) => {
            let address = UnixAddress::from_pathname(path).map_err(|error| error.to_string())?;
            Ok([SocketAddr::Unix(address)].into())
        }
    }
}

#[async_trait]
impl ServiceDiscovery for Hosts {
    async fn discover(&self) -> pingora_core::Result<(BTreeSet<Backend>, HashMap<u64, bool>)> {
        self.0.look_up().await;
        let mut backends = BTreeSet::new();
        for target in self.0.known().iter().flatten() {
            // pingora tells backends apart by address and weight, and two upstreams may be one address (hosts behind one
            // ingress). The choice is ours and does not read this weight, so it says which upstream it is.
            let mut backend = Backend { addr: target.address.clone(), weight: target.member, ext: Default::default() };
            backend.ext.insert(Arc::clone(target));
            backends.insert(backend);
        }
        Ok((backends, HashMap::new()))
    }
}
