//! Drains one plane, in two steps.
//!
//! ```text
//!   open ── stop_accepting ──▶ no new connections ── close_connections ──▶ each ends after its current work ──▶ drained
//! ```
//! pingora closes its listeners and drops the connections when the process ends. Here, listeners and connections watch
//! the signal of their plane, and the process ends when every plane has drained.

use pingora_core::server::ShutdownWatch;
use tokio::sync::watch;

#[derive(Debug, Default)]
pub(crate) struct DrainSignal {
    stop_accepting: watch::Sender<bool>,
    close_connections: watch::Sender<bool>,
}

impl DrainSignal {
    pub(crate) fn stop_accepting(&self) {
        self.stop_accepting.send_replace(true);
    }

    /// Closes all connections: HTTP/1 after the current response, HTTP/2 by GOAWAY once its streams end.
    pub(crate) fn close_connections(&self) {
        self.stop_accepting();
        self.close_connections.send_replace(true);
    }

    /// Waits until all connections and listeners are closed.
    pub(crate) async fn wait_drained(&self) {
        self.close_connections.closed().await;
    }

    pub(super) fn watch_accepting(&self) -> ShutdownWatch {
        self.stop_accepting.subscribe()
    }

    /// Subscribes to the closing of connections. The subscriber counts as a connection.
    pub(crate) fn watch_closing(&self) -> ShutdownWatch {
        self.close_connections.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn drains_once_the_last_connection_is_closed() {
        let drain = DrainSignal::default();
        let listener = drain.watch_accepting();
        let app = drain.watch_closing();
        let connection = drain.watch_closing();
        drain.stop_accepting();
        assert!(*listener.borrow() && !*connection.borrow());
        drain.close_connections();
        assert!(*connection.borrow());
        drop(app);
        assert!(futures_util::poll!(Box::pin(drain.wait_drained())).is_pending());
        drop(connection);
        drain.wait_drained().await;
    }
}
