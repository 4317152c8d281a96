//! Carries members that the other side has no field for (`translation.md` §2).
//!
//! ```text
//! dialect ──▶ canonical   own members        ──▶ metadata.<dialect>
//! canonical ──▶ dialect   canonical-only ones ──▶ extra["ag-ui"]              (CarryLocation::Extra)
//!                                                 metadata["diglot.ag-ui"]    (CarryLocation::Metadata)
//! ```
//!
//! Under the dialect's key, a name that begins with `$` is a note by the gateway about the event's form, not one of its
//! members.

use crate::codec::json;
pub(crate) use crate::event::GATEWAY_KEY;
use crate::event::kind::MemberType;
use crate::event::{Event, EventType, Field, Json, JsonType, MemberKey, Members, find_member, get, set};
use std::borrow::Cow;

/// The place where a dialect carries canonical-only members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarryLocation {
    /// the dialect is canonical, so nothing is carried
    Native,
    /// in `extra["ag-ui"]` of events and messages
    Extra,
    /// in `metadata["diglot.ag-ui"]` of events and messages
    Metadata,
}

impl CarryLocation {
    /// Returns the member that holds canonical-only members, and the gateway's key in it.
    #[must_use]
    pub const fn carry_member(self) -> Option<(&'static str, &'static str)> {
        match self {
            CarryLocation::Native => None,
            CarryLocation::Extra => Some(("extra", "ag-ui")),
            CarryLocation::Metadata => Some(("metadata", CANONICAL_KEY)),
        }
    }
}

/// The name prefix of CUSTOM events that wrap a canonical event which the dialect lacks.
pub(crate) const CANONICAL_PREFIX: &str = "ag-ui.";

/// The `metadata` key for canonical-only members. AG-UI reserves the key `ag-ui` (specs §1).
pub(crate) const CANONICAL_KEY: &str = "diglot.ag-ui";

/// Marks members that were converted to JSON text.
pub(crate) const AS_JSON_NOTE: &str = "$json";

/// Stores the previous value of the carrying member if it was not an object, was empty, or already had the gateway's
/// key.
const DISPLACED_VALUE: &str = "$extra";

/// The event's canonical type, under the gateway's key. Events with an empty type are for display only and are dropped
/// when read back.
const CANONICAL_TYPE: &str = json::TYPE;

pub(crate) fn pack<'a>(event: &mut Event<'a>, dialect: &str, own: Members<'_>) {
    if own.is_empty() {
        return;
    }
    let merged = merge(event.get(Field::Metadata), dialect, own);
    event.set(Field::Metadata, merged);
}

/// Adds dialect-only members to the member `dialect` of a metadata object.
pub(crate) fn merge(old: Option<&Json<'_>>, dialect: &str, own: Members<'_>) -> Json<'static> {
    let Some(old) = old else { return json::to_nested_object(dialect, &own) };
    let mut metadata = json::parse_members(old).unwrap_or_else(|| {
        // The value cannot hold members, so it is kept as a note.
        vec![(MemberKey::Known(Field::Metadata), old.as_borrowed())]
    });
    let at = metadata.iter().position(|(key, _)| is_named(key, dialect));
    let mine = match at {
        Some(at) => {
            let (_, before) = metadata.remove(at);
            let mut mine = json::parse_owned_members(&before).unwrap_or_default();
            for (key, value) in own {
                set(&mut mine, key.into_owned(), value.into_owned());
            }
            json::to_object(&mine)
        }
        None => json::to_object(&own),
    };
    metadata.push((MemberKey::Other(Cow::Borrowed(dialect)), mine));
    json::to_object(&metadata)
}

/// Moves unused notes back to `metadata`.
pub(crate) fn keep_notes(dialect: &str, notes: &[&str], own: &mut Members<'static>) {
    let is_note = |(key, _): &(MemberKey<'_>, Json<'_>)| notes.iter().any(|note| is_named(key, note));
    if !own.iter().any(is_note) {
        return;
    }
    let (kept, rest): (Members<'static>, Members<'static>) = std::mem::take(own).into_iter().partition(is_note);
    *own = rest;
    let metadata = merge(get(own, Field::Metadata), dialect, kept);
    set(own, MemberKey::Known(Field::Metadata), metadata);
}

