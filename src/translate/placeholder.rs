//! Events that a dialect only shows: one of its own stands there for a canonical one, which `extra["ag-ui"]` holds whole.
//!
//! ```text
//! canonical ──▶ shown members, extra["ag-ui"] = {"type": kind, every member of the canonical event but its timestamp}
//! dialect   ──▶ the canonical event as noted; of what stood beside the note only strangers' members are carried
//! ```

use super::carry;
use super::read::Parts;
use super::write::Said;
use crate::dialect::{block, collaboration};
use crate::event::{Event, Field, Json, Key, Kind, Members, remove};

/// Members that are there for the reader of the dialect, and that the note makes superfluous.
const SHOWN: [&str; 6] = [
    Field::MessageId.camel(),
    Field::Role.camel(),
    Field::Delta.camel(),
    block::BLOCK_ID,
    collaboration::FROM,
    collaboration::TO,
];

/// Whether an event that stands for this kind notes it whole. Of other kinds the event says a part itself.
#[must_use]
pub(super) const fn is_whole(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ActivitySnapshot
            | Kind::ActivityDelta
            | Kind::SubagentStarted
            | Kind::SubagentFinished
            | Kind::SubagentError
    )
}

/// The canonical event that is noted in `parts`.
#[must_use]
pub(super) fn read<'a>(kind: Kind, parts: Parts<'a>, dialect: &str) -> Event<'a> {
    let Parts { mut event, mut own, restored } = parts;
    event.kind = kind;
    event.members.retain(|(key, _)| match key {
        Key::Known(field) => *field == Field::Timestamp || restored.contains(field),
        Key::Other(_) => true,
    });
    own.retain(|(key, _)| !SHOWN.iter().any(|name| carry::is_named(key, name)));
    carry::pack(&mut event, dialect, own);
    event
}

/// What stands for `event`: the dialect's own members that show it, and the note.
#[must_use]
pub(super) fn write<'a>(mut event: Event<'a>, members: Members<'a>, shown: Members<'static>) -> Said<'a> {
    let mut said = Said { members, own: shown, canonical: Members::new(), stands_for: Some(event.kind.wire()) };
    said.members.extend(timestamp(&mut event.members));
    said.canonical = event.members;
    said
}

/// Something that is only shown: it stands for nothing canonical and vanishes on the way back.
#[must_use]
pub(super) fn show<'a>(members: Members<'a>, shown: Members<'static>) -> Said<'a> {
    Said { members, own: shown, canonical: Members::new(), stands_for: Some("") }
}

fn timestamp<'a>(members: &mut Members<'a>) -> Option<(Key<'a>, Json<'a>)> {
    remove(members, Field::Timestamp).map(|at| (Key::Known(Field::Timestamp), at))
}
