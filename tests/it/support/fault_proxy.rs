//! A TCP proxy with network faults: it delays, trickles, stalls and breaks connections.
//!
//! ```text
//!   client ── towards ──▶ FaultProxy ── towards ──▶ server
//!          ◀─── back ────            ◀─── back ────
//! ```
//! Each direction has its own fault; a connection keeps the faults that were set when it was opened.

use super::eventually;
use socket2::SockRef;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// The fault of one direction. Byte counts begin at the start of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// nothing
    None,
    /// every piece is so late
    Delay(Duration),
    /// every piece is late by another time, up to this
    Jitter(Duration),
    /// every byte in a packet of its own
    Trickle,
    /// so many bytes, and the rest in other packets
    Split(usize),
    /// both directions are closed behind so many bytes
    Cut(usize),
    /// both ends are reset behind so many bytes
    Reset(usize),
    /// closes this direction after so many bytes; the other continues
    HalfClose(usize),
    /// passes nothing after so many bytes, without closing
    Stall(usize),
}

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// from who connected
    Towards,
    /// to who connected
    Back,
}

/// The end of a direction.
enum TransferEnd {
    /// its sender closed it, which was passed on
    Closed,
    /// its sender closed it, without an end for the receiver
    Silently,
    /// the connection is to be closed
    Cut,
    /// the connection is to be reset
    Reset,
}

#[derive(Debug)]
struct Shared {
    to: SocketAddr,
    /// towards and back, of one connection after the other
    faults: Mutex<Vec<(Fault, Fault)>>,
    accepted: AtomicUsize,
    open: AtomicUsize,
    /// ends the connections that are open
    severed: Notify,
}

/// A proxy before one address.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl FaultProxy {
    pub async fn start(to: SocketAddr) -> FaultProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared {
            to,
            faults: Mutex::new(vec![(Fault::None, Fault::None)]),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            severed: Notify::new(),
        });
        tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    let number = shared.accepted.fetch_add(1, Ordering::Relaxed);
                    shared.open.fetch_add(1, Ordering::Relaxed);
                    let shared = Arc::clone(&shared);
                    tokio::spawn(async move {
                        // A broken connection ends at both sides.
                        let _ = shared.pass(client, number).await;
                        shared.open.fetch_sub(1, Ordering::Relaxed);
                    });
                }
            }
        });
        FaultProxy { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the fault of new connections.
    pub fn set(&self, direction: Direction, fault: Fault) {
        self.set_sequence([(direction, fault)]);
    }

    /// The same, one after the other, and then from the first again.
    pub fn set_sequence(&self, faults: impl IntoIterator<Item = (Direction, Fault)>) {
        let of_one = |(direction, fault)| match direction {
            Direction::Towards => (fault, Fault::None),
            Direction::Back => (Fault::None, fault),
        };
        *self.shared.faults.lock().expect("whole") = faults.into_iter().map(of_one).collect();
    }

    /// Nothing becomes of them any more.
    pub fn clear_faults(&self) {
        self.set(Direction::Towards, Fault::None);
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Closes every connection that is open, so that the next ones have the fault that is set.
    pub fn disconnect_all(&self) {
        self.shared.severed.notify_waiters();
    }

    /// Waits until no connection is open.
    pub async fn wait_until_idle(&self) {
        let open = async || (self.shared.open.load(Ordering::Relaxed) == 0).then_some(());
        eventually("the end of all connections", open).await;
    }
}

impl Shared {
    async fn pass(&self, client: TcpStream, number: usize) -> std::io::Result<()> {
        let (towards, back) = {
            let faults = self.faults.lock().expect("whole");
            faults[number % faults.len()]
        };
        let server = TcpStream::connect(self.to).await?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let severed = self.severed.notified();
        let over = {
            let there = self.transfer(&mut from_client, &mut to_server, towards);
            let here = self.transfer(&mut from_server, &mut to_client, back);
            tokio::pin!(there, here);
            tokio::select! {
                over = &mut there => match over? {
                    TransferEnd::Closed => here.await?,
                    // If the client has left, there is no other side to wait for.
                    over => over,
                },
                over = &mut here => match over? {
                    TransferEnd::Closed | TransferEnd::Silently => there.await?,
                    over => over,
                },
                () = severed => TransferEnd::Cut,
            }
        };
        if matches!(over, TransferEnd::Reset) {
            for stream in [to_client.as_ref(), to_server.as_ref()] {
                SockRef::from(stream).set_linger(Some(Duration::ZERO))?;
            }
        }
        Ok(())
    }

    /// Carries one direction to its end.
    async fn transfer(
        &self,
        from: &mut OwnedReadHalf,
        to: &mut OwnedWriteHalf,
        fault: Fault,
    ) -> std::io::Result<TransferEnd> {
        let (mut piece, mut so_far, mut turn) = (vec![0; 16 << 10], 0, 0_u32);
        let limit = match fault {
            Fault::Split(at) | Fault::Cut(at) | Fault::Reset(at) | Fault::HalfClose(at) | Fault::Stall(at) => Some(at),
            Fault::None | Fault::Delay(_) | Fault::Jitter(_) | Fault::Trickle => None,
        };
        loop {
            if limit == Some(so_far) {
                match fault {
                    Fault::Cut(_) => return Ok(TransferEnd::Cut),
                    Fault::Reset(_) => return Ok(TransferEnd::Reset),
                    Fault::HalfClose(_) => {
                        to.shutdown().await?;
                        // Later bytes are discarded.
                        while from.read(&mut piece).await? > 0 {}
                        return Ok(TransferEnd::Closed);
                    }
                    Fault::Stall(_) => {
                        // A hole: what comes is gone, and so is the news that nothing more will.
                        while from.read(&mut piece).await? > 0 {}
                        return Ok(TransferEnd::Silently);
                    }
                    _ => {}
                }
            }
            let most =
                limit.filter(|limit| *limit > so_far).map_or(piece.len(), |limit| (limit - so_far).min(piece.len()));
            let read = from.read(&mut piece[..most]).await?;
            if read == 0 {
                to.shutdown().await?;
                return Ok(TransferEnd::Closed);
            }
            turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match fault {
                Fault::Delay(time) => tokio::time::sleep(time).await,
                Fault::Jitter(most) => tokio::time::sleep(most * (turn >> 24) / 255).await,
                _ => {}
            }
            if fault == Fault::Trickle {
                for byte in &piece[..read] {
                    to.write_all(&[*byte]).await?;
                    tokio::task::yield_now().await;
                }
            } else {
                to.write_all(&piece[..read]).await?;
            }
            so_far += read;
        }
    }
}
