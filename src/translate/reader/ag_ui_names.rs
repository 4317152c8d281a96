//! Events that an agent sends under AG-UI's names.

use super::EventReader;
use crate::dialect::AG_UI;
use crate::dialect::EventRow;
use crate::event::{Event, EventRepair, EventType, Field, Json, MemberKey, Members, find_member, get, set};
use crate::translate::carry;
use crate::translate::object_arguments::ArgumentsStep;
use crate::translate::{EventSink, aliases};

impl EventReader {
    /// Reads an event under AG-UI's name from a dialect that has a name of its own for it, or none.
    pub(super) fn read_canonical_name(
        &mut self,
        kind: EventType,
        mut members: Members<'_>,
        data: &str,
        sink: &mut impl EventSink,
    ) {
        let dialect = self.dialect;
        sink.report().foreign_dialect.get_or_insert(AG_UI.name);
        sink.report().count_repair(EventRepair::AgUiName);
        // A piece of a message like the dialect's own, which the adapter puts in its place among other content.
        let is_chunk = kind == EventType::TextMessageChunk;
        let kind = if is_chunk { EventType::TextMessageContent } else { kind };
        let Some((_, row)) = dialect.row_for_kind(kind, self.peer.peer_version) else {
            aliases::strip_members(dialect, &mut members, sink.report());
            return self.emit_ag_ui_name(Event { kind, members, source: None }, sink);
        };
        if is_chunk && get(&members, Field::Delta).is_none() {
            set(&mut members, MemberKey::Known(Field::Delta), Json::EMPTY_STRING);
        }
        let is_own = |(key, _): &(MemberKey<'_>, Json<'_>)| match key {
            // The start that a chunk implies has its role and its name.
            MemberKey::Known(Field::Role | Field::Name) if is_chunk => true,
            MemberKey::Known(field) => row.has_field(*field),
            MemberKey::Other(_) => true,
        };
        let (mut own, canonical): (Members<'_>, Members<'_>) = members.into_iter().partition(is_own);
        if let Some((place, _)) = dialect.carry_location.carry_member()
            && find_member(&own, place).is_none()
        {
            let carried = carry::wrap_canonical(dialect.carry_location, None, &canonical, None);
            own.extend(carried.map(|carried| (carry::extension_key(place), carried)));
        }
        match is_chunk {
            true => self.read_text_chunk(row, own, data, sink),
            false => self.read_row(row, own, data, sink),
        }
    }

    fn read_text_chunk(&mut self, row: &'static EventRow, members: Members<'_>, data: &str, sink: &mut impl EventSink) {
        let (mut parts, _) = self.split_members(row, members, sink.report());
        parts.event.kind = EventType::TextMessageChunk;
        if !self.object_arguments.is_idle() {
            self.object_arguments.end_chunks_before(row.kind, self.dialect.name, sink);
            self.object_arguments.release_before(ArgumentsStep::Other, self.dialect.name, sink);
        }
        self.read_own(row, parts, data, sink);
    }
}
