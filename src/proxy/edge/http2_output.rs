//! Bounds what h2 holds for clients that do not take it.
//!
//! ```text
//!   body ─▶ Http2Body ─▶ UnsentBytes, in hyper's task and h2's queue ─▶ written, or dropped with the stream
//!                        counted for the connection and for the process
//! ```
//! A client may open its flow-control windows and read nothing from its socket, or open its window by one byte. Neither
//! run nor pipe notices, since h2 has taken the bytes, and a stream that is reset keeps them until its connection can
//! write. So bytes count from leaving the body until h2 drops them; beyond the limit, the connection that holds most is
//! closed. So does the place of each piece in h2's queue, which h2 keeps until the connection ends: a response of small
//! pieces takes much more in places than in bytes.

use super::activity::ActiveRequest;
use super::connection_limit::RequestPermit;
use crate::sync::Mutex;
use crate::telemetry::Metrics;
use crate::telemetry::internal_event::Http2ConnectionCutOff;
use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::sync::Notify;

/// Maximum number of bytes that all HTTP/2 clients together have been sent and have not taken.
const UNSENT_LIMIT: usize = 16 << 20;

/// Memory of the place of a piece in h2's queue, which grows by doubling.
const PLACE_SIZE: usize = 512;

/// Places of a connection that do not count: one or two for each stream.
const FREE_PLACES: usize = 64;

/// Counts the unsent bytes of all HTTP/2 connections.
pub(crate) struct UnsentBudget {
    limit: usize,
    bytes: AtomicUsize,
    connections: Mutex<OpenConnections>,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    last_number: u64,
    by_number: HashMap<u64, Arc<ConnectionUnsent>>,
}

#[derive(Debug)]
struct ConnectionUnsent {
    bytes: AtomicUsize,
    pieces: AtomicUsize,
    /// the most pieces that were unsent at once, or [`FREE_PLACES`]
    places: AtomicUsize,
    is_cut_off: AtomicBool,
    cut_off: Notify,
}

impl ConnectionUnsent {
    fn new() -> Self {
        ConnectionUnsent {
            bytes: AtomicUsize::new(0),
            pieces: AtomicUsize::new(0),
            places: AtomicUsize::new(FREE_PLACES),
            is_cut_off: AtomicBool::new(false),
            cut_off: Notify::new(),
        }
    }

    fn place_bytes(&self) -> usize {
        (self.places.load(Ordering::Relaxed) - FREE_PLACES) * PLACE_SIZE
    }

    fn held_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) + self.place_bytes()
    }

    /// Adds a piece, and returns the memory that it takes.
    fn add(&self, bytes: usize) -> usize {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let pieces = self.pieces.fetch_add(1, Ordering::Relaxed) + 1;
        let places = self.places.fetch_max(pieces, Ordering::Relaxed);
        bytes + pieces.saturating_sub(places) * PLACE_SIZE
    }
}

/// The unsent bytes of one connection, registered until dropped.
pub(super) struct ConnectionOutput {
    budget: Arc<UnsentBudget>,
    number: u64,
    unsent: Arc<ConnectionUnsent>,
}

impl UnsentBudget {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        UnsentBudget::with_limit(UNSENT_LIMIT, metrics)
    }

    pub(super) fn with_limit(limit: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(UnsentBudget { limit, bytes: AtomicUsize::new(0), connections: Mutex::default(), metrics })
    }

    pub(super) fn register(self: &Arc<Self>) -> Arc<ConnectionOutput> {
        let unsent = Arc::new(ConnectionUnsent::new());
        let mut open = self.connections.lock();
        open.last_number += 1;
        let number = open.last_number;
        open.by_number.insert(number, Arc::clone(&unsent));
        drop(open);
        Arc::new(ConnectionOutput { budget: Arc::clone(self), number, unsent })
    }

    /// Cuts off connections, those that hold most first, until the others are within the limit.
    fn cut_off(&self) {
        let open = self.connections.lock();
        let mut open: Vec<_> = open
            .by_number
            .values()
            .filter(|one| !one.is_cut_off.load(Ordering::Relaxed))
            .map(|one| (one.held_bytes(), one))
            .collect();
        let mut left: usize = open.iter().map(|(bytes, _)| bytes).sum();
        open.sort_unstable_by_key(|(bytes, _)| *bytes);
        while left > self.limit
            && let Some((bytes, most)) = open.pop()
        {
            left -= bytes;
            most.is_cut_off.store(true, Ordering::Relaxed);
            most.cut_off.notify_one();
            Http2ConnectionCutOff { bytes }.emit(&self.metrics);
        }
    }
}

impl ConnectionOutput {
    /// Waits until the connection must be closed.
    pub(super) async fn wait_cut_off(&self) {
        self.unsent.cut_off.notified().await;
    }

    fn add(&self, bytes: usize) {
        let more = self.unsent.add(bytes);
        let all = self.budget.bytes.fetch_add(more, Ordering::Relaxed) + more;
        self.budget.metrics.process.http2_unsent.set_count(all);
        if all > self.budget.limit {
            self.budget.cut_off();
        }
    }

