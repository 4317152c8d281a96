//! What a dialect says in another way without saying another thing: names of members, words for values, units of time,
//! nulls, and the ids that stand on every event.
//!
//! Reading brings all of it into canonical form; what would not come back the same from there is noted.

use super::carry;
use super::read::Parts;
use super::report::{Loss, Report};
use super::write::Said;
use crate::codec::json;
use crate::dialect::{Dialect, Row, Side, Unit, Word};
use crate::event::kind::{Form, TEXT_ROLES};
use crate::event::{Event, Field, Json, Key, Kind, Member, Members, get, remove, set};
use std::borrow::Cow;

/// Notes: words as they were said, where the dialect's own for the value is another; the timestamp as it was said; members
/// that were null.
const WORDS: &str = "$words";
const TIMESTAMP: &str = "$timestamp";
const NULLS: &str = "$nulls";

/// Timestamps below this are seconds: in milliseconds they would lie before March 1973.
const SECONDS_BELOW: f64 = 1e11;

/// Takes members out that must not leave the gateway, in whichever way they are spelt.
pub(super) fn strip(dialect: &Dialect, members: &mut Members<'_>, report: &mut Report) {
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    members.retain(|(key, _)| {
        let goes = match key {
            Key::Known(field) => dialect.strip.contains(&field.camel()),
            Key::Other(own) => dialect.strip.iter().any(|name| own == name || plain(own) == plain(name)),
        };
        if goes {
            report.loss(Loss::Stripped);
        }
        !goes
    });
}

/// The same in each message of a list.
pub(super) fn strip_messages(dialect: &Dialect, event: &mut Event<'_>, report: &mut Report) {
    let Some(list) = event.get(Field::Messages).and_then(json::elements).filter(|_| !dialect.strip.is_empty()) else {
        return;
    };
    let list: Vec<_> =
        list.iter().map(|one| Json::trusted(stripped(dialect, one.as_str(), report).into_owned())).collect();
    event.set(Field::Messages, json::to_array(&list));
}

/// The same in an object that travels whole.
pub(super) fn stripped<'a>(dialect: &Dialect, data: &'a str, report: &mut Report) -> Cow<'a, str> {
    let Some(mut members) =
        json::members(&Json::trusted(data)).filter(|_| !dialect.strip.is_empty()).map(crate::event::owned)
    else {
        return Cow::Borrowed(data);
    };
    let before = members.len();
    strip(dialect, &mut members, report);
    if members.len() == before {
        Cow::Borrowed(data)
    } else {
        Cow::Owned(json::to_object(&members).as_str().to_owned())
    }
}

/// Gives members that a dialect calls otherwise their canonical names.
pub(super) fn read_names(names: &[(Field, &str)], members: &mut Members<'_>) {
    for (field, name) in names {
        if get(members, *field).is_some() {
            continue;
        }
        let known = Field::from_wire(name);
        let is_it = |key: &Key<'_>| match key {
            Key::Known(own) => Some(*own) == known,
            Key::Other(own) => own == name,
        };
        if let Some((key, _)) = members.iter_mut().find(|(key, _)| is_it(key)) {
            *key = Key::Known(*field);
        }
    }
}

/// Gives members the names that a dialect has for them.
pub(super) fn write_names(names: &[(Field, &'static str)], members: &mut Members<'_>) {
    for (key, _) in members {
        if let Key::Known(field) = key
            && let Some((_, name)) = names.iter().find(|(own, _)| own == field)
        {
            *key = carry::own(name);
        }
    }
}

/// Whether null is something to say: any value is one, and a call may well have returned it.
const fn says_null(form: Form) -> bool {
    matches!(form, Form::Any | Form::Content)
}

/// Takes members out that are null as a whole, and notes them.
pub(super) fn read_nulls(parts: &mut Parts<'_>) {
    let kind = parts.event.kind;
    let is_null = |(key, value): &Member<'_>| match key {
        Key::Known(field) if value.is_null() => {
            kind.slot(*field).is_some_and(|slot| !says_null(slot.form)).then_some(*field)
        }
        _ => None,
    };
    let fields: Vec<Field> = parts.event.members.iter().filter_map(is_null).collect();
    if fields.is_empty() {
        return;
    }
    parts.event.members.retain(|member| is_null(member).is_none());
    parts.own.push((carry::own(NULLS), carry::fields(&fields)));
}

/// Undoes [`read_nulls`].
pub(super) fn write_nulls(row: &Row, said: &mut Said<'_>) {
    for field in carry::take_fields(&mut said.own, NULLS, |field| row.says(field)) {
        // What the guard put in place of the null goes with it; anything else was said since.
        if get(&said.members, field).is_none_or(|value| value.is("")) {
            set(&mut said.members, Key::Known(field), Json::NULL);
        }
    }
}

/// Which words of a side stand for values of this kind's members: role words only where a role is a choice.
fn words(side: Side, kind: Kind) -> impl Iterator<Item = &'static Word> {
    let own = side.words.iter().chain(side.dialect.words);
    own.filter(move |word| match kind.slot(word.field).map(|slot| slot.form) {
        Some(Form::Word(choices)) => choices == TEXT_ROLES,
        Some(_) => true,
        None => false,
    })
}

