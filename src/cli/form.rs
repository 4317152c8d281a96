//! How a recording is framed: server-sent events, or one JSON event a line.

use std::borrow::Cow;

/// U+FEFF in UTF-8, which some editors put before a text.
const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// How the input is framed, across the pieces in which it is read. Its first byte that is neither blank nor of a BOM
/// decides, once.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// nothing but blanks and a BOM so far
    Unknown,
    Sse,
    /// the line that is not whole yet
    Ndjson(Vec<u8>),
}

/// What there is to take.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// bytes of an event stream, cut anywhere
    Bytes(&'a [u8]),
    /// a line of NDJSON, without its line end; may be blank
    Line(Cow<'a, str>),
}

impl Form {
    /// Takes bytes as they were read.
    ///
    /// # Errors
    /// The first that `each` gives.
    pub fn push<E>(&mut self, bytes: &[u8], each: &mut impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut bytes = bytes;
        if *self == Form::Unknown {
            let first = bytes.iter().position(|byte| !byte.is_ascii_whitespace() && !BOM.contains(byte));
            // A line of SSE that anybody reads never begins with a brace: that would be the name of a field.
            match first.map(|first| bytes.split_at(first)) {
                Some((before, line @ [b'{', ..])) => {
                    each(Piece::Bytes(before))?;
                    (*self, bytes) = (Form::Ndjson(Vec::new()), line);
                }
                Some(_) => *self = Form::Sse,
                None => {}
            }
        }
        let Form::Ndjson(line) = self else {
            // What came first belongs to the line of SSE that may come behind it, and is nothing otherwise.
            return each(Piece::Bytes(bytes));
        };
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                line.pop();
                each(Piece::Line(String::from_utf8_lossy(line)))?;
                line.clear();
            }
        }
        Ok(())
    }

    /// The input has ended; its last line may lack its line end.
    ///
    /// # Errors
    /// What `each` gives.
    pub fn finish<E>(&self, each: &mut impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<(), E> {
        match self {
            Form::Ndjson(line) if !line.is_empty() => each(Piece::Line(String::from_utf8_lossy(line))),
            _ => Ok(()),
        }
    }
}
