//! Streams of another dialect than the expected one, which knows none of their frames.
//!
//! The first frames are kept until the dialect knows one, so that the cause can be named when the run ends: the dialect
//! that they look like, built in or described by a file.

use super::detect;
use crate::dialect::{CanonicalSink, Dialect, MappedReader, PeerDialect};
use crate::event::{Event, EventLoss, EventRepair, EventType};
use std::fmt;

/// Maximum number of frames that are kept, and of their bytes together.
const MAX_KEPT_FRAMES: usize = 8;
const MAX_KEPT_BYTES: usize = 8 << 10;

/// A frame with the name that its `event:` line has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFrame {
    pub(crate) event_line: Option<String>,
    pub(crate) data: String,
}

/// The beginning of a stream, until its dialect knows a frame.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstFrames {
    unknown: Option<Box<UnknownFrames>>,
    has_known: bool,
}

impl FirstFrames {
    /// Adds a frame that was read as one of the dialect `expected`.
    pub(super) fn add(&mut self, expected: PeerDialect, is_unknown: bool, event_line: Option<&str>, data: &str) {
        if self.has_known {
            return;
        }
        self.has_known = !is_unknown;
        match is_unknown {
            true => {
                let new = || Box::new(UnknownFrames::new(expected));
                self.unknown.get_or_insert_with(new).add(event_line, data);
            }
            false => self.unknown = None,
        }
    }

    /// Returns the frames so far, if the dialect knows none of them.
    pub(super) fn unknown_frames(&self) -> Option<&UnknownFrames> {
        self.unknown.as_deref()
    }
}

/// The frames of an agent before the first that its dialect knows.
#[derive(Clone, Debug)]
pub(crate) struct UnknownFrames {
    /// name of the dialect, as in the configuration
    expected: &'static str,
    count: u64,
    kept: Vec<NamedFrame>,
    kept_bytes: usize,
}

impl UnknownFrames {
    fn new(expected: PeerDialect) -> Self {
        UnknownFrames { expected: expected.name(), count: 0, kept: Vec::new(), kept_bytes: 0 }
    }

    fn add(&mut self, event_line: Option<&str>, data: &str) {
        self.count += 1;
        let size = data.len() + event_line.map_or(0, str::len);
        if self.kept.len() < MAX_KEPT_FRAMES && self.kept_bytes + size <= MAX_KEPT_BYTES {
            self.kept_bytes += size;
            self.kept.push(NamedFrame { event_line: event_line.map(str::to_owned), data: data.to_owned() });
        }
    }

    pub(super) const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Finds the dialect that the frames look like, also among these of files. Another version of a file than the one
    /// of the route has the same name, and would be no advice.
    pub(crate) fn explain(&self, files: &[&'static Dialect]) -> ForeignStream {
        let others: Vec<_> = files.iter().copied().filter(|file| file.name != self.expected).collect();
        let looks_like = find_dialect(&self.kept, &others);
        ForeignStream { expected: self.expected, events: self.count, looks_like }
    }
}

/// A stream of which the expected dialect knows no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForeignStream {
    expected: &'static str,
    pub(crate) events: u64,
    pub(crate) looks_like: Option<&'static str>,
}

impl fmt::Display for ForeignStream {
    /// Writes the cause, without the way out, which depends on where the dialect was named.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForeignStream { expected, events, looks_like } = self;
        let looks = match events {
            1 => {
                write!(f, "the only event is not known to the dialect `{expected}`")?;
                "it looks"
            }
            _ => {
                write!(f, "none of {events} events is known to the dialect `{expected}`")?;
                "they look"
            }
        };
        looks_like.iter().try_for_each(|dialect| write!(f, "; {looks} like `{dialect}`"))
    }
}

/// A dialect file, and the frames of a run to which its rules apply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppliedFile {
    pub(crate) dialect: &'static Dialect,
    pub(crate) known: usize,
    /// up to the end of the run
    pub(crate) read: usize,
    /// whether a user sees something of one of them
    has_visible_frame: bool,
}

