//! Dialects of the operator's own, and the words of one side.

use super::{Check, Named, kept, position, quoted};
use crate::config::file::{OwnDialect, SideMapping, Text};
use crate::config::problem::did_you_mean;
use crate::dialect::{self, Changes, Dialect, Rest, Side, Word};
use crate::event::{Field, Kind, input};
use serde_saphyr::Spanned;
use std::collections::BTreeMap;

/// A mapping from a name that Diglot knows to one that the operator chose.
type Renames = BTreeMap<String, Text>;

/// Names that no dialect can have: the one that is told by what is said, and the keys of [`crate::translate`] in `metadata`.
const RESERVED: &[&str] = &[dialect::AUTO, "diglot", "diglot.ag-ui"];

/// Members that are the home of what a dialect has no word for.
const HOMES: &[&str] = &["metadata", "extra"];

/// Members of a request.
const REQUEST: &[Field] = &[
    Field::ThreadId,
    Field::RunId,
    Field::State,
    Field::Messages,
    Field::Tools,
    Field::Context,
    Field::ForwardedProps,
];

impl Check<'_> {
    /// Reads every dialect of the file, so that routes can name them.
    pub(super) fn dialects(&mut self, written: &[Spanned<OwnDialect>]) {
        if self.is_lost("dialects") || written.iter().any(|one| one.value.name.is_none()) {
            self.unnamed.push(Named::Dialect);
        }
        for (index, one) in written.iter().enumerate() {
            match self.changes(one, &format!("dialects[{index}]")) {
                Some(changes) => self.dialects.push(kept::dialect(changes)),
                None => self.mistaken.extend(one.value.name.as_ref().map(|name| name.value.clone())),
            }
        }
    }

    /// The dialect called `name`: built in, or of this file.
    pub(super) fn known_dialect(&self, name: &str) -> Option<&'static Dialect> {
        dialect::by_name(name).or_else(|| self.dialects.iter().copied().find(|own| own.name == name))
    }

    /// The names of all of them.
    pub(super) fn dialect_names(&self) -> Vec<&'static str> {
        dialect::ALL.iter().chain(&self.dialects).map(|dialect| dialect.name).collect()
    }

    fn changes(&mut self, written: &Spanned<OwnDialect>, at: &str) -> Option<Changes> {
        let own = &written.value;
        let whole = position(written.defined);
        let name = self.required(own.name.as_ref(), at, "name", whole).and_then(|name| self.own_name(name, at));
        let base = self.required(own.extends.as_ref(), at, "extends", whole);
        let base = base.and_then(|base| self.dialect(&base.value, &format!("{at}.extends"), position(base.defined)));
        let (name, base) = (name?, base?);
        let before = self.problems.len();
        let events = self.events(base, &own.events, &format!("{at}.events"));
        let fields = self.fields(&own.fields, &format!("{at}.fields"));
        self.collisions(base, &fields, &own.fields, &format!("{at}.fields"));
        let mut values = self.values_of(Field::Role, &own.roles, &format!("{at}.roles"));
        for (field, words) in &own.values {
            let path = format!("{at}.values.{field}");
            match Field::from_wire(field).filter(|known| known.camel() == field) {
                Some(field) => values.extend(self.values_of(field, words, &path)),
                None => self.unknown_field(field, &path, words.values().next()),
            }
        }
        let strip = own.strip.iter().enumerate();
        let strip = strip.filter_map(|(index, name)| self.wire_name(name, &format!("{at}.strip[{index}]")));
        let strip: Vec<String> = strip.collect();
        for (index, name) in strip.iter().enumerate().filter(|(_, name)| is_needed(name, &fields)) {
            let place = own.strip.get(index).and_then(|written| position(written.defined));
            let message = format!("`{name}` is a member that events cannot be without");
            self.note(&format!("{at}.strip[{index}]"), place, message, "strip only what nobody needs to read an event");
        }
        (self.problems.len() == before).then_some(Changes { name, base, events, fields, values, strip })
    }

    /// The name of a dialect stands in metrics, in the command line, and as a key beside others.
    fn own_name(&mut self, written: &Text, at: &str) -> Option<String> {
        let path = format!("{at}.name");
        let scalar = self.scalar(&written.value, &path, position(written.defined))?;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let (message, hint) = match scalar.text.as_str() {
            name if name.is_empty() || name.len() > 32 || !name.chars().all(plain) => (
                format!("{} is no name for a dialect", scalar.shown),
                "write at most 32 lower-case letters, digits and hyphens, such as `acme-chat`",
            ),
            name if RESERVED.contains(&name) => {
                (format!("{} has a meaning of its own", scalar.shown), "give it a name of its own, such as `acme-chat`")
            }
            name if self.known_dialect(name).is_some() => {
                (format!("there is a dialect {} already", scalar.shown), "give it a name of its own")
            }
            _ => return Some(scalar.text),
        };
        self.note(&path, position(written.defined), message, hint);
        None
    }

    fn events(&mut self, base: &'static Dialect, written: &Renames, at: &str) -> Vec<(String, String)> {
        let canonical = Kind::ALL.iter().filter(|_| base.rest == Rest::Same).map(|kind| kind.wire());
        let types: Vec<&str> = base.rows.iter().map(|row| row.wire).chain(canonical).collect();
        let mut events: Vec<(String, String)> = Vec::new();
        for (event, own) in written {
            let path = format!("{at}.{event}");
            if !types.contains(&event.as_str()) {
                let message = format!("the dialect `{}` has no event `{event}`", base.name);
                self.note(&path, position(own.defined), message, did_you_mean(event, &types));
                continue;
            }
            let Some(name) = self.wire_name(own, &path) else { continue };
            let taken = events.iter().any(|(_, other)| *other == name)
                || types.iter().any(|other| *other == name && other != event && !written.contains_key(*other));
            if taken {
                let message = format!("another event is called `{name}` already");
                self.note(&path, position(own.defined), message, "give each event a type of its own");
            }
            events.push((event.clone(), name));
        }
        events
    }

    fn fields(&mut self, written: &Renames, at: &str) -> Vec<(Field, String)> {
        let mut fields: Vec<(Field, String)> = Vec::new();
        for (field, own) in written {
            let path = format!("{at}.{field}");
            let Some(known) = Field::from_wire(field).filter(|known| known.camel() == field) else {
                self.unknown_field(field, &path, Some(own));
                continue;
            };
            let Some(name) = self.wire_name(own, &path) else { continue };
            if fields.iter().any(|(_, other)| *other == name) {
                let message = format!("another member is called `{name}` already");
                self.note(&path, position(own.defined), message, "give each member a name of its own");
            }
            fields.push((known, name));
        }
        fields
    }

    /// Notes names that are another member's of the same event, message or request, or the home of what is carried.
    fn collisions(&mut self, base: &'static Dialect, fields: &[(Field, String)], written: &Renames, at: &str) {
        for (field, name) in fields {
            let path = format!("{at}.{}", field.camel());
            let place = written.get(field.camel()).and_then(|text| position(text.defined));
            if HOMES.contains(&name.as_str()) || *field == Field::Metadata {
                let message = format!("`{}` is where Diglot keeps what a dialect has no word for", home(name));
                self.note(&path, place, message, "give the member another name, and leave `metadata` its own");
            } else if let Some((other, of)) = namesake(base, *field, name, fields) {
                let message = format!("the member `{}` of {of} is called `{name}` already", other.camel());
                self.note(&path, place, message, "give each member of an event a name of its own");
            }
        }
    }

    fn unknown_field(&mut self, field: &str, path: &str, place: Option<&Text>) {
        let known: Vec<&str> = Field::ALL.iter().map(|field| field.camel()).collect();
        let place = place.and_then(|text| position(text.defined));
        self.note(path, place, format!("AG-UI has no member `{field}`"), did_you_mean(field, &known));
    }

    fn values_of(&mut self, field: Field, written: &Renames, at: &str) -> Vec<(Field, String, String)> {
        let mut values = Vec::new();
        for (canonical, own) in written {
            let path = format!("{at}.{canonical}");
            if field == Field::Role && !input::ROLES.contains(&canonical.as_str()) {
                let message = format!("AG-UI has no role `{canonical}`");
                self.note(&path, position(own.defined), message, format!("write {}", quoted(input::ROLES.iter())));
                continue;
            }
            let Some(word) = self.scalar(&own.value, &path, position(own.defined)) else { continue };
            let stays =
                field == Field::Role && input::ROLES.contains(&&*word.text) && !written.contains_key(&word.text);
            let taken = values.iter().any(|(_, _, other): &(Field, String, String)| *other == word.text);
            if taken || (stays && word.text != *canonical) {
                let message = format!("another value is called {} already", word.shown);
                self.note(&path, position(own.defined), message, "give each value a word of its own");
            }
            values.push((field, canonical.clone(), word.text));
        }
        values
    }

    /// A name as it stands on the wire.
    fn wire_name(&mut self, written: &Text, path: &str) -> Option<String> {
        let scalar = self.scalar(&written.value, path, position(written.defined))?;
        let bad = scalar.text.is_empty()
            || scalar.text == crate::codec::json::TYPE
            || scalar.text.chars().any(char::is_control);
        if bad {
            let message = format!("{} is no name that can be used here", scalar.shown);
            self.note(
                path,
                position(written.defined),
                message,
                "write a name other than `type`, without control characters",
            );
            return None;
        }
        Some(scalar.text)
    }

    /// The words of one side: its roles, and the CUSTOM events that are errors.
    pub(super) fn words(&mut self, mapping: &SideMapping, at: &str, mut side: Side) -> Option<Side> {
        let before = self.problems.len();
        if !mapping.roles.is_empty() && self.has_option(side.dialect, "roles", mapping.roles.values().next(), at) {
            let values = self.values_of(Field::Role, &mapping.roles, &format!("{at}.roles"));
            let words = values.into_iter().map(|(field, canonical, word)| Word {
                field,
                canonical: kept::text(&canonical),
                word: kept::text(&word),
                reads: true,
            });
            side.words = kept::words(words.collect());
        }
        if !mapping.errors.is_empty() && self.has_option(side.dialect, "errors", mapping.errors.first(), at) {
            let names = mapping.errors.iter().enumerate();
            let names = names.filter_map(|(index, name)| self.wire_name(name, &format!("{at}.errors[{index}]")));
            let names: Vec<&'static str> = names.map(|name| kept::text(&name)).collect();
            side.errors = kept::names(names);
        }
        (self.problems.len() == before).then_some(side)
    }
}

