//! Values with different names in a dialect, such as roles and error codes.
//!
//! Reading records any name that writing would not choose again; writing carries any value that reading could not
//! restore from its name.

use super::carry;
use super::event_parts::{IncomingEvent, OutgoingEvent};
use super::table::{PeerDialect, ValueAlias};
use crate::codec::json;
use crate::event::input::{ASSISTANT, TOOL};
use crate::event::kind::{MemberType, TEXT_ROLES};
use crate::event::{EventType, Field, Json, Member, MemberKey, Members, get, get_owned, set};

/// Lists names that differ from the dialect's usual name for a value.
const ALIASES_NOTE: &str = "$words";

/// Finds the aliases that apply to one kind of event, or to messages.
#[derive(Clone, Copy)]
struct AliasLookup {
    peer: PeerDialect,
    kind: Option<EventType>,
}

impl AliasLookup {
    /// Includes role aliases only for events that allow several roles.
    fn all_aliases(self) -> impl Iterator<Item = &'static ValueAlias> {
        let own = self.peer.value_aliases.iter().chain(self.peer.dialect.value_aliases);
        own.filter(move |word| match self.kind.map(|kind| kind.slot(word.field).map(|slot| slot.member_type)) {
            Some(Some(MemberType::StringEnum(choices))) => choices == TEXT_ROLES,
            Some(Some(_)) | None => true,
            Some(None) => false,
        })
    }

    /// Returns the members that have aliases, without duplicates. Most events have none.
    fn aliased_fields(self, members: &Members<'_>) -> Vec<Field> {
        let mut words = self.peer.value_aliases.iter().chain(self.peer.dialect.value_aliases);
        if !words.any(|word| get(members, word.field).is_some()) {
            return Vec::new();
        }
        let mut fields: Vec<Field> = self.all_aliases().map(|word| word.field).collect();
        fields.sort_unstable();
        fields.dedup();
        fields
    }

    /// Returns the canonical value for a name, or the name itself if it has no alias. An unknown event role becomes the
    /// assistant's, because the real client accepts no other.
    fn canonical_value(self, field: Field, value: &str) -> &str {
        let is_it = |word: &&ValueAlias| word.field == field && word.is_reversible && word.wire == value;
        match self.all_aliases().find(is_it) {
            Some(word) => word.canonical,
            None if field == Field::Role && self.kind.is_some() && !TEXT_ROLES.contains(&value) => ASSISTANT,
            None => value,
        }
    }

    fn alias_of(self, field: Field, value: &str) -> Option<&'static ValueAlias> {
        self.all_aliases().find(|word| word.field == field && word.canonical == value)
    }

    /// Returns the alias for the only role that a result can have. Seed 002 prints AG-UI's name there, so it is read,
    /// and written only where it stood.
    fn result_role(self, role: &str) -> Option<&'static ValueAlias> {
        let mut words = self.peer.value_aliases.iter().chain(self.peer.dialect.value_aliases);
        words.find(|word| word.field == Field::Role && word.canonical == TOOL && word.wire == role)
    }

    fn read_result_role(self, members: &mut Members<'_>, own: &mut Members<'_>) {
        let Some(original) = get(members, Field::Role).filter(|role| !role.is_str(TOOL)).cloned() else { return };
        if original.text().is_some_and(|role| self.result_role(&role).is_some()) {
            set(members, MemberKey::Known(Field::Role), Json::string(TOOL));
            let notes = vec![(MemberKey::Known(Field::Role), original)];
            own.push((carry::extension_key(ALIASES_NOTE), json::to_object(&notes)));
        }
    }

    /// Replaces names with canonical values, and notes any name that writing would not choose.
    fn read(self, fields: Vec<Field>, members: &mut Members<'_>, own: &mut Members<'_>) {
        let mut notes = Members::new();
        for field in fields {
            let Some(original) = get_owned(members, field) else { continue };
            let Some(text) = original.text() else { continue };
            let value = self.canonical_value(field, &text);
            if self.alias_of(field, value).is_some_and(|word| word.wire != text) {
                notes.push((MemberKey::Known(field), original.clone()));
            }
            if value != text {
                set(members, MemberKey::Known(field), Json::string(value));
            }
        }
        if !notes.is_empty() {
            own.push((carry::extension_key(ALIASES_NOTE), json::to_object(&notes)));
        }
    }

    /// Replaces canonical values with names, and returns the values that cannot be read back.
    fn write(self, members: &mut Members<'_>, own: &mut Members<'_>) -> Members<'static> {
        let notes = carry::take(own, ALIASES_NOTE);
        let notes = notes.as_ref().and_then(json::parse_message).unwrap_or_default();
        let mut lost = Members::new();
        if let Some(role) = get(&notes, Field::Role).filter(|_| self.kind == Some(EventType::ToolCallResult))
            && role.text().is_some_and(|role| self.result_role(&role).is_some())
            && get(members, Field::Role).is_some_and(|now| now.is_str(TOOL))
        {
            set(members, MemberKey::Known(Field::Role), role.clone().into_owned());
        }
        for field in self.aliased_fields(members) {
            let Some(value) = get_owned(members, field) else { continue };
            let Some(text) = value.text() else { continue };
            let means_it = |original: &&Json<'_>| {
                original.text().is_some_and(|original| *self.canonical_value(field, &original) == *text)
            };
            if let Some(original) = get(&notes, field).filter(means_it) {
                set(members, MemberKey::Known(field), original.clone().into_owned());
            } else if let Some(word) = self.alias_of(field, &text) {
                set(members, MemberKey::Known(field), Json::string(word.wire));
                if !word.is_reversible {
                    lost.push((MemberKey::Known(field), value.clone()));
                }
            }
        }
        lost
    }
}

