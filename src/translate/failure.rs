//! CUSTOM events that a route takes for errors of the run ([`Side::errors`]).

use super::carry;
use super::read::Parts;
use super::write::Said;
use crate::codec::json;
use crate::dialect::Side;
use crate::event::{Field, Json, Key, Kind, Type, get};

/// Note: this error was a CUSTOM event, as it was said.
pub(super) const CUSTOM: &str = "$custom";

/// A CUSTOM event that the route takes for an error of the run.
pub(super) fn custom(parts: Parts<'_>) -> Parts<'_> {
    let Parts { mut event, mut own, restored } = parts;
    let name = event.remove(Field::Name).unwrap_or_else(|| Json::string(""));
    let value = event.remove(Field::Value).unwrap_or(Json::NULL);
    own.push((
        carry::own(CUSTOM),
        json::to_object(&[(Key::Known(Field::Name), name.clone()), (Key::Known(Field::Value), value.clone())]),
    ));
    event.kind = Kind::RunError;
    event.set(Field::Message, if value.shape() == Type::String { value } else { Json::string(value.as_str()) });
    event.set(Field::Code, name);
    Parts { event, own, restored }
}

/// An error that was a CUSTOM event is one again for a peer that takes events of this name for errors. Nobody else would see
/// the run end.
pub(super) fn restore(side: Side, said: &mut Said<'_>) -> bool {
    let custom = said.own.iter().find(|(key, _)| carry::is_named(key, CUSTOM)).map(|(_, custom)| custom);
    let Some(members) = custom.and_then(json::message).map(crate::event::owned) else {
        return false;
    };
    let name = get(&members, Field::Name).and_then(Json::text);
    if !name.is_some_and(|name| side.errors.iter().any(|error| *error == name)) {
        return false;
    }
    carry::take(&mut said.own, CUSTOM);
    said.members.retain(|(key, _)| !matches!(key, Key::Known(Field::Message | Field::Code)));
    said.members.extend(members.into_iter().filter(|(key, _)| matches!(key, Key::Known(Field::Name | Field::Value))));
    true
}