/// Splits a metadata object into the dialect's carried members and the rest.
///
/// Members for which `splices` is false stay in the rest, because the event itself has them.
pub(crate) fn unpack(
    metadata: Json<'_>,
    dialect: &str,
    splices: impl Fn(&MemberKey<'_>) -> bool,
) -> (Members<'static>, Option<Json<'static>>) {
    let Some(members) = json::parse_members(&metadata) else {
        return (Members::new(), Some(metadata.into_owned()));
    };
    let mut own = Members::new();
    let mut rest = Members::new();
    for (key, value) in &members {
        match json::parse_members(value).filter(|_| is_named(key, dialect)) {
            Some(mine) => {
                let (splice, stay): (Members<'_>, Members<'_>) = mine.into_iter().partition(|(key, _)| splices(key));
                own.extend(crate::event::into_owned_members(splice));
                if !stay.is_empty() || value.as_str() == "{}" {
                    rest.push((key.clone().into_owned(), json::to_object(&stay)));
                }
            }
            None => rest.push((key.clone().into_owned(), value.clone().into_owned())),
        }
    }
    let rest = (!rest.is_empty() || own.is_empty()).then(|| json::to_object(&rest));
    (own, rest)
}

/// Returns false for a member name that would not survive a round trip: `type` is the event's, and `run_id` would be
/// read as `runId`.
pub(crate) fn is_stable_name(key: &MemberKey<'_>) -> bool {
    match key {
        MemberKey::Known(_) => true,
        MemberKey::Other(name) => name != json::TYPE && Field::from_wire(name).is_none(),
    }
}

#[derive(Debug, Default)]
pub(crate) struct CarriedMembers {
    pub(crate) canonical: Members<'static>,
    pub(crate) canonical_type: Option<String>,
    pub(crate) rest: Option<Json<'static>>,
}

pub(crate) fn unwrap_canonical(extra: &Json<'_>, location: CarryLocation) -> CarriedMembers {
    let members = json::parse_members(extra).unwrap_or_default();
    let ours = location.carry_member().map_or("", |(_, key)| key);
    let Some(at) = members.iter().position(|(key, value)| is_named(key, ours) && json::parse_members(value).is_some())
    else {
        return CarriedMembers { rest: Some(extra.clone().into_owned()), ..CarriedMembers::default() };
    };
    let mut found = CarriedMembers::default();
    for (key, value) in json::parse_members(&members[at].1).unwrap_or_default() {
        match (&key, value.text()) {
            (MemberKey::Other(name), Some(kind)) if name == CANONICAL_TYPE => {
                found.canonical_type = Some(kind.into_owned());
            }
            // As a member it would give the event two types.
            (MemberKey::Other(name), None) if name == CANONICAL_TYPE => {
                found.canonical_type = Some(value.as_str().to_owned());
            }
            (MemberKey::Other(name), _) if name == DISPLACED_VALUE => found.rest = Some(value.into_owned()),
            _ => found.canonical.push((key.into_owned(), value.into_owned())),
        }
    }
    let rest: Members<'_> =
        members.iter().enumerate().filter(|(index, _)| *index != at).map(|(_, member)| member.clone()).collect();
    if !rest.is_empty() {
        found.rest = Some(json::to_object(&rest));
    }
    found
}

/// Unpacks a message. Its `type` is a member like any other, unless it names an event that the client kept.
pub(crate) fn unwrap_message(extra: &Json<'_>, location: CarryLocation) -> CarriedMembers {
    let mut found = unwrap_canonical(extra, location);
    if let Some(kind) = found.canonical_type.take() {
        if kind.is_empty() || EventType::from_wire(&kind).is_some() {
            found.canonical.retain(|(key, _)| is_kept_with_message(&kind, key));
            return found;
        }
        let ours = location.carry_member().and_then(|(_, key)| json::parse_member(extra, key));
        let value = ours.and_then(|ours| json::parse_member(&ours, CANONICAL_TYPE));
        found.canonical.extend(value.map(|value| (extension_key(CANONICAL_TYPE), value)));
    }
    found
}

/// Returns true for a member that a message shares with its events of this type; the others describe the event alone.
fn is_kept_with_message(kind: &str, key: &MemberKey<'_>) -> bool {
    let is_text = EventType::from_wire(kind).is_some_and(|kind| TEXT_EVENTS.contains(&kind));
    is_text && matches!(key, MemberKey::Known(Field::Name | Field::Metadata | Field::SubagentRunId))
}

const TEXT_EVENTS: [EventType; 4] = [
    EventType::TextMessageStart,
    EventType::TextMessageContent,
    EventType::TextMessageEnd,
    EventType::TextMessageChunk,
];

/// Adds the carried members to the value at `location`; returns `None` if there are none.
pub(crate) fn wrap_canonical(
    location: CarryLocation,
    own: Option<&Json<'_>>,
    canonical: &[(MemberKey<'_>, Json<'_>)],
    canonical_type: Option<&str>,
) -> Option<Json<'static>> {
    let key = location.carry_member().map_or("", |(_, key)| key);
    let has_ours = |members: &Members<'_>| find_member(members, key).is_some();
    let host = own.and_then(json::parse_members);
    if canonical.is_empty() && canonical_type.is_none() && !host.as_ref().is_some_and(has_ours) {
        return own.cloned().map(Json::into_owned);
    }
    let host = host.filter(|members| !members.is_empty() && !has_ours(members));
    let ours = json::build_object(|object| {
        if let Some(kind) = canonical_type {
            object.string_member(CANONICAL_TYPE, kind);
        }
        if let Some(own) = own.filter(|_| host.is_none()) {
            object.member(DISPLACED_VALUE, own.as_str());
        }
        canonical.iter().for_each(|member| object.copy_member(member, false));
    });
    let mut extra = host.unwrap_or_default();
    extra.push((MemberKey::Other(Cow::Borrowed(key)), ours));
    Some(json::to_object(&extra))
}