/// Finds the dialect file whose rules apply to most frames, and to more than half of them; of equal ones the first.
/// Frames of which a user sees nothing, such as pings, are those of any agent.
pub(crate) fn find_file(files: &[&'static Dialect], frames: &[NamedFrame]) -> Option<AppliedFile> {
    let applied = files.iter().filter_map(|file| apply_file(file, frames));
    let found: Vec<AppliedFile> =
        applied.filter(|found| found.has_visible_frame && 2 * found.known > found.read).collect();
    // Of equal ones, `max_by_key` returns the last.
    found.into_iter().rev().max_by_key(|found| found.known)
}

/// Reads a run by the rules of a dialect file. Returns `None` for a dialect that no file describes.
pub(crate) fn apply_file(dialect: &'static Dialect, frames: &[NamedFrame]) -> Option<AppliedFile> {
    let mut reader = MappedReader::new(dialect.mapping?, dialect.name);
    let mut end = RunEndSink::default();
    let mut applied = AppliedFile { dialect, known: 0, read: 0, has_visible_frame: false };
    for NamedFrame { event_line, data } in frames {
        let kind = reader.read_frame(event_line.as_deref(), data, &mut end);
        applied.read += 1;
        applied.known += usize::from(kind.is_some());
        // An error may be any text, which is that of any agent.
        let is_any_text = kind == Some(EventType::RunError) && !data.trim_start().starts_with('{');
        applied.has_visible_frame |= kind.is_some_and(|kind| kind != EventType::Raw) && !is_any_text;
        if end.has_ended {
            break;
        }
    }
    Some(applied)
}

/// Finds the dialect whose events most of the frames are.
fn find_dialect(frames: &[NamedFrame], files: &[&'static Dialect]) -> Option<&'static str> {
    let built_in = || frames.iter().map(|frame| frame.data.as_str()).filter(|data| detect::has_known_type(data));
    let count = built_in().count();
    match find_file(files, frames).filter(|found| found.known > count) {
        Some(found) => Some(found.dialect.name),
        None if 2 * count > frames.len() => Some(detect::detect_stream(built_in()).0.peer.dialect.name),
        None => None,
    }
}

/// Takes note of the end of a run.
#[derive(Default)]
struct RunEndSink {
    has_ended: bool,
}

impl CanonicalSink for RunEndSink {
    fn emit(&mut self, event: Event<'_>) {
        self.has_ended |= matches!(event.kind, EventType::RunFinished | EventType::RunError);
    }

    fn count_repair(&mut self, _: EventRepair) {}

    fn count_allowed_repair(&mut self, _: EventRepair) {}

    fn count_loss(&mut self, _: EventLoss) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;
    use crate::dialect::HAI;

    fn hai() -> UnknownFrames {
        UnknownFrames::new(PeerDialect::new(&HAI))
    }

    #[test]
    fn keeps_a_bounded_beginning() {
        let mut frames = hai();
        let large = "x".repeat(MAX_KEPT_BYTES);
        for data in [&*large, "a", &*large].into_iter().chain(std::iter::repeat_n("b", 100)) {
            frames.add(Some("e"), data);
        }
        assert!(frames.kept.len() == MAX_KEPT_FRAMES && frames.kept_bytes() <= MAX_KEPT_BYTES, "{frames:?}");
        let explained = frames.explain(&[]).to_string();
        assert_eq!(explained, "none of 103 events is known to the dialect `hai`");
    }

    const CHUNK: &str = r#"{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}"#;
    const MESSAGE: &str = r#"{"event":"message","task_id":"t","id":"1","answer":"Hi","created_at":1}"#;
    const START: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
    const OTHER: &str = r#"{"hello":"world"}"#;

    #[test]
    fn names_the_dialect_of_most_frames_up_to_the_end_of_the_run() {
        let files = load::known_file_dialects();
        let both = format!("{},{}", &CHUNK[..CHUNK.len() - 1], &MESSAGE[1..]);
        let event = format!("{},{}", &CHUNK[..CHUNK.len() - 1], &START[1..]);
        let rows: [(&[&str], _); 6] = [
            (&[CHUNK, OTHER], None),
            (&[START, OTHER], None),
            (&[START, START, OTHER], Some("ag-ui")),
            (&[r#"{"event":"ping"}"#], None),
            (&[CHUNK, "[DONE]", OTHER, OTHER, OTHER], Some("openai-chat")),
            (&[&event], Some("ag-ui")),
        ];
        let look = |frames: &[&str], files: &[&'static Dialect]| {
            let mut unknown = hai();
            frames.iter().for_each(|data| unknown.add(None, data));
            unknown.explain(files).looks_like
        };
        for (frames, expected) in rows {
            assert_eq!(look(frames, &files), expected, "{frames:?}");
        }
        let reversed: Vec<_> = files.iter().rev().copied().collect();
        assert_eq!(
            look(&[&both], &files),
            files.iter().find(|file| look(&[&both], &[*file]).is_some()).map(|file| file.name)
        );
        assert_ne!(look(&[&both], &files), look(&[&both], &reversed), "of equal ones the first");
    }

    #[test]
    fn a_known_frame_says_that_the_dialect_is_right() {
        let mut first = FirstFrames::default();
        let mut add = |is_unknown| {
            first.add(PeerDialect::new(&HAI), is_unknown, None, OTHER);
            first.unknown_frames().is_some()
        };
        assert_eq!([add(true), add(false), add(true)], [true, false, false]);
    }

    #[test]
    fn names_the_dialect_that_the_frames_look_like() {
        let files = load::known_file_dialects();
        for (event_line, data, expected) in [
            (None, r#"{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}"#, "openai-chat"),
            (None, r#"{"event":"message","task_id":"t","id":"1","answer":"Hi","created_at":1}"#, "dify-chat"),
            (
                Some("conversation.message.delta"),
                r#"{"id":"1","type":"answer","content":"a","content_type":"text"}"#,
                "coze-chat",
            ),
            (None, r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#, "ag-ui"),
            (None, r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"m","delta":"Hi"}"#, "hai"),
        ] {
            let mut frames = hai();
            frames.add(event_line, data);
            assert_eq!(frames.explain(&files).looks_like, Some(expected), "{data}");
        }
        let mut own = UnknownFrames { expected: "openai-chat", ..hai() };
        own.add(None, CHUNK);
        assert_eq!(own.explain(&files).looks_like, None, "another version of its file is no advice");
        let mut frames = UnknownFrames::new(PeerDialect::new_auto());
        frames.add(None, r#"{"hello":"world"}"#);
        assert_eq!(frames.explain(&files).to_string(), "the only event is not known to the dialect `auto`");
    }
}
