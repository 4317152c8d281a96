//! The framing of an HTTP/1 response, and a chunk on its way to the socket, in one write with what is around it.

use crate::proxy::spare_buffer;
use bytes::Bytes;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;

/// One chunk and perhaps the end [RFC 9112 §7.1], or only the data if the body ends with the connection.
pub(super) struct Http1Chunk {
    /// of the response, before its first chunk
    pub(super) head: Vec<u8>,
    size_line: SizeLine,
    data: ChunkData,
    suffix: &'static [u8],
    pub(super) is_last: bool,
    written: usize,
}

/// The size of a chunk in hexadecimal digits, and CRLF, at the end of the bytes.
struct SizeLine {
    bytes: [u8; SizeLine::CAPACITY],
    start: usize,
}

impl SizeLine {
    const CAPACITY: usize = 2 * size_of::<usize>() + 2;

    /// Writes the digits without [`std::fmt`], which costs each event as much as its translation.
    fn new(mut size: usize) -> Self {
        let mut line = SizeLine::empty();
        line.push_front(b'\n');
        line.push_front(b'\r');
        while size > 0 {
            line.push_front(b"0123456789ABCDEF"[size % 16]);
            size /= 16;
        }
        line
    }

    const fn empty() -> Self {
        SizeLine { bytes: [0; SizeLine::CAPACITY], start: SizeLine::CAPACITY }
    }

    const fn push_front(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[self.start] = byte;
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Length of data that is copied rather than written as a part of its own.
const SMALL_CHUNK: usize = 1 << 10;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// The place where the body of a response ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFraming {
    /// another request may follow
    Chunked,
    ChunkedThenClose,
    /// the body ends when the connection closes
    UntilClose,
}

impl BodyFraming {
    /// Parses the head once hyper has encoded all of it, skipping interim responses (1xx).
    pub(super) fn parse(encoded: &[u8]) -> Option<BodyFraming> {
        let end = memchr::memmem::find(encoded, HEAD_END)?;
        let (head, rest) = encoded.split_at(end + HEAD_END.len());
        // "HTTP/1.1 100": the first digit of the status.
        if head.get(9) == Some(&b'1') {
            return BodyFraming::parse(rest);
        }
        let mut is_chunked = false;
        let mut closes = false;
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', head) {
            let line = head[start..end].trim_ascii();
            is_chunked |= line.eq_ignore_ascii_case(b"transfer-encoding: chunked");
            closes |= line.eq_ignore_ascii_case(b"connection: close");
            start = end + 1;
        }
        Some(match (is_chunked, closes) {
            (true, false) => BodyFraming::Chunked,
            (true, true) => BodyFraming::ChunkedThenClose,
            (false, _) => BodyFraming::UntilClose,
        })
    }
}

pub(super) enum ChunkData {
    Shared(Bytes),
    /// perhaps the thread's spare buffer
    Owned(Vec<u8>),
}

impl ChunkData {
    fn as_slice(&self) -> &[u8] {
        match self {
            ChunkData::Shared(bytes) => bytes,
            ChunkData::Owned(bytes) => bytes,
        }
    }
}

impl Http1Chunk {
    pub(super) fn new(data: ChunkData, framing: BodyFraming, is_last: bool) -> Self {
        let length = data.as_slice().len();
        let is_chunked = framing != BodyFraming::UntilClose;
        // An empty chunk would end the body.
        let size_line = if is_chunked && length > 0 { SizeLine::new(length) } else { SizeLine::empty() };
        let suffix: &[u8] = match (length, is_last) {
            _ if !is_chunked => b"",
            (1.., true) => b"\r\n0\r\n\r\n",
            (1.., false) => b"\r\n",
            (0, true) => b"0\r\n\r\n",
            (0, false) => b"",
        };
        let mut chunk = Http1Chunk { head: Vec::new(), size_line, data, suffix, is_last, written: 0 };
        chunk.join_small_parts();
        chunk
    }