/// The home that a name is, or `metadata` where that member itself was to be renamed.
fn home(name: &str) -> &str {
    HOMES.iter().find(|home| **home == name).copied().unwrap_or(HOMES[0])
}

/// Another member that has this name, and of what.
fn namesake(
    base: &'static Dialect,
    field: Field,
    name: &str,
    fields: &[(Field, String)],
) -> Option<(Field, &'static str)> {
    let own = |other: Field| fields.iter().find(|(renamed, _)| *renamed == other).map(|(_, own)| own.as_str());
    let is_named = |other: Field, names: &[(Field, &'static str)]| {
        let of_base = || names.iter().find(|(renamed, _)| *renamed == other).map(|(_, name)| *name);
        match own(other).or_else(of_base) {
            Some(other) => other == name,
            // Members are read in either spelling.
            None => Field::from_wire(name) == Some(other),
        }
    };
    let in_group = |members: &[Field], names: &[(Field, &'static str)]| {
        let others = members.iter().copied().filter(|_| members.contains(&field));
        others.filter(|other| *other != field).find(|other| is_named(*other, names))
    };
    let events = Kind::ALL.iter().filter_map(|kind| {
        let names = base.rows.iter().find(|row| row.kind == *kind).map_or(base.names, |row| row.names);
        let members: Vec<Field> = kind.all_slots().map(|slot| slot.field).collect();
        Some((in_group(&members, names)?, kind.wire()))
    });
    let message = [base.message.says, &[Field::Id, Field::Role, Field::Content]].concat();
    let message = in_group(&message, base.names).map(|other| (other, "a message"));
    let request = in_group(REQUEST, base.names).map(|other| (other, "a request"));
    events.chain(message).chain(request).next()
}

/// Whether a name is that of a member without which an event is none, or of the place of what is carried.
fn is_needed(name: &str, fields: &[(Field, String)]) -> bool {
    let required = Kind::ALL.iter().flat_map(|kind| kind.all_slots()).filter(|slot| slot.required);
    HOMES.contains(&name)
        || required.map(|slot| slot.field).any(|field| {
            Field::from_wire(name) == Some(field) || fields.iter().any(|(known, own)| *known == field && own == name)
        })
}
