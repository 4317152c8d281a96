//! Decodes the body of an HTTP/1.1 response in place [RFC 9112 §6 and §7].

use std::ops::Range;

/// Maximum length of a chunk's extension, and of the trailer section.
const EXTENSION_LIMIT: u16 = 16 << 10;

/// Maximum number of digits of a chunk's size.
const MAX_SIZE_DIGITS: u8 = 15;

/// The framing of a body, and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Http1Body {
    /// `Content-Length`
    Sized {
        left: u64,
    },
    Chunked(ChunkState),
    /// ends with the connection
    UntilClose,
    Ended {
        /// nothing follows, and the connection stays open
        is_reusable: bool,
    },
    /// not a chunk
    Invalid,
}

/// The next byte of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkState {
    Size {
        size: u64,
        digits: u8,
    },
    Extension {
        size: u64,
        length: u16,
    },
    /// the line feed after the size
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataEnd,
    /// the line feed after the data
    DataLineEnd,
    Trailer {
        length: u16,
        is_line_empty: bool,
    },
    /// the line feed of the last, empty line
    LastLineEnd,
}

impl Http1Body {
    pub(super) const CHUNKED: Http1Body = Http1Body::Chunked(ChunkState::START);

    pub(super) const fn sized(length: u64) -> Http1Body {
        match length {
            0 => Http1Body::Ended { is_reusable: true },
            left => Http1Body::Sized { left },
        }
    }

    /// Returns the range that holds the data in `bytes`, which are the next of the connection. Data of several chunks
    /// are moved together. Stops at an invalid chunk; what came before it is in the range.
    pub(super) fn decode(&mut self, bytes: &mut [u8]) -> Range<usize> {
        let (mut at, mut data) = (0, 0..0);
        while at < bytes.len() {
            let available = bytes.len() - at;
            let length = match self {
                Http1Body::Sized { left } => take_bytes(left, available),
                Http1Body::Chunked(ChunkState::Data { left }) => take_bytes(left, available),
                Http1Body::UntilClose => available,
                // Not byte by byte: an agent may send little else.
                Http1Body::Chunked(ChunkState::Extension { length, .. }) if !matches!(bytes[at], b'\r' | b'\n') => {
                    let end = memchr::memchr2(b'\r', b'\n', &bytes[at..]).unwrap_or(available);
                    match u16::try_from(end).ok().and_then(|end| length.checked_add(end)) {
                        Some(total @ ..=EXTENSION_LIMIT) => *length = total,
                        _ => *self = Http1Body::Invalid,
                    }
                    at += end;
                    continue;
                }
                Http1Body::Chunked(state) => {
                    match state.read_line(&bytes[at..]) {
                        0 => {
                            *self = state.read_byte(bytes[at]);
                            at += 1;
                        }
                        length => at += length,
                    }
                    continue;
                }
                Http1Body::Ended { is_reusable } => {
                    *is_reusable = false;
                    break;
                }
                Http1Body::Invalid => break,
            };
            if data.is_empty() {
                data = at..at;
            } else {
                bytes.copy_within(at..at + length, data.end);
            }
            data.end += length;
            at += length;
            match self {
                Http1Body::Sized { left: 0 } => *self = Http1Body::Ended { is_reusable: true },
                Http1Body::Chunked(state @ ChunkState::Data { left: 0 }) => *state = ChunkState::DataEnd,
                _ => {}
            }
        }
        data
    }
}

/// Returns how many of the bytes that are left are available, and subtracts them.
fn take_bytes(left: &mut u64, available: usize) -> usize {
    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(available);
    *left -= length as u64;
    length
}

impl ChunkState {
    const START: ChunkState = ChunkState::Size { size: 0, digits: 0 };

    /// Reads a whole size line, or the line end after the data, and returns its length. Returns 0 for all others: most
    /// chunks need no more, and a state for each of their bytes would cost as much as the translation.
    fn read_line(&mut self, bytes: &[u8]) -> usize {
        let (next, length) = match self {
            ChunkState::Size { digits: 0, .. } => match parse_size_line(bytes) {
                Some((size @ 1.., length)) => (ChunkState::Data { left: size }, length),
                _ => return 0,
            },
            ChunkState::DataEnd if bytes.starts_with(b"\r\n") => (ChunkState::START, 2),
            _ => return 0,
        };
        *self = next;
        length
    }

