//! Writes one event as its row specifies: one arm per shape.

use super::{EventWriter, OutputContext};
use crate::codec::json;
use crate::dialect::{CarryLocation, EventRow, EventShape, MemberCase};
use crate::event::{Event, EventLoss, EventType, Field, Json, JsonType, Members, find_member, get};
use crate::translate::event_parts::OutgoingEvent;
use crate::translate::event_shapes::{
    EMPTY_ID_NOTE, event_to_value, flatten_parts, remove_start_note, restore_empty_id, was_null, write_as_json,
    write_explicit_role,
};
use crate::translate::{
    CANONICAL_PREFIX, StreamError, aliases, carry, message, not_shown, object_arguments, reasoning_ids, run_error,
    value_aliases,
};

/// Carried notes to keep for the way back, although the peer cannot interpret them.
const NOTES_TO_KEEP: &[&str] =
    &[run_error::CUSTOM_NOTE, EMPTY_ID_NOTE, reasoning_ids::NAMELESS_NOTE, reasoning_ids::ROLE_NOTE];

/// Members that stay carried because no version accepts them: an echoed input requires members that may be missing
/// (measured), and content must be a string.
const REJECTED_MEMBERS: &[&str] = &[carry::AS_JSON_NOTE, Field::Input.camel()];

const OWNER: &str = Field::SubagentRunId.camel();

impl EventWriter {
    pub(super) fn write_by_row(
        &mut self,
        event: Event<'_>,
        canonical_type: Option<&'static str>,
        to: &mut OutputContext<'_>,
    ) -> Result<(), StreamError> {
        match self.row_of(event.kind) {
            Some((label, row)) => {
                self.count_not_shown(&event, to.report);
                let outgoing = self.peer.dialect.split_members(row, event, canonical_type);
                self.write_row(label, row, outgoing, to)
            }
            None => self.write_as_custom(event, to),
        }
    }

