//! Checks custom dialects, and the names that a route's client or agent uses.

use super::interner;
use crate::config::checker::{ConfigChecker, Place, ReferenceKind};
use crate::config::dialect_file::DialectFile;
use crate::config::dialect_text::{RESERVED_NAMES, is_dialect_name, is_dialect_path};
use crate::config::file::{CustomDialectSpec, PeerDialectMapping, Scalar};
use crate::config::kind;
use crate::config::problem::{did_you_mean, quote_names};
use crate::config::section::FileValue;
use crate::config::shipped_dialects::{SHIPPED_DIALECTS, image_path};
use crate::dialect::{self, Dialect, DialectOverrides, FallbackPolicy, PeerDialect, ValueAlias};
use crate::event::{EventType, Field, input};
use crate::net::read_file::read_regular_file;
use std::collections::BTreeMap;

/// Maps canonical names to the operator's.
type RenameMap = BTreeMap<String, Scalar<kind::Text>>;

/// Members that carry values which the dialect cannot express.
const CARRIER_MEMBERS: &[&str] = &["metadata", "extra"];

const REQUEST_MEMBERS: &[Field] = &[
    Field::ThreadId,
    Field::RunId,
    Field::State,
    Field::Messages,
    Field::Tools,
    Field::Context,
    Field::ForwardedProps,
];

const DIALECT_FILE_HINT: &str = "name a file that this user may read, of at most 1 MiB; a relative name starts at the directory of the configuration";

impl FileValue for CustomDialectSpec {
    type Checked = ();

    /// Registers the dialect for use by routes.
    fn check(&self, checker: &mut ConfigChecker<'_>, at: &Place) -> Option<()> {
        match checker.check_dialect_changes(self, at) {
            Some(changes) => checker.custom_dialects.push(interner::intern_dialect(changes)),
            None => checker.invalid_dialects.extend(self.name.as_ref().map(|name| name.value.to_string())),
        }
        Some(())
    }
}

