//! Finds frames of examples that are not what they were meant to be: two that run together, broken JSON, and lines
//! without `data:`.

use super::compiler::DialectCompiler;
use crate::config::problem::SourcePosition;
use crate::config::spanned_tree::{MapEntry, NodeValue, join_key};
use serde::de::IgnoredAny;

/// A mistake in a frame, and what it prevents.
struct FrameFault {
    /// in lines of the stream, counted from 0
    line: usize,
    /// in characters of that line, counted from 0
    column: usize,
    message: String,
    hint: &'static str,
    /// whether rules find nothing in the frame, or the wrong values
    breaks_frame: bool,
}

/// A line of a stream that is not blank.
#[derive(Clone, Copy)]
struct StreamLine<'t> {
    number: usize,
    text: &'t str,
}

impl<'t> StreamLine<'t> {
    /// Returns the value of a field.
    fn value(self, name: &str) -> Option<&'t str> {
        let value = self.text.strip_prefix(name)?.strip_prefix(':')?;
        Some(value.strip_prefix(' ').unwrap_or(value))
    }

    /// Returns whether a line is a field or a comment. The first may have a mark of the byte order.
    fn is_field(self) -> bool {
        let text = if self.number == 0 { self.text.trim_start_matches('\u{feff}') } else { self.text };
        let name = text.split(':').next().unwrap_or_default();
        ["", "data", "event", "id", "retry"].contains(&name)
    }

    fn fault(self, column: usize, message: impl Into<String>, hint: &'static str) -> FrameFault {
        FrameFault { line: self.number, column, message: message.into(), hint, breaks_frame: true }
    }
}

impl DialectCompiler<'_> {
    /// Warns about the frames of the example at `path` whose mistakes would be blamed on the rules.
    pub(super) fn check_frames(&mut self, path: &str, stream: &MapEntry, bytes: &str) {
        let path = join_key(path, &stream.key);
        let mut frame = Vec::new();
        // The last frame of an example may lack its blank line.
        for (number, text) in bytes.lines().chain([""]).enumerate() {
            if !text.trim().is_empty() {
                frame.push(StreamLine { number, text });
                continue;
            }
            if let Some(fault) = find_fault(&frame) {
                self.has_broken_frames |= fault.breaks_frame;
                let text = frame.iter().find(|line| line.number == fault.line).map_or("", |line| line.text);
                let position = self.position_in(stream, &fault, text);
                self.warn(&path, position, fault.message, fault.hint);
            }
            frame.clear();
        }
    }

    /// Returns the line of the file that has the first line of a stream, if the file has its lines as they are.
    pub(super) fn stream_line(&self, stream: &MapEntry) -> Option<u64> {
        let NodeValue::Scalar(bytes) = &stream.value.value else { return None };
        let line = stream.position?.line + 1;
        let written = self.text.lines().nth(usize::try_from(line).ok()? - 1)?;
        bytes.text.lines().next().filter(|first| written.ends_with(first)).map(|_| line)
    }

    /// Returns where the file has a line of the stream, or the key if its lines are not those of the file.
    fn position_in(&self, stream: &MapEntry, fault: &FrameFault, text: &str) -> Option<SourcePosition> {
        let key = stream.position?;
        let below = usize::try_from(key.line).unwrap_or(usize::MAX).saturating_add(fault.line);
        let written = self.text.lines().nth(below).unwrap_or_default();
        let Some(begin) = written.find(text) else { return Some(key) };
        let count = |count: usize| u64::try_from(count).unwrap_or_default();
        let column = written[..begin].chars().count() + fault.column + 1;
        Some(SourcePosition { line: key.line + 1 + count(fault.line), column: count(column) })
    }
}

fn find_fault(frame: &[StreamLine<'_>]) -> Option<FrameFault> {
    let together = "two frames run together, because no empty line stands between them";
    let way_out = "put an empty line above this one";
    if let Some(second) = frame.iter().filter(|line| line.value("event").is_some()).nth(1) {
        return Some(second.fault(0, together, way_out));
    }
    if let Some(fault) = frame.iter().find_map(|line| find_name_fault(*line)) {
        return Some(fault);
    }
    if let Some(line) = frame.iter().find(|line| line.text.starts_with('{')) {
        return Some(line.fault(0, "this line has no `data:`, so it is ignored", "write `data: ` before it"));
    }
    if let Some(line) = frame.iter().find(|line| !line.is_field()) {
        let hint = "write `data: `, `event: `, `id: ` or `retry: `, in small letters, or remove the line";
        // It may be a field of the agent's own.
        let fault = line.fault(0, "this line is no field of a stream, so it is ignored", hint);
        return Some(FrameFault { breaks_frame: false, ..fault });
    }
    let data: Vec<_> = frame.iter().filter_map(|line| Some((*line, line.value("data")?))).collect();
    let whole = data.iter().map(|(_, value)| *value).collect::<Vec<_>>().join("\n");
    // Other texts, such as `[DONE]`, are not meant as JSON.
    if !["{", "[{"].iter().any(|start| whole.trim_start().starts_with(start)) {
        return None;
    }
    let error = parse(&whole).err()?;
    if let [(first, _), _, ..] = data.as_slice()
        && data.iter().all(|(_, value)| parse(value).is_ok())
        && let Some(next) = frame.iter().find(|line| line.number > first.number)
    {
        return Some(next.fault(0, together, way_out));
    }
    let (line, value) = *data.get(error.line().saturating_sub(1)).or(data.last())?;
    let before = value.get(..error.column().saturating_sub(1)).unwrap_or(value);
    let prefix = line.text.len() - value.len();
    let cause = error.to_string();
    let cause = cause.split(" at line ").next().unwrap_or_default();
    let column = prefix + before.chars().count();
    let hint = "correct it: rules find no values in a frame that is no JSON";
    Some(line.fault(column, format!("this frame is no JSON: {cause}"), hint))
}

/// Finds what is a part of an event's name, and not meant as such.
fn find_name_fault(line: StreamLine<'_>) -> Option<FrameFault> {
    let name = line.value("event")?;
    let begin = line.text.len() - name.len();
    let column = |at: usize| line.text[..begin + at].chars().count();
    if let Some(at) = name.find(" #") {
        let message = "`#` begins no comment in a stream, so that this is a part of the event's name";
        return Some(line.fault(column(at + 1), message, "remove it; a line that begins with `:` is a comment"));
    }
    if let Some(at) = name.find(" data:") {
        let message = "`data:` stands on the line of `event:`, so that it is a part of the event's name";
        return Some(line.fault(column(at + 1), message, "begin a new line with it"));
    }
    let trimmed = name.trim_end();
    (trimmed.len() < name.len() && !trimmed.is_empty()).then(|| {
        let message = format!("a blank stands behind `{trimmed}`, and is a part of the event's name");
        line.fault(column(trimmed.len()), message, "remove the blank")
    })
}

fn parse(text: &str) -> Result<IgnoredAny, serde_json::Error> {
    serde_json::from_str(text)
}
