//! The agent's side of the network: pingora resolves, balances, connects and reads.

use crate::config::field::{LAST_EVENT_ID, REQUEST_ID, TRACEPARENT};
use crate::config::{Route, Template, Timeouts, Upstream};
use crate::error::{Kind, Rejection};
use crate::telemetry::occurrence;
use async_trait::async_trait;
use bytes::Bytes;
use http::header;
use pingora_core::connectors::ConnectorOptions;
use pingora_core::connectors::http::Connector as PingoraConnector;
use pingora_core::protocols::http::client::HttpSession;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{BError, ErrorSource, ErrorType};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_load_balancing::discovery::ServiceDiscovery;
use pingora_load_balancing::selection::RoundRobin;
use pingora_load_balancing::{Backend, Backends, LoadBalancer};
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Idle connections to agents that are kept, in all.
const POOL: usize = 1024;

/// How long an idle connection is kept. Below the keep-alive of common agents (uvicorn 5 s), so that we close it first.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// Most time for writing the head of a request, and again for its body: a connection that takes neither is dead. `first_byte`
/// ends it as well; this is for where the operator made that very long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How often the names of agents are resolved again.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);

/// Addresses of one route that a run tries before it gives up.
const ATTEMPTS: usize = 4;

/// What a request says about the sender.
const USER_AGENT: &str = concat!("diglot/", env!("CARGO_PKG_VERSION"));

/// The connections to all agents.
pub struct Connector(PingoraConnector);

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

impl Default for Connector {
    fn default() -> Self {
        Connector(PingoraConnector::new(Some(ConnectorOptions::new(POOL))))
    }
}

/// The agents of one route.
pub struct Cluster {
    balancer: LoadBalancer<RoundRobin>,
    upstreams: Arc<[Upstream]>,
    events: Option<Template>,
    timeouts: Timeouts,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("upstreams", &self.upstreams).finish_non_exhaustive()
    }
}

/// Resolves the hosts of a route.
struct Hosts {
    route: Arc<str>,
    upstreams: Arc<[Upstream]>,
    /// what each host resolved to the last time it did
    known: Mutex<Vec<Vec<SocketAddr>>>,
}

/// Which upstream of the route a resolved address belongs to.
#[derive(Clone, Copy)]
struct Index(usize);

#[async_trait]
impl ServiceDiscovery for Hosts {
    /// A host that cannot be resolved now keeps the addresses that it had; the others are not its business.
    async fn discover(&self) -> pingora_core::Result<(BTreeSet<Backend>, HashMap<u64, bool>)> {
        let mut backends = BTreeSet::new();
        for (index, upstream) in self.upstreams.iter().enumerate() {
            match tokio::net::lookup_host((upstream.host.as_str(), upstream.port)).await {
                Ok(found) => self.known()[index] = found.collect(),
                Err(error) => {
                    let cause = format!("{}: {error}", upstream.host);
                    occurrence::Unresolved { route: &self.route, cause }.emit();
                }
            }
            for address in &self.known()[index] {
                let mut backend = Backend::new(&address.to_string())?;
                backend.ext.insert(Index(index));
                backends.insert(backend);
            }
        }
        Ok((backends, HashMap::new()))
    }
}

impl Hosts {
    fn known(&self) -> MutexGuard<'_, Vec<Vec<SocketAddr>>> {
        // Nothing panics while the lock is held.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cluster {
    /// The agents of `route`, not yet resolved.
    #[must_use]
    pub fn new(route: &Route) -> Self {
        let upstreams: Arc<[Upstream]> = route.upstreams.clone().into();
        let known = Mutex::new(vec![Vec::new(); upstreams.len()]);
        let hosts = Hosts { route: route.name.as_str().into(), upstreams: Arc::clone(&upstreams), known };
        let backends = Backends::new(Box::new(hosts));
        let balancer = LoadBalancer::from_backends(backends);
        Cluster { balancer, upstreams, events: route.events.clone(), timeouts: route.timeouts }
    }

    /// Resolves the hosts again.
    pub async fn resolve(&self) {
        // Discovery reports what it cannot resolve by itself and never fails for it.
        let _ = self.balancer.update().await;
    }

    /// Resolves names from time to time: never returns.
    pub async fn watch(&self) {
        while self.has_names() {
            tokio::time::sleep(RESOLVE_EVERY).await;
            self.resolve().await;
        }
        std::future::pending::<()>().await;
    }

    /// Whether the hosts have names that may move.
    fn has_names(&self) -> bool {
        self.upstreams.iter().any(|upstream| upstream.host.parse::<std::net::IpAddr>().is_err())
    }

    /// Where the agent has its events, if it answers a POST with something else.
    pub(super) fn events(&self) -> Option<&Template> {
        self.events.as_ref()
    }

    /// How long the agent may be silent once it answered.
    pub(super) fn idle(&self) -> Duration {
        self.timeouts.idle
    }