    /// Returns the event of this dialect that CUSTOM `<dialect>.<TYPE>` wraps: its type, and its members as JSON.
    pub(super) fn unwrap_custom<'e>(&self, event: &'e Event<'_>) -> Option<(String, &'e str)> {
        if event.kind != EventType::Custom {
            return None;
        }
        let dialect = self.peer.dialect;
        let (name, value) = (event.text(Field::Name)?, event.get(Field::Value)?);
        let wire = name.strip_prefix(dialect.name)?.strip_prefix('.')?;
        // Unwraps only what reading wraps; any other event would bypass the run guard.
        let held = json::parse_object(value.as_str()).ok()?;
        // "Unknown event types are fatal in every client before 1.0.0" [specs §3.6]
        let wrapped = match dialect.row_for_wire(wire) {
            Some((_, row)) => self.is_unreadable(row, &held.members),
            None => !dialect.is_versioned(),
        };
        let must_finish = self.adapter.as_ref().is_some_and(|adapter| adapter.must_finish_frame());
        let is_whole = event.members.len() == 2 && !must_finish && held.kind.is_some_and(|kind| kind.is_str(wire));
        (wrapped && is_whole).then(|| (wire.to_owned(), value.as_str()))
    }

    fn is_unreadable(&self, row: &'static EventRow, members: &Members<'_>) -> bool {
        row.shape.own_shape().is_some()
            && self.adapter.as_ref().is_some_and(|adapter| adapter.is_unreadable(row, members))
    }

    fn write_row(
        &mut self,
        label: usize,
        row: &'static EventRow,
        mut outgoing: OutgoingEvent<'_>,
        to: &mut OutputContext<'_>,
    ) -> Result<(), StreamError> {
        match row.shape {
            EventShape::MaybeNestedError => write_as_json(&mut outgoing, Field::Code),
            EventShape::ExplicitRole if was_null(&outgoing.extensions, Field::Role) => {}
            EventShape::ExplicitRole => {
                let is_other_role = write_explicit_role(self.peer.peer_version, row.kind, &mut outgoing);
                // A start without a canonical counterpart continues a message that was counted.
                if is_other_role && outgoing.canonical_type != Some("") {
                    to.report.count_loss(EventLoss::RoleNotShown);
                }
            }
            EventShape::Own(_) => {
                if let Some(adapter) = &mut self.adapter {
                    adapter.write(row, &mut outgoing);
                }
            }
            EventShape::ObjectPieces => {
                remove_start_note(&mut outgoing);
                if !object_arguments::restore(&mut outgoing) {
                    return Ok(());
                }
                write_as_json(&mut outgoing, Field::Delta);
            }
            EventShape::AnyContent => {
                restore_empty_id(&mut outgoing);
                // Flattens parts first: a value later restored as JSON belongs to the dialect.
                flatten_parts(&mut outgoing, self.peer.dialect.is_versioned());
                if !self.peer.dialect.is_versioned() {
                    write_as_json(&mut outgoing, Field::Content);
                }
            }
            EventShape::MessageList => message::write_snapshot(&mut outgoing, self.peer, to.report),
            _ => {
                if let Some(adapter) = &mut self.adapter {
                    adapter.write_shared(row, &mut outgoing);
                }
            }
        }
        if row.kind == EventType::ToolCallResult
            && let Some(whole) = get(&outgoing.canonical, Field::Content)
        {
            let parts = not_shown::count_hidden_parts(whole, get(&outgoing.members, Field::Content));
            to.report.count_loss_times(EventLoss::PartNotShown, parts);
        }
        self.write_outgoing(label, row, outgoing, to)
    }

    pub(super) fn write_outgoing(
        &mut self,
        label: usize,
        mut row: &'static EventRow,
        mut outgoing: OutgoingEvent<'_>,
        to: &mut OutputContext<'_>,
    ) -> Result<(), StreamError> {
        let before = to.out.len();
        let kind = row.kind;
        let snake = self.peer.member_case == MemberCase::Snake;
        let location = self.peer.dialect.carry_location;
        if self.peer.dialect.is_versioned() {
            // Every version fails on a number.
            carry::keep_notes(self.peer.dialect.name, &[carry::NUMBERS_NOTE], &mut outgoing.extensions);
        } else {
            carry::restore_number_ids(&mut outgoing.members, &mut outgoing.extensions);
        }
        if location == CarryLocation::Metadata {
            self.denormalize(&mut row, &mut outgoing);
        }
        if let Some(adapter) = &mut self.adapter {
            adapter.finish_frame(row, &mut outgoing);
        }
        let place = location.carry_member().map_or("", |(member, _)| member);
        let own = carry::take(&mut outgoing.extensions, place);
        let carried = carry::wrap_canonical(location, own.as_ref(), &outgoing.canonical, outgoing.canonical_type);
        self.write_frame(to.out, row.wire, |object| {
            row.write_members(object, &outgoing.members, snake);
            outgoing.extensions.iter().for_each(|member| object.copy_member(member, snake));
            if let Some(carried) = carried {
                object.member(place, carried.as_str());
            }
        });
        self.commit_frame(label, kind, before, to)
    }

    fn denormalize(&mut self, row: &mut &'static EventRow, outgoing: &mut OutgoingEvent<'_>) {
        if row.kind == EventType::RunError
            && let Some((_, custom)) = self.row_of(EventType::Custom)
            && run_error::restore_custom(self.peer, outgoing)
        {
            *row = custom;
        }
        value_aliases::write_aliases(self.peer, row.kind, outgoing);
        if self.peer.dialect.option_names.contains(&"timestamp") {
            aliases::write_time(self.peer, outgoing);
        }
        self.run_stamps.write(self.peer.dialect, row.kind, outgoing);
        aliases::write_nulls(row, outgoing);
        carry::keep_notes(self.peer.dialect.name, NOTES_TO_KEEP, &mut outgoing.extensions);
        // Any other event may have a member with that name.
        if matches!(row.kind, EventType::RunStarted | EventType::ToolCallResult) && self.peer.dialect.is_versioned() {
            carry::keep_notes(self.peer.dialect.name, REJECTED_MEMBERS, &mut outgoing.extensions);
        }
        // Clients since 0.0.57 read the owner of every event, also of those that have none (golden `null-is-no-owner`).
        let owner = find_member(&outgoing.extensions, OWNER);
        if self.peer.dialect.is_versioned() && owner.is_some_and(|owner| owner.json_type() != JsonType::String) {
            carry::keep_notes(self.peer.dialect.name, &[OWNER], &mut outgoing.extensions);
        }
    }

    /// Wraps an event without a counterpart, which the client does not show.
    pub(super) fn write_as_custom(&mut self, event: Event<'_>, to: &mut OutputContext<'_>) -> Result<(), StreamError> {
        not_shown::loss_of_custom(&event).into_iter().for_each(|loss| to.report.count_loss(loss));
        self.wrap_in_custom(&event, to)
    }

    /// Writes an event as CUSTOM `ag-ui.<TYPE>`.
    pub(super) fn wrap_in_custom(&mut self, event: &Event<'_>, to: &mut OutputContext<'_>) -> Result<(), StreamError> {
        let name = format!("{CANONICAL_PREFIX}{}", event.kind.wire());
        let value = event_to_value(event);
        let label =
            self.row_of(EventType::Custom).map_or_else(|| self.peer.dialect.other_label_index(), |(label, _)| label);
        let before = to.out.len();
        let row = self.row_of(EventType::Custom).map(|(_, row)| row);
        if let (Some(adapter), Some(row)) = (&mut self.adapter, row) {
            let canonical_type = Some(event.kind.wire());
            adapter.finish_frame(row, &mut OutgoingEvent { canonical_type, ..OutgoingEvent::default() });
        }
        let mut stamps = OutgoingEvent::default();
        self.run_stamps.write(self.peer.dialect, EventType::Custom, &mut stamps);
        self.write_frame(to.out, EventType::Custom.wire(), |object| {
            object.member(Field::Name.camel(), Json::string(&name).as_str());
            object.member(Field::Value.camel(), value.as_str());
            stamps.extensions.iter().for_each(|member| object.copy_member(member, false));
        });
        self.commit_frame(label, EventType::Custom, before, to)
    }

    pub(super) fn label_of(&self, wire: &str) -> usize {
        let dialect = self.peer.dialect;
        dialect.row_for_wire(wire).map_or_else(|| dialect.other_label_index(), |(label, _)| label)
    }
}
