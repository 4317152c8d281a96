//! Differences in spelling, not in meaning, between a dialect and canonical AG-UI: member names, time units, nulls, and
//! the ids repeated on every event. Values are in `dialect/value_aliases.rs`.
//!
//! Reading converts them to canonical form and notes whatever writing could not restore.

use super::RunIds;
use super::carry;
use super::event_parts::{IncomingEvent, OutgoingEvent};
use super::event_shapes::NULLS_NOTE;
use super::report::TranslationReport;
use crate::codec::json;
use crate::dialect::{Dialect, EventRow, PeerDialect, TimestampUnit};
use crate::event::kind::MemberType;
use crate::event::{Event, EventLoss, EventType, Field, Json, Member, MemberKey, Members, get, get_owned, remove, set};
use std::borrow::Cow;

const TIMESTAMP_NOTE: &str = "$timestamp";

/// Smaller timestamps are in seconds: read as milliseconds, they would predate March 1973.
const MAX_SECONDS: u64 = 100_000_000_000;

pub(super) fn strip_members(dialect: &Dialect, members: &mut Members<'_>, report: &mut TranslationReport) {
    if dialect.strip.is_empty() {
        return;
    }
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    members.retain(|(key, _)| {
        let goes = match key {
            MemberKey::Known(field) => dialect.strip.contains(&field.camel()),
            MemberKey::Other(own) => dialect.strip.iter().any(|name| own == name || plain(own) == plain(name)),
        };
        if goes {
            report.count_loss(EventLoss::Stripped);
        }
        !goes
    });
}

pub(super) fn strip_messages(dialect: &Dialect, event: &mut Event<'_>, report: &mut TranslationReport) {
    let Some(list) = event.get(Field::Messages).and_then(json::parse_elements).filter(|_| !dialect.strip.is_empty())
    else {
        return;
    };
    let list: Vec<_> =
        list.iter().map(|one| Json::from_trusted(strip_object(dialect, one.as_str(), report).into_owned())).collect();
    event.set(Field::Messages, json::to_array(&list));
}

/// Strips members from an object given as JSON text.
pub(super) fn strip_object<'a>(dialect: &Dialect, data: &'a str, report: &mut TranslationReport) -> Cow<'a, str> {
    let Some(mut members) = json::parse_members(&Json::from_trusted(data))
        .filter(|_| !dialect.strip.is_empty())
        .map(crate::event::into_owned_members)
    else {
        return Cow::Borrowed(data);
    };
    let before = members.len();
    strip_members(dialect, &mut members, report);
    if members.len() == before {
        Cow::Borrowed(data)
    } else {
        Cow::Owned(json::to_object(&members).as_str().to_owned())
    }
}

pub(super) fn read_field_names(names: &[(Field, &str)], members: &mut Members<'_>) {
    for (field, name) in names {
        if get(members, *field).is_some() {
            continue;
        }
        let known = Field::from_wire(name);
        let is_it = |key: &MemberKey<'_>| match key {
            MemberKey::Known(own) => Some(*own) == known,
            MemberKey::Other(own) => own == name,
        };
        if let Some((key, _)) = members.iter_mut().find(|(key, _)| is_it(key)) {
            *key = MemberKey::Known(*field);
        }
    }
}

