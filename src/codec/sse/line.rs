//! Splits a byte stream into lines, however it is divided into pushes.
//!
//! A line contained in a single push borrows from it. Only a line that spans pushes is copied, and comments never are.

use std::borrow::Cow;
use std::mem;

use super::SseError;

/// U+FEFF in UTF-8.
pub(super) const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Splits one body into lines.
///
/// ```text
/// Start -------- BOM, or any other byte ----> LineStart
/// Start -------- half a BOM, then another --> InLine
/// LineStart ---- a push ends in the line ---> InLine
/// LineStart ---- ":" -----------------------> Comment
/// LineStart, InLine, Comment --- LF --------> LineStart
/// LineStart, InLine, Comment --- CR --------> AfterCr
/// AfterCr ------ LF, or any other byte -----> LineStart
/// ```
#[derive(Debug)]
pub(super) enum LineSplitter {
    /// Only the first `matched` bytes of a BOM have arrived.
    Start { matched: usize },
    /// The next byte begins a line.
    LineStart,
    /// After a CR, which ends the line alone or with a following LF.
    AfterCr,
    /// The bytes of an unfinished, nonempty line.
    InLine(Vec<u8>),
    /// Comment bytes are counted, not kept.
    Comment { len: usize },
}

impl Default for LineSplitter {
    fn default() -> Self {
        Self::Start { matched: 0 }
    }
}

impl LineSplitter {
    /// Takes the next line that is not a comment, without its line end, or consumes all of `input`. `limit` is in
    /// bytes.
    pub(super) fn next<'a>(&mut self, input: &mut &'a [u8], limit: usize) -> Result<Option<Cow<'a, [u8]>>, SseError> {
        while let Some(&first) = input.first() {
            match self {
                // "The UTF-8 decode algorithm strips one leading UTF-8 Byte Order Mark (BOM), if
                // any."
                Self::Start { matched } if first == BOM[*matched] => {
                    *input = &input[1..];
                    *matched += 1;
                    if *matched == BOM.len() {
                        *self = Self::LineStart;
                    }
                }
                Self::Start { matched: 0 } => *self = Self::LineStart,
                Self::Start { matched } => *self = Self::InLine(BOM[..*matched].to_vec()),
                Self::AfterCr => {
                    if first == b'\n' {
                        *input = &input[1..];
                    }
                    *self = Self::LineStart;
                }
                // "If the line starts with a U+003A COLON character (:): Ignore the line."
                Self::LineStart if first == b':' => *self = Self::Comment { len: 0 },
                Self::LineStart | Self::InLine(_) => return self.take_line(input, limit),
                Self::Comment { len } => {
                    let (part, end) = split_line(input);
                    *len += part.len();
                    if *len > limit {
                        return Err(SseError::LineTooLong { limit });
                    }
                    if let Some(end) = end {
                        *self = end.into();
                    }
                }
            }
        }
        Ok(None)
    }

    /// Takes the rest of a line that is not a comment.
    fn take_line<'a>(&mut self, input: &mut &'a [u8], limit: usize) -> Result<Option<Cow<'a, [u8]>>, SseError> {
        let (part, end) = split_line(input);
        let gathered = match self {
            Self::InLine(gathered) => gathered.len(),
            _ => 0,
        };
        if gathered + part.len() > limit {
            return Err(SseError::LineTooLong { limit });
        }
        let before = match end {
            Some(end) => mem::replace(self, end.into()),
            None => mem::replace(self, Self::LineStart),
        };
        let line = match before {
            Self::InLine(mut gathered) => {
                append_bounded(&mut gathered, part, limit);
                Cow::Owned(gathered)
            }
            _ => Cow::Borrowed(part),
        };
        if end.is_some() {
            return Ok(Some(line));
        }
        *self = Self::InLine(line.into_owned());
        Ok(None)
    }

    /// Returns true if the next byte is certain to begin a line.
    pub(super) fn is_at_line_start(&self) -> bool {
        matches!(self, Self::LineStart)
    }

    /// Returns the last line if it has no line end and is not a comment.
    ///
    /// A partial BOM would be an unknown field, so it is dropped here.
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        match mem::take(self) {
            Self::InLine(line) => Some(line),
            Self::Start { .. } | Self::LineStart | Self::AfterCr | Self::Comment { .. } => None,
        }
    }

    pub(super) fn heap_size(&self) -> usize {
        match self {
            Self::InLine(line) => line.capacity(),
            _ => 0,
        }
    }
}

#[derive(Clone, Copy)]
enum LineEnd {
    Lf,
    Cr,
}

impl From<LineEnd> for LineSplitter {
    fn from(end: LineEnd) -> Self {
        match end {
            LineEnd::Lf => Self::LineStart,
            // A lone CR ends its line at once. Waiting for a possible LF would delay a complete event until the next
            // one arrives.
            LineEnd::Cr => Self::AfterCr,
        }
    }
}

/// Takes the bytes before the next line end, and that line end's first byte; or all of `input`.
fn split_line<'a>(input: &mut &'a [u8]) -> (&'a [u8], Option<LineEnd>) {
    // "... with a U+000D CARRIAGE RETURN U+000A LINE FEED (CRLF) character pair, a single U+000A
    // LINE FEED (LF) character not preceded by a U+000D CARRIAGE RETURN (CR) character, and a
    // single U+000D CARRIAGE RETURN (CR) character not followed by a U+000A LINE FEED (LF)
    // character being the ways in which a line can end."
    let bytes = *input;
    match memchr::memchr2(b'\n', b'\r', bytes) {
        Some(at) => {
            *input = &bytes[at + 1..];
            let end = if bytes[at] == b'\n' { LineEnd::Lf } else { LineEnd::Cr };
            (&bytes[..at], Some(end))
        }
        None => {
            *input = &[];
            (bytes, None)
        }
    }
}

/// Appends `bytes`. The buffer grows by doubling, but never past `limit`, which bounds memory.
pub(super) fn append_bounded(buffer: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let len = buffer.len() + bytes.len();
    if len > buffer.capacity() {
        let doubled = buffer.capacity().saturating_mul(2).min(limit);
        buffer.reserve_exact(doubled.max(len) - buffer.len());
    }
    buffer.extend_from_slice(bytes);
}
