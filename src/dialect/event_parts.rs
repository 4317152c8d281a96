//! An event split by its row: mapped members, dialect-only members and canonical-only members.

use super::carry;
use crate::event::{Event, Field, Members};

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
}

/// An event to be written, sorted by the dialect's row.
pub(crate) struct OutgoingEvent<'a> {
    pub(crate) members: Members<'a>,
    /// the dialect's own members, carried until now
    pub(crate) extensions: Members<'static>,
    pub(crate) canonical: Members<'a>,
    /// canonical type of this event, if it is not the row's
    pub(crate) canonical_type: Option<&'static str>,
}
