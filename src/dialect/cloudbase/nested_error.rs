//! Run errors whose code and message are nested in an `error` member.

use crate::codec::json;
use crate::dialect::event_parts::{IncomingEvent, OutgoingEvent};
use crate::dialect::event_shapes::{DEFAULT_ERROR_MESSAGE, stringify_value, write_as_json};
use crate::dialect::table::{Dialect, PeerDialect};
use crate::dialect::{carry, value_aliases};
use crate::event::{
    EventType, Field, Json, JsonType, Member, MemberKey, Members, get, get_owned, into_owned_members, remove,
};

/// Lists members that were not nested.
const FLAT_NOTE: &str = "$flat";

/// Members of a nested `error`, in the seed's order.
const NESTED_FIELDS: [Field; 2] = [Field::Code, Field::Message];

/// Extracts the message and code from `error`, and carries the rest.
pub(super) fn read_nested(parts: &mut IncomingEvent<'_>, dialect: &'static Dialect) {
    let is_flat = |field: &Field| parts.event.get(*field).is_some() && !parts.restored_fields.contains(field);
    let mut flat: Vec<Field> = NESTED_FIELDS.into_iter().filter(is_flat).collect();
    let error = get_owned(&parts.extensions, Field::Error);
    match error.as_ref().map(|error| (error.json_type(), json::parse_members(error))) {
        Some((_, Some(inner))) => {
            let inner = into_owned_members(inner);
            remove(&mut parts.extensions, Field::Error);
            take_nested(parts, inner, &flat);
            value_aliases::read_alias(PeerDialect::new(dialect), Field::Code, parts, &flat);
        }
        Some((JsonType::String, None)) if !flat.contains(&Field::Message) => {
            error.into_iter().for_each(|text| parts.event.set(Field::Message, text));
        }
        // Members that the guard has to supply are flat too: there is no object to nest them in.
        _ => flat = NESTED_FIELDS.to_vec(),
    }
    if !flat.is_empty() {
        parts.extensions.push((carry::extension_key(FLAT_NOTE), carry::field_list(&flat)));
    }
    stringify_value(parts, Field::Code);
}

/// Leaves members in `error` that cannot be converted, or that also exist outside it.
fn take_nested(parts: &mut IncomingEvent<'_>, mut inner: Members<'static>, flat: &[Field]) {
    let empty = inner.is_empty();
    for field in NESTED_FIELDS.into_iter().filter(|field| !flat.contains(field)) {
        match get(&inner, field).map(|value| (field, value.json_type())) {
            None | Some((_, JsonType::Null)) => continue,
            Some((Field::Message, shape)) if shape != JsonType::String => {
                let text = get(&inner, field).map(|value| Json::string(value.as_str()));
                text.into_iter().for_each(|text| parts.event.set(field, text));
                continue;
            }
            _ => {}
        }
        // A carried value is canonical; the value in `error` only represents it.
        if let Some(value) = remove(&mut inner, field).filter(|_| !parts.restored_fields.contains(&field)) {
            parts.event.set(field, value);
        }
    }
    if empty || !inner.is_empty() {
        parts.extensions.push((MemberKey::Known(Field::Error), json::to_object(&inner)));
    }
}

/// Nests the message and code in `error`, unless they were not nested originally.
pub(super) fn write_nested(outgoing: &mut OutgoingEvent<'_>, dialect: &'static Dialect) {
    write_as_json(outgoing, Field::Code);
    let flat = carry::take_fields(&mut outgoing.extensions, FLAT_NOTE, |field| NESTED_FIELDS.contains(&field));
    let own = remove(&mut outgoing.extensions, Field::Error);
    let mut nested = Members::new();
    for field in NESTED_FIELDS.into_iter().filter(|field| !flat.contains(field)) {
        let value = remove(&mut outgoing.members, field).map(Json::into_owned);
        nested.extend(value.map(|value| (MemberKey::Known(field), value)));
    }
    let peer = PeerDialect::new(dialect);
    let lost = value_aliases::write_nested_aliases(peer, EventType::RunError, &mut nested, &outgoing.extensions);
    outgoing.canonical.extend(lost);
    let error = match (own, nested.as_slice()) {
        (None, []) => return,
        (Some(own), []) => own,
        (Some(text), [(MemberKey::Known(Field::Message), message)]) if message.is_same(&text) => text,
        (own, nested) => merge_error(own.as_ref(), nested),
    };
    outgoing.extensions.push((MemberKey::Known(Field::Error), error));
}

fn merge_error(own: Option<&Json<'_>>, nested: &[Member<'_>]) -> Json<'static> {
    let more = own.and_then(json::parse_members).unwrap_or_default();
    json::build_object(|object| {
        for (key, value) in nested {
            let kept = get(&more, Field::Message);
            let kept = kept.filter(|kept| *key == MemberKey::Known(Field::Message) && reads_back_as(kept, value));
            object.member(key.name(), kept.unwrap_or(value).as_str());
        }
        let rest = more.iter().filter(|(key, _)| !nested.iter().any(|(own, _)| key == own));
        rest.for_each(|member| object.copy_member(member, false));
    })
}

/// Returns true if `message` was derived from this value, which was not a string.
fn reads_back_as(kept: &Json<'_>, message: &Json<'_>) -> bool {
    if kept.is_null() { message.is_str(DEFAULT_ERROR_MESSAGE) } else { message.is_str(kept.as_str()) }
}
