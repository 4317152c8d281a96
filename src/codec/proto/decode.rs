//! Decodes a protobuf message into event JSON, driven by the table.

use super::encode::exact_text;
use super::json_buffer::JsonBuffer;
use super::table::{
    self, AbsentField, BASE_ROWS, FieldRow, FieldType, JsonLocation, MessageBody, MessageSchema, UnionArm,
};
use super::value::{join_pieces, next_depth, parse_utf8, read_struct, read_value};
use super::wire::{FieldReader, WireValue};
use super::{MessageError, PARTS_ROLES, allows_content};
use crate::codec::json;
use crate::event::{EventType, Field};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodedMessage {
    Event {
        /// JSON with `type` first
        text: String,
        dropped: usize,
    },
    Unknown,
}

/// Decodes one `ag_ui.Event` into JSON of at most `limit` bytes.
pub(super) fn decode_event(message: &[u8], limit: usize) -> Result<DecodedMessage, MessageError> {
    let mut arm = None;
    let mut pieces = Vec::new();
    let mut future = 0usize;
    let mut opaque = false;
    let mut broken = false;
    let mut fields = FieldReader::new(message);
    while let Some((number, payload)) = fields.next()? {
        match (table::event_for_arm(number), payload) {
            // "An envelope naming different known event kinds" is malformed; pieces of the same kind merge.
            (Some(kind), WireValue::Bytes(piece)) if arm.is_none_or(|own| own == kind) => {
                arm = Some(kind);
                pieces.push(piece);
            }
            (Some(_), _) => broken = true,
            (None, WireValue::Bytes(piece)) => {
                opaque |= !is_readable_message(piece);
                future += 1;
            }
            (None, _) => {}
        }
    }
    match arm {
        Some(kind) if !broken => decode_body(kind, &join_pieces(&pieces), limit),
        None if !broken && !opaque && future > 0 => Ok(DecodedMessage::Unknown),
        _ => Err(MessageError::Envelope),
    }
}

fn is_readable_message(bytes: &[u8]) -> bool {
    let mut fields = FieldReader::new(bytes);
    std::iter::from_fn(|| fields.next().transpose()).all(|field| field.is_ok())
}

fn decode_body(kind: EventType, message: &[u8], limit: usize) -> Result<DecodedMessage, MessageError> {
    let entry = table::event_schema(kind);
    let found = gather_fields(entry.rows, message)?;
    let (base, number) = read_base(message)?;
    // "base_event is mandatory and its type must match the arm"
    if number != Some(u64::from(entry.number)) {
        return Err(MessageError::Envelope);
    }
    let mut text = JsonBuffer::new(limit);
    text.push("{\"type\":\"")?;
    text.push(kind.wire())?;
    text.push("\"")?;
    let found_base = gather_fields(BASE_ROWS, &base)?;
    let start = text.len();
    write_rows(&mut text, BASE_ROWS, &found_base, 1)?;
    if let Some(exact) = restore_exact_text(kind, &text.as_str()[start..], limit) {
        return Ok(DecodedMessage::Event { text: exact, dropped: 0 });
    }
    write_rows(&mut text, entry.rows, &found, 1)?;
    text.push("}")?;
    let dropped = text.dropped;
    Ok(DecodedMessage::Event { text: text.into_string(), dropped })
}

/// Returns the merged `base_event` and its type number.
fn read_base(message: &[u8]) -> Result<(Vec<u8>, Option<u64>), MessageError> {
    let mut whole = Vec::new();
    let mut is_present = false;
    let mut fields = FieldReader::new(message);
    while let Some((number, payload)) = fields.next()? {
        if let (table::BASE_NUMBER, WireValue::Bytes(piece)) = (number, payload) {
            whole.extend_from_slice(piece);
            is_present = true;
        }
    }
    let mut kind = is_present.then_some(0);
    let mut fields = FieldReader::new(&whole);
    while let Some((number, payload)) = fields.next()? {
        if let (table::BASE_TYPE, WireValue::Varint(value)) = (number, payload) {
            kind = Some(value);
        }
    }
    Ok((whole, kind))
}

/// Returns the original JSON if the metadata in `base` carries it. Each member in `base` follows a comma.
fn restore_exact_text(kind: EventType, base: &str, limit: usize) -> Option<String> {
    if !base.contains(super::EXACT_TEXT_KEY) {
        return None;
    }
    let object = format!("{{{}}}", base.strip_prefix(',')?);
    let members = json::parse_open_object(&object).ok()?.members;
    let exact = exact_text(crate::event::get(&members, Field::Metadata)?)?;
    let text = exact.text()?.into_owned();
    let same = json::parse_object(&text).ok()?.kind.is_some_and(|own| own.is_str(kind.wire()));
    (same && text.len() <= limit).then_some(text)
}