/// Returns true for a note, which is meant for the gateway alone.
pub(crate) fn is_note(key: &MemberKey<'_>) -> bool {
    key.name().starts_with('$')
}

/// Removes the notes under the dialect's key from a message.
pub(crate) fn remove_notes(message: &mut Members<'_>, dialect: &str) {
    let metadata = get(message, Field::Metadata).filter(|metadata| metadata.as_str().contains('$'));
    let Some(mut all) = metadata.and_then(json::parse_owned_members) else { return };
    let Some(at) = all.iter().position(|(key, _)| is_named(key, dialect)) else { return };
    let Some(mut own) = json::parse_owned_members(&all[at].1) else { return };
    own.retain(|(key, _)| !is_note(key));
    match own.is_empty() {
        true => drop(all.remove(at)),
        false => all[at].1 = json::to_object(&own),
    }
    match all.is_empty() {
        true => drop(crate::event::remove(message, Field::Metadata)),
        false => set(message, MemberKey::Known(Field::Metadata), json::to_object(&all)),
    }
}

pub(crate) fn is_named(key: &MemberKey<'_>, name: &str) -> bool {
    key.name() == name
}

pub(crate) fn take<'a>(members: &mut Members<'a>, name: &str) -> Option<Json<'a>> {
    let at = members.iter().position(|(key, _)| is_named(key, name))?;
    Some(members.remove(at).1)
}

pub(crate) fn extension_key(name: &'static str) -> MemberKey<'static> {
    MemberKey::Other(Cow::Borrowed(name))
}

pub(crate) fn add_note(own: &mut Members<'_>, name: &'static str) {
    own.push((extension_key(name), Json::from_trusted("true")));
}

/// Removes a note that lists members, and returns the members that `admits` accepts. Clients send notes back, so the
/// list is validated.
pub(crate) fn take_fields(own: &mut Members<'_>, note: &str, admits: impl Fn(Field) -> bool) -> Vec<Field> {
    let note = take(own, note);
    let names = note.as_ref().and_then(json::parse_elements).unwrap_or_default();
    let field = |name: &Json<'_>| name.text().and_then(|name| Field::from_wire(&name));
    names.iter().filter_map(field).filter(|field| admits(*field)).collect()
}

pub(crate) fn field_list(fields: &[Field]) -> Json<'static> {
    let names: Vec<_> = fields.iter().map(|field| Json::string(field.camel())).collect();
    json::to_array(&names)
}

