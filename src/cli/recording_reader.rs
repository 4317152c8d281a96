//! Reads a recorded stream (SSE, NDJSON or AG-UI's protobuf) and returns each event with its number and line.

use super::input::IoFailure;
use super::input_framing::{InputPiece, ProtobufInput, is_text, read_pieces};
use crate::codec::json;
use crate::codec::sse::{SseDecoder, SseError, SseLimits, SseStep};
use crate::translate::StreamError;
use std::fmt;
use std::io::Read;

/// The error message for input without events.
pub(super) const NO_EVENT: &str =
    "no event found: the input is neither an event stream nor NDJSON; for a request, add --request";

/// The error message for input that ends within a protobuf frame.
pub(super) const PARTIAL_FRAME: &str =
    "the input ends within a protobuf frame, which is left out; the recording was cut off";

/// An event's position in its recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventPosition {
    /// event number, from 1
    pub(crate) event: usize,
    /// first line of the event, from 1; 0 for protobuf, which has no lines
    pub(crate) line: usize,
    /// content parts omitted because their names are unknown (protobuf only)
    pub(crate) dropped: usize,
    /// whether the input ends within the event
    pub(crate) is_cut: bool,
}

impl fmt::Display for EventPosition {
    /// Writes the position in the form that follows a file name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventPosition { event, line: 0, .. } => write!(f, ": event {event}"),
            EventPosition { event, line, .. } => write!(f, ":{line}: event {event}"),
        }
    }
}

/// The reason why reading stopped before the end.
#[derive(Debug)]
pub(super) enum ReadStop {
    Io(IoFailure),
    /// a frame exceeds the limit, or the consumer rejected an event
    Stream(StreamError),
    /// the input ends within a protobuf frame
    PartialFrame,
}

impl From<IoFailure> for ReadStop {
    fn from(failure: IoFailure) -> Self {
        ReadStop::Io(failure)
    }
}

/// Receives the `event:` line and the data of each event.
pub(super) type RecordedEventConsumer<'c> = dyn FnMut(EventPosition, Option<&str>, &str) -> Result<(), ReadStop> + 'c;

/// Decodes events and counts lines.
struct RecordingReader<'r, 'c> {
    consumer: &'r mut RecordedEventConsumer<'c>,
    decoder: SseDecoder,
    /// number of events so far
    count: usize,
    /// current line number, from 1
    line: usize,
    /// the part of the current line read so far
    line_progress: LineProgress,
    /// whether the last byte was CR, so that a following LF is part of the same line ending
    after_cr: bool,
    /// first line of the current event
    first_line: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineProgress {
    Empty,
    /// only white space or a BOM so far
    Blanks,
    Text,
}

/// Reads `input` to its end and passes each event, of at most `limit` bytes, to `consumer`. Returns the number of lines
/// that a byte order mark makes unreadable.
///
/// # Errors
/// Fails if the input cannot be read, a frame exceeds the limit or `consumer` fails.
pub(super) fn read_recording(
    input: impl Read,
    protobuf: ProtobufInput,
    limit: usize,
    consumer: &mut RecordedEventConsumer<'_>,
) -> Result<u64, ReadStop> {
    let mut reader = RecordingReader {
        consumer,
        decoder: SseDecoder::new(SseLimits { line: limit, frame: limit }),
        count: 0,
        line: 1,
        line_progress: LineProgress::Empty,
        after_cr: false,
        first_line: None,
    };
    read_pieces(input, protobuf, limit, |piece| reader.push_piece(piece))?;
    reader.finish()?;
    Ok(reader.decoder.take_marked_lines())
}

impl RecordingReader<'_, '_> {
    fn push_piece(&mut self, piece: InputPiece<'_>) -> Result<(), ReadStop> {
        match piece {
            InputPiece::Bytes(bytes) => {
                let mut parts = bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r'));
                parts.try_for_each(|part| self.push_line_part(part))
            }
            InputPiece::Line(line) => {
                let line_number = self.line;
                self.line += 1;
                match line.trim() {
                    "" => Ok(()),
                    text => self.emit(line_number, 0, None, text),
                }
            }
            InputPiece::Message { text, dropped } => self.emit(0, dropped, None, &text),
            InputPiece::TooLarge { limit } => {
                Err(ReadStop::Stream(StreamError::Framing(SseError::FrameTooLarge { limit })))
            }
            InputPiece::PartialFrame => Err(ReadStop::PartialFrame),
        }
    }

    /// Counts an event and passes it on.
    fn emit(&mut self, line: usize, dropped: usize, name: Option<&str>, text: &str) -> Result<(), ReadStop> {
        self.count += 1;
        (self.consumer)(EventPosition { event: self.count, line, dropped, is_cut: false }, name, text)
    }