    /// How long the agent may take to answer, connecting included.
    pub(super) fn first_byte(&self) -> Duration {
        self.timeouts.first_byte
    }

    /// How long it may be until its first event, counted from the request.
    pub(super) fn first_event(&self) -> Option<Duration> {
        self.timeouts.first_event
    }

    /// Sends the request to the first agent that takes the connection. Once a byte was sent nobody else is asked: a run
    /// may have begun.
    pub(super) async fn send(&self, connector: &Connector, request: &Outgoing<'_>) -> Result<Box<Session>, Rejection> {
        let mut tried: Vec<SocketAddr> = Vec::new();
        let mut last = None;
        while let Some(at) = self.select(&tried) {
            tried.push(at.address);
            match self.connect(connector, at).await {
                Ok((mut session, _)) => {
                    session.write(&self.upstreams[at.upstream], request).await?;
                    return Ok(session);
                }
                Err(rejection) => last = Some(rejection),
            }
            if tried.len() == ATTEMPTS {
                break;
            }
        }
        Err(last.unwrap_or_else(|| Rejection::from(Kind::UpstreamUnreachable).cause("no address is known")))
    }

    /// Asks one agent for something that may be asked for twice, and reads the head of its answer. A kept connection that
    /// the agent closed meanwhile is no failure of it.
    pub(super) async fn fetch(
        &self,
        connector: &Connector,
        at: Place,
        request: &Outgoing<'_>,
    ) -> Result<Box<Session>, Rejection> {
        let mut left = ATTEMPTS;
        loop {
            left -= 1;
            let (mut session, kept) = self.connect(connector, at).await?;
            let asked = async {
                session.write(&self.upstreams[at.upstream], request).await?;
                session.head().await
            };
            match asked.await {
                Err(rejection) if kept && left > 0 && rejection.kind == Kind::UpstreamReset => {}
                Err(rejection) => return Err(rejection),
                Ok(()) => return Ok(session),
            }
        }
    }

    /// A connection, and whether it served before.
    async fn connect(&self, connector: &Connector, at: Place) -> Result<(Box<Session>, bool), Rejection> {
        let opened = connector.0.get_http_session(&self.peer(at)).await;
        let (inner, kept) = opened.map_err(|error| connect_failure(&error))?;
        // Boxed: it moves through every stage of the run, and each would keep a place for it.
        Ok((Box::new(Session { inner, at }), kept))
    }

    /// Gives a connection back after a clean end. Dropping the session instead closes it.
    pub(super) async fn release(&self, connector: &Connector, session: Box<Session>) {
        // A peer is large, and its description is the same each time, so it is not kept while a run goes on.
        let peer = self.peer(session.at);
        connector.0.release_http_session(session.inner, &peer, Some(POOL_IDLE)).await;
    }

    fn select(&self, tried: &[SocketAddr]) -> Option<Place> {
        // The balancer goes round; as many steps as there are addresses see each of them once.
        let steps = self.balancer.backends().get_backend().len().max(1) * 2;
        let fresh = |backend: &Backend, healthy: bool| {
            healthy && backend.addr.as_inet().is_some_and(|address| !tried.contains(address))
        };
        let backend = self.balancer.select_with(b"", steps, fresh)?;
        let Index(upstream) = *backend.ext.get::<Index>()?;
        Some(Place { address: *backend.addr.as_inet()?, upstream })
    }

    fn peer(&self, Place { address, upstream }: Place) -> HttpPeer {
        let upstream = &self.upstreams[upstream];
        let mut peer = HttpPeer::new(address, upstream.tls, upstream.host.clone());
        peer.options.total_connection_timeout = Some(self.timeouts.connect);
        peer.options.connection_timeout = Some(self.timeouts.connect);
        peer
    }
}

/// One agent of a route: its address, and which upstream that is one of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    address: SocketAddr,
    upstream: usize,
}

/// A request on its way to an agent.
pub(super) struct Outgoing<'a> {
    /// what is asked for
    pub errand: Errand<'a>,
    /// the request's id, passed on
    pub request_id: &'a str,
    /// W3C trace context of the client, passed on
    pub traceparent: Option<&'a http::HeaderValue>,
    /// what the agent hears about the caller; fields of the request itself are not among it, or overruled
    pub fields: &'a http::HeaderMap,
}

/// What an agent is asked for.
pub(super) enum Errand<'a> {
    /// a run, and its events in the answer; JSON
    Run(Bytes),
    /// a run, whose events are asked for afterwards; JSON
    Start(Bytes),
    /// the events of a run that was started
    Events {
        /// path and query
        path: &'a str,
        /// those behind this one; all of them where it is `None`
        behind: Option<&'a str>,
    },
}

/// One exchange with an agent.
pub(super) struct Session {
    inner: HttpSession,
    at: Place,
}

impl Session {
    /// Who was asked.
    pub(super) fn at(&self) -> Place {
        self.at
    }