pub(crate) fn carried_member(event: &Event<'_>, dialect: &str, name: &str) -> Option<Json<'static>> {
    json::parse_member(&json::parse_member(event.get(Field::Metadata)?, dialect)?, name)
}

/// Removes a carried member from the metadata of an event.
pub(crate) fn take_carried(event: &mut Event<'_>, dialect: &str, name: &str) -> Option<Json<'static>> {
    let (metadata, taken) = take_from_metadata(event.get(Field::Metadata)?, dialect, name)?;
    match metadata {
        Some(metadata) => event.set(Field::Metadata, metadata),
        None => drop(event.remove(Field::Metadata)),
    }
    Some(taken)
}

/// Removes a carried member from metadata; returns the rest, if there is any, and the member.
pub(crate) fn take_from_metadata(
    metadata: &Json<'_>,
    dialect: &str,
    name: &str,
) -> Option<(Option<Json<'static>>, Json<'static>)> {
    // Most metadata has no such member.
    if !metadata.as_str().contains(name) {
        return None;
    }
    let mut all = json::parse_owned_members(metadata)?;
    let at = all.iter().position(|(key, _)| is_named(key, dialect))?;
    let mut mine = json::parse_owned_members(&all[at].1)?;
    let taken = take(&mut mine, name)?;
    match mine.is_empty() {
        true => drop(all.remove(at)),
        false => all[at].1 = json::to_object(&mine),
    }
    Some(((!all.is_empty()).then(|| json::to_object(&all)), taken))
}

/// Marks ids that were numbers.
pub(crate) const NUMBERS_NOTE: &str = "$numbers";

/// Converts numeric ids to text and notes the change.
pub(crate) fn stringify_number_ids(event: &mut Event<'_>, own_members: &mut Members<'_>) {
    let mut fields = Vec::new();
    for (key, value) in &event.members {
        if let MemberKey::Known(field) = key
            && value.json_type() == JsonType::Number
            && IDS.contains(field)
            && event.kind.slot(*field).is_some_and(|slot| slot.member_type == MemberType::Str)
        {
            fields.push(*field);
        }
    }
    if fields.is_empty() {
        return;
    }
    for field in &fields {
        let text = event.get(*field).map(|number| Json::string(number.as_str()));
        text.into_iter().for_each(|text| event.set(*field, text));
    }
    own_members.push((extension_key(NUMBERS_NOTE), field_list(&fields)));
}

/// Reverses [`stringify_number_ids`].
pub(crate) fn restore_number_ids(members: &mut Members<'_>, own_members: &mut Members<'_>) {
    for field in take_fields(own_members, NUMBERS_NOTE, |field| IDS.contains(&field)) {
        let text = get(members, field).and_then(Json::text).map(Cow::into_owned);
        let number = text.as_deref().and_then(json::parse_value).filter(|value| value.json_type() == JsonType::Number);
        if let Some(number) = number.map(Json::into_owned) {
            set(members, MemberKey::Known(field), number);
        }
    }
}

/// Returns true if the id in `field` was a number in `dialect`.
pub(crate) fn was_number(event: &Event<'_>, dialect: &str, field: Field) -> bool {
    let looks_numeric = |id: &Json<'_>| id.as_str()[1..].starts_with(|c: char| c == '-' || c.is_ascii_digit());
    event.get(field).is_some_and(|id| id.json_type() == JsonType::String && looks_numeric(id))
        && carried_member(event, dialect, NUMBERS_NOTE)
            .and_then(|note| json::parse_elements(&note).map(|all| all.iter().any(|one| one.is_str(field.camel()))))
            .unwrap_or_default()
}

/// Notes that the id in `field` of an added event is a number, as in the agent's event.
pub(crate) fn mark_number(event: &mut Event<'_>, dialect: &str, field: Field) {
    pack(event, dialect, vec![(extension_key(NUMBERS_NOTE), field_list(&[field]))]);
}

const IDS: [Field; 4] = [Field::MessageId, Field::ToolCallId, Field::ParentMessageId, Field::StepName];

/// Notes that `field` was converted to JSON text.
pub(crate) fn note_json(own_members: &mut Members<'_>, field: Field) {
    own_members.push((extension_key(AS_JSON_NOTE), json::to_array(&[Json::string(field.camel())])));
}

/// Removes the [`note_json`] note; returns true if it existed.
pub(crate) fn take_json_note(own_members: &mut Members<'_>, field: Field) -> bool {
    take(own_members, AS_JSON_NOTE).is_some_and(|note| {
        json::parse_elements(&note).is_some_and(|all| all.iter().any(|one| one.is_str(field.camel())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacks_what_it_packed_and_keeps_foreign_metadata() {
        let mut event =
            Event::new(EventType::Custom).with(Field::Metadata, Json::from_trusted(r#"{"x":null,"hai":{"a":1}}"#));
        pack(&mut event, "hai", vec![(extension_key("blockId"), Json::string("b"))]);
        let metadata = event.get(Field::Metadata).expect("set").clone();
        assert_eq!(metadata.as_str(), r#"{"x":null,"hai":{"a":1,"blockId":"b"}}"#);
        let (mine, rest) = unpack(metadata, "hai", |_| true);
        assert_eq!(json::to_object(&mine).as_str(), r#"{"a":1,"blockId":"b"}"#);
        assert_eq!(rest.expect("x").as_str(), r#"{"x":null}"#);
    }

    #[test]
    fn keeps_existing_members_of_extra() {
        let own_extra = Json::from_trusted(r#"{"k":[1]}"#);
        let canonical = [(MemberKey::Known(Field::SubagentRunId), Json::string("s"))];
        let wrapped = wrap_canonical(CarryLocation::Extra, Some(&own_extra), &canonical, Some("X")).expect("something");
        assert_eq!(wrapped.as_str(), r#"{"k":[1],"ag-ui":{"type":"X","subagentRunId":"s"}}"#);
        let found = unwrap_canonical(&wrapped, CarryLocation::Extra);
        assert_eq!(found.canonical_type.as_deref(), Some("X"));
        assert_eq!(found.rest.expect("own").as_str(), r#"{"k":[1]}"#);
        assert_eq!(json::to_object(&found.canonical).as_str(), r#"{"subagentRunId":"s"}"#);
        assert!(wrap_canonical(CarryLocation::Extra, None, &[], None).is_none());
    }
}
