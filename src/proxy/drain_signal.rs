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
pub struct Door {
    shut: watch::Sender<bool>,
    close: watch::Sender<bool>,
}

impl Default for Door {
    fn default() -> Self {
        Door { shut: watch::Sender::new(false), close: watch::Sender::new(false) }
    }
}

impl Door {
    /// Takes no more connections; the sockets are closed here.
    pub fn shut(&self) {
        self.shut.send_replace(true);
    }

    /// Has every connection end: HTTP/1 behind the answer that it is at, HTTP/2 by GOAWAY behind its streams.
    pub fn close(&self) {
        self.shut();
        self.close.send_replace(true);
    }

    /// Waits until no connection is left, and nobody listens who could take one.
    pub async fn empty(&self) {
        self.close.closed().await;
    }

    /// What listeners watch.
    pub(super) fn shutting(&self) -> ShutdownWatch {
        self.shut.subscribe()
    }

    /// What connections watch. Whoever has it counts as one.
    #[must_use]
    pub fn closing(&self) -> ShutdownWatch {
        self.close.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_door_is_empty_when_the_last_connection_has_gone() {
        let door = Door::default();
        let (listener, app, connection) = (door.shutting(), door.closing(), door.closing());
        door.shut();
        assert!(*listener.borrow() && !*connection.borrow());
        door.close();
        assert!(*connection.borrow());
        drop(app);
        assert!(futures_util::poll!(Box::pin(door.empty())).is_pending());
        drop(connection);
        door.empty().await;
    }
}