impl ConfigChecker<'_> {
    /// Finds a built-in dialect or one from this file.
    pub(super) fn find_dialect(&self, name: &str) -> Option<&'static Dialect> {
        let own = self.custom_dialects.iter().chain(&self.file_dialects);
        dialect::find_by_name(name).or_else(|| own.copied().find(|own| own.name == name))
    }

    pub(super) fn dialect_names(&self) -> Vec<&'static str> {
        let own = self.custom_dialects.iter().chain(&self.file_dialects);
        dialect::ALL.iter().chain(own).map(|dialect| dialect.name).collect()
    }

    /// Reads the dialect files, whose problems name their own lines.
    pub(super) fn check_dialect_files(&mut self, files: &[Scalar<kind::FileName>]) {
        let mut own_files: Vec<(String, String)> = Vec::new();
        for (index, written) in files.iter().enumerate() {
            let at = Place::new("dialect_files").index(index).with_position_of(written);
            // A name that cannot be read is reported with the other values.
            let Some(path) = self.peek(&written.value) else {
                self.kinds_with_unnamed.push(ReferenceKind::Dialect);
                continue;
            };
            let shipped = SHIPPED_DIALECTS.iter().find(|(own, _)| path.as_os_str() == *own).map(|(own, _)| *own);
            let path = self.source.context.base_dir.join(path);
            let name = path.display().to_string();
            let bytes = match read_regular_file(&path) {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.kinds_with_unnamed.push(ReferenceKind::Dialect);
                    if let Some(own) = shipped {
                        let message = format!("`{own}` ships with Diglot, but this is no path of its file");
                        let hint =
                            format!("write `{}`, where the image has it, or where you have the file", image_path(own));
                        self.report_error(&at, message, hint);
                        continue;
                    }
                    // A word that names no YAML file may be a secret.
                    let shown = if is_dialect_path(&name) { &name } else { "the file" };
                    self.report_error(&at, format!("{shown} {error}"), DIALECT_FILE_HINT);
                    continue;
                }
            };
            match DialectFile::compile(&name, &bytes, self.source.context.lookup) {
                Ok(file) => match own_files.iter().find(|(own, _)| *own == file.dialect.name) {
                    Some((own, earlier)) => {
                        let message = format!("{name} has the dialect `{own}`, which {earlier} has already");
                        self.report_error(&at, message, "give one of the two another `name`, or remove its file here");
                    }
                    None => {
                        own_files.push((file.dialect.name.clone(), name));
                        self.warnings.extend(file.warnings);
                        self.file_dialects.push(interner::intern_file_dialect(file.dialect));
                    }
                },
                Err(problems) => {
                    self.kinds_with_unnamed.push(ReferenceKind::Dialect);
                    self.problems.extend(problems.as_slice().iter().cloned());
                }
            }
        }
    }

    fn check_dialect_changes(&mut self, own: &CustomDialectSpec, at: &Place) -> Option<DialectOverrides> {
        let place = at.key("name").with_example("the name that routes use, such as `name: acme-chat`");
        let name = own.name.require(self, &place).and_then(|written| self.read_dialect_name(written, &place));
        let place = at.key("extends").with_example("the dialect to extend, such as `extends: ag-ui`");
        let base = own.extends.require(self, &place);
        let base = base.and_then(|written| self.resolve_dialect(&written.value, &place.with_position_of(written), &[]));
        let (name, base) = (name?, base?);
        let before = self.problems.len();
        let events = self.check_events(base, &own.events, &at.key("events"));
        let fields = self.check_fields(&own.fields, &at.key("fields"));
        self.report_collisions(base, &fields, &own.fields, &at.key("fields"));
        let mut values = self.check_values(Field::Role, &own.roles, &at.key("roles"));
        for (field, words) in &own.values {
            let place = at.key("values").key(field);
            match Field::from_wire(field).filter(|known| known.camel() == field) {
                Some(field) => values.extend(self.check_values(field, words, &place)),
                None => self.report_unknown_field(field, &place, words.values().next()),
            }
        }
        let strip = self.read_wire_names(&own.strip, &at.key("strip"));
        for (index, name) in strip.iter().enumerate().filter(|(_, name)| is_required_member(name, &fields)) {
            let place = at.key("strip").index(index);
            let place = own.strip.get(index).map_or(place.clone(), |written| place.with_position_of(written));
            let message = format!("`{name}` is a required member of events");
            self.report_error(&place, message, "strip only optional members");
        }
        (self.problems.len() == before).then_some(DialectOverrides { name, base, events, fields, values, strip })
    }

    /// Parses a dialect name, which appears in metrics, on the command line and in keys.
    fn read_dialect_name(&mut self, written: &Scalar<kind::DialectName>, at: &Place) -> Option<String> {
        let at = at.with_position_of(written);
        let scalar = self.expand_scalar(&written.value, &at)?;
        let (message, hint) = match scalar.text.as_str() {
            name if !is_dialect_name(name) => (
                format!("{} is not a valid dialect name", scalar.display),
                "write at most 32 lower-case letters, digits and hyphens, such as `acme-chat`",
            ),
            name if RESERVED_NAMES.contains(&name) => {
                (format!("{} is reserved", scalar.display), "choose another name, such as `acme-chat`")
            }
            name if self.find_dialect(name).is_some() => {
                (format!("the dialect {} already exists", scalar.display), "choose another name")
            }
            _ => return Some(scalar.text),
        };
        self.report_error(&at, message, hint);
        None
    }

    fn check_events(&mut self, base: &'static Dialect, written: &RenameMap, at: &Place) -> Vec<(String, String)> {
        let canonical =
            EventType::ALL.iter().filter(|_| base.fallback == FallbackPolicy::PassThrough).map(|kind| kind.wire());
        let types: Vec<&str> = base.rows.iter().map(|row| row.wire).chain(canonical).collect();
        let mut events: Vec<(String, String)> = Vec::new();
        for (event, own) in written {
            let at = at.key(event);
            if !types.contains(&event.as_str()) {
                let message = format!("the dialect `{}` has no event `{event}`", base.name);
                self.report_error(&at.with_position_of(own), message, did_you_mean(event, &types));
                continue;
            }
            if base.lacks_event(event) {
                let message = format!(
                    "`{}` has no event of its own for `{event}`, so that this name would never be used",
                    base.name
                );
                let hint = "extend `ag-ui`, which has it, rename the events that stand for it, or describe the agent in a dialect file (`dialect_files`)";
                self.report_error(&at.with_position_of(own), message, hint);
                continue;
            }
            let Some(name) = self.read_wire_name(own, &at) else { continue };
            let taken = events.iter().any(|(_, other)| *other == name)
                || types.iter().any(|other| *other == name && other != event && !written.contains_key(*other));
            if taken {
                let message = format!("`{name}` is already the type of another event");
                self.report_error(&at.with_position_of(own), message, "give each event a unique type");
            }
            events.push((event.clone(), name));
        }
        events
    }

    fn check_fields(&mut self, written: &RenameMap, at: &Place) -> Vec<(Field, String)> {
        let mut fields: Vec<(Field, String)> = Vec::new();
        for (field, own) in written {
            let at = at.key(field);
            let Some(known) = Field::from_wire(field).filter(|known| known.camel() == field) else {
                self.report_unknown_field(field, &at, Some(own));
                continue;
            };
            let Some(name) = self.read_wire_name(own, &at) else { continue };
            if fields.iter().any(|(_, other)| *other == name) {
                let message = format!("`{name}` is already the name of another member");
                self.report_error(&at.with_position_of(own), message, "give each member a unique name");
            }
            fields.push((known, name));
        }
        fields
    }

    /// Reports names that collide with another member of an event, message or request, or with a carrier member.
    fn report_collisions(
        &mut self,
        base: &'static Dialect,
        fields: &[(Field, String)],
        written: &RenameMap,
        at: &Place,
    ) {
        for (field, name) in fields {
            let place = at.key(field.camel());
            let place = written.get(field.camel()).map_or(place.clone(), |written| place.with_position_of(written));
            if CARRIER_MEMBERS.contains(&name.as_str()) || *field == Field::Metadata {
                let message = format!(
                    "`{}` is reserved: Diglot stores values there that a dialect cannot express",
                    carrier_member(name)
                );
                let hint = "choose another name for the member, and do not rename `metadata`";
                self.report_error(&place, message, hint);
            } else if let Some((other, of)) = find_collision(base, *field, name, fields) {
                let message = format!("the member `{}` of {of} is already called `{name}`", other.camel());
                self.report_error(&place, message, "give each member of an event a unique name");
            }
        }
    }

    fn report_unknown_field(&mut self, field: &str, at: &Place, place: Option<&Scalar<kind::Text>>) {
        let known: Vec<&str> = Field::ALL.iter().map(|field| field.camel()).collect();
        let place = place.map_or(at.clone(), |written| at.with_position_of(written));
        self.report_error(&place, format!("AG-UI has no member `{field}`"), did_you_mean(field, &known));
    }

    fn check_values(&mut self, field: Field, written: &RenameMap, at: &Place) -> Vec<(Field, String, String)> {
        let mut values = Vec::new();
        for (canonical, own) in written {
            let at = at.key(canonical);
            if field == Field::Role && !input::ROLES.contains(&canonical.as_str()) {
                let message = format!("AG-UI has no role `{canonical}`");
                let hint = format!("write {}", quote_names(input::ROLES, " or "));
                self.report_error(&at.with_position_of(own), message, hint);
                continue;
            }
            let Some(word) = self.expand_scalar(&own.value, &at.with_position_of(own)) else { continue };
            let stays =
                field == Field::Role && input::ROLES.contains(&&*word.text) && !written.contains_key(&word.text);
            let taken = values.iter().any(|(_, _, other): &(Field, String, String)| *other == word.text);
            if taken || (stays && word.text != *canonical) {
                let message = format!("{} is already used for another value", word.display);
                self.report_error(&at.with_position_of(own), message, "give each value a unique word");
            }
            values.push((field, canonical.clone(), word.text));
        }
        values
    }

    fn read_wire_names(&mut self, written: &[Scalar<kind::Text>], at: &Place) -> Vec<String> {
        let names = written.iter().enumerate();
        names.filter_map(|(index, name)| self.read_wire_name(name, &at.index(index))).collect()
    }

    fn read_wire_name(&mut self, written: &Scalar<kind::Text>, at: &Place) -> Option<String> {
        let at = at.with_position_of(written);
        let scalar = self.expand_scalar(&written.value, &at)?;
        if scalar.text.is_empty()
            || scalar.text == crate::codec::json::TYPE
            || scalar.text.chars().any(char::is_control)
        {
            let message = format!("{} cannot be used as a name here", scalar.display);
            self.report_error(&at, message, "write a name other than `type`, without control characters");
            return None;
        }
        Some(scalar.text)
    }

    pub(super) fn check_roles_and_errors(
        &mut self,
        mapping: &PeerDialectMapping,
        at: &Place,
        side: &mut PeerDialect,
    ) -> Option<()> {
        let before = self.problems.len();
        let roles = mapping.roles.values().next().map(|first| at.value_of("roles", first));
        if roles.is_some_and(|place| self.check_option(side.dialect, "roles", &place).is_some()) {
            let values = self.check_values(Field::Role, &mapping.roles, &at.key("roles"));
            let words = values.into_iter().map(|(field, canonical, word)| ValueAlias {
                field,
                canonical: interner::intern_text(&canonical),
                wire: interner::intern_text(&word),
                is_reversible: true,
            });
            side.value_aliases = interner::intern(&interner::VALUE_ALIASES, words.collect());
        }
        let errors = mapping.errors.first().map(|first| at.value_of("errors", first));
        if errors.is_some_and(|place| self.check_option(side.dialect, "errors", &place).is_some()) {
            let names = self.read_wire_names(&mapping.errors, &at.key("errors"));
            let names: Vec<&'static str> = names.iter().map(|name| interner::intern_text(name)).collect();
            side.error_events = interner::intern(&interner::NAMES, names);
        }
        (self.problems.len() == before).then_some(())
    }
}

