//! Turns the lines of an event stream into frames.
//!
//! A frame contained in a single push borrows from it; it is copied only if the push ends before the frame does.

use std::borrow::Cow;
use std::mem;
use std::time::Duration;

use super::line::{BOM, LineSplitter, append_bounded};
use super::{SseError, SseLimits};

/// Reads one body: push bytes with [`SseDecoder::next`], end it with [`SseDecoder::finish`].
///
/// ```text
/// Reading --a limit is exceeded--> Failed
/// ```
///
/// Between frames the decoder owns no heap memory, unless an `id` is waiting for its frame.
///
/// ```text
/// let mut input = push;
/// loop {
///     match decoder.next(&mut input) {
///         SseStep::Frame(frame) => handle(frame),
///         SseStep::More => break,
///         SseStep::Failed(error) => return Err(error),
///     }
/// }
/// ```
#[derive(Debug)]
pub struct SseDecoder {
    limits: SseLimits,
    notes: StreamNotes,
    state: DecoderState,
}

/// Facts about the body that belong to no frame.
#[derive(Debug, Default)]
struct StreamNotes {
    retry: Option<Duration>,
    /// lines whose field is unknown only for the byte order mark before it, since they were taken
    marked_lines: u64,
}

#[derive(Debug)]
enum DecoderState {
    /// Holds the unfinished line and frame.
    Reading { lines: LineSplitter, pending: PendingFrame<'static> },
    /// Every later call returns this error.
    Failed(SseError),
}

/// The result of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SseStep<'a> {
    /// All input was consumed.
    More,
    /// The input may contain more frames.
    Frame(SseFrame<'a>),
    /// The rest of the body cannot be read, and every later call returns the same error.
    Failed(SseError),
}

/// One event of the stream, with U+FFFD for invalid UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseFrame<'a> {
    /// The values of the `data` lines, joined by LF; may be empty. Borrowed if the frame lies within the input and has
    /// a single `data` line of valid UTF-8.
    pub data: Cow<'a, str>,
    /// The event name; `None` if empty.
    pub(crate) event: Option<Cow<'a, str>>,
    /// The last `id` since the previous frame, even from a block without data. An empty `id` tells the client to clear
    /// its last one.
    pub id: Option<Cow<'a, str>>,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::new(SseLimits::default())
    }
}

impl SseDecoder {
    pub(crate) fn new(limits: SseLimits) -> Self {
        Self {
            limits,
            notes: StreamNotes::default(),
            state: DecoderState::Reading { lines: LineSplitter::default(), pending: PendingFrame::default() },
        }
    }

    /// Consumes `input` and returns at most one frame; call it until it returns [`SseStep::More`] (then `input` is
    /// empty) or [`SseStep::Failed`].
    ///
    /// The frame may borrow from the input, never from the decoder.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> SseStep<'a> {
        let read = self.read_frame(input);
        self.step_from(read)
    }

    fn read_frame<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<SseFrame<'a>>, SseError> {
        let (lines, pending) = match &mut self.state {
            DecoderState::Reading { lines, pending } => (lines, pending),
            DecoderState::Failed(fault) => return Err(*fault),
        };
        if input.is_empty() {
            return Ok(None);
        }
        if lines.is_at_line_start()
            && pending.is_empty()
            && let Some(frame) = take_simple_frame(input, self.limits)
        {
            return Ok(Some(frame));
        }
        let mut open: PendingFrame<'a> = mem::take(pending);
        while let Some(line) = lines.next(input, self.limits.line)? {
            // "If the line is empty (a blank line): Dispatch the event, as defined below."
            if !line.is_empty() {
                open.apply_field(SseField::parse(line), self.limits.frame, &mut self.notes)?;
            } else if let Some(frame) = open.dispatch() {
                return Ok(Some(frame));
            }
        }
        *pending = open.into_owned();
        Ok(None)
    }

    /// Ends the body; call it until it returns [`SseStep::More`] or [`SseStep::Failed`]. After `More` another body may
    /// follow.
    ///
    /// The standard discards an event without its final blank line. Agents do omit that line, and `@ag-ui/client`
    /// dispatches such an event, so this does too. Call it only if the body ended cleanly: a truncated body must be
    /// dropped.
    pub(crate) fn finish(&mut self) -> SseStep<'static> {
        let rest = self.read_rest();
        self.step_from(rest)
    }

    fn read_rest(&mut self) -> Result<Option<SseFrame<'static>>, SseError> {
        let (lines, pending) = match &mut self.state {
            DecoderState::Reading { lines, pending } => (lines, pending),
            DecoderState::Failed(fault) => return Err(*fault),
        };
        let mut open = mem::take(pending);
        if let Some(line) = lines.finish() {
            let field = SseField::parse(Cow::Owned(line));
            open.apply_field(field, self.limits.frame, &mut self.notes)?;
        }
        Ok(open.dispatch())
    }

    /// Converts a result into a step. An error ends the decoder and frees its buffers.
    fn step_from<'a>(&mut self, read: Result<Option<SseFrame<'a>>, SseError>) -> SseStep<'a> {
        match read {
            Ok(Some(frame)) => SseStep::Frame(frame),
            Ok(None) => SseStep::More,
            Err(fault) => {
                self.state = DecoderState::Failed(fault);
                SseStep::Failed(fault)
            }
        }
    }

    /// Discards unfinished input before another body. A failed decoder stays failed.
    pub(crate) fn restart(&mut self) {
        if let DecoderState::Reading { lines, pending } = &mut self.state {
            (*lines, *pending) = (LineSplitter::default(), PendingFrame::default());
        }
    }

    pub(crate) fn retry(&self) -> Option<Duration> {
        self.notes.retry
    }

    /// Takes the number of lines whose field has a byte order mark before its name. The standard removes one only from
    /// the beginning of the body, and ignores such a line as one with an unknown field.
    pub(crate) fn take_marked_lines(&mut self) -> u64 {
        mem::take(&mut self.notes.marked_lines)
    }

    /// Returns the memory of the unfinished line and frame.
    pub(crate) fn heap_size(&self) -> usize {
        match &self.state {
            DecoderState::Reading { lines, pending } => lines.heap_size() + pending.heap_size(),
            DecoderState::Failed(_) => 0,
        }
    }
}

