//! Percent-encoding of text that becomes a part of a path or a query.

/// Encodes all but the unreserved characters of RFC 3986 §2.3.
pub(crate) fn percent_encode(text: &str) -> String {
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte: u8| if is_unreserved(byte) { char::from(byte).into() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

/// Maximum number of times that servers and proxies on the way to an agent are assumed to decode a path.
pub(crate) const MAX_DECODINGS: usize = 4;

/// Returns whether a text has a slash, a backslash or a dot segment, plain or percent-encoded. Many servers decode
/// `%2F` before they split a path, some twice. A text that is encoded more often than `MAX_DECODINGS` counts as one,
/// too.
pub(crate) fn has_path_syntax(text: &str) -> bool {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=MAX_DECODINGS {
        // Some servers cut parameters (`..;x`) before they resolve dot segments.
        let name = bytes.split(|byte| *byte == b';').next().unwrap_or_default();
        if bytes.iter().any(|byte| matches!(byte, b'/' | b'\\')) || matches!(name, b"." | b"..") {
            return true;
        }
        let decoded = decode_escapes(&bytes);
        if decoded.len() == bytes.len() {
            return false;
        }
        bytes = decoded;
    }
    true
}

/// Decodes valid escapes and keeps everything else.
fn decode_escapes(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = match after {
            [high, low, ..] if byte == b'%' => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        decoded.push(escaped.map_or(byte, |(high, low)| high << 4 | low));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    decoded
}

pub(crate) fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
