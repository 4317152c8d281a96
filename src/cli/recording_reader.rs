//! A recorded stream: SSE, NDJSON or AG-UI's protobuf, read as it comes, each event with its number and its line.

use crate::codec::proto;
use crate::codec::sse::{Decoder, Fault, Limits, Step};
use std::fmt;

/// U+FEFF in UTF-8, which some editors put before a text.
const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// its number, from 1 on
    pub event: usize,
    /// its first line, from 1 on; 0 in protobuf, which has none
    pub line: usize,
    /// parts of its content that have no name here and were left out; protobuf alone
    pub dropped: usize,
}

impl fmt::Display for Place {
    /// What is put behind the name of the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place { event, line: 0, .. } => write!(f, ": event {event}"),
            Place { event, line, .. } => write!(f, ":{line}: event {event}"),
        }
    }
}

/// Whether a recording may be in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Never,
    /// if its first byte says so
    Perhaps,
    Surely,
}

/// Why reading stopped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop<E> {
    /// the framing
    Framing(Fault),
    /// whoever takes the events
    Taker(E),
}

/// The reading side of a recording.
#[derive(Debug)]
pub(super) struct Recording {
    form: Form,
    binary: Binary,
    events: usize,
    /// the line that is read, from 1 on
    line: usize,
    /// how much of it has been read
    seen: Seen,
    /// whether the byte before was CR, so that LF belongs to it
    after_cr: bool,
    /// the first line of the event that is read
    first: Option<usize>,
}

/// What of a line was read so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Nothing,
    /// white space, or a BOM
    Blanks,
    Text,
}

/// How the input is framed, across the pieces in which it is read. Its first byte that is neither blank nor of a BOM
/// decides, once.
#[derive(Debug)]
enum Form {
    /// nothing but blanks and a BOM so far
    Unknown(Decoder),
    Sse(Decoder),
    /// the line that is not whole yet
    Ndjson(Vec<u8>),
    Proto(proto::Decoder),
}

impl Recording {
    pub fn new(binary: Binary) -> Self {
        let form = match binary {
            Binary::Surely => Form::proto(),
            Binary::Never | Binary::Perhaps => Form::Unknown(Decoder::default()),
        };
        Recording { form, binary, events: 0, line: 1, seen: Seen::Nothing, after_cr: false, first: None }
    }

    /// Takes bytes as they were read, and gives each event that is whole to `taker`.
    ///
    /// # Errors
    /// When a frame is over the limit, or `taker` has enough.
    pub fn push<E>(
        &mut self,
        bytes: &[u8],
        taker: &mut impl FnMut(Place, &str) -> Result<(), E>,
    ) -> Result<(), Stop<E>> {
        let begins = self.line == 1 && self.seen == Seen::Nothing && matches!(self.form, Form::Unknown(_));
        // The length of a frame is below 2^24, and no text begins with NUL.
        if begins && self.binary == Binary::Perhaps && bytes.first() == Some(&0) {
            self.form = Form::proto();
        }
        if let Form::Proto(decoder) = &mut self.form {
            return frames(decoder, bytes, &mut self.events, taker);
        }
        for line in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let line = self.decide(line);
            self.part(line, taker)?;
        }
        Ok(())
    }

    /// The input has ended; its last event may lack its line end.
    ///
    /// # Errors
    /// As [`Recording::push`].
    pub fn finish<E>(mut self, taker: &mut impl FnMut(Place, &str) -> Result<(), E>) -> Result<(), Stop<E>> {
        let place = self.place();
        match &mut self.form {
            Form::Ndjson(line) => give_line(place, line, taker),
            // A frame that is cut is none.
            Form::Proto(_) => Ok(()),
            Form::Unknown(decoder) | Form::Sse(decoder) => loop {
                match decoder.finish() {
                    Step::More => return Ok(()),
                    Step::Frame(frame) => taker(place, &frame.data).map_err(Stop::Taker)?,
                    Step::Broken(fault) => return Err(Stop::Framing(fault)),
                }
            },
        }
    }

    /// A line of SSE that anybody reads never begins with a brace: that would be the name of a field. Gives what is to be
    /// read.
    fn decide<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        if let Form::Unknown(decoder) = &mut self.form {
            match bytes.iter().position(is_text) {
                // What stands before it may be half a BOM.
                Some(at) if bytes[at] == b'{' => {
                    self.form = Form::Ndjson(Vec::new());
                    return &bytes[at..];
                }
                Some(_) => self.form = Form::Sse(std::mem::take(decoder)),
                None => {}
            }
        }
        bytes
    }

    /// One line, or a part of one.
    fn part<E>(&mut self, bytes: &[u8], taker: &mut impl FnMut(Place, &str) -> Result<(), E>) -> Result<(), Stop<E>> {
        // CR LF is one line end.
        let rest_of_end = bytes == b"\n" && self.after_cr;
        let ends = matches!(bytes, [.., b'\n' | b'\r']) && !rest_of_end;
        let empty = ends && bytes.len() == 1 && self.seen == Seen::Nothing;
        match bytes.iter().find(|byte| is_text(byte)) {
            Some(first) if self.seen != Seen::Text => {
                self.seen = Seen::Text;
                // A comment is no part of an event.
                if *first != b':' {
                    self.first.get_or_insert(self.line);
                }
            }
            None if self.seen == Seen::Nothing && !ends && !rest_of_end => self.seen = Seen::Blanks,
            _ => {}
        }
        let place = self.place();
        let before = self.events;
        match &mut self.form {
            Form::Ndjson(line) => {
                line.extend_from_slice(bytes);
                if ends {
                    self.events += usize::from(!line.trim_ascii().is_empty());
                    let line = std::mem::take(line);
                    give_line(place, &line, taker)?;
                }
            }
            Form::Proto(_) => {}
            // What came first belongs to the line of SSE that may come behind it, and is nothing otherwise.
            Form::Unknown(decoder) | Form::Sse(decoder) => {
                let mut rest = bytes;
                loop {
                    match decoder.next(&mut rest) {
                        Step::More => break,
                        Step::Frame(frame) => {
                            self.events += 1;
                            taker(place, &frame.data).map_err(Stop::Taker)?;
                        }
                        Step::Broken(fault) => return Err(Stop::Framing(fault)),
                    }
                }
            }
        }
        if self.events > before || empty {
            self.first = None;
        }
        if ends {
            (self.line, self.seen) = (self.line + 1, Seen::Nothing);
        }
        self.after_cr = bytes.last() == Some(&b'\r');
        Ok(())
    }

    /// Where the event stands that is read.
    fn place(&self) -> Place {
        Place { event: self.events + 1, line: self.first.unwrap_or(self.line), dropped: 0 }
    }
}