/// The content of one field: the last number, or all chunks of bytes.
#[derive(Debug, Default)]
struct FieldContent<'a> {
    number: Option<u64>,
    pieces: Vec<&'a [u8]>,
}

fn gather_fields<'a>(rows: &[FieldRow], message: &'a [u8]) -> Result<Vec<FieldContent<'a>>, MessageError> {
    let mut found: Vec<FieldContent<'a>> = rows.iter().map(|_| FieldContent::default()).collect();
    let mut fields = FieldReader::new(message);
    while let Some((number, payload)) = fields.next()? {
        // A field without a row, or with another wire type, is skipped.
        let Some(at) = rows.iter().position(|row| row.number == number) else { continue };
        let is_number = matches!(rows[at].field_type, FieldType::Int64 | FieldType::Bool | FieldType::Enum(_));
        match payload {
            WireValue::Varint(value) if is_number => found[at].number = Some(value),
            WireValue::Bytes(piece) if !is_number => found[at].pieces.push(piece),
            _ => {}
        }
    }
    Ok(found)
}

fn write_rows(
    out: &mut JsonBuffer,
    rows: &[FieldRow],
    found: &[FieldContent<'_>],
    depth: usize,
) -> Result<(), MessageError> {
    let role = find_role(rows, found)?;
    check_single_content(rows, found, role)?;
    for (row, own) in rows.iter().zip(found) {
        match row.location {
            JsonLocation::Member(name) => write_member(out, row, own, name, row.when_absent, depth)?,
            JsonLocation::Content => {
                let has_content = rows
                    .iter()
                    .zip(found)
                    .any(|(row, own)| row.location == JsonLocation::Content && !own.pieces.is_empty());
                let absent = match row.field_type {
                    FieldType::Repeated(_) if !has_content && PARTS_ROLES.contains(&role) => AbsentField::DefaultValue,
                    FieldType::Repeated(_) if !has_content => row.when_absent,
                    _ => AbsentField::Omitted,
                };
                write_member(out, row, own, Field::Content.camel(), absent, depth)?;
            }
            JsonLocation::OutcomeType => write_outcome(out, rows, found, depth)?,
            JsonLocation::OutcomeList { .. } => {}
        }
    }
    Ok(())
}

fn find_role<'a>(rows: &[FieldRow], found: &[FieldContent<'a>]) -> Result<&'a str, MessageError> {
    let own = rows.iter().zip(found).find(|(row, _)| row.location == JsonLocation::Member(Field::Role.camel()));
    own.and_then(|(_, own)| own.pieces.last()).map_or(Ok(""), |role| parse_utf8(role))
}

