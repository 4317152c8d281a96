//! A plane that listens: its accept loops, and what stands between a connection and its first byte of HTTP.
//!
//! pingora runs it, as one of the services of its server, and gives it its runtime. The loops are our own: pingora's takes
//! whoever comes, shakes hands in a task that lives as long as the connection, and without descriptors of the system (ENFILE)
//! tries again without a pause.

use super::connections::{Connections, Permit};
use super::listener::{Listener, Opened};
use super::proxy_protocol::{self, Named};
use super::sending::Sending;
use super::tls::{self, Tls};
use super::transport::{Transport, Wire};
use super::{Edge, HttpService, SEND_TIMEOUT};
use crate::config::access::TrustedProxies;
use crate::guard::peer::{Origin, Peer};
use crate::proxy::door::Door;
use crate::telemetry::label::Turned;
use crate::telemetry::occurrence::{Accepting, NotAccepting, TurnedAway};
use crate::telemetry::{ListenerMetrics, Metrics};
use async_trait::async_trait;
use pingora_core::server::{ListenFds, ShutdownWatch};
use pingora_core::services::Service as PingoraService;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How long a header of the PROXY protocol may take. It stands in the first packet.
const PROXY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after an accept that failed: long enough not to spin, short enough not to be noticed.
const PAUSE: Duration = Duration::from_millis(200);

/// What a client of HTTP/1 is told that comes when the house is full.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// A plane, before it is served.
#[derive(Debug)]
pub struct Plane {
    /// data or status
    pub name: &'static str,
    /// worker threads
    pub threads: usize,
    /// where it listens
    pub listeners: Vec<Listener>,
    /// how many connections it may have
    pub connections: Connections,
    /// whom the PROXY protocol is believed of
    pub trusted: TrustedProxies,
}

/// Serves `edge` on the listeners of a plane, until its door is closed.
pub fn serving<S: HttpService>(
    plane: Plane,
    edge: Edge<S>,
    metrics: &Metrics,
    door: &Door,
) -> impl PingoraService + 'static {
    let metrics =
        plane.listeners.iter().map(|one| metrics.listener(plane.name, &one.key(), one.listen().tls.is_some()));
    let door = Some((door.shutting(), door.closing()));
    Serving { metrics: metrics.collect(), edge: Arc::new(edge), plane, door }
}

struct Serving<S> {
    plane: Plane,
    edge: Arc<Edge<S>>,
    metrics: Vec<Arc<ListenerMetrics>>,
    /// what listeners watch, and what connections do, until they are served
    door: Option<(ShutdownWatch, ShutdownWatch)>,
}

#[async_trait]
impl<S: HttpService> PingoraService for Serving<S> {
    async fn start_service(&mut self, _: Option<ListenFds>, _: ShutdownWatch, _: usize) {
        let Some((shutting, closing)) = self.door.take() else { return };
        let mut doors = JoinSet::new();
        let Plane { listeners, connections, trusted, .. } = &mut self.plane;
        for (listener, metrics) in listeners.drain(..).zip(&self.metrics) {
            let key = listener.key();
            let (opened, listen, tls) = match listener.open() {
                Ok(opened) => opened,
                Err(error) => {
                    NotAccepting { listener: &key, error: &error, again: false }.emit(metrics);
                    continue;
                }
            };
            let door = Arc::new(Entrance {
                key,
                tls,
                proxied: listen.proxy_protocol.then(|| trusted.clone()),
                connections: connections.clone(),
                metrics: Arc::clone(metrics),
            });
            doors.spawn(stand_at(door, opened, Arc::clone(&self.edge), shutting.clone(), closing.clone()));
        }
        drop(closing);
        while doors.join_next().await.is_some() {}
    }

    fn name(&self) -> &str {
        self.plane.name
    }

    fn threads(&self) -> Option<usize> {
        Some(self.plane.threads)
    }
}

/// What a listener asks of its connections.
struct Entrance {
    /// the listener's address, as configured
    key: String,
    tls: Option<Tls>,
    /// whom the PROXY protocol is believed of, where connections begin with it
    proxied: Option<TrustedProxies>,
    connections: Connections,
    metrics: Arc<ListenerMetrics>,
}

/// Why a connection does not come in, and what a library said about it.
type Refused = (Turned, Option<io::Error>);