    async fn write(&mut self, upstream: &Upstream, request: &Outgoing<'_>) -> Result<(), Rejection> {
        let head = head(upstream, request).map_err(|error| Rejection::from(Kind::Internal).cause(error))?;
        self.inner.set_write_timeout(Some(WRITE_TIMEOUT));
        let sent = async {
            self.inner.write_request_header(Box::new(head)).await?;
            if let Errand::Run(body) | Errand::Start(body) = &request.errand {
                self.inner.write_request_body(body.clone(), true).await?;
            }
            self.inner.finish_request_body().await
        };
        sent.await.map_err(|error| Rejection::from(Kind::UpstreamReset).cause(error))
    }

    /// Reads the head of the response, past any 1xx.
    pub(super) async fn head(&mut self) -> Result<(), Rejection> {
        loop {
            self.inner.read_response_header().await.map_err(|error| {
                let mut rejection = read_failure(&error);
                // Nothing came, so nothing was cut short.
                if rejection.kind == Kind::UpstreamTruncated {
                    rejection.kind = Kind::UpstreamReset;
                }
                rejection
            })?;
            match self.inner.response_header().map(|head| head.status) {
                Some(status) if status.is_informational() && status != http::StatusCode::SWITCHING_PROTOCOLS => {}
                _ => return Ok(()),
            }
        }
    }

    /// The head that was read.
    pub(super) fn response(&self) -> Option<&ResponseHeader> {
        self.inner.response_header()
    }

    /// Reads what there is of the body into `take`: at least one piece, `false` at the end. May be dropped while waiting.
    pub(super) async fn body(&mut self, take: impl FnOnce(&[u8])) -> Result<bool, Rejection> {
        let read = match &mut self.inner {
            HttpSession::H1(session) => match session.read_body_ref().await {
                Ok(Some(piece)) => {
                    take(piece);
                    Ok(true)
                }
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            },
            session => match session.read_response_body().await {
                Ok(Some(piece)) => {
                    take(&piece);
                    Ok(true)
                }
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            },
        };
        read.map_err(|error| read_failure(&error))
    }
}

fn head(upstream: &Upstream, request: &Outgoing<'_>) -> Result<RequestHeader, BError> {
    // "`*/*` or `application/*` admits" protobuf at some agents, so the wish is explicit [specs §4.4].
    let (method, path, accept) = match &request.errand {
        Errand::Run(_) => (http::Method::POST, upstream.path_and_query.as_str(), "text/event-stream"),
        Errand::Start(_) => (http::Method::POST, upstream.path_and_query.as_str(), "application/json"),
        Errand::Events { path, .. } => (http::Method::GET, *path, "text/event-stream"),
    };
    let mut head = RequestHeader::build_no_case(method, path.as_bytes(), Some(8))?;
    for (name, value) in request.fields {
        head.append_header(name, value)?;
    }
    head.insert_header(header::HOST, upstream.authority())?;
    match &request.errand {
        Errand::Run(body) | Errand::Start(body) => {
            head.insert_header(header::CONTENT_TYPE, "application/json")?;
            // Legacy agents often cannot read chunks, so the length is always said.
            head.insert_header(header::CONTENT_LENGTH, body.len().to_string())?;
        }
        Errand::Events { behind: Some(id), .. } => head.insert_header(LAST_EVENT_ID, id.as_bytes())?,
        Errand::Events { behind: None, .. } => {}
    }
    head.insert_header(header::ACCEPT, accept)?;
    head.insert_header(header::ACCEPT_ENCODING, "identity")?;
    head.insert_header(header::USER_AGENT, USER_AGENT)?;
    head.insert_header(REQUEST_ID, request.request_id)?;
    if let Some(traceparent) = request.traceparent {
        head.insert_header(TRACEPARENT, traceparent)?;
    }
    Ok(head)
}

fn connect_failure(error: &BError) -> Rejection {
    let kind = match error.etype() {
        ErrorType::ConnectTimedout | ErrorType::TLSHandshakeTimedout => Kind::UpstreamTimeout,
        _ => Kind::UpstreamUnreachable,
    };
    Rejection::from(kind).cause(error.to_string().trim())
}

/// What a failed read of the response means.
fn read_failure(error: &BError) -> Rejection {
    let kind = match error.etype() {
        ErrorType::ReadTimedout => Kind::UpstreamTimeout,
        ErrorType::InvalidHTTPHeader | ErrorType::H2Error | ErrorType::InvalidH2 => Kind::UpstreamProtocol,
        ErrorType::ConnectionClosed => Kind::UpstreamTruncated,
        ErrorType::Custom("PrematureBodyEnd") => Kind::UpstreamTruncated,
        ErrorType::Custom("InvalidChunk" | "InvalidTrailerEnd") => Kind::UpstreamProtocol,
        _ => Kind::UpstreamReset,
    };
    debug_assert!(*error.esource() != ErrorSource::Downstream, "the agent's side has one peer");
    Rejection::from(kind).cause(error.to_string().trim())
}
