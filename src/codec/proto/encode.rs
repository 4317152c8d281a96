//! Canonical members to a message, by the table.

use super::table::{self, Absent, Body, Form, Place, Row, Shape};
use super::value::{characters, write_struct, write_value};
use super::{EXACT, FRAME_LIMIT, HEADER, HOME, PARTS_ROLES, admits, wire};
use crate::codec::json;
use crate::event::{Field, Json, Key, Kind, Member, Type};
use std::fmt;

/// Integers beyond this are none to a JavaScript client.
const SAFE_INTEGER: i64 = (1 << 53) - 1;

/// `type` of the content part that AG-UI 1.0 has no more.
const RETIRED: &str = "binary";

/// How an event was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The wire says all of it.
    Exactly,
    /// The wire does not, so its exact text is carried in its metadata.
    Carried,
    /// The wire does not, and there is no room for its text.
    Rounded,
}

/// The event is larger than a frame may be; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event is larger than {FRAME_LIMIT} bytes")
    }
}

impl std::error::Error for TooLarge {}

/// Appends one frame that says the event of `kind` with these members.
///
/// # Errors
/// When the frame would be larger than [`FRAME_LIMIT`].
pub fn frame(out: &mut Vec<u8>, kind: Kind, members: &[Member<'_>]) -> Result<Told, TooLarge> {
    let start = out.len();
    if event(out, kind, members, None) {
        return seal(out, start).map(|()| Told::Exactly);
    }
    out.truncate(start);
    let text = json::build(|object| {
        object.word(json::TYPE, kind.wire());
        members.iter().for_each(|member| object.copy(member, false));
    });
    let metadata = members.iter().find(|member| is_named(member, Field::Metadata.camel())).map(|(_, value)| value);
    event(out, kind, members, Some(&carrying(metadata, &text)));
    if seal(out, start).is_ok() {
        return Ok(Told::Carried);
    }
    event(out, kind, members, None);
    seal(out, start).map(|()| Told::Rounded)
}

/// Writes the length of the frame that begins at `start`, or takes the frame back.
fn seal(out: &mut Vec<u8>, start: usize) -> Result<(), TooLarge> {
    let size = out.len() - start;
    match u32::try_from(size - HEADER) {
        Ok(length) if size <= FRAME_LIMIT => {
            out[start..start + HEADER].copy_from_slice(&length.to_be_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(TooLarge)
        }
    }
}

/// Metadata with the exact text of its event in it.
fn carrying(metadata: Option<&Json<'_>>, text: &Json<'_>) -> Json<'static> {
    let text = Json::string(text.as_str());
    let others = |value: Option<&Json<'_>>, name: &str| {
        let members = value.and_then(json::members).unwrap_or_default();
        let mut all = crate::event::owned(members);
        let at = all.iter().position(|member| is_named(member, name));
        let taken = at.map(|at| all.remove(at).1);
        (all, taken)
    };
    let (rest, home) = others(metadata, HOME);
    let (own, _) = others(home.as_ref(), EXACT);
    let home = json::build(|object| {
        own.iter().for_each(|member| object.copy(member, false));
        object.member(EXACT, text.as_str());
    });
    json::build(|object| {
        rest.iter().for_each(|member| object.copy(member, false));
        object.member(HOME, home.as_str());
    })
}

/// Whether reading would take these metadata for ours.
fn is_carrying(metadata: &Json<'_>) -> bool {
    // An escape may hide the name.
    let suspect = metadata.as_str().contains(HOME) || metadata.as_str().contains("\\u");
    suspect && carried(metadata).is_some()
}

/// The text that `metadata` carry: the member `json` of their member `diglot`.
pub(super) fn carried(metadata: &Json<'_>) -> Option<Json<'static>> {
    let member = |value: &Json<'_>, name: &str| {
        let (_, value) = json::members(value)?.into_iter().find(|member| is_named(member, name))?;
        Some(value.into_owned())
    };
    member(&member(metadata, HOME)?, EXACT)
}

fn is_named((key, _): &Member<'_>, name: &str) -> bool {
    match key {
        Key::Known(field) => field.camel() == name,
        Key::Other(own) => own == name,
    }
}