/// Parses the most common frame, one `data` line and a blank line, perhaps behind an `event` line, in half the time of
/// [`PendingFrame`], which parses all others.
fn take_simple_frame<'a>(input: &mut &'a [u8], limits: SseLimits) -> Option<SseFrame<'a>> {
    let (event, rest) = match take_field(input, b"event:", limits.line) {
        Some((name, rest)) => (Some(name), rest),
        None => (None, *input),
    };
    let (value, rest) = take_field(rest, b"data:", limits.line)?;
    let rest = rest.strip_prefix(b"\n")?;
    if value.len() > limits.frame {
        return None;
    }
    *input = rest;
    let event = event.filter(|name| !name.is_empty()).map(|name| decode_utf8(Cow::Borrowed(name)));
    Some(SseFrame { data: decode_utf8(Cow::Borrowed(value)), event, id: None })
}

/// Returns the value of the field that the input begins with, and what follows its LF.
fn take_field<'a>(input: &'a [u8], name: &[u8], limit: usize) -> Option<(&'a [u8], &'a [u8])> {
    let line = input.strip_prefix(name)?;
    let (value, rest) = line.split_at(memchr::memchr2(b'\n', b'\r', line)?);
    let rest = rest.strip_prefix(b"\n").filter(|_| name.len() + value.len() <= limit)?;
    Some((value.strip_prefix(b" ").unwrap_or(value), rest))
}

#[derive(Debug, Default)]
struct PendingFrame<'a> {
    /// The `data` lines joined by LF; `None` before the first one. (The standard's buffer ends with an LF, and is empty
    /// before the first line.)
    data: Option<Cow<'a, [u8]>>,
    event: Option<Cow<'a, [u8]>>,
    id: Option<Cow<'a, [u8]>>,
}

impl<'a> PendingFrame<'a> {
    /// Applies one field; `limit` bounds the joined data in bytes.
    fn apply_field(&mut self, field: SseField<'a>, limit: usize, notes: &mut StreamNotes) -> Result<(), SseError> {
        match field {
            SseField::Data(value) => return self.push_data(value, limit),
            // "Set the event type buffer to the field value."
            SseField::Event(name) => self.event = Some(name),
            // "If the field value does not contain U+0000 NULL, then set the last event ID buffer
            // to the field value. Otherwise, ignore the field."
            SseField::Id(id) if memchr::memchr(0, &id).is_none() => self.id = Some(id),
            // "If the field value consists of only ASCII digits, then interpret the field value as
            // an integer in base ten, and set the event stream's reconnection time to that
            // integer. Otherwise, ignore the field."
            SseField::Retry(value) => notes.retry = parse_retry(&value).or(notes.retry),
            SseField::Marked => notes.marked_lines += 1,
            SseField::Id(_) | SseField::Unknown => {}
        }
        Ok(())
    }