/// Fails if there is more than one form of content: "Content carriers are role-exclusive".
fn check_single_content(rows: &[FieldRow], found: &[FieldContent<'_>], role: &str) -> Result<(), MessageError> {
    let mut forms =
        rows.iter().zip(found).filter(|(row, own)| row.location == JsonLocation::Content && !own.pieces.is_empty());
    match (forms.next(), forms.next()) {
        (Some((row, _)), None) if !allows_content(role, &row.field_type) => Err(MessageError::Content),
        (Some(_), Some(_)) => Err(MessageError::Content),
        _ => Ok(()),
    }
}

/// Writes `outcome`, whose type and lists are separate protobuf fields.
fn write_outcome(
    out: &mut JsonBuffer,
    rows: &[FieldRow],
    found: &[FieldContent<'_>],
    depth: usize,
) -> Result<(), MessageError> {
    let word = rows.iter().zip(found).find(|(row, _)| row.location == JsonLocation::OutcomeType);
    let word = word.and_then(|(_, own)| own.pieces.last()).map_or(Ok(""), |word| parse_utf8(word))?;
    let is_open = !word.is_empty();
    if is_open {
        out.write_name(Field::Outcome.camel())?;
        out.push("{\"type\":")?;
        out.string(word)?;
    }
    // The lists of other outcomes become its siblings; schema validation rejects them later.
    for (row, own) in rows.iter().zip(found) {
        if let JsonLocation::OutcomeList { name, outcome_type: of } = row.location {
            let absent = if of == word { row.when_absent } else { AbsentField::Omitted };
            write_member(out, row, own, name, absent, depth + usize::from(is_open))?;
        }
    }
    if is_open { out.push("}") } else { Ok(()) }
}

fn write_member(
    out: &mut JsonBuffer,
    row: &FieldRow,
    own: &FieldContent<'_>,
    name: &str,
    absent: AbsentField,
    depth: usize,
) -> Result<(), MessageError> {
    let is_present = own.number.is_some() || !own.pieces.is_empty();
    let has_default = matches!(
        row.field_type,
        FieldType::Text | FieldType::Enum(_) | FieldType::Repeated(_) | FieldType::RepeatedText
    );
    if !is_present && (absent == AbsentField::Omitted || !has_default) {
        return Ok(());
    }
    let before = out.len();
    out.write_name(name)?;
    let number = own.number.unwrap_or_default();
    let has_value = match row.field_type {
        FieldType::Text => out.string(parse_utf8(own.pieces.last().copied().unwrap_or_default())?).map(|()| true),
        FieldType::Int64 => out.push(&number.cast_signed().to_string()).map(|()| true),
        FieldType::Bool => out.push(if number == 0 { "false" } else { "true" }).map(|()| true),
        // An operation from a later protocol has no name here, so its number is written, as the real reader does.
        FieldType::Enum(words) => match usize::try_from(number).ok().and_then(|at| words.get(at)) {
            Some(word) => out.string(word).map(|()| true),
            None => out.string(&to_int32(number).to_string()).map(|()| true),
        },
        FieldType::Value | FieldType::NonNullValue => read_value(out, &join_pieces(&own.pieces), depth),
        FieldType::Struct => read_struct(out, &join_pieces(&own.pieces), depth).map(|()| true),
        FieldType::Message(shape) => write_message(out, shape, &join_pieces(&own.pieces), depth),
        FieldType::Repeated(_) | FieldType::RepeatedText => {
            write_list(out, &row.field_type, &own.pieces, depth).map(|()| true)
        }
    }?;
    if !has_value {
        out.truncate(before);
    }
    Ok(())
}

fn write_list(out: &mut JsonBuffer, form: &FieldType, pieces: &[&[u8]], depth: usize) -> Result<(), MessageError> {
    let depth = next_depth(depth)?;
    out.push("[")?;
    let start = out.len();
    for piece in pieces {
        let before = out.len();
        if before > start {
            out.push(",")?;
        }
        match form {
            FieldType::Repeated(shape) => {
                if !write_message(out, shape, piece, depth)? {
                    out.truncate(before);
                    out.dropped += 1;
                }
            }
            _ => out.string(parse_utf8(piece)?)?,
        }
    }
    out.push("]")
}

/// Writes a message as an object. Returns `false` for an unknown union member.
fn write_message(
    out: &mut JsonBuffer,
    shape: &MessageSchema,
    bytes: &[u8],
    depth: usize,
) -> Result<bool, MessageError> {
    match shape.body {
        MessageBody::Rows(rows) => {
            let depth = next_depth(depth)?;
            out.push("{")?;
            write_rows(out, rows, &gather_fields(rows, bytes)?, depth)?;
            out.push("}")?;
            Ok(true)
        }
        MessageBody::OneOf(arms) => write_union(out, arms, bytes, depth),
    }
}

fn write_union(out: &mut JsonBuffer, arms: &[UnionArm], bytes: &[u8], depth: usize) -> Result<bool, MessageError> {
    let mut chosen: Option<&UnionArm> = None;
    let mut pieces = Vec::new();
    let mut fields = FieldReader::new(bytes);
    while let Some((number, payload)) = fields.next()? {
        let Some(arm) = arms.iter().find(|arm| arm.number == number) else { continue };
        let WireValue::Bytes(piece) = payload else { continue };
        // "Exactly one populated arm": picking one would silently discard the rest.
        if chosen.is_some_and(|own| own.number != number) {
            return Err(MessageError::Content);
        }
        chosen = Some(arm);
        pieces.push(piece);
    }
    let Some(UnionArm { type_value: word, schema: shape, .. }) = chosen else {
        return Ok(false);
    };
    let MessageBody::Rows(rows) = shape.body else {
        return Ok(false);
    };
    let depth = next_depth(depth)?;
    let whole = join_pieces(&pieces);
    let found = gather_fields(rows, &whole)?;
    // A part whose source type is unknown has no content.
    for (row, own) in rows.iter().zip(&found) {
        if let (FieldType::Message(MessageSchema { body: MessageBody::OneOf(sources), .. }), false) =
            (row.field_type, own.pieces.is_empty())
            && !has_union_arm(sources, &join_pieces(&own.pieces))?
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

fn has_union_arm(arms: &[UnionArm], bytes: &[u8]) -> Result<bool, MessageError> {
    let mut fields = FieldReader::new(bytes);
    while let Some((number, payload)) = fields.next()? {
        if matches!(payload, WireValue::Bytes(_)) && arms.iter().any(|arm| arm.number == number) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Truncates a number to 32 bits, as protobuf readers do for enums.
#[expect(clippy::cast_possible_truncation, reason = "an enum is an int32: the upper half is no part of it")]
const fn to_int32(number: u64) -> i32 {
    number as i32
}