pub(super) fn write_field_names(names: &[(Field, &'static str)], members: &mut Members<'_>) {
    for (key, _) in members {
        if let MemberKey::Known(field) = key
            && let Some((_, name)) = names.iter().find(|(own, _)| own == field)
        {
            *key = carry::extension_key(name);
        }
    }
}

const fn accepts_null(form: MemberType) -> bool {
    matches!(form, MemberType::Any | MemberType::Content)
}

/// Removes optional null members and notes their names. A required null may be a call's result, or a fault that the
/// guard repairs.
pub(super) fn read_nulls(dialect: &Dialect, parts: &mut IncomingEvent<'_>) {
    if !parts.event.members.iter().any(|(_, value)| value.is_null()) {
        return;
    }
    let kind = parts.event.kind;
    let in_values =
        dialect.rows.iter().any(|row| row.kind == kind && row.shape.own_shape().is_some_and(|own| own.null_is_absent));
    let is_null = |(key, value): &Member<'_>| match key {
        MemberKey::Known(field) if value.is_null() => kind
            .slot(*field)
            .is_some_and(|slot| (in_values || !slot.required) && !accepts_null(slot.member_type))
            .then_some(*field),
        _ => None,
    };
    let fields: Vec<Field> = parts.event.members.iter().filter_map(is_null).collect();
    if fields.is_empty() {
        return;
    }
    parts.event.members.retain(|member| is_null(member).is_none());
    parts.extensions.push((carry::extension_key(NULLS_NOTE), carry::field_list(&fields)));
}

pub(super) fn write_nulls(row: &EventRow, outgoing: &mut OutgoingEvent<'_>) {
    for field in carry::take_fields(&mut outgoing.extensions, NULLS_NOTE, |field| row.has_field(field)) {
        // Drops the placeholder that the guard or an intermediate dialect put in place of the null; any other value is
        // newer.
        if field == Field::Role || get(&outgoing.members, field).is_none_or(|value| value.is_str("")) {
            set(&mut outgoing.members, MemberKey::Known(field), Json::NULL);
        }
    }
}

pub(super) fn read_time(side: PeerDialect, parts: &mut IncomingEvent<'_>) {
    let Some(original) = parts.event.get(Field::Timestamp) else {
        return;
    };
    let Some(number) = original.as_str().parse::<f64>().ok().filter(|number| number.is_finite()) else {
        return;
    };
    let in_seconds = match side.timestamp_unit {
        TimestampUnit::Auto => number.abs() < MAX_SECONDS as f64,
        TimestampUnit::Seconds => true,
        TimestampUnit::Milliseconds => false,
    };
    if !in_seconds {
        return;
    }
    let original = original.clone().into_owned();
    let Some(milliseconds) = to_milliseconds(&original) else { return };
    parts.event.set(Field::Timestamp, Json::integer(milliseconds));
    if side.timestamp_unit == TimestampUnit::Auto || milliseconds % 1000 != 0 {
        parts.extensions.push((carry::extension_key(TIMESTAMP_NOTE), original));
    }
}

/// Returns `None` for anything but a plain decimal number.
fn to_milliseconds(seconds: &Json<'_>) -> Option<i64> {
    let (whole, decimals) = seconds.as_str().split_once('.').unwrap_or((seconds.as_str(), ""));
    let digits: String = decimals.chars().chain("000".chars()).take(3).collect();
    let sign = if whole.starts_with('-') { -1 } else { 1 };
    whole.parse::<i64>().ok()?.checked_mul(1000)?.checked_add(sign * digits.parse::<i64>().ok()?)
}

pub(super) fn write_time(side: PeerDialect, outgoing: &mut OutgoingEvent<'_>) {
    let note = carry::take(&mut outgoing.extensions, TIMESTAMP_NOTE);
    let Some(now) = get_owned(&outgoing.members, Field::Timestamp) else {
        return;
    };
    let written = match (note, now.as_i64()) {
        (Some(note), Some(value)) if to_milliseconds(&note) == Some(value) => note.into_owned(),
        (_, Some(value)) if side.timestamp_unit == TimestampUnit::Seconds => {
            if value % 1000 != 0 {
                outgoing.canonical.push((MemberKey::Known(Field::Timestamp), now.clone()));
            }
            Json::integer(value.div_euclid(1000))
        }
        // Reading would interpret this as seconds.
        (_, Some(value)) if side.timestamp_unit == TimestampUnit::Auto && value.unsigned_abs() < MAX_SECONDS => {
            return outgoing.canonical.push((MemberKey::Known(Field::Timestamp), now));
        }
        _ => return,
    };
    set(&mut outgoing.members, MemberKey::Known(Field::Timestamp), written);
}

pub(super) fn timestamp_in_unit(side: PeerDialect, milliseconds: i64) -> Json<'static> {
    let seconds = side.timestamp_unit == TimestampUnit::Seconds && side.dialect.option_names.contains(&"timestamp");
    Json::integer(if seconds { milliseconds.div_euclid(1000) } else { milliseconds })
}

/// Members that a dialect repeats on every event of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct RunStamps(Vec<(Field, Json<'static>)>);

impl RunStamps {
    /// Takes the ids known before the start event, since a run may fail before it starts.
    pub(crate) fn from_ids(dialect: &Dialect, ids: Option<&RunIds>) -> Self {
        let stamp = |field: &Field| match field {
            Field::ThreadId => Some((*field, ids?.thread_id.clone())),
            Field::RunId => Some((*field, ids?.run_id.clone())),
            _ => None,
        };
        RunStamps(dialect.common_fields.iter().filter_map(stamp).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Field, Json<'static>)> {
        self.0.iter()
    }

    pub(crate) fn observe_start(&mut self, start: &Event<'_>) {
        for (field, value) in &mut self.0 {
            *value = start.get_owned(*field).unwrap_or_else(|| value.clone());
        }
    }

    /// Removes the repeated members from an event if their values match the run's.
    pub(crate) fn read(&mut self, dialect: &Dialect, kind: EventType, members: &mut Members<'_>) {
        for &field in dialect.common_fields {
            if kind.slot(field).is_some() {
                self.remember(field, get(members, field));
                continue;
            }
            let own = self.0.iter().find(|(known, _)| *known == field).map(|(_, value)| value);
            if get(members, field).is_some_and(|original| own.is_some_and(|own| own.is_same(original))) {
                remove(members, field);
            }
        }
    }

    pub(crate) fn write(&mut self, dialect: &Dialect, kind: EventType, outgoing: &mut OutgoingEvent<'_>) {
        for &field in dialect.common_fields {
            if kind.slot(field).is_some() {
                self.remember(field, get(&outgoing.members, field));
            } else if get(&outgoing.extensions, field).is_none()
                && let Some((_, value)) = self.0.iter().find(|(known, _)| *known == field)
            {
                outgoing.extensions.push((MemberKey::Known(field), value.clone()));
            }
        }
    }

    fn remember(&mut self, field: Field, value: Option<&Json<'_>>) {
        let Some(value) = value.cloned().map(Json::into_owned) else {
            return;
        };
        match self.0.iter_mut().find(|(known, _)| *known == field) {
            Some((_, old)) => *old = value,
            None => self.0.push((field, value)),
        }
    }
}
