//! Splits recorded input: server-sent events (SSE), one JSON event per line (NDJSON), or AG-UI's protobuf.
//!
//! SSE bytes are passed on unchanged: `verify` splits them like the real client, and the other commands use
//! [`crate::codec::sse`].

use crate::codec::proto;
use crate::codec::sse::SseLimits;
use std::borrow::Cow;

/// U+FEFF in UTF-8, which some editors write at the start of a file.
const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// When to read the input as protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtobufInput {
    Never,
    /// if its first byte is NUL
    Detect,
    Always,
}

/// Detects the framing once, from the first byte that is neither white space nor part of a BOM, and splits NDJSON and
/// protobuf.
#[derive(Debug)]
pub(super) struct InputFraming {
    protobuf: ProtobufInput,
    state: FramingState,
}

#[derive(Debug)]
enum FramingState {
    /// no bytes yet
    Start,
    /// only white space and a BOM so far
    Unknown,
    Sse,
    Ndjson {
        /// the incomplete line
        line: Vec<u8>,
        /// whether the last byte was CR, so that a following LF is part of the same line ending
        after_cr: bool,
    },
    Proto(proto::ProtoDecoder),
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
    /// a protobuf frame over the limit in bytes; the remaining input cannot be read
    TooLarge { limit: usize },
}

impl InputFraming {
    pub(super) fn new(protobuf: ProtobufInput) -> Self {
        let state = if protobuf == ProtobufInput::Always { FramingState::new_proto() } else { FramingState::Start };
        InputFraming { protobuf, state }
    }

    /// Returns whether the input so far is SSE.
    pub(super) fn is_event_stream(&self) -> bool {
        matches!(self.state, FramingState::Start | FramingState::Unknown | FramingState::Sse)
    }

    /// Splits `bytes` into pieces and passes each one to `each`.
    ///
    /// # Errors
    /// Returns the first error of `each`.
    pub(super) fn push<E>(
        &mut self,
        mut bytes: &[u8],
        each: &mut impl FnMut(InputPiece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // The length of a frame is below 2^24, so its first byte is NUL, and no text begins with NUL.
        if matches!(self.state, FramingState::Start) && !bytes.is_empty() {
            let is_proto = self.protobuf == ProtobufInput::Detect && bytes[0] == 0;
            self.state = if is_proto { FramingState::new_proto() } else { FramingState::Unknown };
        }
        if matches!(self.state, FramingState::Unknown) {
            match bytes.iter().position(is_text) {
                // No valid SSE line begins with a brace, since that would be a field name.
                Some(first) if bytes[first] == b'{' => {
                    each(InputPiece::Bytes(&bytes[..first]))?;
                    bytes = &bytes[first..];
                    self.state = FramingState::Ndjson { line: Vec::new(), after_cr: false };
                }
                Some(_) => self.state = FramingState::Sse,
                None => {}
            }
        }
        match &mut self.state {
            // The bytes before the first text belong to the first SSE line; other framings ignore them.
            FramingState::Start | FramingState::Unknown | FramingState::Sse => each(InputPiece::Bytes(bytes)),
            FramingState::Ndjson { line, after_cr } => push_ndjson(line, after_cr, bytes, each),
            FramingState::Proto(decoder) => push_proto(decoder, bytes, each),
        }
    }

    /// Ends the input, whose last line may lack a line ending.
    ///
    /// # Errors
    /// Returns the error of `each`.
    pub(super) fn finish<E>(&self, each: &mut impl FnMut(InputPiece<'_>) -> Result<(), E>) -> Result<(), E> {
        match &self.state {
            FramingState::Ndjson { line, .. } if !line.is_empty() => {
                each(InputPiece::Line(String::from_utf8_lossy(line)))
            }
            // A truncated protobuf frame is ignored.
            _ => Ok(()),
        }
    }
}

impl FramingState {
    fn new_proto() -> Self {
        FramingState::Proto(proto::ProtoDecoder::new(SseLimits::default().frame))
    }
}

fn push_ndjson<E>(
    line: &mut Vec<u8>,
    after_cr: &mut bool,
    bytes: &[u8],
    each: &mut impl FnMut(InputPiece<'_>) -> Result<(), E>,
) -> Result<(), E> {
    for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
        // CR LF is one line ending.
        if std::mem::replace(after_cr, part.ends_with(b"\r")) && part == b"\n" {
            continue;
        }
        line.extend_from_slice(part);
        if matches!(part, [.., b'\n' | b'\r']) {
            line.pop();
            each(InputPiece::Line(String::from_utf8_lossy(line)))?;
            line.clear();
        }
    }
    Ok(())
}

fn push_proto<E>(
    decoder: &mut proto::ProtoDecoder,
    mut bytes: &[u8],
    each: &mut impl FnMut(InputPiece<'_>) -> Result<(), E>,
) -> Result<(), E> {
    loop {
        match decoder.next(&mut bytes) {
            proto::ProtoStep::More => return Ok(()),
            proto::ProtoStep::Event { text, dropped } => each(InputPiece::Message { text, dropped })?,
            // Passed on as a data URL, like a malformed SSE frame.
            proto::ProtoStep::Unknown { message } | proto::ProtoStep::Malformed { message, .. } => {
                each(InputPiece::Message { text: proto::to_data_url(&message), dropped: 0 })?;
            }
            proto::ProtoStep::Failed(proto::ProtoError::FrameTooLarge { limit }) => {
                return each(InputPiece::TooLarge { limit });
            }
        }
    }
}

/// Returns whether a byte is neither white space nor part of a BOM.
pub(super) fn is_text(byte: &u8) -> bool {
    !byte.is_ascii_whitespace() && !BOM.contains(byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Framing;
    use crate::dialect::{AG_UI, PeerDialect};
    use crate::translate::Stream;
    use crate::translate::verify::Verifier;

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
            let mut framing = InputFraming::new(ProtobufInput::Detect);
            let mut verifier = Verifier::new(side());
            let mut findings = Vec::new();
            for piece in [&bytes[..cut], &bytes[cut..]] {
                let taken = framing.push(piece, &mut |piece| match piece {
                    InputPiece::Message { text, .. } => {
                        verifier.push_message(&text, &mut findings);
                        Ok(())
                    }
                    InputPiece::Bytes([]) => Ok(()),
                    other => Err(format!("{other:?}")),
                });
                assert_eq!(taken, Ok(()), "at {cut}");
            }
            verifier.finish(&mut findings);
            assert_eq!((verifier.summary().events, &findings[..]), (2, &[][..]), "at {cut}");
        }
    }
}
