//! The shortcut for a frame that repeats the one before it with another text.
//!
//! Nearly every frame of a stream is the one before it with another `delta` and `timestamp`. When the engine has
//! translated two such frames in full, and did nothing but write one frame for each, what it did is known: the values
//! that differ between the two frames appear in the two outputs as they are, and everything else stays. The next frame
//! is compared with the known text piece by piece, its values are copied, and anything else takes the full way.
//!
//! ```text
//!   read     {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta": "…" ,"timestamp": 1 }
//!   written  {"type":"BUSINESS_DATA_CONTENT","messageId":"m","delta": "…" ,"timestamp": 1 }
//! ```
//! It learns from the engine's own output, and is right as long as the engine copies these values and keeps nothing of
//! them. A value that the engine or a dialect may look into, such as text that is JSON, always takes the full way
//! (`is_plain_text` lists them); what is known stays known if its output has the same form. Tests compare whole streams
//! with and without it.

use super::frame_text::{
    JsonScalar, differing_scalars, is_plain_text, is_same_number_form, string_length, text_length,
};
use crate::event::EventType;
use std::borrow::Cow;
use std::ops::Range;

/// Members of the built-in dialects whose text may differ between two frames. No engine state depends on them.
pub(super) const TEXT_MEMBERS: [Cow<'static, str>; 4] =
    [Cow::Borrowed("delta"), Cow::Borrowed("content"), Cow::Borrowed("text"), Cow::Borrowed("data")];

/// Members whose digits may differ, if both sides have the same unit of time.
const TIME_MEMBER: &str = "timestamp";

/// Larger frames are rare, and copying them dominates their translation.
const FRAME_LIMIT: usize = 4 * 1024;

/// Values that may differ between two frames.
const MOST_VALUES: usize = 4;

/// Places in the output that have one of these values.
const MOST_COPIES: usize = 6;

/// Frames in a row that may teach nothing, and frames for which no attempt follows.
const FRUITLESS_ATTEMPTS: u8 = 8;
const PAUSE: u8 = 64;

/// The event of a frame, and the labels to count for it. The full way changed nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameLabels {
    pub(super) kind: EventType,
    /// index in `TranslationReport::events_read`
    pub(super) label_read: usize,
    /// index in `TranslationReport::events_written`
    pub(super) label_written: usize,
}

/// A frame that the engine translated in full.
#[derive(Clone, Copy)]
pub(super) struct TranslatedFrame<'f> {
    /// `None` for dialects that do not read it
    pub(super) event_line: Option<&'f str>,
    pub(super) reads_event_line: bool,
    /// whether texts may come again as a whole, which need no event then
    pub(super) compares_texts: bool,
    pub(super) data: &'f str,
    /// without the line of the frame's id
    pub(super) output: &'f [u8],
    pub(super) labels: FrameLabels,
    pub(super) members: VaryingMembers<'f>,
    pub(super) copies_time: bool,
    /// the piece of arguments that is kept of it
    pub(super) arguments: Option<&'f str>,
}

/// The members whose values may differ in the next frame.
#[derive(Clone, Copy)]
pub(super) struct VaryingMembers<'f> {
    /// those whose text is copied and not compared
    pub(super) copied: &'f [Cow<'static, str>],
    /// the only ones that are read; `None` if all are
    pub(super) read: Option<&'f [Cow<'static, str>]>,
}

impl VaryingMembers<'_> {
    fn is_copied(&self, name: &str) -> bool {
        self.copied.iter().any(|copied| copied == name)
    }

    /// Returns true also for values without a name, and for names with escapes, which may be any.
    fn is_read(&self, name: &str) -> bool {
        let is_known = !(name.is_empty() || name.contains('\\'));
        !is_known || self.read.is_none_or(|read| read.iter().any(|read| read == name))
    }
}

/// Returns true if an event of this type may leave the state of a run as it is.
pub(super) const fn is_repeatable(kind: EventType) -> bool {
    matches!(kind, EventType::TextMessageContent | EventType::ReasoningMessageContent | EventType::ToolCallArgs)
}

