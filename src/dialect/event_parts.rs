//! An event split by its row: mapped members, dialect-only members and canonical-only members.

use super::carry;
use crate::codec::json;
use crate::event::{Event, EventType, Field, MemberKey, Members};

/// Under `extra["ag-ui"]`: members that the chunk lacked.
pub(crate) const ABSENT_FIELDS: &str = "$absent";

pub(crate) struct IncomingEvent<'a> {
    /// canonical event with the members of the row
    pub(crate) event: Event<'a>,
    pub(crate) extensions: Members<'a>,
    /// members restored from `extra`: already canonical, so the dialect's values do not apply to them
    pub(crate) restored_fields: Vec<Field>,
}

impl<'a> IncomingEvent<'a> {
    /// Returns the canonical event, which carries the own members of `dialect`.
    pub(crate) fn into_event(self, dialect: &str) -> Event<'a> {
        let IncomingEvent { mut event, extensions, .. } = self;
        carry::pack(&mut event, dialect, extensions);
        event
    }

    /// Returns the canonical event of this kind, whose type was carried.
    pub(crate) fn into_canonical_event(self, kind: EventType, dialect: &str) -> Event<'a> {
        let restored = self.restored_fields.clone();
        let mut event = self.into_event(dialect);
        event.kind = kind;
        restore_absent(&mut event);
        event.members.retain(|(key, _)| match key {
            // Drops members that only the dialect's event required.
            MemberKey::Known(field) => kind.slot(*field).is_some() || restored.contains(field),
            MemberKey::Other(_) => true,
        });
        event
    }
}

/// An event to be written, sorted by the dialect's row.
#[derive(Debug, Default)]
pub(crate) struct OutgoingEvent<'a> {
    pub(crate) members: Members<'a>,
    /// the dialect's own members, carried until now
    pub(crate) extensions: Members<'static>,
    pub(crate) canonical: Members<'a>,
    /// canonical type of this event, if it is not the row's
    pub(crate) canonical_type: Option<&'static str>,
}

/// Removes the members that expanding added to a chunk.
pub(crate) fn restore_absent(event: &mut Event<'_>) {
    let Some(list) = carry::take(&mut event.members, ABSENT_FIELDS) else { return };
    for name in json::parse_elements(&list).unwrap_or_default() {
        if let Some(field) = name.text().and_then(|name| Field::from_wire(&name)) {
            event.remove(field);
        }
    }
}