/// Accepts until the plane stops to listen.
async fn stand_at<S: HttpService>(
    door: Arc<Entrance>,
    opened: Opened,
    edge: Arc<Edge<S>>,
    mut shutting: ShutdownWatch,
    closing: ShutdownWatch,
) {
    let accepting = async {
        let mut failing = false;
        loop {
            match opened.accept().await {
                Ok((wire, origin)) => {
                    if std::mem::take(&mut failing) {
                        Accepting { listener: &door.key }.emit();
                    }
                    let Some(permit) = door.connections.admit(&door.metrics) else {
                        door.refuse(Turned::Limit, None);
                        door.say_full(&wire);
                        continue;
                    };
                    tokio::spawn(attend(Arc::clone(&door), Arc::clone(&edge), (wire, origin), permit, closing.clone()));
                }
                Err(error) if is_of_the_connection(&error) => {}
                Err(error) => {
                    NotAccepting { listener: &door.key, error: &error, again: failing }.emit(&door.metrics);
                    failing = true;
                    sleep(PAUSE).await;
                }
            }
        }
    };
    let watching = async {
        match &door.tls {
            Some(tls) => {
                tls.begin(&door.key, &door.metrics);
                tls.watch(&door.key, &door.metrics).await;
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = accepting => {}
        () = watching => {}
        // It fails where nobody is left who could say so, and then the process is at its end as well.
        _ = shutting.wait_for(|shutting| *shutting) => {}
    }
}

/// The whole life of a connection.
async fn attend<S: HttpService>(
    door: Arc<Entrance>,
    edge: Arc<Edge<S>>,
    came: (Wire, Origin),
    mut permit: Permit,
    shutdown: ShutdownWatch,
) {
    let mut closing = shutdown.clone();
    let entered = tokio::select! {
        // Boxed: a handshake is over soon, its frame must not be held for as long as the connection lives.
        entered = Box::pin(door.enter(came, &mut permit)) => entered,
        _ = closing.wait_for(|closing| *closing) => return,
    };
    drop(closing);
    let refused = match entered {
        Ok((stream, peer)) => edge.speak(stream, Some(peer), shutdown).await.map_err(|why| (why, None)),
        Err(refused) => Err(refused),
    };
    if let Err((why, error)) = refused {
        door.refuse(why, error.as_ref());
    }
}

impl Entrance {
    /// Everything that comes before HTTP.
    async fn enter(&self, (wire, origin): (Wire, Origin), permit: &mut Permit) -> Result<(Transport, Peer), Refused> {
        // A peer that takes nothing must not hold a run, whatever it speaks.
        let mut stream = Sending::new(wire, SEND_TIMEOUT);
        let origin = match &self.proxied {
            Some(trusted) => self.named(&mut stream, origin, trusted).await?,
            None => origin,
        };
        if !permit.count(origin) {
            self.say_full(stream.get_ref());
            return Err((Turned::AddressLimit, None));
        }
        let Some(tls) = &self.tls else {
            return Ok((Transport::Plain(stream), Peer { origin, tls: false }));
        };
        match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => Ok((Transport::Tls(Box::new(stream)), Peer { origin, tls: true })),
            Ok(Err(error)) => Err((tls::why(&error), Some(error))),
            Err(_) => Err((Turned::TlsTimeout, None)),
        }
    }

    /// Whose connection it is. Who is not trusted has to say it as well, and stays who it is.
    async fn named(
        &self,
        stream: &mut Sending<Wire>,
        sender: Origin,
        trusted: &TrustedProxies,
    ) -> Result<Origin, Refused> {
        let named = match timeout(PROXY_TIMEOUT, proxy_protocol::read(stream)).await {
            Ok(read) => read.map_err(|error| (Turned::ProxyHeader, Some(error)))?,
            Err(_) => return Err((Turned::ProxyTimeout, None)),
        };
        let believed = match sender {
            Origin::Address(address) => trusted.has(address.ip()),
            Origin::Unix => trusted.unix,
        };
        Ok(match named {
            Named::Address(address) if believed => Origin::Address(address),
            _ => sender,
        })
    }

    fn refuse(&self, why: Turned, error: Option<&io::Error>) {
        let cause = error.map(ToString::to_string);
        TurnedAway { listener: &self.key, why, cause: cause.as_deref() }.emit(&self.metrics);
    }

    /// Tells a client that there is no room for it, where it would understand.
    fn say_full(&self, wire: &Wire) {
        if self.tls.is_none() {
            wire.try_say(FULL);
        }
    }
}

/// Whether an accept failed for the connection that would have come, and not for the next one [accept(2), "Error handling"].
fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted};
    use io::ErrorKind::{NetworkDown, NetworkUnreachable};
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | Interrupted
            | HostUnreachable
            | NetworkDown
            | NetworkUnreachable
    )
}
