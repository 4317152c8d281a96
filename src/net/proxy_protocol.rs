//! The PROXY protocol, by which a transport-layer proxy sends the client's address: versions 1 and 2
//! (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>).
//!
//! Reads only the header, so that the TLS or HTTP bytes after it remain in the stream.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Version 2 signature: "The binary header format starts with a constant 12 bytes block containing the protocol
/// signature" (§2.2).
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// Maximum length of a version 1 line: "A 108-byte buffer is always enough to store all the line and a trailing zero"
/// (§2.1).
const V1_LINE_LIMIT: usize = 107;

/// Maximum size of a version 2 header and its TLVs, in bytes. Senders keep it within the smallest TCP segment (§2).
const V2_HEADER_LIMIT: usize = 536;

const V2_FIXED_LENGTH: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxySource {
    /// the proxy's own connection, such as a health check, or an unknown client
    Unspecified,
    Address(SocketAddr),
}

/// Reads the header at the start of `stream`.
pub(crate) async fn read_header<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<ProxySource> {
    // The shortest version 1 line is shorter than the fixed part of version 2, but longer than its signature.
    let mut start = [0; SIGNATURE.len()];
    stream.read_exact(&mut start[..6]).await?;
    if &start[..6] == b"PROXY " {
        return read_v1(stream).await;
    }
    if start[..6] != SIGNATURE[..6] {
        return Err(invalid_data("no PROXY protocol header"));
    }
    stream.read_exact(&mut start[6..]).await?;
    if start != *SIGNATURE {
        return Err(invalid_data("no PROXY protocol header"));
    }
    let mut fixed = [0; V2_FIXED_LENGTH - SIGNATURE.len()];
    stream.read_exact(&mut fixed).await?;
    let [version_and_command, family, length @ ..] = fixed;
    let length = usize::from(u16::from_be_bytes(length));
    if V2_FIXED_LENGTH + length > V2_HEADER_LIMIT {
        return Err(invalid_data("the header of the PROXY protocol is too long"));
    }
    let mut rest = [0; V2_HEADER_LIMIT - V2_FIXED_LENGTH];
    stream.read_exact(&mut rest[..length]).await?;
    parse_v2(version_and_command, family, &rest[..length])
        .ok_or_else(|| invalid_data("broken header of the PROXY protocol"))
}

/// Parses a version 2 header after its signature; `rest` begins with the addresses.
fn parse_v2(version_and_command: u8, family: u8, rest: &[u8]) -> Option<ProxySource> {
    match version_and_command {
        // "the receiver must [...] use the real connection endpoints and discard the protocol block including the
        // family which is ignored"
        0x20 => return Some(ProxySource::Unspecified),
        0x21 => {}
        _ => return None,
    }
    let port = |at: usize| Some(u16::from_be_bytes(rest.get(at..at + 2)?.try_into().ok()?));
    match family {
        // AF_UNSPEC and AF_UNIX: no address to which limits could apply
        0x00 | 0x31 | 0x32 => Some(ProxySource::Unspecified),
        // AF_INET: source, destination, their ports
        0x11 | 0x12 => {
            let source: [u8; 4] = rest.get(..4)?.try_into().ok()?;
            (rest.len() >= 12).then_some(())?;
            Some(ProxySource::Address(SocketAddr::new(Ipv4Addr::from(source).into(), port(8)?)))
        }
        // AF_INET6
        0x21 | 0x22 => {
            let source: [u8; 16] = rest.get(..16)?.try_into().ok()?;
            (rest.len() >= 36).then_some(())?;
            Some(ProxySource::Address(SocketAddr::new(Ipv6Addr::from(source).into(), port(32)?)))
        }
        _ => None,
    }
}

/// Reads the rest of a version 1 header after its first word.
async fn read_v1<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<ProxySource> {
    let mut line = Vec::with_capacity(V1_LINE_LIMIT);
    // One byte at a time, since no byte after the line may be read. The line is short, and each connection has only
    // one.
    while !line.ends_with(b"\r\n") {
        if "PROXY ".len() + line.len() == V1_LINE_LIMIT {
            return Err(invalid_data("the header of the PROXY protocol is too long"));
        }
        line.push(stream.read_u8().await?);
    }
    let line = std::str::from_utf8(&line[..line.len() - 2]).ok();
    line.and_then(parse_v1).ok_or_else(|| invalid_data("broken header of the PROXY protocol"))
}

/// Parses `TCP4 source destination port port`, separated by single spaces.
fn parse_v1(line: &str) -> Option<ProxySource> {
    let mut words = line.split(' ');
    let family = words.next()?;
    // "the receiver must ignore anything presented before the CRLF is found"
    if family == "UNKNOWN" {
        return Some(ProxySource::Unspecified);
    }
    let mut address = || words.next()?.parse::<IpAddr>().ok();
    let source = address()?;
    let destination = address()?;
    let mut port = || words.next().filter(|port| port.bytes().all(|each| each.is_ascii_digit()))?.parse::<u16>().ok();
    let source_port = port()?;
    port()?;
    let fits = match family {
        "TCP4" => source.is_ipv4() && destination.is_ipv4(),
        "TCP6" => source.is_ipv6() && destination.is_ipv6(),
        _ => false,
    };
    (fits && words.next().is_none()).then(|| ProxySource::Address(SocketAddr::new(source, source_port)))
}

