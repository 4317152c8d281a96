//! An event taken apart by its row: what the row says, what only the dialect has, and what only canonical AG-UI has.

use super::carry;
use crate::event::{Event, Field, Members};

/// An event of the dialect, taken apart by its row.
pub(crate) struct IncomingEvent<'a> {
    /// the canonical event as far as the row says it
    pub(crate) event: Event<'a>,
    /// the dialect's own members
    pub(crate) extensions: Members<'a>,
    /// members of the event that `extra` held: canonical already, whatever the dialect makes of such a value
    pub(crate) restored_fields: Vec<Field>,
}

impl<'a> IncomingEvent<'a> {
    /// The canonical event, which carries the members of `dialect`.
    pub(crate) fn into_event(self, dialect: &str) -> Event<'a> {
        let IncomingEvent { mut event, extensions, .. } = self;
        carry::pack(&mut event, dialect, extensions);
        event
    }
}

/// An event on its way out, sorted by what the dialect's row says.
pub(crate) struct OutgoingEvent<'a> {
    /// members that the dialect says as they are
    pub(crate) members: Members<'a>,
    /// the dialect's own, carried until now
    pub(crate) extensions: Members<'static>,
    /// members that only canonical AG-UI has
    pub(crate) canonical: Members<'a>,
    /// the canonical event that this one stands for, when it is not the row's own
    pub(crate) canonical_type: Option<&'static str>,
}
