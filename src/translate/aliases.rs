//! What a dialect says in another way without saying another thing: names of members, words for values, units of time,
//! nulls, and the ids that stand on every event.
//!
//! Reading brings all of it into canonical form; what would not come back the same from there is noted.

use super::Ids;
use super::carry;
use super::read::Parts;
use super::report::{Loss, Report};
use super::write::Said;
use crate::codec::json;
use crate::dialect::{ASSISTANT, Dialect, Row, Shape, Side, Unit, Word};
use crate::event::kind::{Form, TEXT_ROLES};
use crate::event::{Event, Field, Json, Key, Kind, Member, Members, get, remove, set};
use std::borrow::Cow;

/// Notes: words as they were said, where the dialect's own for the value is another; the timestamp as it was said; members
/// that were null.
const WORDS: &str = "$words";
const TIMESTAMP: &str = "$timestamp";
const NULLS: &str = "$nulls";

/// Timestamps below this are seconds: in milliseconds they would lie before March 1973.
const SECONDS_BELOW: u64 = 100_000_000_000;

/// Takes members out that must not leave the gateway, in whichever way they are spelt.
pub(super) fn strip(dialect: &Dialect, members: &mut Members<'_>, report: &mut Report) {
    if dialect.strip.is_empty() {
        return;
    }
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

/// Takes optional members out that are null as a whole, and notes them. A required one may be a value (what a call returned),
/// or is a fault that the guard mends; arguments that are values over there are none when they are null.
pub(super) fn read_nulls(dialect: &Dialect, parts: &mut Parts<'_>) {
    if !parts.event.members.iter().any(|(_, value)| value.is_null()) {
        return;
    }
    let kind = parts.event.kind;
    let in_values = dialect.rows.iter().any(|row| row.kind == kind && row.shape == Shape::CallArgs);
    let is_null = |(key, value): &Member<'_>| match key {
        Key::Known(field) if value.is_null() => kind
            .slot(*field)
            .is_some_and(|slot| (in_values || !slot.required) && !says_null(slot.form))
            .then_some(*field),
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
        // What the guard or a dialect on the way put in place of the null goes with it; anything else was said since.
        if field == Field::Role || get(&said.members, field).is_none_or(|value| value.is("")) {
            set(&mut said.members, Key::Known(field), Json::NULL);
        }
    }
}

/// Whether the member that would be supplied here was said to be null.
pub(super) fn was_null(own: &Members<'_>, field: Field) -> bool {
    let note = own.iter().find(|(key, _)| carry::is_named(key, NULLS)).map(|(_, note)| note);
    let names = note.and_then(json::elements).unwrap_or_default();
    names.iter().any(|name| name.is(field.camel()))
}

/// The words of a side: of its events of one kind, or of its messages.
#[derive(Clone, Copy)]
struct Words {
    side: Side,
    kind: Option<Kind>,
}