/// A frame that the engine translated in full, its output, and where the values are in both.
// In this order in memory: what every event touches comes first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct RepeatedFrames {
    /// the frame, and behind it the output without the line of the frame's id
    pub(super) texts: Box<str>,
    frame_length: usize,
    /// `None` until two frames were compared
    slots: Option<FrameSlots>,
    reads_event_line: bool,
    pub(super) compares_texts: bool,
    /// frames in a row that did not repeat the one before
    fruitless: u8,
    labels: FrameLabels,
    /// `None` for dialects that do not read it
    event_line: Option<Box<str>>,
    /// the piece of arguments that is kept of the frame
    arguments: Option<Box<str>>,
}

/// The places that may differ in a frame that repeats the known one. They are small and in one piece, since most
/// streams are not in the processor's caches when their next event comes.
#[derive(Debug)]
struct FrameSlots {
    /// in the frame, in order
    values: [Option<FrameValue>; MOST_VALUES],
    /// in the output, in order
    copies: [Option<CopiedValue>; MOST_COPIES],
}

/// A place in the output that has a value of the frame.
#[derive(Clone, Copy, Debug)]
struct CopiedValue {
    range: ShortRange,
    /// which of the values
    value: u8,
}

/// A range in a text of at most [`FRAME_LIMIT`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShortRange {
    start: u16,
    end: u16,
}

/// The places of the values in a frame that repeats the known one.
pub(super) type FoundValues = [(usize, usize); MOST_VALUES];

/// A value that may differ from frame to frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameValue {
    range: ShortRange,
    kind: ValueKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    /// without its quotes; with escapes if the engine was seen to copy them
    Text { has_escapes: bool },
    /// digits, as many as were seen
    Number,
}

impl ShortRange {
    fn new(range: Range<usize>) -> Option<Self> {
        Some(ShortRange { start: u16::try_from(range.start).ok()?, end: u16::try_from(range.end).ok()? })
    }

    fn as_range(self) -> Range<usize> {
        usize::from(self.start)..usize::from(self.end)
    }
}

impl FrameSlots {
    fn values(&self) -> impl Iterator<Item = FrameValue> {
        self.values.iter().map_while(|value| *value)
    }

    fn copies(&self) -> impl Iterator<Item = CopiedValue> {
        self.copies.iter().map_while(|copy| *copy)
    }
}

impl RepeatedFrames {
    /// Keeps a frame to compare the next one with. `before` is the one before it, unless the state changed in between.
    pub(super) fn learn(before: Option<Box<Self>>, translated: TranslatedFrame<'_>) -> Option<Box<Self>> {
        let TranslatedFrame { event_line, reads_event_line, compares_texts, data: frame, output, labels, .. } =
            translated;
        let mut fruitless = before.as_ref().map_or(0, |known| known.fruitless);
        if fruitless >= FRUITLESS_ATTEMPTS {
            fruitless = if fruitless < FRUITLESS_ATTEMPTS + PAUSE { fruitless + 1 } else { 0 };
            let mut known = before?;
            (known.slots, known.fruitless) = (None, fruitless);
            return Some(known);
        }
        if frame.len() + output.len() > FRAME_LIMIT {
            return None;
        }
        let mut before = before.filter(|known| known.labels == labels && known.event_line.as_deref() == event_line);
        if before.as_mut().is_some_and(|known| known.confirm(frame, output)) {
            return before;
        }
        let output = str::from_utf8(output).ok()?;
        let slots = before.and_then(|known| known.compare(&translated, output));
        let fruitless = if slots.is_some() { 0 } else { fruitless + 1 };
        let event_line = event_line.map(Into::into);
        Some(Box::new(RepeatedFrames {
            texts: [frame, output].concat().into(),
            frame_length: frame.len(),
            slots,
            reads_event_line,
            compares_texts,
            fruitless,
            labels,
            event_line,
            arguments: translated.arguments.map(Into::into),
        }))
    }

    fn frame(&self) -> &str {
        &self.texts[..self.frame_length]
    }

    fn output(&self) -> &str {
        &self.texts[self.frame_length..]
    }