/// Appends a frame whose length is not known yet. `metadata` stand in place of the event's own. `true` when the reader
/// will find exactly these members.
fn event(out: &mut Vec<u8>, kind: Kind, members: &[Member<'_>], metadata: Option<&Json<'_>>) -> bool {
    let entry = table::entry(kind);
    let hint = members.iter().map(|(_, value)| value.as_str().len()).sum();
    out.extend_from_slice(&[0; HEADER]);
    let envelope = wire::begin(out, entry.arm, hint);
    let base = wire::begin(out, table::BASE_NUMBER, 0);
    if entry.number != 0 {
        wire::number(out, table::BASE_TYPE, u64::from(entry.number));
    }
    let mut writer = Writer { out, exact: true, refused: false };
    let mut taken = 0;
    for row in table::BASE_ROWS {
        match (row.form, metadata) {
            (Form::Object, Some(metadata)) => writer.object(row.number, metadata),
            _ => taken += usize::from(writer.row(row, members, None)),
        }
    }
    let exact = writer.exact;
    wire::end(out, base);
    let mut writer = Writer { out, exact, refused: false };
    taken += writer.rows(entry.rows, members);
    let said = members.iter().find(|member| is_named(member, Field::Metadata.camel()));
    let exact = writer.exact && taken == members.len() && !said.is_some_and(|(_, metadata)| is_carrying(metadata));
    wire::end(out, envelope);
    exact
}

/// Writes messages and notices what they leave out.
struct Writer<'o> {
    out: &'o mut Vec<u8>,
    /// whether the reader will find what stands here
    exact: bool,
    /// whether the message under way would say something that it must not, so that it is better left out
    refused: bool,
}

/// The member `outcome`, taken apart.
struct Outcome<'m> {
    members: Vec<Member<'m>>,
    word: String,
    taken: usize,
}

impl<'m> Outcome<'m> {
    fn of(value: &'m Json<'_>) -> Option<Self> {
        let members = json::members(value)?;
        let (_, word) = members.iter().find(|member| is_named(member, json::TYPE))?;
        let (word, exact) = match word.shape() {
            Type::String => characters(word.as_str()),
            _ => return None,
        };
        let (word, taken) = (word.into_owned(), usize::from(exact));
        (!word.is_empty()).then_some(Outcome { members, word, taken })
    }
}

