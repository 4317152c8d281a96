//! Writes frames and comments, safely for any content.
//!
//! The output decodes to exactly one frame: a line end in data begins another `data` line, and one in an id or event
//! name is rejected. All line ends written are LF.

use std::io::Write as _;

/// An id or event name that contains LF, CR or NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidSseField {
    Id,
    Event,
}

/// Writes one frame. LF, CR and CRLF in `data` each begin another `data` line.
pub(crate) fn write_frame(out: &mut Vec<u8>, data: &str) {
    write_lines(out, b"data: ", data);
    out.push(b'\n');
}

/// Writes one frame with an id and an event name. Fails if either contains LF, CR or NUL, because the client must be
/// able to send back the same id.
pub(crate) fn write_frame_with(
    out: &mut Vec<u8>,
    id: Option<&str>,
    event: Option<&str>,
    data: &str,
) -> Result<(), InvalidSseField> {
    write_fields(out, id, event)?;
    write_frame(out, data);
    Ok(())
}

/// Writes the `id` and `event` lines before [`write_frame`]. An empty id tells the client to clear its last one.
pub(crate) fn write_fields(out: &mut Vec<u8>, id: Option<&str>, event: Option<&str>) -> Result<(), InvalidSseField> {
    if id.is_some_and(|id| !is_single_line(id)) {
        return Err(InvalidSseField::Id);
    }
    if event.is_some_and(|event| !is_single_line(event)) {
        return Err(InvalidSseField::Event);
    }
    for (name, value) in [("id: ", id), ("event: ", event)] {
        if let Some(value) = value {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(value.as_bytes());
            out.push(b'\n');
        }
    }
    Ok(())
}

/// Writes the line `id: <token>-<number>`. The gateway generates the token, so only debug builds check it.
pub(crate) fn write_id(out: &mut Vec<u8>, token: &str, number: u64) {
    debug_assert!(is_single_line(token), "the token of an id does not fit a line");
    // Writing into memory cannot fail.
    let _ = writeln!(out, "id: {token}-{number}");
}

/// Writes a keep-alive comment. Each line of `text` becomes a comment line.
pub(crate) fn write_comment(out: &mut Vec<u8>, text: &str) {
    write_lines(out, b": ", text);
    out.push(b'\n');
}

/// Writes each line of `text` after `prefix`, split as event streams are.
fn write_lines(out: &mut Vec<u8>, prefix: &[u8], text: &str) {
    // Most text is one line.
    out.reserve(prefix.len() + text.len() + 2 * "\n".len());
    let mut rest = text.as_bytes();
    loop {
        out.extend_from_slice(prefix);
        let Some(at) = memchr::memchr2(b'\n', b'\r', rest) else {
            break;
        };
        out.extend_from_slice(&rest[..at]);
        out.push(b'\n');
        let end = if rest[at..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[at + end..];
    }
    out.extend_from_slice(rest);
    out.push(b'\n');
}

fn is_single_line(value: &str) -> bool {
    memchr::memchr3(b'\n', b'\r', 0, value.as_bytes()).is_none()
}
