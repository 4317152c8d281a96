//! Encodes canonical members as a protobuf message, driven by the table.

use super::table::{self, AbsentField, FieldRow, FieldType, JsonLocation, MessageBody, MessageSchema};
use super::value::{unescape, write_struct, write_value};
use super::{EXACT_TEXT_KEY, FRAME_LIMIT, HEADER_LEN, PARTS_ROLES, allows_content, wire};
use crate::codec::json;
use crate::event::value::SAFE_INTEGER;
use crate::event::{EventType, Field, GATEWAY_KEY, Json, JsonType, Member, find_member};

/// `type` of a content part retired in AG-UI 1.0.
const BINARY_PART: &str = "binary";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireFidelity {
    /// protobuf expresses the whole event
    Exact,
    /// the metadata carries the original JSON
    Carried,
    /// the original JSON does not fit
    Lossy,
}

/// The event does not fit in a frame; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

/// Appends one frame, or nothing if it exceeds [`FRAME_LIMIT`].
pub(crate) fn encode_frame(
    out: &mut Vec<u8>,
    kind: EventType,
    members: &[Member<'_>],
) -> Result<WireFidelity, EventTooLarge> {
    let start = out.len();
    if write_event(out, kind, members, None) {
        return finish_frame(out, start).map(|()| WireFidelity::Exact);
    }
    out.truncate(start);
    let text = json::to_event_object(kind.wire(), members);
    let metadata = find_member(members, Field::Metadata.camel());
    write_event(out, kind, members, Some(&embed_exact_text(metadata, &text)));
    if finish_frame(out, start).is_ok() {
        return Ok(WireFidelity::Carried);
    }
    write_event(out, kind, members, None);
    finish_frame(out, start).map(|()| WireFidelity::Lossy)
}

fn finish_frame(out: &mut Vec<u8>, start: usize) -> Result<(), EventTooLarge> {
    let size = out.len() - start;
    match u32::try_from(size - HEADER_LEN) {
        Ok(length) if size <= FRAME_LIMIT => {
            out[start..start + HEADER_LEN].copy_from_slice(&length.to_be_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(EventTooLarge)
        }
    }
}

fn embed_exact_text(metadata: Option<&Json<'_>>, text: &Json<'_>) -> Json<'static> {
    let text = Json::string(text.as_str());
    let others = |value: Option<&Json<'_>>, name: &str| {
        let mut all = value.and_then(json::parse_owned_members).unwrap_or_default();
        let at = all.iter().position(|(key, _)| key.name() == name);
        let taken = at.map(|at| all.remove(at).1);
        (all, taken)
    };
    let (rest, carried) = others(metadata, GATEWAY_KEY);
    let (own, _) = others(carried.as_ref(), EXACT_TEXT_KEY);
    let carried = json::build_object(|object| {
        own.iter().for_each(|member| object.copy_member(member, false));
        object.member(EXACT_TEXT_KEY, text.as_str());
    });
    json::build_object(|object| {
        rest.iter().for_each(|member| object.copy_member(member, false));
        object.member(GATEWAY_KEY, carried.as_str());
    })
}

/// Returns true if a reader would mistake this metadata for carried JSON.
fn has_exact_text(metadata: &Json<'_>) -> bool {
    // The name may be escaped.
    let suspect = metadata.as_str().contains(GATEWAY_KEY) || metadata.as_str().contains("\\u");
    suspect && exact_text(metadata).is_some()
}

pub(super) fn exact_text(metadata: &Json<'_>) -> Option<Json<'static>> {
    json::parse_member(&json::parse_member(metadata, GATEWAY_KEY)?, EXACT_TEXT_KEY)
}

/// Appends a frame, filling in its length at the end. `metadata` replaces the event's own. Returns `true` if decoding
/// restores all members.
fn write_event(out: &mut Vec<u8>, kind: EventType, members: &[Member<'_>], metadata: Option<&Json<'_>>) -> bool {
    let entry = table::event_schema(kind);
    let hint = members.iter().map(|(_, value)| value.as_str().len()).sum();
    out.extend_from_slice(&[0; HEADER_LEN]);
    let envelope = wire::begin_message(out, entry.arm, hint);
    let base = wire::begin_message(out, table::BASE_NUMBER, 0);
    if entry.number != 0 {
        wire::write_number(out, table::BASE_TYPE, u64::from(entry.number));
    }
    let mut writer = ProtoWriter { out, exact: true, rejected: false };
    let mut taken = 0;
    for row in table::BASE_ROWS {
        match (row.field_type, metadata) {
            (FieldType::Struct, Some(metadata)) => writer.write_object(row.number, metadata),
            _ => taken += usize::from(writer.write_row(row, members, None)),
        }
    }
    let exact = writer.exact;
    wire::end_message(out, base);
    let mut writer = ProtoWriter { out, exact, rejected: false };
    taken += writer.write_rows(entry.rows, members);
    let own_metadata = find_member(members, Field::Metadata.camel());
    let exact = writer.exact && taken == members.len() && !own_metadata.is_some_and(has_exact_text);
    wire::end_message(out, envelope);
    exact
}

struct ProtoWriter<'o> {
    out: &'o mut Vec<u8>,
    /// whether decoding restores the input
    exact: bool,
    /// whether the message is invalid and must be left out
    rejected: bool,
}

struct OutcomeParts<'m> {
    members: Vec<Member<'m>>,
    type_value: String,
    written_members: usize,
}