impl Writer<'_> {
    /// Writes what the rows say of `members` and returns how many of the members that is.
    fn rows(&mut self, rows: &[Row], members: &[Member<'_>]) -> usize {
        let outcome = members.iter().find(|member| is_named(member, Field::Outcome.camel()));
        let splits = rows.iter().any(|row| row.place == Place::OutcomeType);
        let mut outcome = outcome.filter(|_| splits).and_then(|(_, value)| Outcome::of(value));
        let mut taken = 0;
        for row in rows {
            taken += usize::from(self.row(row, members, outcome.as_mut()));
        }
        self.exact &= outcome.is_none_or(|outcome| outcome.taken == outcome.members.len());
        taken
    }

    /// Writes one field. `true` when it says a member of these.
    fn row(&mut self, row: &Row, members: &[Member<'_>], outcome: Option<&mut Outcome<'_>>) -> bool {
        match row.place {
            Place::Member(name) => {
                let value = members.iter().find(|member| is_named(member, name)).map(|(_, value)| value);
                self.field(row, value)
            }
            Place::Content => {
                let named = |name: &str| members.iter().find(|member| is_named(member, name)).map(|(_, value)| value);
                let role = named(Field::Role.camel()).and_then(Json::text).unwrap_or_default();
                let is_list = matches!(row.form, Form::List(_));
                let absent = if PARTS_ROLES.contains(&&*role) { Absent::Default } else { row.absent };
                let row = Row { absent: if is_list { absent } else { Absent::Gone }, ..*row };
                match named(Field::Content.camel()) {
                    None => self.field(&row, None),
                    // The forms share the member; what none of them takes is noticed by the count.
                    Some(value) if row.form.takes(value) && admits(&role, &row.form) => self.field(&row, Some(value)),
                    Some(_) => false,
                }
            }
            Place::OutcomeType => outcome.is_some_and(|outcome| {
                wire::string(self.out, row.number, &outcome.word);
                true
            }),
            Place::Outcome { name, of } => {
                if let Some(outcome) = outcome.filter(|outcome| outcome.word == of) {
                    let value = outcome.members.iter().find(|member| is_named(member, name)).map(|(_, value)| value);
                    let taken = self.field(row, value);
                    outcome.taken += usize::from(taken);
                }
                false
            }
        }
    }

    /// Writes one field that says `value`. `true` when it does.
    fn field(&mut self, row: &Row, value: Option<&Json<'_>>) -> bool {
        let Some(value) = value.filter(|value| row.form.takes(value)) else {
            // The reader puts something where nothing stood.
            self.exact &= row.absent == Absent::Gone;
            // The first operation is none that anybody asked for.
            self.refused |= matches!(row.form, Form::Word(_));
            return false;
        };
        match row.form {
            Form::Text => {
                let (text, exact) = characters(value.as_str());
                self.exact &= exact;
                if !(text.is_empty() && row.absent == Absent::Default) {
                    wire::string(self.out, row.number, &text);
                }
            }
            Form::Count => {
                let count = value.as_i64().unwrap_or_default();
                self.exact &= value.as_str() == count.to_string();
                wire::number(self.out, row.number, count.cast_unsigned());
            }
            Form::Flag => wire::number(self.out, row.number, u64::from(value.as_str() == "true")),
            Form::Word(words) => match words.iter().position(|word| value.is(word)) {
                Some(0) => {}
                Some(at) => wire::number(self.out, row.number, at as u64),
                None => self.refused = true,
            },
            Form::Any | Form::Present => {
                let open = wire::begin(self.out, row.number, value.as_str().len());
                self.exact &= write_value(self.out, value.as_str());
                wire::end(self.out, open);
            }
            Form::Object => self.object(row.number, value),
            Form::Message(shape) => return self.message(row.number, shape, value),
            Form::List(shape) => {
                let elements = json::elements(value).unwrap_or_default();
                self.exact &= !(elements.is_empty() && row.absent == Absent::Gone);
                for element in &elements {
                    self.exact &= self.message(row.number, shape, element);
                }
            }
            Form::Texts => {
                let elements = json::elements(value).unwrap_or_default();
                self.exact &= !(elements.is_empty() && row.absent == Absent::Gone);
                for element in &elements {
                    let is_text = element.shape() == Type::String;
                    let (text, exact) = if is_text { characters(element.as_str()) } else { ("".into(), false) };
                    self.exact &= exact;
                    if is_text {
                        wire::string(self.out, row.number, &text);
                    }
                }
            }
        }
        true
    }

    fn object(&mut self, number: u32, value: &Json<'_>) {
        let open = wire::begin(self.out, number, value.as_str().len());
        self.exact &= write_struct(self.out, value.as_str());
        wire::end(self.out, open);
    }

    /// Writes a message that says the object `value`; nothing, and `false`, when no message can.
    fn message(&mut self, number: u32, shape: &Shape, value: &Json<'_>) -> bool {
        let Some(members) = json::members(value) else {
            return false;
        };
        if let (Body::Union(_), Some(document)) = (&shape.body, retired_part(&members)) {
            self.message(number, shape, &document);
            return false;
        }
        let start = self.out.len();
        let outer = std::mem::replace(&mut self.refused, false);
        let open = wire::begin(self.out, number, value.as_str().len());
        match shape.body {
            Body::Rows(rows) => self.exact &= self.rows(rows, &members) == members.len(),
            Body::Union(arms) => {
                let word = members.iter().find(|member| is_named(member, json::TYPE)).map(|(_, word)| word);
                match arms.iter().find(|arm| word.is_some_and(|word| word.is(arm.word))) {
                    Some(arm) => {
                        let inner = wire::begin(self.out, arm.number, value.as_str().len());
                        if let Body::Rows(rows) = arm.shape.body {
                            self.exact &= self.rows(rows, &members) + 1 == members.len();
                        }
                        wire::end(self.out, inner);
                    }
                    None => self.refused = true,
                }
            }
        }
        wire::end(self.out, open);
        let refused = std::mem::replace(&mut self.refused, outer);
        if refused {
            self.out.truncate(start);
        }
        !refused
    }
}

/// The part `binary` of AG-UI 0.x as the document that the real encoder makes of it [`toProtoContentPart`].
fn retired_part(members: &[Member<'_>]) -> Option<Json<'static>> {
    let named = |name: &str| members.iter().find(|member| is_named(member, name)).map(|(_, value)| value);
    let said = |name: &str| named(name).filter(|value| !value.is("") && !value.is_null());
    if !named(json::TYPE)?.is(RETIRED) {
        return None;
    }
    let id = Field::Id.camel();
    let (kind, value) = said("data").map(|data| ("data", data)).or(said("url").or(said(id)).map(|url| ("url", url)))?;
    let source = json::build(|source| {
        source.word(json::TYPE, kind);
        source.member(Field::Value.camel(), value.as_str());
        named("mimeType").into_iter().for_each(|media| source.member("mimeType", media.as_str()));
    });
    let metadata = json::build(|metadata| {
        metadata.member("legacyBinary", "true");
        for name in ["filename", id] {
            named(name).into_iter().for_each(|value| metadata.member(name, value.as_str()));
        }
    });
    Some(json::build(|part| {
        part.word(json::TYPE, "document");
        part.member(Field::Source.camel(), source.as_str());
        part.member(Field::Metadata.camel(), metadata.as_str());
    }))
}

impl Form {
    /// Whether a field of this form can say `value`.
    fn takes(&self, value: &Json<'_>) -> bool {
        match (self, value.shape()) {
            (Form::Any, _)
            | (Form::Text | Form::Word(_), Type::String)
            | (Form::Flag, Type::Bool)
            | (Form::Object | Form::Message(_), Type::Object)
            | (Form::List(_) | Form::Texts, Type::Array) => true,
            (Form::Present, shape) => shape != Type::Null,
            (Form::Count, Type::Number) => {
                value.as_i64().is_some_and(|count| (-SAFE_INTEGER..=SAFE_INTEGER).contains(&count))
            }
            _ => false,
        }
    }
}
