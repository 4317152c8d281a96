//! An event split according to its row: mapped, dialect-only and canonical-only members.

use super::carry;
use crate::codec::json;
use crate::event::{Event, EventType, Field, MemberKey, Members};

/// Lists, under `extra["ag-ui"]`, members that the original chunk did not have.
pub(crate) const ABSENT_FIELDS: &str = "$absent";

/// Marks, under `extra["ag-ui"]`, an event before which the sender had started every message that was started.
pub(crate) const FOLLOWS_SENT_STARTS: &str = "$started";

pub(crate) struct IncomingEvent<'a> {
    pub(crate) event: Event<'a>,
    pub(crate) extensions: Members<'a>,
    /// already canonical, because they were restored from `extra`
    pub(crate) restored_fields: Vec<Field>,
    /// whether it has the mark [`FOLLOWS_SENT_STARTS`]
    pub(crate) follows_sent_starts: bool,
}

impl<'a> IncomingEvent<'a> {
    pub(crate) fn new(kind: EventType) -> Self {
        IncomingEvent {
            event: Event::new(kind),
            extensions: Members::new(),
            restored_fields: Vec::new(),
            follows_sent_starts: false,
        }
    }

    /// Returns the canonical event, which carries the dialect-only members.
    pub(crate) fn into_event(self, dialect: &str) -> Event<'a> {
        let IncomingEvent { mut event, extensions, .. } = self;
        carry::pack(&mut event, dialect, extensions);
        event
    }

    /// Returns a canonical event with the carried type.
    pub(crate) fn into_canonical_event(self, kind: EventType, dialect: &str) -> Event<'a> {
        let restored = self.restored_fields.clone();
        let mut event = self.into_event(dialect);
        event.kind = kind;
        restore_absent(&mut event);
        event.members.retain(|(key, _)| match key {
            // Drops members that only the dialect's event requires.
            MemberKey::Known(field) => kind.slot(*field).is_some() || restored.contains(field),
            MemberKey::Other(_) => true,
        });
        event
    }
}

/// An event to write, with its members already separated for the dialect.
#[derive(Debug, Default)]
pub(crate) struct OutgoingEvent<'a> {
    pub(crate) members: Members<'a>,
    /// carried members that belong to the dialect
    pub(crate) extensions: Members<'static>,
    pub(crate) canonical: Members<'a>,
    /// carried if it differs from the row's type
    pub(crate) canonical_type: Option<&'static str>,
}

/// Removes the members that were added when a chunk was expanded.
pub(crate) fn restore_absent(event: &mut Event<'_>) {
    let Some(list) = carry::take(&mut event.members, ABSENT_FIELDS) else { return };
    for name in json::parse_elements(&list).unwrap_or_default() {
        if let Some(field) = name.text().and_then(|name| Field::from_wire(&name)) {
            event.remove(field);
        }
    }
}
