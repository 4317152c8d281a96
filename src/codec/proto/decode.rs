//! A message to the text of an event, by the table.

use super::encode::carried;
use super::table::{self, Absent, Arm, BASE_ROWS, Body, Form, Place, Row, Shape};
use super::value::{deeper, joined, read_struct, read_value, utf8};
use super::wire::{Fields, Payload};
use super::{Broken, PARTS_ROLES, admits};
use crate::codec::json;
use crate::event::{Field, Json, Kind};

/// What a message says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// an event
    Event {
        /// its JSON text, `type` first
        text: String,
        /// content parts inside it that this version of the protocol does not have, left out as the real reader does
        dropped: usize,
    },
    /// an event of a later protocol
    Unknown,
}

/// JSON text that grows up to a limit.
#[derive(Debug)]
pub(super) struct Text {
    out: String,
    limit: usize,
    dropped: usize,
}

impl Text {
    pub fn new(limit: usize) -> Self {
        Text { out: String::new(), limit, dropped: 0 }
    }

    pub fn push(&mut self, piece: &str) -> Result<(), Broken> {
        if self.out.len() + piece.len() > self.limit {
            return Err(Broken::TooLarge);
        }
        self.out.push_str(piece);
        Ok(())
    }

    /// Appends a JSON string.
    pub fn string(&mut self, text: &str) -> Result<(), Broken> {
        if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
            self.push("\"")?;
            self.push(text)?;
            return self.push("\"");
        }
        self.push(Json::string(text).as_str())
    }

    pub fn len(&self) -> usize {
        self.out.len()
    }

    pub fn truncate(&mut self, length: usize) {
        self.out.truncate(length);
    }

    pub fn into_string(self) -> String {
        self.out
    }

    /// The name of a member, and the comma before it unless it is the first.
    fn name(&mut self, name: &str) -> Result<(), Broken> {
        if !self.out.ends_with('{') {
            self.push(",")?;
        }
        self.push("\"")?;
        self.push(name)?;
        self.push("\":")
    }
}

/// Reads one `ag_ui.Event`, whose JSON text may have up to `limit` bytes.
pub(super) fn event(message: &[u8], limit: usize) -> Result<Said, Broken> {
    let (mut arm, mut pieces) = (None, Vec::new());
    let (mut future, mut opaque, mut broken) = (0usize, false, false);
    let mut fields = Fields::of(message);
    while let Some((number, payload)) = fields.next()? {
        match (table::kind_of(number), payload) {
            // "An envelope naming different known event kinds" is malformed; one kind in pieces merges.
            (Some(kind), Payload::Bytes(piece)) if arm.is_none_or(|own| own == kind) => {
                arm = Some(kind);
                pieces.push(piece);
            }
            (Some(_), _) => broken = true,
            (None, Payload::Bytes(piece)) => {
                opaque |= !walks(piece);
                future += 1;
            }
            (None, _) => {}
        }
    }
    match arm {
        Some(kind) if !broken => body(kind, &joined(&pieces), limit),
        None if !broken && !opaque && future > 0 => Ok(Said::Unknown),
        _ => Err(Broken::Envelope),
    }
}

