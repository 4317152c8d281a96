//! The PROXY protocol header of a connection.

use crate::net::proxy_protocol::{ProxySource, read_header};
use futures_util::FutureExt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};

/// The result of reading a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadHeader {
    /// `None` for a header without an address
    pub source: Result<Option<SocketAddr>, io::ErrorKind>,
    /// bytes taken from the connection
    pub consumed: usize,
}

/// Reads the header of a connection whose bytes arrive in these pieces.
#[must_use]
pub fn read_proxy_header(pieces: &[&[u8]]) -> ReadHeader {
    let mut connection = PieceReader { pieces, consumed: 0 };
    // All pieces are there, so nothing is waited for.
    let read = read_header(&mut connection).now_or_never().unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()));
    let source = match read {
        Ok(ProxySource::Unspecified) => Ok(None),
        Ok(ProxySource::Address(address)) => Ok(Some(address)),
        Err(error) => Err(error.kind()),
    };
    ReadHeader { source, consumed: connection.consumed }
}

/// Returns at most one piece for each read.
struct PieceReader<'p> {
    pieces: &'p [&'p [u8]],
    consumed: usize,
}

impl AsyncRead for PieceReader<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut start = 0;
        for piece in self.pieces {
            let end = start + piece.len();
            if self.consumed < end {
                let rest = &piece[self.consumed - start..];
                let taken = rest.len().min(to.remaining());
                to.put_slice(&rest[..taken]);
                self.consumed += taken;
                break;
            }
            start = end;
        }
        Poll::Ready(Ok(()))
    }
}
