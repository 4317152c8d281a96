//! A recorded stream: SSE, NDJSON or AG-UI's protobuf, read as it comes, each event with its number and its line.

use crate::codec::proto;
use crate::codec::sse::{SseDecoder, SseError, SseLimits, SseStep};
use std::fmt;

/// U+FEFF in UTF-8, which some editors put before a text.
const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventPosition {
    /// its number, from 1 on
    pub(crate) event: usize,
    /// its first line, from 1 on; 0 in protobuf, which has none
    pub(crate) line: usize,
    /// parts of its content that have no name here and were left out; protobuf alone
    pub(crate) dropped: usize,
}

impl fmt::Display for EventPosition {
    /// What is put behind the name of the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventPosition { event, line: 0, .. } => write!(f, ": event {event}"),
            EventPosition { event, line, .. } => write!(f, ":{line}: event {event}"),
        }
    }
}

/// Whether a recording may be in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtobufInput {
    Never,
    /// if its first byte says so
    Detect,
    Always,
}

/// Why reading stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadStop<E> {
    /// the framing
    Framing(SseError),
    /// whoever takes the events
    Consumer(E),
}

/// The reading side of a recording.
#[derive(Debug)]
pub(super) struct RecordingReader {
    framing: StreamFraming,
    protobuf: ProtobufInput,
    events: usize,
    /// the line that is read, from 1 on
    line: usize,
    /// how much of it has been read
    line_progress: LineProgress,
    /// whether the byte before was CR, so that LF belongs to it
    after_cr: bool,
    /// the first line of the event that is read
    first_line: Option<usize>,
}

/// What of a line was read so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineProgress {
    Empty,
    /// white space, or a BOM
    Blanks,
    Text,
}

/// How the input is framed, across the pieces in which it is read. Its first byte that is neither blank nor of a BOM
/// decides, once.
#[derive(Debug)]
enum StreamFraming {
    /// nothing but blanks and a BOM so far
    Unknown(SseDecoder),
    Sse(SseDecoder),
    /// the line that is not whole yet
    Ndjson(Vec<u8>),
    Proto(proto::ProtoDecoder),
}

impl RecordingReader {
    pub(crate) fn new(protobuf: ProtobufInput) -> Self {
        let framing = match protobuf {
            ProtobufInput::Always => StreamFraming::new_proto(),
            ProtobufInput::Never | ProtobufInput::Detect => StreamFraming::Unknown(SseDecoder::default()),
        };
        RecordingReader {
            framing,
            protobuf,
            events: 0,
            line: 1,
            line_progress: LineProgress::Empty,
            after_cr: false,
            first_line: None,
        }
    }

    /// Takes bytes as they were read, and gives each event that is whole to `taker`.
    ///
    /// # Errors
    /// When a frame is over the limit, or `taker` has enough.
    pub(crate) fn push<E>(
        &mut self,
        bytes: &[u8],
        taker: &mut impl FnMut(EventPosition, &str) -> Result<(), E>,
    ) -> Result<(), ReadStop<E>> {
        let begins = self.line == 1
            && self.line_progress == LineProgress::Empty
            && matches!(self.framing, StreamFraming::Unknown(_));
        // The length of a frame is below 2^24, and no text begins with NUL.
        if begins && self.protobuf == ProtobufInput::Detect && bytes.first() == Some(&0) {
            self.framing = StreamFraming::new_proto();
        }
        if let StreamFraming::Proto(decoder) = &mut self.framing {
            return push_proto(decoder, bytes, &mut self.events, taker);
        }
        for line in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let line = self.detect_framing(line);
            self.push_line_part(line, taker)?;
        }
        Ok(())
    }

    /// The input has ended; its last event may lack its line end.
    ///
    /// # Errors
    /// As [`Recording::push`].
    pub(crate) fn finish<E>(
        mut self,
        taker: &mut impl FnMut(EventPosition, &str) -> Result<(), E>,
    ) -> Result<(), ReadStop<E>> {
        let place = self.position();
        match &mut self.framing {
            StreamFraming::Ndjson(line) => emit_line(place, line, taker),
            // A frame that is cut is none.
            StreamFraming::Proto(_) => Ok(()),
            StreamFraming::Unknown(decoder) | StreamFraming::Sse(decoder) => loop {
                match decoder.finish() {
                    SseStep::More => return Ok(()),
                    SseStep::Frame(frame) => taker(place, &frame.data).map_err(ReadStop::Consumer)?,
                    SseStep::Failed(fault) => return Err(ReadStop::Framing(fault)),
                }
            },
        }
    }

    /// A line of SSE that anybody reads never begins with a brace: that would be the name of a field. Gives what is to be
    /// read.
    fn detect_framing<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        if let StreamFraming::Unknown(decoder) = &mut self.framing {
            match bytes.iter().position(is_text) {
                // What stands before it may be half a BOM.
                Some(at) if bytes[at] == b'{' => {
                    self.framing = StreamFraming::Ndjson(Vec::new());
                    return &bytes[at..];
                }
                Some(_) => self.framing = StreamFraming::Sse(std::mem::take(decoder)),
                None => {}
            }
        }
        bytes
    }

    /// One line, or a part of one.
    fn push_line_part<E>(
        &mut self,
        bytes: &[u8],
        taker: &mut impl FnMut(EventPosition, &str) -> Result<(), E>,
    ) -> Result<(), ReadStop<E>> {
        // CR LF is one line end.
        let rest_of_end = bytes == b"\n" && self.after_cr;
        let ends = matches!(bytes, [.., b'\n' | b'\r']) && !rest_of_end;
        let empty = ends && bytes.len() == 1 && self.line_progress == LineProgress::Empty;
        match bytes.iter().find(|byte| is_text(byte)) {
            Some(first) if self.line_progress != LineProgress::Text => {
                self.line_progress = LineProgress::Text;
                // A comment is no part of an event.
                if *first != b':' {
                    self.first_line.get_or_insert(self.line);
                }
            }
            None if self.line_progress == LineProgress::Empty && !ends && !rest_of_end => {
                self.line_progress = LineProgress::Blanks
            }
            _ => {}
        }
        let place = self.position();
        let before = self.events;
        match &mut self.framing {
            StreamFraming::Ndjson(line) => {
                line.extend_from_slice(bytes);
                if ends {
                    self.events += usize::from(!line.trim_ascii().is_empty());
                    let line = std::mem::take(line);
                    emit_line(place, &line, taker)?;
                }
            }
            StreamFraming::Proto(_) => {}
            // What came first belongs to the line of SSE that may come behind it, and is nothing otherwise.
            StreamFraming::Unknown(decoder) | StreamFraming::Sse(decoder) => {
                let mut rest = bytes;
                loop {
                    match decoder.next(&mut rest) {
                        SseStep::More => break,
                        SseStep::Frame(frame) => {
                            self.events += 1;
                            taker(place, &frame.data).map_err(ReadStop::Consumer)?;
                        }
                        SseStep::Failed(fault) => return Err(ReadStop::Framing(fault)),
                    }
                }
            }
        }
        if self.events > before || empty {
            self.first_line = None;
        }
        if ends {
            (self.line, self.line_progress) = (self.line + 1, LineProgress::Empty);
        }
        self.after_cr = bytes.last() == Some(&b'\r');
        Ok(())
    }

    /// Where the event stands that is read.
    fn position(&self) -> EventPosition {
        EventPosition { event: self.events + 1, line: self.first_line.unwrap_or(self.line), dropped: 0 }
    }
}