fn invalid_data(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    /// Reads `bytes` that arrive in two parts; returns the result and the rest of the stream.
    async fn read_at_split(bytes: &[u8], cut: usize) -> (io::Result<ProxySource>, Vec<u8>) {
        let (mut peer, mut stream) = tokio::io::duplex(1 << 12);
        let (first, second) = bytes.split_at(cut);
        let (first, second) = (first.to_vec(), second.to_vec());
        tokio::spawn(async move {
            for part in [first, second] {
                peer.write_all(&part).await.expect("room");
                tokio::task::yield_now().await;
            }
        });
        let named = read_header(&mut stream).await;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.expect("the rest");
        (named, rest)
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
        [SIGNATURE.as_slice(), &[command, family], &length, rest].concat()
    }

    fn named_address(address: &str) -> ProxySource {
        ProxySource::Address(address.parse().expect("an address"))
    }

    #[tokio::test]
    async fn reads_the_header_at_every_split_and_nothing_more() {
        let v4 = [&[192, 0, 2, 7, 10, 0, 0, 1], &0x1234_u16.to_be_bytes()[..], &443_u16.to_be_bytes()].concat();
        let (source, destination) = (Ipv6Addr::from(0x2001_0db8_u128 << 96 | 7).octets(), [0; 16]);
        let v6 = [&source[..], &destination, &[0x12, 0x34, 1, 0xbb]].concat();
        // TLVs that the parser skips: PP2_TYPE_AUTHORITY, PP2_TYPE_NOOP.
        let vectors = [v4.as_slice(), &[0x02, 0, 4, b'h', b'o', b's', b't', 0x04, 0, 0]].concat();
        let rows: &[(Vec<u8>, ProxySource)] = &[
            (b"PROXY TCP4 192.0.2.7 10.0.0.1 4660 443\r\n".to_vec(), named_address("192.0.2.7:4660")),
            (b"PROXY TCP6 2001:db8::7 ::1 4660 443\r\n".to_vec(), named_address("[2001:db8::7]:4660")),
            (b"PROXY UNKNOWN\r\n".to_vec(), ProxySource::Unspecified),
            (b"PROXY UNKNOWN ffff::1 whatever\r\n".to_vec(), ProxySource::Unspecified),
            (v2(0x21, 0x11, &v4), named_address("192.0.2.7:4660")),
            (v2(0x21, 0x12, &v4), named_address("192.0.2.7:4660")),
            (v2(0x21, 0x21, &v6), named_address("[2001:db8::7]:4660")),
            (v2(0x21, 0x11, &vectors), named_address("192.0.2.7:4660")),
            (v2(0x21, 0x00, &[]), ProxySource::Unspecified),
            (v2(0x21, 0x31, &[0; 216]), ProxySource::Unspecified),
            (v2(0x20, 0x00, &[]), ProxySource::Unspecified),
            (v2(0x20, 0x11, &v4), ProxySource::Unspecified),
            (
                v2(0x21, 0x11, &[v4.as_slice(), &[0; V2_HEADER_LIMIT - V2_FIXED_LENGTH - 12]].concat()),
                named_address("192.0.2.7:4660"),
            ),
        ];
        for (header, expected) in rows {
            let bytes = [header.as_slice(), b"GET / HTTP/1.1\r\n\r\n"].concat();
            for cut in 0..=bytes.len() {
                let (read, rest) = read_at_split(&bytes, cut).await;
                assert_eq!(read.expect("a header"), *expected, "cut at {cut} of {header:?}");
                assert_eq!(rest, b"GET / HTTP/1.1\r\n\r\n", "cut at {cut} of {header:?}");
            }
            for end in 0..header.len() {
                let (read, _) = read_at_split(&header[..end], end).await;
                assert_eq!(read.expect_err("half a header").kind(), io::ErrorKind::UnexpectedEof, "end at {end}");
            }
        }
    }

    #[tokio::test]
    async fn refuses_malformed_headers() {
        let mut wrong_signature = v2(0x21, 0x11, &[0; 12]);
        wrong_signature[11] = b'!';
        let rows: &[Vec<u8>] = &[
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 4660\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 4660 443 \r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7  10.0.0.1 4660 443\r\n".to_vec(),
            b"PROXY TCP4 2001:db8::7 ::1 4660 443\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 +466 443\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 99999 443\r\n".to_vec(),
            b"PROXY UDP4 192.0.2.7 10.0.0.1 4660 443\r\n".to_vec(),
            b"PROXY TCP4 \xff\r\n".to_vec(),
            [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200]].concat(),
            wrong_signature,
            v2(0x11, 0x11, &[0; 12]),
            v2(0x22, 0x11, &[0; 12]),
            v2(0x21, 0x11, &[0; 11]),
            v2(0x21, 0x21, &[0; 35]),
            v2(0x21, 0x41, &[0; 12]),
            v2(0x21, 0x11, &[0; V2_HEADER_LIMIT - V2_FIXED_LENGTH + 1]),
        ];
        for row in rows {
            let (read, _) = read_at_split(row, row.len()).await;
            assert_eq!(read.expect_err("no header").kind(), io::ErrorKind::InvalidData, "{row:?}");
        }
    }
}