/// The canonical value of a word.
fn canonical_of<'w>(words: impl Iterator<Item = &'w Word>, field: Field, said: &str) -> Option<&'static str> {
    let mut words = words.filter(|word| word.field == field && word.reads);
    words.find(|word| word.word == said).map(|word| word.canonical)
}

/// The word for a canonical value.
fn word_of<'w>(words: impl Iterator<Item = &'w Word>, field: Field, value: &str) -> Option<&'w Word> {
    let mut words = words.filter(|word| word.field == field);
    words.find(|word| word.canonical == value)
}

/// Puts canonical values in place of a dialect's words.
pub(super) fn read_words(side: Side, parts: &mut Parts<'_>) {
    let kind = parts.event.kind;
    let (event, own) = (&mut parts.event.members, &mut parts.own);
    read_each(|| words(side, kind), event, own);
}

/// The same for one member that stood elsewhere, unless it is one of those that were read already.
pub(super) fn read_word(side: Side, field: Field, parts: &mut Parts<'_>, already: &[Field]) {
    let kind = parts.event.kind;
    if !already.contains(&field) && !parts.restored.contains(&field) {
        read_each(|| words(side, kind).filter(|word| word.field == field), &mut parts.event.members, &mut parts.own);
    }
}

/// The canonical role that a side calls `said`.
#[must_use]
pub(super) fn canonical_role(side: Side, said: &str) -> &str {
    let words = side.words.iter().chain(side.dialect.words);
    canonical_of(words, Field::Role, said).unwrap_or(said)
}

/// The same for the role of a message.
pub(super) fn read_role(side: Side, message: &mut Members<'_>, own: &mut Members<'_>) {
    read_each(|| side.words.iter().chain(side.dialect.words), message, own);
}

fn read_each<'w, W: Iterator<Item = &'w Word>>(
    words: impl Fn() -> W,
    members: &mut Members<'_>,
    own: &mut Members<'_>,
) {
    let mut noted = Members::new();
    let mut last = None;
    for field in words().map(|word| word.field) {
        if last.replace(field) == Some(field) {
            continue;
        }
        let Some(said) = get(members, field).cloned().map(Json::into_owned) else { continue };
        let Some(text) = said.text() else { continue };
        let value = canonical_of(words(), field, &text).unwrap_or(&text);
        // What the way back would say otherwise is noted as it was said.
        if word_of(words(), field, value).is_some_and(|word| word.word != text) {
            noted.push((Key::Known(field), said.clone()));
        }
        if value != text {
            set(members, Key::Known(field), Json::string(value));
        }
    }
    if !noted.is_empty() {
        own.push((carry::own(WORDS), json::to_object(&noted)));
    }
}

/// Puts a dialect's words in place of canonical values.
pub(super) fn write_words(side: Side, kind: Kind, said: &mut Said<'_>) {
    let lost = write_each(|| words(side, kind), &mut said.members, &mut said.own);
    said.canonical.extend(lost);
}

/// The same for the role of a message.
pub(super) fn write_role(side: Side, message: &mut Members<'_>, own: &mut Members<'_>) {
    write_each(|| side.words.iter().chain(side.dialect.words), message, own);
}