pub(crate) fn canonical_role(side: PeerDialect, value: &str) -> &str {
    AliasLookup { peer: side, kind: None }.canonical_value(Field::Role, value)
}

/// Returns the dialect's name for an error code of the gateway.
pub(crate) fn wire_code(side: PeerDialect, code: &'static str) -> &'static str {
    let lookup = AliasLookup { peer: side, kind: Some(EventType::RunError) };
    lookup.alias_of(Field::Code, code).map_or(code, |alias| alias.wire)
}

pub(crate) fn read_aliases(side: PeerDialect, parts: &mut IncomingEvent<'_>) {
    let words = AliasLookup { peer: side, kind: Some(parts.event.kind) };
    words.read(words.aliased_fields(&parts.event.members), &mut parts.event.members, &mut parts.extensions);
    if parts.event.kind == EventType::ToolCallResult {
        words.read_result_role(&mut parts.event.members, &mut parts.extensions);
    }
}

/// Replaces the name in one nested member, unless `already` lists that member.
pub(crate) fn read_alias(side: PeerDialect, field: Field, parts: &mut IncomingEvent<'_>, already: &[Field]) {
    let words = AliasLookup { peer: side, kind: Some(parts.event.kind) };
    if words.aliased_fields(&parts.event.members).contains(&field)
        && !already.contains(&field)
        && !parts.restored_fields.contains(&field)
    {
        words.read(vec![field], &mut parts.event.members, &mut parts.extensions);
    }
}

pub(crate) fn read_role(side: PeerDialect, message: &mut Members<'_>, own: &mut Members<'_>) {
    let words = AliasLookup { peer: side, kind: None };
    words.read(words.aliased_fields(message), message, own);
}

pub(crate) fn write_aliases(side: PeerDialect, kind: EventType, outgoing: &mut OutgoingEvent<'_>) {
    let lost = AliasLookup { peer: side, kind: Some(kind) }.write(&mut outgoing.members, &mut outgoing.extensions);
    outgoing.canonical.extend(lost);
}

/// Replaces values in nested members with their names, and keeps the notes for other members.
pub(crate) fn write_nested_aliases(
    side: PeerDialect,
    kind: EventType,
    nested: &mut Members<'_>,
    extensions: &Members<'static>,
) -> Members<'static> {
    let is_note = |(key, _): &&Member<'_>| carry::is_named(key, ALIASES_NOTE);
    let mut notes: Members<'_> = extensions.iter().filter(is_note).cloned().collect();
    AliasLookup { peer: side, kind: Some(kind) }.write(nested, &mut notes)
}

pub(crate) fn write_role(side: PeerDialect, message: &mut Members<'_>, own: &mut Members<'_>) {
    AliasLookup { peer: side, kind: None }.write(message, own);
}
