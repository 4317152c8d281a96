//! One frame that has to be said again: as it was, or a piece of text that takes in the pieces behind it.

use crate::codec::json;
use crate::dialect::{Home, Row, Shape, Side, Spelling, block};
use crate::event::lane::Piece;
use crate::event::{Event, Field, Json, Key, Kind, Type, get, remove};
use crate::translate::{call, carry, spell};
use std::borrow::Cow;

/// What an entry of a list costs beside its text.
pub(super) const ENTRY: usize = 96;

/// A frame.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    /// as it was: its type and its data
    Whole(Box<str>, Box<str>),
    /// a piece of text
    Piece(Box<Text>),
}

/// JSON before and behind a text.
type Around = (Box<str>, Box<str>);

/// Pieces of one text that say the same but for the text.
#[derive(Clone, Debug)]
pub(super) struct Text {
    row: &'static Row,
    /// the object up to the delta: `{"type":…,"messageId":…,"delta":`
    head: Box<str>,
    /// what stands before and behind the text, where the delta is a block that holds it
    block: Option<Around>,
    /// the text, as the inside of a JSON string
    text: String,
    /// when the first piece was said
    timestamp: Option<Json<'static>>,
    /// what all pieces said
    metadata: Option<Json<'static>>,
    spelling: Spelling,
    /// whether the metadata of two pieces is one, as it is to the real client
    merges: bool,
}

impl Kept {
    /// A frame as it was.
    pub fn whole(wire: &str, data: &str) -> Self {
        Kept::Whole(wire.into(), data.into())
    }

    /// The frame of an event.
    pub fn of(row: &'static Row, event: &Event<'_>, data: &str, side: Side) -> Self {
        match Text::of(row, event, side) {
            Some(text) => Kept::Piece(Box::new(text)),
            None => Kept::whole(row.wire, data),
        }
    }

    /// The value of `type`.
    pub fn wire(&self) -> &str {
        match self {
            Kept::Whole(wire, _) => wire,
            Kept::Piece(text) => text.row.wire,
        }
    }

    /// The JSON text.
    pub fn data(&self) -> Cow<'_, str> {
        match self {
            Kept::Whole(_, data) => Cow::Borrowed(data),
            Kept::Piece(text) => Cow::Owned(text.data()),
        }
    }

    /// What it costs to hold it, in bytes.
    pub fn held(&self) -> usize {
        ENTRY
            + match self {
                Kept::Whole(wire, data) => wire.len() + data.len(),
                Kept::Piece(text) => text.held(),
            }
    }

    /// Takes in the piece that comes next, if the two are pieces of one text; gives it back where they are not.
    fn take(&mut self, next: Kept) -> Option<Kept> {
        match (self, next) {
            (Kept::Piece(text), Kept::Piece(next)) => text.take(next).map(Kept::Piece),
            (_, next) => Some(next),
        }
    }

    /// The same for a chunk, which need not say again what the first one of its stream said.
    pub fn take_chunk(&mut self, next: Kept) {
        if let (Kept::Piece(text), Kept::Piece(next)) = (self, next) {
            text.text.push_str(&next.text);
            text.metadata = merged(text.metadata.take(), next.metadata);
        }
    }

    /// What the frame adds to the text of its message, as the inside of a JSON string, and its metadata.
    pub fn said(&self, side: Side) -> (Cow<'_, str>, Option<Json<'static>>) {
        match self {
            Kept::Piece(text) => {
                let said = match text.delta() {
                    None => Cow::Borrowed(text.text.as_str()),
                    Some(block) => Cow::Owned(inside(&Json::string(&block)).to_owned()),
                };
                (said, text.metadata.clone())
            }
            Kept::Whole(wire, data) => {
                let mut members = json::object(data).map(|object| object.members).unwrap_or_default();
                let row = side.dialect.row(wire).map(|(_, row)| row);
                row.into_iter().for_each(|row| spell::read_names(row.names, &mut members));
                let said = match row {
                    Some(row) if row.shape == Shape::StartWithArgs => carry::take(&mut members, call::ARGS),
                    // Others may have a member of that name, which says nothing there.
                    Some(row) if is_piece(row.kind) => get(&members, Field::Delta).cloned(),
                    _ => None,
                };
                let said = said.as_ref().map_or_else(String::new, text_of);
                (Cow::Owned(said), get(&members, Field::Metadata).cloned().map(Json::into_owned))
            }
        }
    }
}

/// Whether an event of this kind adds to a text that was started.
const fn is_piece(kind: Kind) -> bool {
    matches!(kind, Kind::TextMessageContent | Kind::ReasoningMessageContent | Kind::ToolCallArgs)
}

/// Puts a frame behind others, into the last one where that takes it in.
pub(super) fn keep(frames: &mut Vec<Kept>, next: Kept) {
    let next = match frames.last_mut() {
        Some(last) => last.take(next),
        None => Some(next),
    };
    frames.extend(next);
}