/// Gives the values that their words do not give back.
fn write_each<'w, W: Iterator<Item = &'w Word>>(
    words: impl Fn() -> W,
    members: &mut Members<'_>,
    own: &mut Members<'_>,
) -> Members<'static> {
    let noted = carry::take(own, WORDS);
    let noted = noted.as_ref().and_then(json::message).unwrap_or_default();
    let mut lost = Members::new();
    let mut last = None;
    for field in words().map(|word| word.field) {
        if last.replace(field) == Some(field) {
            continue;
        }
        let Some(value) = get(members, field).cloned().map(Json::into_owned) else { continue };
        let Some(text) = value.text() else { continue };
        let reads_as = |said: &Json<'_>| {
            said.text().is_some_and(|said| *canonical_of(words(), field, &said).unwrap_or(&said) == *text)
        };
        if let Some(said) = get(&noted, field).filter(|said| reads_as(said)) {
            set(members, Key::Known(field), said.clone().into_owned());
        } else if let Some(word) = word_of(words(), field, &text) {
            set(members, Key::Known(field), Json::string(word.word));
            if !word.reads {
                lost.push((Key::Known(field), value.clone()));
            }
        }
    }
    lost
}

/// Brings a timestamp to milliseconds.
pub(super) fn read_time(side: Side, parts: &mut Parts<'_>) {
    let Some(said) = parts.event.get(Field::Timestamp) else {
        return;
    };
    let Some(number) = said.as_str().parse::<f64>().ok().filter(|number| number.is_finite()) else {
        return;
    };
    let in_seconds = match side.timestamp {
        Unit::Auto => number.abs() < SECONDS_BELOW,
        Unit::Seconds => true,
        Unit::Milliseconds => false,
    };
    if !in_seconds {
        return;
    }
    let (said, milliseconds) = (said.clone().into_owned(), milliseconds(said));
    let Some(milliseconds) = milliseconds else { return };
    parts.event.set(Field::Timestamp, Json::integer(milliseconds));
    if side.timestamp == Unit::Auto || milliseconds % 1000 != 0 {
        parts.own.push((carry::own(TIMESTAMP), said));
    }
}

/// Seconds, perhaps with decimals, in milliseconds. `None` for what is no plain decimal number.
fn milliseconds(seconds: &Json<'_>) -> Option<i64> {
    let (whole, decimals) = seconds.as_str().split_once('.').unwrap_or((seconds.as_str(), ""));
    let digits: String = decimals.chars().chain("000".chars()).take(3).collect();
    let sign = if whole.starts_with('-') { -1 } else { 1 };
    whole.parse::<i64>().ok()?.checked_mul(1000)?.checked_add(sign * digits.parse::<i64>().ok()?)
}

/// Says a timestamp in the unit of the side.
pub(super) fn write_time(side: Side, said: &mut Said<'_>) {
    let noted = carry::take(&mut said.own, TIMESTAMP);
    let Some(now) = get(&said.members, Field::Timestamp).cloned().map(Json::into_owned) else {
        return;
    };
    let written = match (noted, now.as_i64()) {
        (Some(noted), Some(value)) if milliseconds(&noted) == Some(value) => noted.into_owned(),
        (_, Some(value)) if side.timestamp == Unit::Seconds => {
            if value % 1000 != 0 {
                said.canonical.push((Key::Known(Field::Timestamp), now.clone()));
            }
            Json::integer(value.div_euclid(1000))
        }
        _ => return,
    };
    set(&mut said.members, Key::Known(Field::Timestamp), written);
}

/// Members that a dialect says on every event of a run, as the start of it said them.
#[derive(Debug, Default)]
pub(super) struct Stamps(Vec<(Field, Json<'static>)>);

impl Stamps {
    /// Takes the stamps off an event; what differs from the run's stays the event's own.
    pub fn read(&mut self, dialect: &Dialect, kind: Kind, members: &mut Members<'_>) {
        for &field in dialect.stamps {
            if kind.slot(field).is_some() {
                self.note(field, get(members, field));
                continue;
            }
            let own = self.0.iter().find(|(known, _)| *known == field).map(|(_, value)| value);
            if get(members, field).is_some_and(|said| own.is_some_and(|own| own.same(said))) {
                remove(members, field);
            }
        }
    }

    /// Puts the stamps on an event.
    pub fn write(&mut self, dialect: &Dialect, kind: Kind, said: &mut Said<'_>) {
        for &field in dialect.stamps {
            if kind.slot(field).is_some() {
                self.note(field, get(&said.members, field));
            } else if get(&said.own, field).is_none()
                && let Some((_, value)) = self.0.iter().find(|(known, _)| *known == field)
            {
                said.own.push((Key::Known(field), value.clone()));
            }
        }
    }

    fn note(&mut self, field: Field, value: Option<&Json<'_>>) {
        let Some(value) = value.cloned().map(Json::into_owned) else {
            return;
        };
        match self.0.iter_mut().find(|(known, _)| *known == field) {
            Some((_, old)) => *old = value,
            None => self.0.push((field, value)),
        }
    }
}