impl StreamFraming {
    fn new_proto() -> Self {
        StreamFraming::Proto(proto::ProtoDecoder::new(SseLimits::default().frame))
    }
}

/// Takes frames of protobuf.
fn push_proto<E>(
    decoder: &mut proto::ProtoDecoder,
    mut bytes: &[u8],
    events: &mut usize,
    taker: &mut impl FnMut(EventPosition, &str) -> Result<(), E>,
) -> Result<(), ReadStop<E>> {
    loop {
        let (text, dropped) = match decoder.next(&mut bytes) {
            proto::ProtoStep::More => return Ok(()),
            proto::ProtoStep::Event { text, dropped } => (text, dropped),
            // It travels as what it is, as a malformed frame of SSE does.
            proto::ProtoStep::Unknown { message } | proto::ProtoStep::Malformed { message, .. } => {
                (proto::to_data_url(&message), 0)
            }
            proto::ProtoStep::Failed(proto::ProtoError::FrameTooLarge { limit }) => {
                return Err(ReadStop::Framing(SseError::FrameTooLarge { limit }));
            }
        };
        *events += 1;
        taker(EventPosition { event: *events, line: 0, dropped }, &text).map_err(ReadStop::Consumer)?;
    }
}

/// Whether a byte is neither blank nor of a BOM.
fn is_text(byte: &u8) -> bool {
    !byte.is_ascii_whitespace() && !BOM.contains(byte)
}

fn emit_line<E>(
    place: EventPosition,
    line: &[u8],
    taker: &mut impl FnMut(EventPosition, &str) -> Result<(), E>,
) -> Result<(), ReadStop<E>> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    if text.is_empty() { Ok(()) } else { taker(place, text).map_err(ReadStop::Consumer) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Framing;
    use crate::dialect::{AG_UI, PeerDialect};
    use crate::translate::Stream;

    const EVENTS: [&str; 3] =
        [r#"{"type":"A"}"#, r#"{"type":"B","value":{"a":{"b":[{}, {"c":1}]}}}"#, r#"{"type":"C"}"#];

    /// The events of an input in two pieces, and where they stand.
    fn read(input: &[u8], cut: usize) -> Vec<(usize, usize, String)> {
        let mut found = Vec::new();
        let mut taker = |place: EventPosition, data: &str| {
            found.push((place.event, place.line, data.to_owned()));
            Ok::<(), ()>(())
        };
        let mut recording = RecordingReader::new(ProtobufInput::Detect);
        for piece in [&input[..cut], &input[cut..]] {
            recording.push(piece, &mut taker).expect("no limit is near");
        }
        recording.finish(&mut taker).expect("no limit is near");
        found
    }

    /// A piece that begins with a brace is no line that does.
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
