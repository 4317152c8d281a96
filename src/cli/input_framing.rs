//! Splits recorded input: server-sent events (SSE), one JSON event per line (NDJSON), or AG-UI's protobuf. Of a
//! recording of `diglot record`, it splits what the agent sent.
//!
//! SSE bytes are passed on unchanged: `verify` splits them like the real client, and the other commands use
//! [`crate::codec::sse`].

use super::input::{IoFailure, READ_SIZE};
use super::recorded_input::open_agent_stream;
use crate::codec::proto::{self, ProtoDecoder, ProtoError, ProtoStep};
use std::borrow::Cow;
use std::io::Read;

/// U+FEFF in UTF-8, which some editors write at the start of a file.
const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// The names of the fields of SSE. A comment has an empty name.
const SSE_FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

/// Maximum size of lines before the first event of NDJSON, such as a program's own output.
const MAX_FOREIGN_LINES: usize = 64 << 10;

/// Specifies when to read the input as protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtobufInput {
    Never,
    /// protobuf if the first byte is NUL, text otherwise
    Detect,
    Always,
}

/// The framing of the input, detected once.
#[derive(Debug)]
enum InputFraming {
    /// so far only white space, a BOM, and lines that are neither SSE nor JSON objects
    Unknown(Vec<u8>),
    Sse,
    Ndjson {
        /// the incomplete line
        line: Vec<u8>,
        /// whether the last byte was CR, so that a following LF is part of the same line ending
        after_cr: bool,
    },
    Proto(ProtoDecoder),
    /// after an event that is too large
    Unreadable,
}