impl<'m> OutcomeParts<'m> {
    fn parse(value: &'m Json<'_>) -> Option<Self> {
        let members = json::parse_members(value)?;
        let word = find_member(&members, json::TYPE)?;
        let (word, exact) = match word.json_type() {
            JsonType::String => unescape(word.as_str()),
            _ => return None,
        };
        let type_value = word.into_owned();
        let written_members = usize::from(exact);
        (!type_value.is_empty()).then_some(OutcomeParts { members, type_value, written_members })
    }
}

impl ProtoWriter<'_> {
    /// Writes the rows and returns how many `members` they covered.
    fn write_rows(&mut self, rows: &[FieldRow], members: &[Member<'_>]) -> usize {
        let outcome = find_member(members, Field::Outcome.camel());
        let splits = rows.iter().any(|row| row.location == JsonLocation::OutcomeType);
        let mut outcome = outcome.filter(|_| splits).and_then(OutcomeParts::parse);
        let mut taken = 0;
        for row in rows {
            taken += usize::from(self.write_row(row, members, outcome.as_mut()));
        }
        self.exact &= outcome.is_none_or(|outcome| outcome.written_members == outcome.members.len());
        taken
    }

    fn write_row(&mut self, row: &FieldRow, members: &[Member<'_>], outcome: Option<&mut OutcomeParts<'_>>) -> bool {
        match row.location {
            JsonLocation::Member(name) => {
                let value = find_member(members, name);
                self.write_field(row, value)
            }
            JsonLocation::Content => {
                let named = |name: &str| find_member(members, name);
                let role = named(Field::Role.camel()).and_then(Json::text).unwrap_or_default();
                let is_list = matches!(row.field_type, FieldType::Repeated(_));
                let absent = if PARTS_ROLES.contains(&&*role) { AbsentField::DefaultValue } else { row.when_absent };
                let row = FieldRow { when_absent: if is_list { absent } else { AbsentField::Omitted }, ..*row };
                match named(Field::Content.camel()) {
                    None => self.write_field(&row, None),
                    // Several forms share the member; the count reveals a value that fits none of them.
                    Some(value) if row.field_type.accepts(value) && allows_content(&role, &row.field_type) => {
                        self.write_field(&row, Some(value))
                    }
                    Some(_) => false,
                }
            }
            JsonLocation::OutcomeType => outcome.is_some_and(|outcome| {
                wire::write_string(self.out, row.number, &outcome.type_value);
                true
            }),
            JsonLocation::OutcomeList { name, outcome_type: of } => {
                if let Some(outcome) = outcome.filter(|outcome| outcome.type_value == of) {
                    let value = find_member(&outcome.members, name);
                    let taken = self.write_field(row, value);
                    outcome.written_members += usize::from(taken);
                }
                false
            }
        }
    }

    /// Writes a field; returns `true` if it expresses `value` exactly.
    fn write_field(&mut self, row: &FieldRow, value: Option<&Json<'_>>) -> bool {
        let Some(value) = value.filter(|value| row.field_type.accepts(value)) else {
            // The reader fills in a value for the absent field.
            self.exact &= row.when_absent == AbsentField::Omitted;
            // Omitting it would imply the first operation.
            self.rejected |= matches!(row.field_type, FieldType::Enum(_));
            return false;
        };
        match row.field_type {
            FieldType::Text => {
                let (text, exact) = unescape(value.as_str());
                self.exact &= exact;
                if !(text.is_empty() && row.when_absent == AbsentField::DefaultValue) {
                    wire::write_string(self.out, row.number, &text);
                }
            }
            FieldType::Int64 => {
                let count = value.as_i64().unwrap_or_default();
                self.exact &= value.as_str() == count.to_string();
                wire::write_number(self.out, row.number, count.cast_unsigned());
            }
            FieldType::Bool => wire::write_number(self.out, row.number, u64::from(value.as_str() == "true")),
            FieldType::Enum(words) => match words.iter().position(|word| value.is_str(word)) {
                Some(0) => {}
                Some(at) => wire::write_number(self.out, row.number, at as u64),
                None => self.rejected = true,
            },
            FieldType::Value | FieldType::NonNullValue => {
                let open = wire::begin_message(self.out, row.number, value.as_str().len());
                self.exact &= write_value(self.out, value.as_str());
                wire::end_message(self.out, open);
            }
            FieldType::Struct => self.write_object(row.number, value),
            FieldType::Message(shape) => {
                let is_written = self.write_message(row.number, shape, value);
                // The client fails on a part without its source, but not on a missing part.
                self.rejected |= !is_written && matches!(shape.body, MessageBody::OneOf(_));
                return is_written;
            }
            FieldType::Repeated(shape) => {
                let elements = json::parse_elements(value).unwrap_or_default();
                self.exact &= !(elements.is_empty() && row.when_absent == AbsentField::Omitted);
                for element in &elements {
                    self.exact &= self.write_message(row.number, shape, element);
                }
            }
            FieldType::RepeatedText => {
                let elements = json::parse_elements(value).unwrap_or_default();
                self.exact &= !(elements.is_empty() && row.when_absent == AbsentField::Omitted);
                for element in &elements {
                    let is_text = element.json_type() == JsonType::String;
                    let (text, exact) = if is_text { unescape(element.as_str()) } else { ("".into(), false) };
                    self.exact &= exact;
                    if is_text {
                        wire::write_string(self.out, row.number, &text);
                    }
                }
            }
        }
        true
    }

    fn write_object(&mut self, number: u32, value: &Json<'_>) {
        let open = wire::begin_message(self.out, number, value.as_str().len());
        self.exact &= write_struct(self.out, value.as_str());
        wire::end_message(self.out, open);
    }

    /// Writes an object as a message. Returns `false`, writing nothing, if that is impossible.
    fn write_message(&mut self, number: u32, shape: &MessageSchema, value: &Json<'_>) -> bool {
        let Some(members) = json::parse_members(value) else {
            return false;
        };
        if let (MessageBody::OneOf(_), Some(document)) = (&shape.body, convert_binary_part(&members)) {
            self.write_message(number, shape, &document);
            return false;
        }
        let start = self.out.len();
        let outer = std::mem::replace(&mut self.rejected, false);
        let open = wire::begin_message(self.out, number, value.as_str().len());
        match shape.body {
            MessageBody::Rows(rows) => self.exact &= self.write_rows(rows, &members) == members.len(),
            MessageBody::OneOf(arms) => {
                let word = find_member(&members, json::TYPE);
                match arms.iter().find(|arm| word.is_some_and(|word| word.is_str(arm.type_value))) {
                    Some(arm) => {
                        let inner = wire::begin_message(self.out, arm.number, value.as_str().len());
                        if let MessageBody::Rows(rows) = arm.schema.body {
                            self.exact &= self.write_rows(rows, &members) + 1 == members.len();
                        }
                        wire::end_message(self.out, inner);
                    }
                    None => self.rejected = true,
                }
            }
        }
        wire::end_message(self.out, open);
        let refused = std::mem::replace(&mut self.rejected, outer);
        if refused {
            self.out.truncate(start);
        }
        !refused
    }
}

/// Converts a `binary` part from AG-UI 0.x to a document, as the real encoder does (`toProtoContentPart`).
fn convert_binary_part(members: &[Member<'_>]) -> Option<Json<'static>> {
    let named = |name: &str| find_member(members, name);
    let present = |name: &str| named(name).filter(|value| !value.is_str("") && !value.is_null());
    if !named(json::TYPE)?.is_str(BINARY_PART) {
        return None;
    }
    let id = Field::Id.camel();
    let (kind, value) =
        present("data").map(|data| ("data", data)).or(present("url").or(present(id)).map(|url| ("url", url)))?;
    let source = json::build_object(|source| {
        source.string_member(json::TYPE, kind);
        source.member(Field::Value.camel(), value.as_str());
        named("mimeType").into_iter().for_each(|media| source.member("mimeType", media.as_str()));
    });
    let metadata = json::build_object(|metadata| {
        metadata.member("legacyBinary", "true");
        for name in ["filename", id] {
            named(name).into_iter().for_each(|value| metadata.member(name, value.as_str()));
        }
    });
    Some(json::build_object(|part| {
        part.string_member(json::TYPE, "document");
        part.member(Field::Source.camel(), source.as_str());
        part.member(Field::Metadata.camel(), metadata.as_str());
    }))
}

impl FieldType {
    fn accepts(&self, value: &Json<'_>) -> bool {
        match (self, value.json_type()) {
            (FieldType::Value, _)
            | (FieldType::Text | FieldType::Enum(_), JsonType::String)
            | (FieldType::Bool, JsonType::Bool)
            | (FieldType::Struct | FieldType::Message(_), JsonType::Object)
            | (FieldType::Repeated(_) | FieldType::RepeatedText, JsonType::Array) => true,
            (FieldType::NonNullValue, shape) => shape != JsonType::Null,
            (FieldType::Int64, JsonType::Number) => {
                value.as_i64().is_some_and(|count| (-SAFE_INTEGER..=SAFE_INTEGER).contains(&count))
            }
            _ => false,
        }
    }
}