    fn push_data(&mut self, value: Cow<'a, [u8]>, limit: usize) -> Result<(), SseError> {
        let before = self.data.as_ref().map_or(0, |data| data.len() + 1);
        if before + value.len() > limit {
            return Err(SseError::FrameTooLarge { limit });
        }
        // "Append the field value to the data buffer, then append a single U+000A LINE FEED (LF) character to the data
        // buffer." The LF is inserted before the next value instead, which avoids removing the last one and keeps a
        // single value borrowed.
        match &mut self.data {
            None => self.data = Some(value),
            Some(data) => {
                let data = data.to_mut();
                append_bounded(data, b"\n", limit);
                append_bounded(data, &value, limit);
            }
        }
        Ok(())
    }

    /// Returns the frame if it has data. Otherwise keeps the id for the next frame.
    fn dispatch(&mut self) -> Option<SseFrame<'a>> {
        // "If the data buffer is an empty string, set the data buffer and the event type buffer to
        // the empty string and return." The id is not reset with them.
        let event = self.event.take();
        let data = self.data.take()?;
        Some(SseFrame {
            data: decode_utf8(data),
            // "If the event type buffer has a value other than the empty string, change the type
            // of the newly created event to equal the value of the event type buffer."
            event: event.filter(|name| !name.is_empty()).map(decode_utf8),
            id: self.id.take().map(decode_utf8),
        })
    }

    fn into_owned(self) -> PendingFrame<'static> {
        let own = |value: Option<Cow<'a, [u8]>>| value.map(|v| Cow::Owned(v.into_owned()));
        PendingFrame { data: own(self.data), event: own(self.event), id: own(self.id) }
    }

    fn is_empty(&self) -> bool {
        self.data.is_none() && self.event.is_none() && self.id.is_none()
    }

    fn heap_size(&self) -> usize {
        [&self.data, &self.event, &self.id]
            .into_iter()
            .flatten()
            .map(|value| match value {
                Cow::Borrowed(_) => 0,
                Cow::Owned(bytes) => bytes.capacity(),
            })
            .sum()
    }
}

/// One line as interpreted by the standard's "process the field".
enum SseField<'a> {
    Data(Cow<'a, [u8]>),
    Event(Cow<'a, [u8]>),
    Id(Cow<'a, [u8]>),
    Retry(Cow<'a, [u8]>),
    /// a known field behind a byte order mark
    Marked,
    Unknown,
}

impl<'a> SseField<'a> {
    /// Parses a line that is neither empty nor a comment.
    fn parse(line: Cow<'a, [u8]>) -> Self {
        // "Collect the characters on the line before the first U+003A COLON character (:), and let
        // field be that string. Collect the characters on the line after the first U+003A COLON
        // character (:), and let value be that string."
        let (name_end, mut value_start) = match memchr::memchr(b':', &line) {
            Some(colon) => (colon, colon + 1),
            // "... using the whole line as the field name, and the empty string as the field
            // value."
            None => (line.len(), line.len()),
        };
        // "If value starts with a U+0020 SPACE character, remove it from value."
        if line.get(value_start) == Some(&b' ') {
            value_start += 1;
        }
        // "Field names must be compared literally, with no case folding performed."
        let field: fn(Cow<'a, [u8]>) -> Self = match &line[..name_end] {
            b"data" => Self::Data,
            b"event" => Self::Event,
            b"id" => Self::Id,
            b"retry" => Self::Retry,
            // "Otherwise: The field is ignored."
            name => match name.strip_prefix(&BOM) {
                Some(b"data" | b"event" | b"id" | b"retry") => return Self::Marked,
                _ => return Self::Unknown,
            },
        };
        field(skip_bytes(line, value_start))
    }
}

/// Removes the bytes before `start` without another allocation.
fn skip_bytes(line: Cow<'_, [u8]>, start: usize) -> Cow<'_, [u8]> {
    match line {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[start..]),
        Cow::Owned(mut bytes) => {
            bytes.drain(..start);
            Cow::Owned(bytes)
        }
    }
}

/// Decodes UTF-8 as the standard requires: one U+FFFD per maximal part of an invalid sequence. Separators are ASCII, so
/// decoding after splitting gives the same text.
fn decode_utf8(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        // Almost every frame is valid, and the standard library takes a tenth of a translation to find that out.
        Cow::Borrowed(bytes) => match simdutf8::basic::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(bytes),
        },
        Cow::Owned(bytes) => Cow::Owned(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(wrong) => String::from_utf8_lossy(wrong.as_bytes()).into_owned(),
        }),
    }
}

/// Parses milliseconds, saturating at `u64::MAX`; returns `None` unless all bytes are digits.
fn parse_retry(value: &[u8]) -> Option<Duration> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number =
        value.iter().fold(0u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(Duration::from_millis(number))
}
