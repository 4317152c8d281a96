//! Frames of HTTP/2, for what no library would send.

/// Start of a connection [RFC 9113 §3.4].
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types and flags of frames [RFC 9113 §6].
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// Settings [RFC 9113 §6.5.2].
pub const INITIAL_WINDOW_SIZE: u16 = 4;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A field as "Literal Header Field without Indexing -- New Name" [RFC 7541 §6.2.2], its texts shorter than 127.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).expect("short");
    [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

/// `POST http://a/run`, with more fields.
pub fn head(more: &[(&str, &str)]) -> Vec<u8> {
    head_for("POST", "/run", more)
}

pub fn head_for(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let own = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "a")];
    own.iter().chain(more).flat_map(|(name, value)| field(name, value)).collect()
}

/// The beginning of a connection whose streams may be sent `window` bytes, and all of them together as much as there is.
pub fn beginning(window: u32) -> Vec<u8> {
    let setting = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &window.to_be_bytes()].concat();
    let more = (i32::MAX as u32 - 65_535).to_be_bytes();
    [PREFACE, &frame(SETTINGS, 0, 0, &setting), &frame(WINDOW_UPDATE, 0, 0, &more)].concat()
}

/// A whole request on a stream.
pub fn request(stream: u32, path: &str, body: &[u8]) -> Vec<u8> {
    let head = head_for("POST", path, &[("content-type", "application/json")]);
    [frame(HEADERS, END_HEADERS, stream, &head), frame(DATA, END_STREAM, stream, body)].concat()
}

/// The numbers of a client's first streams.
pub fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|stream| 2 * stream + 1)
}