/// Whether these bytes can be read as a message.
fn walks(bytes: &[u8]) -> bool {
    let mut fields = Fields::of(bytes);
    loop {
        match fields.next() {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

fn body(kind: Kind, message: &[u8], limit: usize) -> Result<Said, Broken> {
    let entry = table::entry(kind);
    let found = gather(entry.rows, message)?;
    let (base, number) = base(message)?;
    // "base_event is mandatory and its type must match the arm"
    if number != Some(u64::from(entry.number)) {
        return Err(Broken::Envelope);
    }
    let mut text = Text::new(limit);
    text.push("{\"type\":\"")?;
    text.push(kind.wire())?;
    text.push("\"")?;
    let found_base = gather(BASE_ROWS, &base)?;
    let start = text.len();
    write_rows(&mut text, BASE_ROWS, &found_base, 1)?;
    if let Some(exact) = restored(kind, &text.out[start..], limit) {
        return Ok(Said::Event { text: exact, dropped: 0 });
    }
    write_rows(&mut text, entry.rows, &found, 1)?;
    text.push("}")?;
    let dropped = text.dropped;
    Ok(Said::Event { text: text.into_string(), dropped })
}

/// The message `base_event` in one piece, and the number of its type.
fn base(message: &[u8]) -> Result<(Vec<u8>, Option<u64>), Broken> {
    let (mut whole, mut stands) = (Vec::new(), false);
    let mut fields = Fields::of(message);
    while let Some((number, payload)) = fields.next()? {
        if let (table::BASE_NUMBER, Payload::Bytes(piece)) = (number, payload) {
            whole.extend_from_slice(piece);
            stands = true;
        }
    }
    let mut kind = stands.then_some(0);
    let mut fields = Fields::of(&whole);
    while let Some((number, payload)) = fields.next()? {
        if let (table::BASE_TYPE, Payload::Varint(value)) = (number, payload) {
            kind = Some(value);
        }
    }
    Ok((whole, kind))
}

/// The exact text of the event, where its metadata carry one. `base` are the members of the base, each behind a comma.
fn restored(kind: Kind, base: &str, limit: usize) -> Option<String> {
    if !base.contains(super::EXACT) {
        return None;
    }
    let object = format!("{{{}}}", base.strip_prefix(',')?);
    let members = json::open_object(&object).ok()?.members;
    let held = carried(crate::event::get(&members, Field::Metadata)?)?;
    let text = held.text()?.into_owned();
    let same = json::object(&text).ok()?.kind.is_some_and(|own| own.is(kind.wire()));
    (same && text.len() <= limit).then_some(text)
}

/// What stands in a message for one row: the last number, or every piece of bytes.
#[derive(Debug, Default)]
struct Found<'a> {
    number: Option<u64>,
    pieces: Vec<&'a [u8]>,
}

fn gather<'a>(rows: &[Row], message: &'a [u8]) -> Result<Vec<Found<'a>>, Broken> {
    let mut found: Vec<Found<'a>> = rows.iter().map(|_| Found::default()).collect();
    let mut fields = Fields::of(message);
    while let Some((number, payload)) = fields.next()? {
        // What no row names is skipped, and so is a field of another wire type.
        let Some(at) = rows.iter().position(|row| row.number == number) else { continue };
        let is_number = matches!(rows[at].form, Form::Count | Form::Flag | Form::Word(_));
        match payload {
            Payload::Varint(value) if is_number => found[at].number = Some(value),
            Payload::Bytes(piece) if !is_number => found[at].pieces.push(piece),
            _ => {}
        }
    }
    Ok(found)
}

/// Writes the members that the rows say, inside an object that is open. `depth` is that of the object.
fn write_rows(out: &mut Text, rows: &[Row], found: &[Found<'_>], depth: usize) -> Result<(), Broken> {
    let role = role_of(rows, found)?;
    content_is_one(rows, found, role)?;
    for (row, own) in rows.iter().zip(found) {
        match row.place {
            Place::Member(name) => member(out, row, own, name, row.absent, depth)?,
            Place::Content => {
                let has_content =
                    rows.iter().zip(found).any(|(row, own)| row.place == Place::Content && !own.pieces.is_empty());
                let absent = match row.form {
                    Form::List(_) if !has_content && PARTS_ROLES.contains(&role) => Absent::Default,
                    Form::List(_) if !has_content => row.absent,
                    _ => Absent::Gone,
                };
                member(out, row, own, Field::Content.camel(), absent, depth)?;
            }
            Place::OutcomeType => outcome(out, rows, found, depth)?,
            Place::Outcome { .. } => {}
        }
    }
    Ok(())
}

fn role_of<'a>(rows: &[Row], found: &[Found<'a>]) -> Result<&'a str, Broken> {
    let own = rows.iter().zip(found).find(|(row, _)| row.place == Place::Member(Field::Role.camel()));
    own.and_then(|(_, own)| own.pieces.last()).map_or(Ok(""), |role| utf8(role))
}