    /// Reads an SSE line, or part of one.
    fn push_line_part(&mut self, bytes: &[u8]) -> Result<(), ReadStop> {
        // CR LF is one line ending.
        let rest_of_end = bytes == b"\n" && self.after_cr;
        let ends = matches!(bytes, [.., b'\n' | b'\r']) && !rest_of_end;
        let empty = ends && bytes.len() == 1 && self.line_progress == LineProgress::Empty;
        match bytes.iter().find(|byte| is_text(byte)) {
            Some(first) if self.line_progress != LineProgress::Text => {
                self.line_progress = LineProgress::Text;
                // A comment is not part of an event.
                if *first != b':' {
                    self.first_line.get_or_insert(self.line);
                }
            }
            None if self.line_progress == LineProgress::Empty && !ends && !rest_of_end => {
                self.line_progress = LineProgress::Blanks;
            }
            _ => {}
        }
        let event_line = self.event_line();
        let count_before = self.count;
        let mut rest = bytes;
        loop {
            match self.decoder.next(&mut rest) {
                SseStep::More => break,
                SseStep::Frame(frame) => self.emit(event_line, 0, frame.event.as_deref(), &frame.data)?,
                SseStep::Failed(fault) => return Err(ReadStop::Stream(StreamError::Framing(fault))),
            }
        }
        if self.count > count_before || empty {
            self.first_line = None;
        }
        if ends {
            self.line += 1;
            self.line_progress = LineProgress::Empty;
        }
        self.after_cr = bytes.last() == Some(&b'\r');
        Ok(())
    }

    /// Emits the last event, which may lack a line ending.
    fn finish(&mut self) -> Result<(), ReadStop> {
        loop {
            let line = self.event_line();
            match self.decoder.finish() {
                SseStep::More => return Ok(()),
                SseStep::Frame(frame) => {
                    self.count += 1;
                    let is_cut = is_cut_object(&frame.data);
                    let position = EventPosition { event: self.count, line, dropped: 0, is_cut };
                    (self.consumer)(position, frame.event.as_deref(), &frame.data)?;
                }
                SseStep::Failed(fault) => return Err(ReadStop::Stream(StreamError::Framing(fault))),
            }
        }
    }

    fn event_line(&self) -> usize {
        self.first_line.unwrap_or(self.line)
    }
}

/// Returns whether an event without its end is an object without its end.
pub(super) fn is_cut_object(data: &str) -> bool {
    data.trim_start().starts_with('{') && json::parse_open_object(data).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Framing;
    use crate::dialect::{AG_UI, PeerDialect};
    use crate::translate::Stream;

    const EVENTS: [&str; 3] =
        [r#"{"type":"A"}"#, r#"{"type":"B","value":{"a":{"b":[{}, {"c":1}]}}}"#, r#"{"type":"C"}"#];

    /// Reads input in two pieces; returns its events with their positions.
    fn read(input: &[u8], cut: usize) -> Vec<(usize, usize, String)> {
        let mut found = Vec::new();
        let mut consumer = |place: EventPosition, _: Option<&str>, data: &str| {
            found.push((place.event, place.line, data.to_owned()));
            Ok(())
        };
        let input = input[..cut].chain(&input[cut..]);
        read_recording(input, ProtobufInput::Detect, usize::MAX, &mut consumer).expect("no limit is near");
        found
    }

    /// Checks that a brace at the start of a piece, but not of a line, is not mistaken for NDJSON.
    #[test]
    fn detects_format_once_and_counts_lines_at_every_split() {
        for end in ["\n", "\r\n", "\r"] {
            let sse: String = EVENTS.iter().map(|event| format!(": c{end}data: {event}{end}{end}")).collect();
            let ndjson = EVENTS.join(end);
            for (before, lines) in [("", 0), ("\n", 1), ("\r\n \n", 2), ("\u{feff}", 0), ("\u{feff}\n", 1)] {
                for (input, first, each) in [(&sse, 2, 3), (&ndjson, 1, 1)] {
                    let input = format!("{before}{input}");
                    let place = |at: usize| (at + 1, lines + first + at * each);
                    let expected: Vec<_> = (0..3).map(|at| (place(at).0, place(at).1, EVENTS[at].to_owned())).collect();
                    for cut in 0..=input.len() {
                        assert_eq!(read(input.as_bytes(), cut), expected, "{input:?} at {cut}");
                    }
                }
            }
        }
    }

    #[test]
    fn recognises_protobuf_at_every_split() {
        let start = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
        let side = || PeerDialect::new(&AG_UI);
        let mut stream = Stream::new(side(), side(), None, SseLimits::default());
        stream.write_as(Framing::Proto);
        let mut bytes = Vec::new();
        for event in [start, r#"{"type":"STEP_STARTED","stepName":"s"}"#, r#"{"type":"RUN_ERROR","message":"\n"}"#] {
            stream.push_event(event, 0, &mut bytes).expect("no limit is near");
        }
        let expected = read(&bytes, 0);
        let places: Vec<_> = expected.iter().map(|(event, line, _)| (*event, *line)).collect();
        assert_eq!(places, [(1, 0), (2, 0), (3, 0)]);
        assert_eq!(expected[0].2, start);
        for cut in 0..=bytes.len() {
            assert_eq!(read(&bytes, cut), expected, "at {cut}");
        }
    }

    #[test]
    fn reports_a_multi_line_event_at_its_first_line() {
        let input = b"data: {\ndata: \"type\":\"A\"}\n\n\n\nevent: x\ndata: {}\n\ndata: {\"last\":1}";
        let places: Vec<_> = read(input, 0).into_iter().map(|(event, line, _)| (event, line)).collect();
        assert_eq!(places, [(1, 1), (2, 6), (3, 9)]);
    }
}