/// A part of the input.
#[derive(Debug)]
pub(super) enum InputPiece<'a> {
    /// bytes of an event stream, which may be split anywhere
    Bytes(&'a [u8]),
    /// an NDJSON line without its line ending; may be blank
    Line(Cow<'a, str>),
    /// a protobuf message as JSON
    Message {
        text: String,
        /// content parts omitted because their names are unknown
        dropped: usize,
    },
    /// an event over the limit in bytes; the remaining input cannot be read
    TooLarge { limit: usize },
    /// the first bytes of a protobuf frame that the input does not complete
    PartialFrame,
}

/// Reads `input` to its end and passes its pieces to `consumer`. NDJSON lines and protobuf frames have at most `limit`
/// bytes.
///
/// # Errors
/// Fails if the input cannot be read or `consumer` fails.
pub(super) fn read_pieces<E: From<IoFailure>>(
    input: impl Read,
    protobuf: ProtobufInput,
    limit: usize,
    mut consumer: impl FnMut(InputPiece<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut input = open_agent_stream(input)?;
    let mut buffer = vec![0; READ_SIZE];
    let mut detected = None;
    loop {
        let length = input.read(&mut buffer).map_err(IoFailure::Input)?;
        let bytes = &buffer[..length];
        let framing = detected.get_or_insert_with(|| InputFraming::new(protobuf, limit, bytes.first()));
        if bytes.is_empty() {
            return framing.finish(&mut consumer);
        }
        framing.push(bytes, limit, &mut consumer)?;
    }
}

impl InputFraming {
    fn new(protobuf: ProtobufInput, limit: usize, first: Option<&u8>) -> InputFraming {
        let is_proto = match protobuf {
            ProtobufInput::Never => false,
            // The length of a frame is below 2^24, so its first byte is NUL, and no text begins with NUL.
            ProtobufInput::Detect => first == Some(&0),
            ProtobufInput::Always => true,
        };
        if is_proto { InputFraming::Proto(ProtoDecoder::new(limit)) } else { InputFraming::Unknown(Vec::new()) }
    }

    /// Splits `bytes` and passes the pieces to `consumer`.
    fn push<E>(
        &mut self,
        bytes: &[u8],
        limit: usize,
        consumer: &mut impl FnMut(InputPiece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            InputFraming::Unknown(held) => {
                held.extend_from_slice(bytes);
                let is_ndjson = match is_ndjson(held) {
                    None if held.len() <= MAX_FOREIGN_LINES => return Ok(()),
                    decided => decided == Some(true),
                };
                let held = std::mem::take(held);
                // The blanks before the first text belong to no line of NDJSON.
                let first = if is_ndjson { held.iter().position(is_text).unwrap_or(0) } else { held.len() };
                consumer(InputPiece::Bytes(&held[..first]))?;
                if !is_ndjson {
                    *self = InputFraming::Sse;
                    return Ok(());
                }
                *self = InputFraming::Ndjson { line: Vec::new(), after_cr: false };
                self.push(&held[first..], limit, consumer)
            }
            InputFraming::Sse => consumer(InputPiece::Bytes(bytes)),
            InputFraming::Ndjson { line, after_cr } => {
                push_ndjson(line, after_cr, limit, bytes, consumer)?;
                if line.len() <= limit {
                    return Ok(());
                }
                *self = InputFraming::Unreadable;
                consumer(InputPiece::TooLarge { limit })
            }
            InputFraming::Proto(decoder) => push_proto(decoder, bytes, consumer),
            InputFraming::Unreadable => Ok(()),
        }
    }

    /// Ends the input, whose last line may lack a line ending.
    fn finish<E>(&self, consumer: &mut impl FnMut(InputPiece<'_>) -> Result<(), E>) -> Result<(), E> {
        match self {
            InputFraming::Unknown(held) => consumer(InputPiece::Bytes(held)),
            InputFraming::Ndjson { line, .. } if !line.is_empty() => {
                consumer(InputPiece::Line(String::from_utf8_lossy(line)))
            }
            InputFraming::Proto(decoder) if decoder.has_partial_frame() => consumer(InputPiece::PartialFrame),
            _ => Ok(()),
        }
    }
}

/// Passes on complete lines, and stops at one of more than `limit` bytes, which stays in `line`.
fn push_ndjson<E>(
    line: &mut Vec<u8>,
    after_cr: &mut bool,
    limit: usize,
    bytes: &[u8],
    consumer: &mut impl FnMut(InputPiece<'_>) -> Result<(), E>,
) -> Result<(), E> {
    for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
        // CR LF is one line ending.
        if std::mem::replace(after_cr, part.ends_with(b"\r")) && part == b"\n" {
            continue;
        }
        line.extend_from_slice(part.strip_suffix(b"\n").or_else(|| part.strip_suffix(b"\r")).unwrap_or(part));
        if line.len() > limit {
            return Ok(());
        }
        if matches!(part, [.., b'\n' | b'\r']) {
            consumer(InputPiece::Line(String::from_utf8_lossy(line)))?;
            line.clear();
        }
    }
    Ok(())
}

fn push_proto<E>(
    decoder: &mut ProtoDecoder,
    mut bytes: &[u8],
    consumer: &mut impl FnMut(InputPiece<'_>) -> Result<(), E>,
) -> Result<(), E> {
    loop {
        match decoder.next(&mut bytes) {
            ProtoStep::More => return Ok(()),
            ProtoStep::Event { text, dropped } => consumer(InputPiece::Message { text, dropped })?,
            // Passed on as a data URL, like a malformed SSE frame.
            ProtoStep::Unknown { message } | ProtoStep::Malformed { message, .. } => {
                consumer(InputPiece::Message { text: proto::to_data_url(&message), dropped: 0 })?;
            }
            ProtoStep::Failed(ProtoError::FrameTooLarge { limit }) => {
                return consumer(InputPiece::TooLarge { limit });
            }
        }
    }
}

/// Returns whether the input is NDJSON or SSE, or `None` if its next bytes decide. A program may write lines of its own
/// before its first event.
fn is_ndjson(input: &[u8]) -> Option<bool> {
    let mut is_first = true;
    for line in input.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
        let Some(at) = line.iter().position(is_text) else { continue };
        let text = &line[at..];
        match text[0] {
            // No valid SSE line begins with a brace, since that would be a field name.
            b'{' if is_first || text[1..].trim_ascii_start().starts_with(b"\"") => return Some(true),
            b'[' | b':' => return Some(false),
            _ => {}
        }
        for name in SSE_FIELDS {
            match text.strip_prefix(name).map(<[u8]>::first) {
                Some(Some(b':' | b'\n' | b'\r')) => return Some(false),
                Some(None) => return None,
                None if name.starts_with(text) => return None,
                _ => {}
            }
        }
        is_first = false;
    }
    None
}

/// Returns whether a byte is neither white space nor part of a BOM.
pub(super) fn is_text(byte: &u8) -> bool {
    !byte.is_ascii_whitespace() && !BOM.contains(byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Framing;
    use crate::codec::sse::SseLimits;
    use crate::dialect::{AG_UI, PeerDialect};
    use crate::translate::Stream;
    use crate::translate::verify::Verifier;

    /// A program may log to the file before its first event.
    #[test]
    fn finds_the_events_of_ndjson_behind_other_lines() {
        let event = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
        for before in ["starting\n", "dat\nevents: 3\r\n\n", "\u{feff}启动\n{ x\n"] {
            let input = format!("{before}{event}\n");
            for cut in 0..=input.len() {
                let mut lines = Vec::new();
                let halves = input.as_bytes()[..cut].chain(&input.as_bytes()[cut..]);
                read_pieces(halves, ProtobufInput::Detect, usize::MAX, |piece| -> Result<(), IoFailure> {
                    match piece {
                        InputPiece::Line(line) => lines.push(line.into_owned()),
                        InputPiece::Bytes(bytes) => assert!(!bytes.iter().any(is_text), "{input:?} at {cut}"),
                        other => panic!("{other:?} at {cut}"),
                    }
                    Ok(())
                })
                .expect("the input is in memory");
                assert_eq!(lines.last().map(String::as_str), Some(event), "{input:?} at {cut}");
            }
        }
        for sse in ["starting\ndata: {}\n\n", "<html>\nevent\n{\"a\":1}\n", "[\n{\"type\":1}\n", "text\n: c\n"] {
            assert_eq!(is_ndjson(sse.as_bytes()), Some(false), "{sse:?}");
        }
    }

    #[test]
    fn verifies_protobuf_at_every_split() {
        let side = || PeerDialect::new(&AG_UI);
        let mut stream = Stream::new(side(), side(), None, SseLimits::default());
        stream.write_as(Framing::Proto);
        let mut bytes = Vec::new();
        let start = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
        for event in [start, r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#] {
            stream.push_event(event, 0, &mut bytes).expect("no limit is near");
        }
        for cut in 0..=bytes.len() {
            let mut verifier = Verifier::new(side());
            let mut findings = Vec::new();
            let input = bytes[..cut].chain(&bytes[cut..]);
            read_pieces(input, ProtobufInput::Detect, usize::MAX, |piece| -> Result<(), IoFailure> {
                match piece {
                    InputPiece::Message { text, .. } => verifier.push_message(&text, &mut findings),
                    other => panic!("{other:?} at {cut}"),
                }
                Ok(())
            })
            .expect("the input is in memory");
            verifier.finish(&mut findings);
            assert_eq!((verifier.summary().events, &findings[..]), (2, &[][..]), "at {cut}");
        }
    }
}
