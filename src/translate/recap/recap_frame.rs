//! A frame to repeat: verbatim, or merged from several pieces of one text.

use crate::codec::json;
use crate::dialect::{EventRow, MemberCase, PeerDialect};
use crate::event::heap_size::{allocation_size, list_size};
use crate::event::lane::ChunkStreamKind;
use crate::event::{Event, EventType, Field, Json, JsonType, get, get_owned, optional_size, remove};
use crate::translate::{aliases, carry};
use std::borrow::Cow;

#[derive(Clone, Debug)]
pub(super) enum RecapFrame {
    /// event type and data
    Verbatim(Box<str>, Box<str>),
    Text(Box<MergedText>),
}

/// The JSON before and after a piece of text.
type TextAffixes = (Box<str>, Box<str>);

/// Consecutive frames that differ only in their text.
#[derive(Clone, Debug)]
pub(super) struct MergedText {
    row: &'static EventRow,
    /// start of the object, up to the delta: `{"type":…,"messageId":…,"delta":`
    prefix: Box<str>,
    /// the JSON around the text in a block
    block: Option<TextAffixes>,
    /// the text, as the content of a JSON string
    text: String,
    /// taken from the first frame
    timestamp: Option<Json<'static>>,
    /// merged from all frames
    metadata: Option<Json<'static>>,
    spelling: MemberCase,
    /// whether the real client merges these frames' metadata
    merges_metadata: bool,
}

impl RecapFrame {
    pub(crate) fn verbatim(wire: &str, data: &str) -> Self {
        RecapFrame::Verbatim(wire.into(), data.into())
    }

    pub(crate) fn from_event(row: &'static EventRow, event: &Event<'_>, data: &str, side: PeerDialect) -> Self {
        match MergedText::from_event(row, event, side) {
            Some(text) => RecapFrame::Text(Box::new(text)),
            None => RecapFrame::verbatim(row.wire, data),
        }
    }

    pub(crate) fn wire(&self) -> &str {
        match self {
            RecapFrame::Verbatim(wire, _) => wire,
            RecapFrame::Text(text) => text.row.wire,
        }
    }

    pub(crate) fn data(&self) -> Cow<'_, str> {
        match self {
            RecapFrame::Verbatim(_, data) => Cow::Borrowed(data),
            RecapFrame::Text(text) => Cow::Owned(text.data()),
        }
    }

    pub(crate) fn heap_size(&self) -> usize {
        match self {
            RecapFrame::Verbatim(wire, data) => allocation_size(wire.len()) + allocation_size(data.len()),
            RecapFrame::Text(text) => allocation_size(size_of::<MergedText>()) + text.heap_size(),
        }
    }

    /// Appends the next frame if it continues the text; otherwise returns it.
    fn try_merge(&mut self, next: RecapFrame) -> Option<RecapFrame> {
        match (self, next) {
            (RecapFrame::Text(text), RecapFrame::Text(next)) => text.try_merge(next).map(RecapFrame::Text),
            (_, next) => Some(next),
        }
    }

    /// Appends the next chunk, which may omit members of the first one.
    pub(crate) fn merge_chunk(&mut self, next: RecapFrame) {
        if let (RecapFrame::Text(text), RecapFrame::Text(next)) = (self, next) {
            text.text.push_str(&next.text);
            text.metadata = merge_metadata(text.metadata.take(), next.metadata);
        }
    }

    /// Returns the text that this frame adds, as the content of a JSON string, and its metadata.
    pub(crate) fn added_text(&self, side: PeerDialect) -> (Cow<'_, str>, Option<Json<'static>>) {
        match self {
            RecapFrame::Text(text) => {
                let added = match text.block_delta() {
                    None => Cow::Borrowed(text.text.as_str()),
                    Some(block) => Cow::Owned(Json::string(&block).unquoted().to_owned()),
                };
                (added, text.metadata.clone())
            }
            RecapFrame::Verbatim(wire, data) => {
                let mut members = json::parse_object(data).map(|object| object.members).unwrap_or_default();
                let row = side.dialect.row_for_wire(wire).map(|(_, row)| row);
                row.into_iter().for_each(|row| aliases::read_field_names(row.field_aliases, &mut members));
                let own_member = row.and_then(|row| row.shape.own_shape()?.text_member);
                let added = match (own_member, row) {
                    (Some(name), _) => carry::take(&mut members, name),
                    // In other events, this member has another meaning.
                    (None, Some(row)) if is_content(row.kind) => get(&members, Field::Delta).cloned(),
                    _ => None,
                };
                let added = added.as_ref().map_or_else(String::new, to_string_inner);
                (Cow::Owned(added), get_owned(&members, Field::Metadata))
            }
        }
    }
}