/// Returns `name` if it is a carrier member, otherwise `metadata`.
fn carrier_member(name: &str) -> &str {
    CARRIER_MEMBERS.iter().find(|member| **member == name).copied().unwrap_or(CARRIER_MEMBERS[0])
}

fn find_collision(
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
            // Members are accepted in either spelling.
            None => Field::from_wire(name) == Some(other),
        }
    };
    let in_group = |members: &[Field], names: &[(Field, &'static str)]| {
        let others = members.iter().copied().filter(|_| members.contains(&field));
        others.filter(|other| *other != field).find(|other| is_named(*other, names))
    };
    let events = EventType::ALL.iter().filter_map(|kind| {
        let names = base.rows.iter().find(|row| row.kind == *kind).map_or(base.field_aliases, |row| row.field_aliases);
        let members: Vec<Field> = kind.all_slots().map(|slot| slot.field).collect();
        Some((in_group(&members, names)?, kind.wire()))
    });
    let message = [base.message.fields, &[Field::Id, Field::Role, Field::Content]].concat();
    let message = in_group(&message, base.field_aliases).map(|other| (other, "a message"));
    let request = in_group(REQUEST_MEMBERS, base.field_aliases).map(|other| (other, "a request"));
    events.chain(message).chain(request).next()
}

/// Returns whether `name` is a carrier member or required in an event.
fn is_required_member(name: &str, fields: &[(Field, String)]) -> bool {
    let required = EventType::ALL.iter().flat_map(|kind| kind.all_slots()).filter(|slot| slot.required);
    CARRIER_MEMBERS.contains(&name)
        || required.map(|slot| slot.field).any(|field| {
            Field::from_wire(name) == Some(field) || fields.iter().any(|(known, own)| *known == field && own == name)
        })
}