/// The inside of a JSON string.
pub(super) fn inside<'j>(string: &'j Json<'_>) -> &'j str {
    let text = string.as_str();
    if string.shape() == Type::String { &text[1..text.len() - 1] } else { text }
}

/// What a value adds to a text: itself, or its JSON text where it is no string. The inside of a JSON string.
pub(super) fn text_of(value: &Json<'_>) -> String {
    match value.shape() {
        Type::String => inside(value).to_owned(),
        Type::Null => String::new(),
        _ => inside(&Json::string(value.as_str())).to_owned(),
    }
}

/// One metadata object of two: "merges per key, last write wins, no recursion" (specs §3.4).
pub(super) fn merged(old: Option<Json<'static>>, new: Option<Json<'static>>) -> Option<Json<'static>> {
    let (Some(before), Some(after)) = (&old, &new) else { return new.or(old) };
    let (Some(mut all), Some(more)) = (json::members(before), json::members(after)) else { return new };
    for (key, value) in more {
        crate::event::set(&mut all, key, value);
    }
    Some(json::to_object(&all))
}

impl Text {
    fn of(row: &'static Row, event: &Event<'_>, side: Side) -> Option<Text> {
        let chunk = Piece::of(event.kind).is_some();
        let nothing = Json::trusted("\"\"");
        let delta = event.get(Field::Delta).or(chunk.then_some(&nothing)).filter(|_| chunk || is_piece(event.kind))?;
        let (block, text) = match delta.shape() {
            Type::String => (None, inside(delta)),
            _ if row.shape == Shape::Output => text_block(delta).map(|(around, text)| (Some(around), text))?,
            _ => return None,
        };
        let snake = side.fields == Spelling::Snake;
        let mut members = event.members.clone();
        // What the producer said in its own words is about one piece alone.
        let mut taken = [Field::Timestamp, Field::Metadata, Field::RawEvent, Field::Delta]
            .map(|field| remove(&mut members, field).map(Json::into_owned))
            .into_iter();
        let (timestamp, metadata) = (taken.next().flatten(), taken.next().flatten());
        let head = json::build(|object| {
            object.word(json::TYPE, row.wire);
            for (key, value) in &members {
                match key {
                    Key::Known(field) => object.member(row.name(*field, snake), value.as_str()),
                    Key::Other(_) => object.copy(&(key.clone(), value.borrowed()), snake),
                }
            }
            object.member(row.name(Field::Delta, snake), "");
        });
        let head = head.as_str().trim_end_matches('}').into();
        let merges = side.dialect.home == Home::Native;
        Some(Text { row, head, block, text: text.to_owned(), timestamp, metadata, spelling: side.fields, merges })
    }

    fn take(&mut self, next: Box<Text>) -> Option<Box<Text>> {
        let same = self.head == next.head && self.block == next.block;
        if !same || !(self.merges || self.metadata == next.metadata) {
            return Some(next);
        }
        self.text.push_str(&next.text);
        self.metadata = merged(self.metadata.take(), next.metadata);
        None
    }

    /// The delta, where it is a block.
    fn delta(&self) -> Option<String> {
        self.block.as_ref().map(|(before, behind)| format!("{before}\"{}\"{behind}", self.text))
    }

    fn data(&self) -> String {
        let delta = self.delta().unwrap_or_else(|| format!("\"{}\"", self.text));
        let mut data = format!("{}{delta}", self.head);
        for (field, value) in [(Field::Timestamp, &self.timestamp), (Field::Metadata, &self.metadata)] {
            if let Some(value) = value {
                let name = self.row.name(field, self.spelling == Spelling::Snake);
                data.extend([",\"", name, "\":", value.as_str()]);
            }
        }
        data.push('}');
        data
    }

    fn held(&self) -> usize {
        let values = self.timestamp.iter().chain(&self.metadata).map(|value| value.as_str().len()).sum::<usize>();
        let block = self.block.as_ref().map_or(0, |(before, behind)| before.len() + behind.len());
        size_of::<Self>() + self.head.len() + self.text.capacity() + block + values
    }
}

/// What stands around the text of a text block, and the inside of that text.
fn text_block<'d>(delta: &'d Json<'_>) -> Option<(Around, &'d str)> {
    let whole = delta.as_str();
    let output = find(whole, block::OUTPUT)?;
    let is_text = find(output, json::TYPE).is_some_and(|kind| Json::trusted(kind).is(block::TEXT));
    let content = find(output, block::CONTENT).filter(|content| is_text && content.starts_with('"'))?;
    // The content is a piece of the very text that it was found in.
    let at = content.as_ptr() as usize - whole.as_ptr() as usize;
    let around = (whole[..at].into(), whole[at + content.len()..].into());
    Some((around, &content[1..content.len() - 1]))
}

/// The value of a member, as a piece of the object's text.
fn find<'t>(object: &'t str, name: &str) -> Option<&'t str> {
    let members = json::open_object(object).ok()?;
    let members = json::all_members(members);
    members.into_iter().find(|(key, _)| carry::is_named(key, name)).and_then(|(_, value)| value.source())
}