    /// Finds the values of the next frame, which the engine translated to `output`.
    fn compare(&self, translated: &TranslatedFrame<'_>, output: &str) -> Option<FrameSlots> {
        let TranslatedFrame { data: frame, members, .. } = *translated;
        let differing = differing_scalars(self.frame(), frame)?;
        let (was_kept, kept) = (self.arguments.as_deref(), translated.arguments);
        let is_kept = |(old, new): &(JsonScalar<'_>, JsonScalar<'_>)| {
            let is_same = || was_kept == self.frame().get(old.range.clone()) && kept == frame.get(new.range.clone());
            !new.is_text || kept.is_none() || is_same()
        };
        if differing.len() > MOST_VALUES || !differing.iter().all(is_kept) {
            return None;
        }
        let mut values = [None; MOST_VALUES];
        for (value, (old, new)) in values.iter_mut().zip(&differing) {
            let (was, is) = (&self.frame()[old.range.clone()], &frame[new.range.clone()]);
            let kind = if new.is_text {
                let is_free = members.is_copied(new.name) || !members.is_read(new.name);
                let may_differ = is_free && is_plain_text(was) && is_plain_text(is);
                may_differ.then_some(ValueKind::Text { has_escapes: was.contains('\\') || is.contains('\\') })?
            } else {
                // The rules of a file may compare a time.
                let is_time = translated.copies_time && new.name == TIME_MEMBER && members.read.is_none();
                let is_free = is_time || !members.is_read(new.name);
                let may_differ = is_free && is_same_number_form(was, is);
                may_differ.then_some(ValueKind::Number)?
            };
            *value = Some(FrameValue { range: ShortRange::new(new.range.clone())?, kind });
        }
        let mut copies = [None; MOST_COPIES];
        for (at, (old, new)) in differing_scalars(self.output(), output)?.into_iter().enumerate() {
            let (was, is) = (&self.output()[old.range], &output[new.range.clone()]);
            let is_source = |(before, after): &(JsonScalar<'_>, JsonScalar<'_>)| {
                before.is_text == new.is_text
                    && self.frame()[before.range.clone()] == *was
                    && frame[after.range.clone()] == *is
            };
            let mut sources = (0..differing.len()).filter(|which| is_source(&differing[*which]));
            // Two values that were equal in both frames cannot be told apart.
            let (Some(which), None) = (sources.next(), sources.next()) else { return None };
            let value = u8::try_from(which).ok()?;
            *copies.get_mut(at)? = Some(CopiedValue { range: ShortRange::new(new.range)?, value });
        }
        // A value that was read, and is nowhere in the output, may have decided something in it.
        let is_known = |which: usize| {
            copies.iter().flatten().any(|copy| usize::from(copy.value) == which)
                || !members.is_read(differing[which].1.name)
        };
        (0..differing.len()).all(is_known).then_some(FrameSlots { values, copies })
    }

    /// Returns true if a frame that the engine translated in full repeats the known one: only its text, into which the
    /// engine may look, did not allow the shortcut.
    fn confirm(&mut self, frame: &str, output: &[u8]) -> bool {
        let Some(found) = self.find_values_with(frame, |rest, _| Some(string_length(rest.as_bytes()))) else {
            return false;
        };
        let mut repeated = Vec::with_capacity(output.len());
        self.write(frame, &found, &mut repeated);
        if repeated != output {
            return false;
        }
        let values = self.slots.iter_mut().flat_map(|slots| &mut slots.values).flatten();
        for (value, (start, end)) in values.zip(found) {
            if let ValueKind::Text { has_escapes } = &mut value.kind {
                *has_escapes |= frame[start..end].contains('\\');
            }
        }
        true
    }

    /// Returns the values of a frame that repeats the known one.
    pub(super) fn find_values(&self, event_line: Option<&str>, frame: &str) -> Option<FoundValues> {
        if self.reads_event_line && self.event_line.as_deref() != event_line {
            return None;
        }
        self.find_values_with(frame, text_length)
    }

    pub(super) fn kind(&self) -> EventType {
        self.labels.kind
    }

