//! How a recording that is verified is framed: server-sent events, one JSON event a line, or AG-UI's protobuf.
//!
//! Bytes of an event stream are handed on as they are: the verifier cuts them as the real client does, which
//! [`super::recording`] does not.

use crate::codec::proto;
use crate::codec::sse::SseLimits;
use std::borrow::Cow;

/// U+FEFF in UTF-8, which some editors put before a text.
const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// How the input is framed, across the pieces in which it is read. Its first byte that is neither blank nor of a BOM
/// decides, once.
#[derive(Debug)]
pub(super) enum VerifyFraming {
    /// nothing but blanks and a BOM so far
    Unknown,
    Sse,
    Ndjson {
        /// the line that is not whole yet
        line: Vec<u8>,
        /// whether the byte before was CR, so that LF belongs to it
        after_cr: bool,
    },
    Proto(proto::ProtoDecoder),
}

/// What there is to take.
#[derive(Debug)]
pub(super) enum InputPiece<'a> {
    /// bytes of an event stream, cut anywhere
    Bytes(&'a [u8]),
    /// a line of NDJSON, without its line end; may be blank
    Line(Cow<'a, str>),
    /// a message of protobuf, as JSON
    Message(String),
    /// a frame of protobuf that is too large; nothing behind it can be read
    TooLarge,
}

impl VerifyFraming {
    /// Takes bytes as they were read.
    ///
    /// # Errors
    /// The first that `each` gives.
    pub(crate) fn push<E>(
        &mut self,
        bytes: &[u8],
        each: &mut impl FnMut(InputPiece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut bytes = bytes;
        if matches!(self, VerifyFraming::Unknown) {
            let first = bytes.iter().position(|byte| !byte.is_ascii_whitespace() && !BOM.contains(byte));
            // A line of SSE that anybody reads never begins with a brace: that would be the name of a field. The length of a
            // frame of protobuf is below 2^24, and no text begins with NUL.
            match first.map(|first| bytes.split_at(first)) {
                Some(([], [0, ..])) => {
                    *self = VerifyFraming::Proto(proto::ProtoDecoder::new(SseLimits::default().frame))
                }
                Some((before, line @ [b'{', ..])) => {
                    each(InputPiece::Bytes(before))?;
                    (*self, bytes) = (VerifyFraming::Ndjson { line: Vec::new(), after_cr: false }, line);
                }
                Some(_) => *self = VerifyFraming::Sse,
                None => {}
            }
        }
        match self {
            // What came first belongs to the line of SSE that may come behind it, and is nothing otherwise.
            VerifyFraming::Unknown | VerifyFraming::Sse => each(InputPiece::Bytes(bytes)),
            VerifyFraming::Ndjson { line, after_cr } => {
                for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
                    // CR LF is one line end.
                    let rest_of_end = std::mem::replace(after_cr, part.ends_with(b"\r")) && part == b"\n";
                    line.extend_from_slice(part);
                    if !rest_of_end && matches!(part, [.., b'\n' | b'\r']) {
                        line.pop();
                        each(InputPiece::Line(String::from_utf8_lossy(line)))?;
                    }
                    if matches!(part, [.., b'\n' | b'\r']) {
                        line.clear();
                    }
                }
                Ok(())
            }
            VerifyFraming::Proto(decoder) => loop {
                match decoder.next(&mut bytes) {
                    proto::ProtoStep::More => return Ok(()),
                    proto::ProtoStep::Event { text, .. } => each(InputPiece::Message(text))?,
                    proto::ProtoStep::Unknown { message } | proto::ProtoStep::Malformed { message, .. } => {
                        each(InputPiece::Message(proto::to_data_url(&message)))?;
                    }
                    proto::ProtoStep::Failed(proto::ProtoError::FrameTooLarge { .. }) => {
                        return each(InputPiece::TooLarge);
                    }
                }
            },
        }
    }

    /// The input has ended; its last line may lack its line end.
    ///
    /// # Errors
    /// What `each` gives.
    pub(crate) fn finish<E>(&self, each: &mut impl FnMut(InputPiece<'_>) -> Result<(), E>) -> Result<(), E> {
        match self {
            VerifyFraming::Ndjson { line, .. } if !line.is_empty() => {
                each(InputPiece::Line(String::from_utf8_lossy(line)))
            }
            _ => Ok(()),
        }
    }
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
            let (mut form, mut verifier, mut findings) = (VerifyFraming::Unknown, Verifier::new(side()), Vec::new());
            for piece in [&bytes[..cut], &bytes[cut..]] {
                let taken = form.push(piece, &mut |piece| match piece {
                    InputPiece::Message(text) => {
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