impl Words {
    /// Role words stand on events only where the role is a choice.
    fn all(self) -> impl Iterator<Item = &'static Word> {
        let own = self.side.words.iter().chain(self.side.dialect.words);
        own.filter(move |word| match self.kind.map(|kind| kind.slot(word.field).map(|slot| slot.form)) {
            Some(Some(Form::Word(choices))) => choices == TEXT_ROLES,
            Some(Some(_)) | None => true,
            Some(None) => false,
        })
    }

    /// Those of `members` that have words, each once. Most events have none of them, so that is asked first.
    fn fields(self, members: &Members<'_>) -> Vec<Field> {
        let mut words = self.side.words.iter().chain(self.side.dialect.words);
        if !words.any(|word| get(members, word.field).is_some()) {
            return Vec::new();
        }
        let mut fields: Vec<Field> = self.all().map(|word| word.field).collect();
        fields.sort_unstable();
        fields.dedup();
        fields
    }

    /// What a word means: its canonical value, or itself. A role of an event that nobody knows is the assistant's, as one
    /// that was not said would be: the real client takes no other.
    fn meaning(self, field: Field, said: &str) -> &str {
        let is_it = |word: &&Word| word.field == field && word.reads && word.word == said;
        match self.all().find(is_it) {
            Some(word) => word.canonical,
            None if field == Field::Role && self.kind.is_some() && !TEXT_ROLES.contains(&said) => ASSISTANT,
            None => said,
        }
    }

    /// The word for a canonical value.
    fn of(self, field: Field, value: &str) -> Option<&'static Word> {
        self.all().find(|word| word.field == field && word.canonical == value)
    }

    /// Puts canonical values in place of words; what the way back would say otherwise is noted as it was said.
    fn read(self, fields: Vec<Field>, members: &mut Members<'_>, own: &mut Members<'_>) {
        let mut noted = Members::new();
        for field in fields {
            let Some(said) = get(members, field).cloned().map(Json::into_owned) else { continue };
            let Some(text) = said.text() else { continue };
            let value = self.meaning(field, &text);
            if self.of(field, value).is_some_and(|word| word.word != text) {
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

    /// Puts words in place of canonical values, and gives the values that their words do not give back.
    fn write(self, members: &mut Members<'_>, own: &mut Members<'_>) -> Members<'static> {
        let noted = carry::take(own, WORDS);
        let noted = noted.as_ref().and_then(json::message).unwrap_or_default();
        let mut lost = Members::new();
        for field in self.fields(members) {
            let Some(value) = get(members, field).cloned().map(Json::into_owned) else { continue };
            let Some(text) = value.text() else { continue };
            let means_it = |said: &&Json<'_>| said.text().is_some_and(|said| *self.meaning(field, &said) == *text);
            if let Some(said) = get(&noted, field).filter(means_it) {
                set(members, Key::Known(field), said.clone().into_owned());
            } else if let Some(word) = self.of(field, &text) {
                set(members, Key::Known(field), Json::string(word.word));
                if !word.reads {
                    lost.push((Key::Known(field), value.clone()));
                }
            }
        }
        lost
    }
}

/// The canonical role of a message that a side calls `said`.
#[must_use]
pub(super) fn canonical_role(side: Side, said: &str) -> &str {
    Words { side, kind: None }.meaning(Field::Role, said)
}

/// Puts canonical values in place of a dialect's words.
pub(super) fn read_words(side: Side, parts: &mut Parts<'_>) {
    let words = Words { side, kind: Some(parts.event.kind) };
    words.read(words.fields(&parts.event.members), &mut parts.event.members, &mut parts.own);
}

/// The same for one member that stood elsewhere, unless it is one of those that were read already.
pub(super) fn read_word(side: Side, field: Field, parts: &mut Parts<'_>, already: &[Field]) {
    let words = Words { side, kind: Some(parts.event.kind) };
    if words.fields(&parts.event.members).contains(&field)
        && !already.contains(&field)
        && !parts.restored.contains(&field)
    {
        words.read(vec![field], &mut parts.event.members, &mut parts.own);
    }
}

/// The same for the role of a message.
pub(super) fn read_role(side: Side, message: &mut Members<'_>, own: &mut Members<'_>) {
    let words = Words { side, kind: None };
    words.read(words.fields(message), message, own);
}

/// Puts a dialect's words in place of canonical values.
pub(super) fn write_words(side: Side, kind: Kind, said: &mut Said<'_>) {
    let lost = Words { side, kind: Some(kind) }.write(&mut said.members, &mut said.own);
    said.canonical.extend(lost);
}

/// The same for the role of a message.
pub(super) fn write_role(side: Side, message: &mut Members<'_>, own: &mut Members<'_>) {
    Words { side, kind: None }.write(message, own);
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
        Unit::Auto => number.abs() < SECONDS_BELOW as f64,
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
        // It would be taken for seconds on the way back.
        (_, Some(value)) if side.timestamp == Unit::Auto && value.unsigned_abs() < SECONDS_BELOW => {
            return said.canonical.push((Key::Known(Field::Timestamp), now));
        }
        _ => return,
    };
    set(&mut said.members, Key::Known(Field::Timestamp), written);
}

/// A time in the unit of the side.
pub(super) fn time(side: Side, milliseconds: i64) -> Json<'static> {
    let seconds = side.timestamp == Unit::Seconds && side.dialect.options.contains(&"timestamp");
    Json::integer(if seconds { milliseconds.div_euclid(1000) } else { milliseconds })
}

/// Members that a dialect says on every event of a run, as the start of it said them.
#[derive(Debug, Default)]
pub(super) struct Stamps(Vec<(Field, Json<'static>)>);

impl Stamps {
    /// The stamps of a run whose ids are known before it says them: it may fail before it starts.
    pub fn known(dialect: &Dialect, ids: Option<&Ids>) -> Self {
        let stamp = |field: &Field| match field {
            Field::ThreadId => Some((*field, ids?.thread_id.clone())),
            Field::RunId => Some((*field, ids?.run_id.clone())),
            _ => None,
        };
        Stamps(dialect.stamps.iter().filter_map(stamp).collect())
    }

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