impl Form {
    fn proto() -> Self {
        Form::Proto(proto::Decoder::new(Limits::default().frame))
    }
}

/// Takes frames of protobuf.
fn frames<E>(
    decoder: &mut proto::Decoder,
    mut bytes: &[u8],
    events: &mut usize,
    taker: &mut impl FnMut(Place, &str) -> Result<(), E>,
) -> Result<(), Stop<E>> {
    loop {
        let (text, dropped) = match decoder.next(&mut bytes) {
            proto::Step::More => return Ok(()),
            proto::Step::Event { text, dropped } => (text, dropped),
            // It travels as what it is, as a malformed frame of SSE does.
            proto::Step::Unknown { message } | proto::Step::Malformed { message, .. } => (proto::as_text(&message), 0),
            proto::Step::Broken(proto::Fault::FrameTooLarge { limit }) => {
                return Err(Stop::Framing(Fault::FrameTooLarge { limit }));
            }
        };
        *events += 1;
        taker(Place { event: *events, line: 0, dropped }, &text).map_err(Stop::Taker)?;
    }
}

/// Whether a byte is neither blank nor of a BOM.
fn is_text(byte: &u8) -> bool {
    !byte.is_ascii_whitespace() && !BOM.contains(byte)
}

fn give_line<E>(
    place: Place,
    line: &[u8],
    taker: &mut impl FnMut(Place, &str) -> Result<(), E>,
) -> Result<(), Stop<E>> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    if text.is_empty() { Ok(()) } else { taker(place, text).map_err(Stop::Taker) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Framing;
    use crate::dialect::{AG_UI, Side};
    use crate::translate::Stream;

    const EVENTS: [&str; 3] =
        [r#"{"type":"A"}"#, r#"{"type":"B","value":{"a":{"b":[{}, {"c":1}]}}}"#, r#"{"type":"C"}"#];

    /// The events of an input in two pieces, and where they stand.
    fn read(input: &[u8], cut: usize) -> Vec<(usize, usize, String)> {
        let mut found = Vec::new();
        let mut taker = |place: Place, data: &str| {
            found.push((place.event, place.line, data.to_owned()));
            Ok::<(), ()>(())
        };
        let mut recording = Recording::new(Binary::Perhaps);
        for piece in [&input[..cut], &input[cut..]] {
            recording.push(piece, &mut taker).expect("no limit is near");
        }
        recording.finish(&mut taker).expect("no limit is near");
        found
    }

    /// A piece that begins with a brace is no line that does.
    #[test]
    fn the_form_is_decided_once_and_lines_are_counted_wherever_the_input_is_cut() {
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
    fn protobuf_is_recognised_wherever_it_is_cut() {
        let start = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
        let side = || Side::new(&AG_UI);
        let mut stream = Stream::new(side(), side(), None, Limits::default());
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
    fn an_event_of_many_lines_stands_where_it_begins() {
        let input = b"data: {\ndata: \"type\":\"A\"}\n\n\n\nevent: x\ndata: {}\n\ndata: {\"last\":1}";
        let places: Vec<_> = read(input, 0).into_iter().map(|(event, line, _)| (event, line)).collect();
        assert_eq!(places, [(1, 1), (2, 6), (3, 9)]);
    }
}