    fn read_byte(self, byte: u8) -> Http1Body {
        Http1Body::Chunked(match (self, byte) {
            (ChunkState::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F')
                if digits < MAX_SIZE_DIGITS =>
            {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                ChunkState::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (ChunkState::Size { size, digits: 1.. } | ChunkState::Extension { size, .. }, b'\r') => {
                ChunkState::SizeEnd { size }
            }
            (ChunkState::Size { size, digits: 1.. }, b';' | b' ' | b'\t') => ChunkState::Extension { size, length: 0 },
            (ChunkState::SizeEnd { size: 0 }, b'\n') => ChunkState::Trailer { length: 0, is_line_empty: true },
            (ChunkState::SizeEnd { size }, b'\n') => ChunkState::Data { left: size },
            (ChunkState::DataEnd, b'\r') => ChunkState::DataLineEnd,
            (ChunkState::DataLineEnd, b'\n') => ChunkState::START,
            (ChunkState::Trailer { is_line_empty: true, .. }, b'\r') => ChunkState::LastLineEnd,
            (ChunkState::Trailer { length: length @ ..EXTENSION_LIMIT, .. }, _) => {
                ChunkState::Trailer { length: length + 1, is_line_empty: byte == b'\n' }
            }
            (ChunkState::LastLineEnd, b'\n') => return Http1Body::Ended { is_reusable: true },
            _ => return Http1Body::Invalid,
        })
    }
}

/// Parses a size without an extension, and returns it with the length of its line.
fn parse_size_line(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut size = 0;
    for (digits, byte) in bytes.iter().enumerate().take(usize::from(MAX_SIZE_DIGITS) + 1) {
        match char::from(*byte).to_digit(16) {
            Some(digit) => size = size << 4 | u64::from(digit),
            None => return (digits > 0 && bytes[digits..].starts_with(b"\r\n")).then_some((size, digits + 2)),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDED: Http1Body = Http1Body::Ended { is_reusable: true };

    /// Decodes pieces, and returns their data and the state after them.
    fn decode(mut body: Http1Body, pieces: &[&[u8]]) -> (Vec<u8>, Http1Body) {
        let mut data = Vec::new();
        for piece in pieces {
            let mut bytes = piece.to_vec();
            let range = body.decode(&mut bytes);
            data.extend_from_slice(&bytes[range]);
        }
        (data, body)
    }

    #[test]
    fn decodes_chunks_at_every_split() {
        let whole =
            b"5\r\nhello\r\n0a;name=value\r\n, 01234567\r\n00B \t\r\n 0123456789\r\n0;last\r\nA: 1\r\nB: 2\r\n\r\n";
        for at in 0..=whole.len() {
            let (left, right) = whole.split_at(at);
            let decoded = decode(Http1Body::CHUNKED, &[left, right]);
            assert_eq!(decoded, (b"hello, 01234567 0123456789".to_vec(), ENDED), "cut at {at}");
        }
    }

    #[test]
    fn refuses_other_forms_after_the_data_before_them() {
        let longest = format!("1;{}\r\nx\r\n", "e".repeat(EXTENSION_LIMIT.into()));
        assert_eq!(decode(Http1Body::CHUNKED, &[longest.as_bytes()]).0, b"x");
        let long = longest.replacen('e', "ee", 1);
        let endless = format!("0\r\n{}", "A: 1\r\n".repeat(5_000));
        for (text, data) in [
            ("1\r\nx\r\nnot a size\r\n", "x"),
            ("\r\n", ""),
            (";a\r\n", ""),
            ("-1\r\n", ""),
            ("0x1\r\n", ""),
            ("1\nx\r\n", ""),
            ("1;a\nx\r\n", ""),
            ("1\rx", ""),
            ("1\r\nxy\r\n", "x"),
            ("1\r\nx\n", "x"),
            ("fffffffffffffffff\r\n", ""),
            ("0\r\n\rx", ""),
            (long.as_str(), ""),
            (endless.as_str(), ""),
        ] {
            assert_eq!(
                decode(Http1Body::CHUNKED, &[text.as_bytes()]),
                (data.into(), Http1Body::Invalid),
                "{:?}",
                text.get(..40).unwrap_or(text)
            );
        }
    }

    #[test]
    fn detects_bytes_after_the_end() {
        let surplus = Http1Body::Ended { is_reusable: false };
        assert_eq!(decode(Http1Body::CHUNKED, &[b"1\r\nx\r\n0\r\n\r\nHTTP/1.1"]), (b"x".to_vec(), surplus));
        assert_eq!(decode(Http1Body::sized(3), &[b"ab", b"cd"]), (b"abc".to_vec(), surplus));
        assert_eq!(decode(Http1Body::sized(3), &[b"ab", b"c"]), (b"abc".to_vec(), ENDED));
        assert_eq!(decode(Http1Body::sized(0), &[b"a"]), (Vec::new(), surplus));
        assert_eq!(decode(Http1Body::UntilClose, &[b"ab", b"c"]), (b"abc".to_vec(), Http1Body::UntilClose));
    }
}