    /// Returns the only text that differs, without its quotes. It is that of the arguments, if they are kept.
    pub(super) fn varying_text<'f>(&self, frame: &'f str, found: &FoundValues) -> Option<&'f str> {
        let values = self.slots.as_ref()?.values().zip(found);
        let mut texts = values.filter(|(value, _)| matches!(value.kind, ValueKind::Text { .. }));
        let (Some((_, (start, end))), None) = (texts.next(), texts.next()) else { return None };
        frame.get(*start..*end)
    }

    /// Returns the text that is copied, in its quotes, if it is the only value that is.
    pub(super) fn copied_text<'f>(&self, frame: &'f str, found: &FoundValues) -> Option<&'f str> {
        let slots = self.slots.as_ref()?;
        let mut copies = slots.copies();
        let (Some(CopiedValue { value, .. }), None) = (copies.next(), copies.next()) else { return None };
        let (start, end) = found[usize::from(value)];
        let is_text =
            slots.values[usize::from(value)].is_some_and(|value| matches!(value.kind, ValueKind::Text { .. }));
        frame.get(start.checked_sub(1)?..end + 1).filter(|_| is_text)
    }

    /// Returns the values of a frame that has the known text between them. `measure_text` returns the length of a text
    /// up to its closing quote, if the text is allowed; its second argument says if escapes are.
    fn find_values_with(&self, frame: &str, measure_text: impl Fn(&str, bool) -> Option<usize>) -> Option<FoundValues> {
        let (known, bytes) = (&self.texts.as_bytes()[..self.frame_length], frame.as_bytes());
        let (mut found, mut known_at, mut at) = (FoundValues::default(), 0, 0);
        for (value, found) in self.slots.as_ref()?.values().zip(&mut found) {
            let range = value.range.as_range();
            let literal = &known[known_at..range.start];
            let start = at + literal.len();
            if bytes.get(at..start)? != literal {
                return None;
            }
            at = match value.kind {
                ValueKind::Text { has_escapes } => start + measure_text(&frame[start..], has_escapes)?,
                ValueKind::Number => {
                    let end = start + range.len();
                    is_same_number_form(&self.frame()[range.clone()], frame.get(start..end)?).then_some(end)?
                }
            };
            *found = (start, at);
            known_at = range.end;
        }
        (bytes[at..] == known[known_at..]).then_some(found)
    }

    /// Appends the output for a frame with these values, and returns what to count.
    pub(super) fn write(&self, frame: &str, found: &FoundValues, out: &mut Vec<u8>) -> FrameLabels {
        let (known, mut from) = (&self.texts.as_bytes()[self.frame_length..], 0);
        for copy in self.slots.iter().flat_map(FrameSlots::copies) {
            let (range, (start, end)) = (copy.range.as_range(), found[usize::from(copy.value)]);
            out.extend_from_slice(&known[from..range.start]);
            out.extend_from_slice(&frame.as_bytes()[start..end]);
            from = range.end;
        }
        out.extend_from_slice(&known[from..]);
        self.labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: FrameLabels = FrameLabels { kind: EventType::TextMessageContent, label_read: 3, label_written: 5 };

    fn read(text: &str, time: &str) -> String {
        format!(r#"{{"type":"T","messageId":"m","delta":"{text}","timestamp":{time}}}"#)
    }

    fn written(text: &str, time: &str) -> String {
        format!("event: T\ndata: {{\"id\":\"m\",\"text\":\"{text}\",\"at\":{time}}}\n\n")
    }

    fn learn_one(before: Option<Box<RepeatedFrames>>, data: &str, output: &str) -> Option<Box<RepeatedFrames>> {
        let members = VaryingMembers { copied: &TEXT_MEMBERS, read: None };
        let output = output.as_bytes();
        let frame = TranslatedFrame {
            event_line: None,
            reads_event_line: false,
            compares_texts: false,
            data,
            output,
            labels: LABELS,
            members,
            copies_time: true,
            arguments: None,
        };
        RepeatedFrames::learn(before, frame)
    }

    fn learn(samples: &[(&str, &str)]) -> RepeatedFrames {
        let learn_sample =
            |before, (text, time): &(&str, &str)| learn_one(before, &read(text, time), &written(text, time));
        *samples.iter().fold(None, learn_sample).expect("a short frame")
    }

    fn repeat(known: &RepeatedFrames, frame: &str) -> Option<String> {
        let (found, mut out) = (known.find_values(None, frame)?, Vec::new());
        assert_eq!(known.write(frame, &found, &mut out), LABELS);
        Some(String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn copies_the_values_that_differed() {
        let known = learn(&[("a", "100"), ("bc", "101")]);
        for (text, time) in [("d", "101"), (" word", "999"), ("你好，世界", "102"), ("2024 年", "102"), ("x{", "103")]
        {
            assert_eq!(repeat(&known, &read(text, time)), Some(written(text, time)), "{text} {time}");
        }
    }

    #[test]
    fn knows_the_form_still_after_text_that_took_the_full_way() {
        let known = learn(&[("a", "100"), ("bc", "101"), ("{1}", "102"), (r#"{\"a\"} b"#, "103")]);
        assert_eq!(repeat(&known, &read("{2}", "104")), None);
        for text in ["d", r#"e \"f\""#] {
            assert_eq!(repeat(&known, &read(text, "104")), Some(written(text, "104")), "{text}");
        }
        // The same frame with another output teaches anew.
        let other = learn_one(Some(Box::new(known)), &read("{3}", "105"), "data: x\n\n");
        assert_eq!(other.and_then(|known| repeat(&known, &read("d", "106"))), None);
    }

    #[test]
    fn leaves_everything_else_to_the_full_way() {
        let known = learn(&[("a", "100"), ("bc", "101")]);
        let other = [
            "", " ", "{}", "a}", r"a} \n ", "[1]", "12", "-1e5", "true", "nullable", r#"\"q\""#, r"\n{", r"a\u4f60",
            "a\nb", "a\u{1}b",
        ];
        for (text, time) in other
            .map(|text| (text, "102"))
            .into_iter()
            .chain(["1", "1000", "012", "-12", "1.5", "null"].map(|time| ("a", time)))
        {
            assert_eq!(repeat(&known, &read(text, time)), None, "{text} {time}");
        }
        for frame in [
            "",
            "{}",
            &read("a", "100")[1..],
            &format!("{} ", read("a", "100")),
            &read("a", "100").replace("\"m\"", "\"n\""),
        ] {
            assert_eq!(repeat(&known, frame), None, "{frame}");
        }
    }

    #[test]
    fn copies_escapes_once_it_saw_them_copied() {
        assert_eq!(repeat(&learn(&[("a", "100"), ("b", "101")]), &read(r"c\n", "102")), None);
        let known = learn(&[("a", "100"), (r"b\n\n", "101")]);
        assert_eq!(repeat(&known, &read(r#"c\"\\ \/"#, "102")), Some(written(r#"c\"\\ \/"#, "102")));
        assert_eq!(repeat(&known, &read(r"c\ud83d", "102")), None);
    }

    #[test]
    fn learns_only_from_copies() {
        let pairs = [
            // The output has another text, the time converted, and the time not at all.
            (read("a", "100"), written("A", "100"), read("b", "100"), written("B", "100")),
            (read("a", "100"), written("a", "1"), read("a", "101"), written("a", "2")),
            (read("a", "100"), written("a", "1"), read("a", "101"), written("a", "1")),
            // Other ids are other state.
            (
                read("a", "1"),
                written("a", "1"),
                read("a", "1").replace("\"m\"", "\"n\""),
                written("a", "1").replace("\"m\"", "\"n\""),
            ),
        ];
        for (first, first_output, second, second_output) in pairs {
            let before = learn_one(None, &first, &first_output);
            let known = learn_one(before, &second, &second_output).expect("a short frame");
            assert_eq!(repeat(&known, &second), None, "{first} {second}");
        }
    }

    #[test]
    fn pauses_after_frames_that_do_not_repeat() {
        let mut known = None;
        let forms = [read("a", "100"), read("a", "100").replace("\"m\"", "\"n\"")];
        let sample = |known, at: usize| learn_one(known, &forms[at % 2], &written("a", "100"));
        for at in 0..usize::from(FRUITLESS_ATTEMPTS) {
            known = sample(known, at);
        }
        let learnt = (0..300).filter(|_| {
            known = sample(known.take(), 0);
            known.as_ref().is_some_and(|known| known.slots.is_some())
        });
        assert!(learnt.count() > 100, "it tries again");
    }
}
