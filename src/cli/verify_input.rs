//! How a recording that is verified is framed: server-sent events, one JSON event a line, or AG-UI's protobuf.
//!
//! Bytes of an event stream are handed on as they are: the verifier cuts them as the real client does, which
//! [`super::recording`] does not.

use crate::codec::proto;
use crate::codec::sse::Limits;
use std::borrow::Cow;

/// U+FEFF in UTF-8, which some editors put before a text.
const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// How the input is framed, across the pieces in which it is read. Its first byte that is neither blank nor of a BOM
/// decides, once.
#[derive(Debug)]
pub(super) enum Form {
    /// nothing but blanks and a BOM so far
    Unknown,
    Sse,
    Ndjson {
        /// the line that is not whole yet
        line: Vec<u8>,
        /// whether the byte before was CR, so that LF belongs to it
        after_cr: bool,
    },
    Proto(proto::Decoder),
}

/// What there is to take.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// bytes of an event stream, cut anywhere
    Bytes(&'a [u8]),
    /// a line of NDJSON, without its line end; may be blank
    Line(Cow<'a, str>),
    /// a message of protobuf, as JSON
    Message(String),
    /// a frame of protobuf that is too large; nothing behind it can be read
    TooLarge,
}

impl Form {
    /// Takes bytes as they were read.
    ///
    /// # Errors
    /// The first that `each` gives.
    pub fn push<E>(&mut self, bytes: &[u8], each: &mut impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut bytes = bytes;
        if matches!(self, Form::Unknown) {
            let first = bytes.iter().position(|byte| !byte.is_ascii_whitespace() && !BOM.contains(byte));
            // A line of SSE that anybody reads never begins with a brace: that would be the name of a field. The length of a
            // frame of protobuf is below 2^24, and no text begins with NUL.
            match first.map(|first| bytes.split_at(first)) {
                Some(([], [0, ..])) => *self = Form::Proto(proto::Decoder::new(Limits::default().frame)),
                Some((before, line @ [b'{', ..])) => {
                    each(Piece::Bytes(before))?;
                    (*self, bytes) = (Form::Ndjson { line: Vec::new(), after_cr: false }, line);
                }
                Some(_) => *self = Form::Sse,
                None => {}
            }
        }
        match self {
            // What came first belongs to the line of SSE that may come behind it, and is nothing otherwise.
            Form::Unknown | Form::Sse => each(Piece::Bytes(bytes)),
            Form::Ndjson { line, after_cr } => {
                for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
                    // CR LF is one line end.
                    let rest_of_end = std::mem::replace(after_cr, part.ends_with(b"\r")) && part == b"\n";
                    line.extend_from_slice(part);
                    if !rest_of_end && matches!(part, [.., b'\n' | b'\r']) {
                        line.pop();
                        each(Piece::Line(String::from_utf8_lossy(line)))?;
                    }
                    if matches!(part, [.., b'\n' | b'\r']) {
                        line.clear();
                    }
                }
                Ok(())
            }
            Form::Proto(decoder) => loop {
                match decoder.next(&mut bytes) {
                    proto::Step::More => return Ok(()),
                    proto::Step::Event { text, .. } => each(Piece::Message(text))?,
                    proto::Step::Unknown { message } | proto::Step::Malformed { message, .. } => {
                        each(Piece::Message(proto::as_text(&message)))?;
                    }
                    proto::Step::Broken(proto::Fault::FrameTooLarge { .. }) => return each(Piece::TooLarge),
                }
            },
        }
    }

    /// The input has ended; its last line may lack its line end.
    ///
    /// # Errors
    /// What `each` gives.
    pub fn finish<E>(&self, each: &mut impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<(), E> {
        match self {
            Form::Ndjson { line, .. } if !line.is_empty() => each(Piece::Line(String::from_utf8_lossy(line))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Framing;
    use crate::dialect::{AG_UI, Side};
    use crate::translate::Stream;
    use crate::translate::verify::Verifier;

    #[test]
    fn protobuf_is_verified_wherever_it_is_cut() {
        let side = || Side::new(&AG_UI);
        let mut stream = Stream::new(side(), side(), None, Limits::default());
        stream.write_as(Framing::Proto);
        let mut bytes = Vec::new();
        let start = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
        for event in [start, r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#] {
            stream.push_event(event, 0, &mut bytes).expect("no limit is near");
        }
        for cut in 0..=bytes.len() {
            let (mut form, mut verifier, mut findings) = (Form::Unknown, Verifier::new(side()), Vec::new());
            for piece in [&bytes[..cut], &bytes[cut..]] {
                let taken = form.push(piece, &mut |piece| match piece {
                    Piece::Message(text) => {
                        verifier.message(&text, &mut findings);
                        Ok(())
                    }
                    Piece::Bytes([]) => Ok(()),
                    other => Err(format!("{other:?}")),
                });
                assert_eq!(taken, Ok(()), "at {cut}");
            }
            verifier.finish(&mut findings);
            assert_eq!((verifier.summary().events, &findings[..]), (2, &[][..]), "at {cut}");
        }
    }
}
