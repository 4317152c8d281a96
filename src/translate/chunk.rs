//! Unfolds `*_CHUNK` events into start, content and end for dialects without chunks, by AG-UI's chunk rules
//! (`specs/ag-ui-1.0.md` §3.2 "Chunks").
//!
//! The content event is marked with the chunk it replaces, so that reading restores the chunk; start and end are marked
//! as additions. [`ChunkLanes`](crate::event::lane::ChunkLanes) keeps a stream per subagent; those dialects have one
//! lane, so one open stream is enough here.

use super::event_parts::ABSENT_FIELDS;
use crate::codec::json;
use crate::dialect::{Dialect, carry};
use crate::event::lane::{ChunkStreamKind, ClosedStreams};
use crate::event::{Event, Field, Json, MemberKey};
use std::borrow::Cow;

/// An event to write and the type it replaces: `None` if the type is unchanged, `""` for an added event.
pub(super) type UnfoldedEvent<'a> = (Event<'a>, Option<&'static str>);

/// The open chunk stream. A chunk with another id or kind closes it.
#[derive(Debug, Default)]
pub(super) struct ChunkUnfolder {
    open: Option<(ChunkStreamKind, Box<str>)>,
    /// whether the open stream's id is a number for the client
    is_number: bool,
}

impl ChunkUnfolder {
    pub(crate) fn close_before(&mut self, event: &Event<'_>, client: &Dialect) -> Option<UnfoldedEvent<'static>> {
        let (open_kind, id) = self.open.as_ref()?;
        let closes = match ChunkStreamKind::from_event(event.kind) {
            Some(kind) => kind != *open_kind || event.text(kind.id_field()).is_some_and(|own| *own != **id),
            None => ClosedStreams::by_event(event.kind) != ClosedStreams::None,
        };
        if !closes {
            return None;
        }
        let (end, field) = open_kind.item().closer();
        let mut closer = Event::new(end).with(field, Json::string(id));
        if self.is_number {
            carry::mark_number(&mut closer, client.name, field);
        }
        self.open = None;
        Some((closer, Some("")))
    }

    /// Turns a chunk into start and content events; returns other events unchanged.
    pub(crate) fn unfold<'a>(
        &mut self,
        mut event: Event<'a>,
        client: &Dialect,
    ) -> (Option<UnfoldedEvent<'static>>, UnfoldedEvent<'a>) {
        let Some(kind) = ChunkStreamKind::from_event(event.kind) else {
            return (None, (event, None));
        };
        let field = kind.id_field();
        let id = match (event.owned_text(field), &self.open) {
            (Some(id), _) => id,
            (None, Some((_, id))) => id.to_string(),
            (None, None) => String::new(),
        };
        if self.open.is_none() {
            self.is_number = carry::was_number(&event, client.name, field);
        }
        let is_number = self.is_number;
        let opener = self.open.is_none().then(|| {
            let mut opener = Event::new(kind.item().opener()).with(field, Json::string(&id));
            for copied in [Field::Role, Field::Name, Field::ToolCallName, Field::ParentMessageId] {
                if let Some(value) = event.get(copied) {
                    opener.set(copied, value.clone().into_owned());
                }
            }
            if is_number {
                carry::mark_number(&mut opener, client.name, field);
            }
            (opener, Some(""))
        });
        self.open = Some((kind, id.as_str().into()));
        let chunk = event.kind.wire();
        // Already completed (`chunk_names`).
        let completed = carry::take(&mut event.members, ABSENT_FIELDS);
        let mut absent: Vec<_> = completed.as_ref().and_then(json::parse_elements).unwrap_or_default();
        for (missing, filler) in [(field, Json::string(&id)), (Field::Delta, Json::EMPTY_STRING)] {
            if event.get(missing).is_none() {
                absent.push(Json::string(missing.camel()));
                event.set(missing, filler);
            }
        }
        if !absent.is_empty() {
            event.members.push((MemberKey::Other(Cow::Borrowed(ABSENT_FIELDS)), json::to_array(&absent)));
        }
        event.kind = kind.content_event();
        (opener, (event, Some(chunk)))
    }
}
