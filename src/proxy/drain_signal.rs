//! The way into a plane, which is closed in two steps, each when the process finds it right.
//!
//! ```text
//!   open ── shut ──▶ no new connections ── close ──▶ each connection ends behind what it is doing ──▶ empty
//! ```
//! pingora would close its listeners when the process ends, and drop the connections with it. Here the listeners and the
//! connections watch a door of their plane instead, and the process ends when the doors are empty.

use pingora_core::server::ShutdownWatch;
use tokio::sync::watch;

/// The way into one plane.
#[derive(Debug)]
pub(crate) struct DrainSignal {
    stop_accepting: watch::Sender<bool>,
    close_connections: watch::Sender<bool>,
}

impl Default for DrainSignal {
    fn default() -> Self {
        DrainSignal { stop_accepting: watch::Sender::new(false), close_connections: watch::Sender::new(false) }
    }
}

impl DrainSignal {
    /// Takes no more connections; the sockets are closed here.
    pub(crate) fn stop_accepting(&self) {
        self.stop_accepting.send_replace(true);
    }

    /// Has every connection end: HTTP/1 behind the answer that it is at, HTTP/2 by GOAWAY behind its streams.
    pub(crate) fn close_connections(&self) {
        self.stop_accepting();
        self.close_connections.send_replace(true);
    }

    /// Waits until no connection is left, and nobody listens who could take one.
    pub(crate) async fn wait_drained(&self) {
        self.close_connections.closed().await;
    }

    /// What listeners watch.
    pub(super) fn watch_accepting(&self) -> ShutdownWatch {
        self.stop_accepting.subscribe()
    }

    /// What connections watch. Whoever has it counts as one.
    #[must_use]
    pub(crate) fn watch_closing(&self) -> ShutdownWatch {
        self.close_connections.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn drains_once_the_last_connection_is_closed() {
        let door = DrainSignal::default();
        let (listener, app, connection) = (door.watch_accepting(), door.watch_closing(), door.watch_closing());
        door.stop_accepting();
        assert!(*listener.borrow() && !*connection.borrow());
        door.close_connections();
        assert!(*connection.borrow());
        drop(app);
        assert!(futures_util::poll!(Box::pin(door.wait_drained())).is_pending());
        drop(connection);
        door.wait_drained().await;
    }
}