/// "Content carriers are role-exclusive", and there is one at most.
fn content_is_one(rows: &[Row], found: &[Found<'_>], role: &str) -> Result<(), Broken> {
    let mut forms = rows.iter().zip(found).filter(|(row, own)| row.place == Place::Content && !own.pieces.is_empty());
    match (forms.next(), forms.next()) {
        (Some((row, _)), None) if !admits(role, &row.form) => Err(Broken::Content),
        (Some(_), Some(_)) => Err(Broken::Content),
        _ => Ok(()),
    }
}

/// Writes `outcome`, of which the wire has the type and the lists in fields of their own.
fn outcome(out: &mut Text, rows: &[Row], found: &[Found<'_>], depth: usize) -> Result<(), Broken> {
    let word = rows.iter().zip(found).find(|(row, _)| row.place == Place::OutcomeType);
    let word = word.and_then(|(_, own)| own.pieces.last()).map_or(Ok(""), |word| utf8(word))?;
    let is_open = !word.is_empty();
    if is_open {
        out.name(Field::Outcome.camel())?;
        out.push("{\"type\":")?;
        out.string(word)?;
    }
    // Lists of no outcome stand beside it, for whoever enforces the schema to judge.
    for (row, own) in rows.iter().zip(found) {
        if let Place::Outcome { name, of } = row.place {
            let absent = if of == word { row.absent } else { Absent::Gone };
            member(out, row, own, name, absent, depth + usize::from(is_open))?;
        }
    }
    if is_open { out.push("}") } else { Ok(()) }
}

/// Writes one member, or nothing where the wire says none.
fn member(out: &mut Text, row: &Row, own: &Found<'_>, name: &str, absent: Absent, depth: usize) -> Result<(), Broken> {
    let stands = own.number.is_some() || !own.pieces.is_empty();
    let has_default = matches!(row.form, Form::Text | Form::Word(_) | Form::List(_) | Form::Texts);
    if !stands && (absent == Absent::Gone || !has_default) {
        return Ok(());
    }
    let before = out.len();
    out.name(name)?;
    let number = own.number.unwrap_or_default();
    let said = match row.form {
        Form::Text => out.string(utf8(own.pieces.last().copied().unwrap_or_default())?).map(|()| true),
        Form::Count => out.push(&number.cast_signed().to_string()).map(|()| true),
        Form::Flag => out.push(if number == 0 { "false" } else { "true" }).map(|()| true),
        // An operation of a later protocol has no name here; its number stands for it, as in the real reader.
        Form::Word(words) => match usize::try_from(number).ok().and_then(|at| words.get(at)) {
            Some(word) => out.string(word).map(|()| true),
            None => out.string(&int32(number).to_string()).map(|()| true),
        },
        Form::Any | Form::Present => read_value(out, &joined(&own.pieces), depth),
        Form::Object => read_struct(out, &joined(&own.pieces), depth).map(|()| true),
        Form::Message(shape) => message(out, shape, &joined(&own.pieces), depth),
        Form::List(_) | Form::Texts => list(out, &row.form, &own.pieces, depth).map(|()| true),
    }?;
    if !said {
        out.truncate(before);
    }
    Ok(())
}

fn list(out: &mut Text, form: &Form, pieces: &[&[u8]], depth: usize) -> Result<(), Broken> {
    let depth = deeper(depth)?;
    out.push("[")?;
    let start = out.len();
    for piece in pieces {
        let before = out.len();
        if before > start {
            out.push(",")?;
        }
        match form {
            Form::List(shape) => {
                if !message(out, shape, piece, depth)? {
                    out.truncate(before);
                    out.dropped += 1;
                }
            }
            _ => out.string(utf8(piece)?)?,
        }
    }
    out.push("]")
}

/// Writes the object that a message says. `false` when it is an alternative of a union that is not known here.
fn message(out: &mut Text, shape: &Shape, bytes: &[u8], depth: usize) -> Result<bool, Broken> {
    match shape.body {
        Body::Rows(rows) => {
            let depth = deeper(depth)?;
            out.push("{")?;
            write_rows(out, rows, &gather(rows, bytes)?, depth)?;
            out.push("}")?;
            Ok(true)
        }
        Body::Union(arms) => union(out, arms, bytes, depth),
    }
}

fn union(out: &mut Text, arms: &[Arm], bytes: &[u8], depth: usize) -> Result<bool, Broken> {
    let mut chosen: Option<&Arm> = None;
    let mut pieces = Vec::new();
    let mut fields = Fields::of(bytes);
    while let Some((number, payload)) = fields.next()? {
        let Some(arm) = arms.iter().find(|arm| arm.number == number) else { continue };
        let Payload::Bytes(piece) = payload else { continue };
        // "Exactly one populated arm": picking one would silently discard the rest.
        if chosen.is_some_and(|own| own.number != number) {
            return Err(Broken::Content);
        }
        chosen = Some(arm);
        pieces.push(piece);
    }
    let Some(Arm { word, shape, .. }) = chosen else {
        return Ok(false);
    };
    let Body::Rows(rows) = shape.body else {
        return Ok(false);
    };
    let depth = deeper(depth)?;
    let whole = joined(&pieces);
    let found = gather(rows, &whole)?;
    // A part whose source is of a kind that is not known says nothing without it.
    for (row, own) in rows.iter().zip(&found) {
        if let (Form::Message(Shape { body: Body::Union(sources), .. }), false) = (row.form, own.pieces.is_empty())
            && !names_one_of(sources, &joined(&own.pieces))?
        {
            return Ok(false);
        }
    }
    out.push("{\"type\":")?;
    out.string(word)?;
    write_rows(out, rows, &found, depth)?;
    out.push("}")?;
    Ok(true)
}

fn names_one_of(arms: &[Arm], bytes: &[u8]) -> Result<bool, Broken> {
    let mut fields = Fields::of(bytes);
    while let Some((number, payload)) = fields.next()? {
        if matches!(payload, Payload::Bytes(_)) && arms.iter().any(|arm| arm.number == number) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The low half of a number, as every reader of an enum takes it.
#[expect(clippy::cast_possible_truncation, reason = "an enum is an int32: the upper half is no part of it")]
const fn int32(number: u64) -> i32 {
    number as i32
}