    fn subtract(&self, bytes: usize) {
        self.unsent.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.unsent.pieces.fetch_sub(1, Ordering::Relaxed);
        self.return_bytes(bytes);
    }

    fn return_bytes(&self, bytes: usize) {
        let before = self.budget.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.metrics.process.http2_unsent.set_count(before - bytes);
    }
}

impl Drop for ConnectionOutput {
    fn drop(&mut self) {
        self.budget.connections.lock().by_number.remove(&self.number);
        self.return_bytes(self.unsent.place_bytes());
    }
}

/// A response that h2 has not sent whole: its request counts until then.
struct UnsentResponse {
    request: ActiveRequest,
    _permit: RequestPermit,
    connection: Arc<ConnectionOutput>,
}

/// A body whose bytes count until h2 drops them.
pub(super) struct Http2Body<B> {
    body: B,
    response: Arc<UnsentResponse>,
}

impl<B: Body> Http2Body<B> {
    pub(super) fn new(
        body: B,
        request: ActiveRequest,
        permit: RequestPermit,
        connection: Arc<ConnectionOutput>,
    ) -> Self {
        request.begin_response(body.size_hint());
        Http2Body { body, response: Arc::new(UnsentResponse { request, _permit: permit, connection }) }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Http2Body<B> {
    type Data = UnsentBytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<UnsentBytes>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        frame.map_ok(|frame| frame.map_data(|bytes| UnsentBytes::new(bytes, &self.response)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Http2Body<B> {
    fn drop(&mut self) {
        // From now on, nothing but the connection's activity notices that a client does not take the rest.
        if Arc::strong_count(&self.response) > 1 {
            self.response.request.begin_rest();
        }
    }
}

/// A part of a response on its way through hyper and h2.
pub(super) struct UnsentBytes {
    bytes: Bytes,
    counted: usize,
    response: Arc<UnsentResponse>,
}

impl UnsentBytes {
    fn new(bytes: Bytes, response: &Arc<UnsentResponse>) -> Self {
        response.connection.add(bytes.len());
        UnsentBytes { counted: bytes.len(), bytes, response: Arc::clone(response) }
    }
}

impl Buf for UnsentBytes {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

impl Drop for UnsentBytes {
    fn drop(&mut self) {
        self.response.connection.subtract(self.counted);
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::ConnectionActivity;
    use super::super::connection_limit::ConnectionLimit;
    use super::*;
    use futures_util::FutureExt;
    use http_body_util::{BodyExt, Full};

    async fn take_bytes(connection: &Arc<ConnectionOutput>, length: usize) -> UnsentBytes {
        let request = ConnectionActivity::new().begin_request();
        let permit = ConnectionLimit::for_status().try_begin_request().expect("room");
        let mut body = Http2Body::new(Full::from(vec![0; length]), request, permit, Arc::clone(connection));
        body.frame().await.expect("a frame").expect("no error").into_data().unwrap_or_else(|_| panic!("no data"))
    }

    #[tokio::test]
    async fn cuts_off_the_connections_that_hold_most_until_the_others_fit() {
        let budget = UnsentBudget::with_limit(100, Arc::new(Metrics::new().expect("unique names")));
        let connections = [(); 3].map(|()| budget.register());
        let is_cut = || connections.each_ref().map(|one| one.wait_cut_off().now_or_never().is_some());
        let mut held = Vec::new();
        for (connection, length) in connections.iter().zip([10, 40, 50]) {
            held.push(take_bytes(connection, length).await);
        }
        assert_eq!(is_cut(), [false; 3]);
        held.push(take_bytes(&connections[0], 11).await);
        assert_eq!(is_cut(), [false, false, true]);
        // Until it is closed, it does not count.
        held.push(take_bytes(&connections[0], 39).await);
        assert_eq!(is_cut(), [false; 3]);
        held.push(take_bytes(&connections[1], 1).await);
        assert_eq!(is_cut(), [true, false, false]);
        drop(held);
        assert_eq!(budget.bytes.load(Ordering::Relaxed), 0);
        drop(connections);
        assert!(budget.connections.lock().by_number.is_empty());
    }

    #[tokio::test]
    async fn counts_the_places_of_many_small_pieces_until_the_connection_ends() {
        const PIECES: usize = 1000;
        let limit = PIECES * PLACE_SIZE;
        let budget = UnsentBudget::with_limit(limit, Arc::new(Metrics::new().expect("unique names")));
        let connections = [(); 2].map(|()| budget.register());
        let mut held = Vec::new();
        for connection in &connections {
            for _ in 0..PIECES {
                held.push(take_bytes(connection, 1).await);
            }
            held.clear();
        }
        let [first, second] = connections.each_ref().map(|one| one.wait_cut_off().now_or_never().is_some());
        assert!(first != second && budget.bytes.load(Ordering::Relaxed) > limit, "one of them is closed");
        drop((held, connections));
        assert_eq!(budget.bytes.load(Ordering::Relaxed), 0);
    }
}