    /// Puts the framing of a small chunk around its data: writing several parts costs the kernel more than this copy.
    fn join_small_parts(&mut self) {
        if let ChunkData::Owned(bytes) = &mut self.data
            && bytes.len() <= SMALL_CHUNK
        {
            bytes.splice(..0, self.size_line.as_slice().iter().copied());
            bytes.extend_from_slice(self.suffix);
            (self.size_line, self.suffix) = (SizeLine::empty(), b"");
        }
    }

    /// Returns the head of a response, without a chunk.
    pub(super) fn from_head(head: Vec<u8>, framing: BodyFraming) -> Self {
        let mut chunk = Http1Chunk::new(ChunkData::Shared(Bytes::new()), framing, false);
        chunk.head = head;
        chunk
    }

    pub(super) fn is_unsent_head(&self) -> bool {
        !self.head.is_empty() && self.written == 0 && self.data.as_slice().is_empty() && !self.is_last
    }

    pub(super) fn poll_write<I: AsyncWrite + Unpin>(
        &mut self,
        io: &mut I,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let parts = [self.head.as_slice(), self.size_line.as_slice(), self.data.as_slice(), self.suffix];
            if self.written == parts.iter().map(|part| part.len()).sum::<usize>() {
                return Poll::Ready(Ok(()));
            }
            let mut skipped = self.written;
            let slices = parts.map(|part| {
                let (written, rest) = part.split_at(skipped.min(part.len()));
                skipped -= written.len();
                IoSlice::new(rest)
            });
            let mut unwritten = slices.iter().filter(|part| !part.is_empty());
            let write = match (unwritten.next(), unwritten.next()) {
                (Some(part), None) => Pin::new(&mut *io).poll_write(cx, part)?,
                _ => Pin::new(&mut *io).poll_write_vectored(cx, &slices)?,
            };
            match write {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(written) => self.written += written,
                Poll::Pending => {
                    // The spare buffer is mostly larger.
                    if let ChunkData::Owned(bytes) = &mut self.data {
                        bytes.shrink_to_fit();
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}

impl Drop for Http1Chunk {
    fn drop(&mut self) {
        if let ChunkData::Owned(bytes) = &mut self.data {
            spare_buffer::put_back(std::mem::take(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[test]
    fn size_lines_are_hexadecimal() {
        for size in [1, 9, 10, 15, 16, 255, 256, 0x1F_A0, 64 << 10, usize::MAX] {
            let line = SizeLine::new(size);
            let digits = str::from_utf8(line.as_slice()).expect("ASCII").strip_suffix("\r\n").expect("the line's end");
            assert_eq!((usize::from_str_radix(digits, 16), digits.starts_with('0')), (Ok(size), false));
        }
    }

    #[tokio::test]
    async fn writes_chunks_of_all_lengths_in_any_pieces() {
        for length in [0, 1, SMALL_CHUNK - 1, SMALL_CHUNK, SMALL_CHUNK + 1, 5 * SMALL_CHUNK] {
            for (is_last, is_owned) in [(false, false), (false, true), (true, false), (true, true)] {
                let text = "x".repeat(length);
                let bytes = text.clone().into_bytes();
                let data = if is_owned { ChunkData::Owned(bytes) } else { ChunkData::Shared(bytes.into()) };
                let mut chunk = Http1Chunk::new(data, BodyFraming::Chunked, is_last);
                chunk.head = b"head".to_vec();
                let (mut client, mut stream) = tokio::io::duplex(7);
                let mut received = String::new();
                let write = async {
                    std::future::poll_fn(|cx| chunk.poll_write(&mut stream, cx)).await.expect("room");
                    drop(stream);
                };
                let (_, read) = tokio::join!(write, client.read_to_string(&mut received));
                read.expect("the end");
                // [RFC 9112 §7.1]
                let mut expected = if length > 0 { format!("head{length:X}\r\n{text}\r\n") } else { "head".into() };
                expected += if is_last { "0\r\n\r\n" } else { "" };
                assert_eq!(received, expected);
            }
        }
    }
}
