//! Finds the requests that h2 refuses because of the size of their heads, which it neither reports nor counts.
//!
//! h2 answers them with a response of one field, the status 431, and no other response of the gateway has only one:
//! hyper adds a `date`. So such a response is found among the bytes that are written.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Length of the head of a frame [RFC 9113 §4.1].
const FRAME_HEAD: usize = 9;

/// Bytes of a field block that tell whether it has one field.
const BLOCK_START: usize = 2;

const HEADERS: u8 = 1;

/// The flags END_STREAM and END_HEADERS, without others.
const WHOLE_RESPONSE: u8 = 0x5;

/// "Literal Header Field with Incremental Indexing -- Indexed Name" [RFC 7541 §6.2.1] with the name `:status`.
const LITERAL_STATUS: u8 = 0x48;

/// Calls `on_refusal` for each request that h2 refuses.
pub(super) struct RefusalFinder<S, F> {
    stream: S,
    frames: FrameScan,
    on_refusal: F,
}

impl<S, F> RefusalFinder<S, F> {
    pub(super) fn new(stream: S, on_refusal: F) -> Self {
        RefusalFinder { stream, frames: FrameScan::default(), on_refusal }
    }
}

/// The position within the frames that are written.
#[derive(Debug, Default)]
struct FrameScan {
    start: [u8; FRAME_HEAD + BLOCK_START],
    filled: usize,
    /// bytes of the frame that are not looked at
    rest: usize,
}

impl FrameScan {
    /// Returns the number of refusals in bytes that were written.
    fn count(&mut self, mut bytes: &[u8]) -> usize {
        let mut refusals = 0;
        while let Some((first, others)) = bytes.split_first() {
            if self.rest > 0 {
                let skipped = self.rest.min(bytes.len());
                self.rest -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            self.start[self.filled] = *first;
            self.filled += 1;
            bytes = others;
            let [high, middle, low, kind, flags, ..] = self.start;
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            let looked_at = length.min(BLOCK_START);
            if self.filled == FRAME_HEAD + looked_at {
                let is_whole = kind == HEADERS && flags == WHOLE_RESPONSE;
                let [.., first, second] = self.start;
                refusals += usize::from(is_whole && has_one_field(length, first, second));
                self.rest = length - looked_at;
                self.filled = 0;
            }
        }
        refusals
    }
}

/// Returns whether a field block has one field: an indexed one, or a literal status.
fn has_one_field(length: usize, first: u8, second: u8) -> bool {
    length == 1 || (first == LITERAL_STATUS && length == BLOCK_START + usize::from(second & 0x7f))
}

impl<S: AsyncRead + Unpin, F: Unpin> AsyncRead for RefusalFinder<S, F> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin, F: FnMut() + Unpin> AsyncWrite for RefusalFinder<S, F> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.as_mut().poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let RefusalFinder { stream, frames, on_refusal } = &mut *self;
        let written = ready!(Pin::new(stream).poll_write_vectored(cx, bytes))?;
        let mut left = written;
        for slice in bytes {
            let sent = &slice[..left.min(slice.len())];
            left -= sent.len();
            (0..frames.count(sent)).for_each(|_| on_refusal());
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    #[test]
    fn finds_responses_of_one_field_at_every_split() {
        // The fields are those of RFC 7541, C.6: a status, a date, an indexed field.
        let frames = [
            frame(4, 0, &[0; 6]),
            frame(HEADERS, WHOLE_RESPONSE, &[LITERAL_STATUS, 0x82, 0x64, 0x02]),
            frame(HEADERS, WHOLE_RESPONSE, &[LITERAL_STATUS, 0x82, 0x64, 0x02, 0xbf]),
            frame(HEADERS, WHOLE_RESPONSE, &[0xbe]),
            frame(HEADERS, 4, &[0xbe]),
            frame(0, 1, &[0xbe]),
            frame(0, 0, &[]),
            frame(HEADERS, WHOLE_RESPONSE, &[0xbe, 0xbf]),
            frame(0, 1, &frame(HEADERS, WHOLE_RESPONSE, &[0xbe])),
            frame(HEADERS, WHOLE_RESPONSE, &[0xbe]),
        ]
        .concat();
        for split in 0..=frames.len() {
            let mut scan = FrameScan::default();
            let (first, second) = frames.split_at(split);
            assert_eq!(scan.count(first) + scan.count(second), 3, "{split}");
        }
        let mut scan = FrameScan::default();
        assert_eq!(frames.iter().map(|byte| scan.count(&[*byte])).sum::<usize>(), 3);
    }
}
