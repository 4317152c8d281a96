//! Connections from within the process, which are served as those of clients are: the inspector's playground is a
//! client like any other, and needs no address at which clients can reach the data plane.

use super::server::{EdgeServer, HttpService};
use crate::config::inspect::CaptureMode;
use crate::net::peer_addr::PeerInfo;
use pingora_core::server::ShutdownWatch;
use std::sync::Arc;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

/// Connections that wait to be accepted.
const BACKLOG: usize = 16;

/// Bytes on their way in each direction of a connection.
const STREAM_BUFFER: usize = 16 << 10;

struct LocalConnection {
    stream: DuplexStream,
    peer: PeerInfo,
}

/// Opens connections to the plane that has the other end.
#[derive(Clone)]
pub(crate) struct LocalConnector(mpsc::Sender<LocalConnection>);

/// The other end of a [`LocalConnector`].
#[derive(Debug)]
pub(crate) struct LocalListener(mpsc::Receiver<LocalConnection>);

impl LocalConnector {
    pub(crate) fn new() -> (LocalConnector, LocalListener) {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        (LocalConnector(sender), LocalListener(receiver))
    }

    /// Opens a connection of `peer`. Returns `None` if the plane accepts no more.
    pub(crate) async fn connect(&self, peer: PeerInfo) -> Option<DuplexStream> {
        let (client, stream) = tokio::io::duplex(STREAM_BUFFER);
        self.0.send(LocalConnection { stream, peer }).await.ok()?;
        Some(client)
    }
}

/// Serves connections on the runtime of the plane until it accepts no more.
pub(super) async fn accept_loop<S: HttpService>(
    mut listener: LocalListener,
    capture: CaptureMode,
    edge: Arc<EdgeServer<S>>,
    mut shutting: ShutdownWatch,
    closing: ShutdownWatch,
) {
    let accepting = async {
        while let Some(LocalConnection { stream, peer }) = listener.0.recv().await {
            let (edge, closing) = (Arc::clone(&edge), closing.clone());
            // The client of a connection that says nothing has closed it.
            tokio::spawn(async move { edge.serve_connection(stream, Some(peer), capture, closing).await });
        }
    };
    tokio::select! {
        () = accepting => {}
        // An error means that the sender was dropped because the process is ending.
        _ = shutting.wait_for(|shutting| *shutting) => {}
    }
}