const fn is_content(kind: EventType) -> bool {
    matches!(kind, EventType::TextMessageContent | EventType::ReasoningMessageContent | EventType::ToolCallArgs)
}

/// Returns the memory of a list of frames.
pub(super) fn frames_size(frames: &Vec<RecapFrame>) -> usize {
    list_size::<RecapFrame>(frames.capacity()) + frames.iter().map(RecapFrame::heap_size).sum::<usize>()
}

pub(super) fn push_merged(frames: &mut Vec<RecapFrame>, next: RecapFrame) {
    let next = match frames.last_mut() {
        Some(last) => last.try_merge(next),
        None => Some(next),
    };
    frames.extend(next);
}

/// Returns the content of a JSON string, or any other value as JSON text.
pub(super) fn to_string_inner(value: &Json<'_>) -> String {
    if value.is_null() { String::new() } else { value.to_string_value().unquoted().to_owned() }
}

/// Merges two metadata objects: "merges per key, last write wins, no recursion" (specs §3.4).
pub(super) fn merge_metadata(old: Option<Json<'static>>, new: Option<Json<'static>>) -> Option<Json<'static>> {
    let (Some(before), Some(after)) = (&old, &new) else { return new.or(old) };
    let (Some(mut all), Some(more)) = (json::parse_members(before), json::parse_members(after)) else { return new };
    for (key, value) in more {
        crate::event::set(&mut all, key, value);
    }
    Some(json::to_object(&all))
}

impl MergedText {
    fn from_event(row: &'static EventRow, event: &Event<'_>, side: PeerDialect) -> Option<MergedText> {
        let chunk = ChunkStreamKind::from_event(event.kind).is_some();
        let nothing = Json::from_trusted("\"\"");
        let delta =
            event.get(Field::Delta).or(chunk.then_some(&nothing)).filter(|_| chunk || is_content(event.kind))?;
        let (block, text) = match delta.json_type() {
            JsonType::String => (None, delta.unquoted()),
            _ => {
                let whole = delta.as_str();
                let text = row.shape.own_shape()?.find_text?(whole)?;
                let around: TextAffixes = (whole[..text.start - 1].into(), whole[text.end + 1..].into());
                (Some(around), &whole[text])
            }
        };
        let snake = side.member_case == MemberCase::Snake;
        let mut members = event.members.clone();
        // The producer's own event describes a single piece.
        let mut taken = [Field::Timestamp, Field::Metadata, Field::RawEvent, Field::Delta]
            .map(|field| remove(&mut members, field).map(Json::into_owned))
            .into_iter();
        let timestamp = taken.next().flatten();
        let metadata = taken.next().flatten();
        let head = json::build_object(|object| {
            object.string_member(json::TYPE, row.wire);
            row.write_members(object, &members, snake);
            object.member(row.field_name(Field::Delta, snake), "");
        });
        let head = head.as_str().trim_end_matches('}').into();
        Some(MergedText {
            row,
            prefix: head,
            block,
            text: text.to_owned(),
            timestamp,
            metadata,
            spelling: side.member_case,
            merges_metadata: side.dialect.is_canonical(),
        })
    }

    fn try_merge(&mut self, next: Box<MergedText>) -> Option<Box<MergedText>> {
        let same = self.prefix == next.prefix && self.block == next.block;
        if !same || !(self.merges_metadata || self.metadata == next.metadata) {
            return Some(next);
        }
        self.text.push_str(&next.text);
        self.metadata = merge_metadata(self.metadata.take(), next.metadata);
        None
    }

    fn block_delta(&self) -> Option<String> {
        self.block.as_ref().map(|(before, behind)| format!("{before}\"{}\"{behind}", self.text))
    }

    fn data(&self) -> String {
        let delta = self.block_delta().unwrap_or_else(|| format!("\"{}\"", self.text));
        let mut data = format!("{}{delta}", self.prefix);
        for (field, value) in [(Field::Timestamp, &self.timestamp), (Field::Metadata, &self.metadata)] {
            if let Some(value) = value {
                let name = self.row.field_name(field, self.spelling == MemberCase::Snake);
                data.extend([",\"", name, "\":", value.as_str()]);
            }
        }
        data.push('}');
        data
    }

    fn heap_size(&self) -> usize {
        let block = self.block.as_ref().map_or(0, |(before, behind)| before.len() + behind.len());
        let texts = [self.prefix.len(), self.text.capacity(), block].map(allocation_size).into_iter().sum::<usize>();
        texts + optional_size(self.timestamp.as_ref()) + optional_size(self.metadata.as_ref())
    }
}
