//! Writes one event by its row: one arm for each shape; the table defines the shape of an event.

use super::{EventWriter, OutputContext};
use crate::codec::json;
use crate::dialect::{CarryLocation, EventRow, EventShape, MemberCase, TextFormat};
use crate::event::{Event, EventType, Field, Json, MemberKey, Members};
use crate::translate::event_parts::OutgoingEvent;
use crate::translate::event_shapes::{
    EMPTY_ID_NOTE, event_to_value, flatten_parts, remove_start_note, restore_chunk, restore_empty_id, was_null,
    write_as_json, write_boundary,
};
use crate::translate::{CANONICAL_PREFIX, aliases, carry, downgrade, json_patch, message, reasoning_ids, run_error};

/// Notes without a meaning for some peers of their dialect.
const NOTES_TO_KEEP: &[&str] =
    &[run_error::CUSTOM_NOTE, EMPTY_ID_NOTE, reasoning_ids::NAMELESS_NOTE, reasoning_ids::ROLE_NOTE];

/// Members that no version accepts: they remain carried. The echo of an input needs members that may be missing
/// (measured), and content is a string.
const REJECTED_MEMBERS: &[&str] = &[carry::AS_JSON_NOTE, Field::Input.camel()];

impl EventWriter {
    pub(super) fn write_by_row(
        &mut self,
        event: Event<'_>,
        canonical_type: Option<&'static str>,
        to: &mut OutputContext<'_>,
    ) {
        match (self.content_row, self.row_of(event.kind)) {
            (_, Some((label, row))) => {
                if downgrade::is_unsupported(self.peer, row.shape, &event) {
                    return self.write_unsupported(event, canonical_type, to);
                }
                if row.shape == EventShape::EndWithRole
                    && self.peer.text_format == TextFormat::Blocks
                    && self.text_writer.is_empty_end(&event)
                {
                    let id = crate::event::message_id(&event.members);
                    let empty = Event::new(EventType::TextMessageContent).with(Field::MessageId, id);
                    self.write_by_row(empty.with(Field::Delta, Json::string("")), Some(""), to);
                }
                let said = self.split_members(row, event, canonical_type);
                self.write_row(label, row, said, to);
            }
            (Some(content), None) if event.kind.is_reasoning() => {
                self.write_reasoning(content, event, canonical_type, to);
            }
            (_, None) if EventWriter::has_fallback(event.kind) => self.write_fallback(event, to),
            (_, None) => self.write_as_custom(event, to),
        }
    }

    /// Writes an event unsupported by the peer. An event without a canonical counterpart is skipped.
    pub(super) fn write_unsupported(
        &mut self,
        event: Event<'_>,
        canonical_type: Option<&'static str>,
        to: &mut OutputContext<'_>,
    ) {
        match canonical_type {
            Some("") => {}
            None if downgrade::is_empty_content(&event) => self.write_as_raw(&event, to),
            _ => self.write_as_custom(restore_chunk(event, canonical_type), to),
        }
    }

    /// Writes RAW with the whole event; the source names its type.
    fn write_as_raw(&mut self, event: &Event<'_>, to: &mut OutputContext<'_>) {
        let source = Json::string(&format!("{CANONICAL_PREFIX}{}", event.kind.wire()));
        let raw = Event::new(EventType::Raw).with(Field::Event, event_to_value(event)).with(Field::Source, source);
        self.write_by_row(raw, None, to);
    }

    /// Unwraps CUSTOM `<dialect>.<TYPE>`, which contains an event of this very dialect.
    pub(super) fn restore_custom(&mut self, event: &Event<'_>, to: &mut OutputContext<'_>) -> bool {
        let dialect = self.peer.dialect;
        let (Some(name), Some(value)) = (event.text(Field::Name), event.get(Field::Value)) else {
            return false;
        };
        let Some(wire) = name.strip_prefix(dialect.name).and_then(|rest| rest.strip_prefix('.')) else {
            return false;
        };
        // Unwraps only what reading wraps; any other event would bypass the run guard.
        let Ok(held) = json::parse_object(value.as_str()) else {
            return false;
        };
        // "Unknown event types are fatal in every client before 1.0.0" [specs §3.6]
        let wrapped = match dialect.row_for_wire(wire) {
            Some((_, row)) => self.is_read_wrapped(row, &held),
            None => !dialect.is_versioned(),
        };
        if !wrapped || event.members.len() != 2 || !held.kind.is_some_and(|kind| kind.is_str(wire)) {
            return false;
        }
        let (before, label) =
            (to.out.len(), dialect.row_for_wire(wire).map_or_else(|| dialect.other_label_index(), |(label, _)| label));
        self.write_data(to.out, wire, value.as_str());
        self.commit_frame((label, event.kind), before, to);
        true
    }

    pub(super) fn write_row(
        &mut self,
        label: usize,
        row: &'static EventRow,
        mut outgoing: OutgoingEvent<'_>,
        to: &mut OutputContext<'_>,
    ) {
        match row.shape {
            EventShape::MaybeNestedError | EventShape::NestedError => write_as_json(&mut outgoing, Field::Code),
            EventShape::ExplicitRole if was_null(&outgoing.extensions, Field::Role) => {}
            EventShape::ExplicitRole => downgrade::write_role(self.peer.peer_version, row.kind, &mut outgoing),
            EventShape::VersionedOutcome => downgrade::downgrade_outcome(&mut outgoing),
            EventShape::ThinkingWithoutIds => reasoning_ids::remove_generated_ids(&mut outgoing),
            EventShape::Own(_) => {
                if let Some(adapter) = &mut self.adapter {
                    adapter.write(row, &mut outgoing);
                }
            }
            EventShape::RunBoundary => write_boundary(&mut outgoing),
            EventShape::DeferredStart
                if !self.text_writer.start_message(&mut outgoing) && outgoing.canonical_type.is_none() =>
            {
                return;
            }
            EventShape::OutputBlock => self.text_writer.write_content(&mut outgoing, self.peer.text_format),
            EventShape::EndWithRole => self.text_writer.end_message(&mut outgoing),
            EventShape::ObjectDelta => {
                remove_start_note(&mut outgoing);
                write_as_json(&mut outgoing, Field::Delta);
            }
            EventShape::AnyContent => {
                restore_empty_id(&mut outgoing);
                // Flattens parts first: a value restored as JSON afterwards is the dialect's own.
                flatten_parts(&mut outgoing);
                if !self.peer.dialect.is_versioned() {
                    write_as_json(&mut outgoing, Field::Content);
                }
            }
            EventShape::PatchWithFrom => json_patch::write(&mut outgoing),
            EventShape::MessageList => message::write_snapshot(&mut outgoing, self.peer),
            EventShape::Plain if row.kind == EventType::SubagentFinished && self.peer.dialect.is_versioned() => {
                downgrade::downgrade_subagent(&mut outgoing);
            }
            _ => {}
        }
        self.write_outgoing(label, row, outgoing, to);
    }

    pub(super) fn write_outgoing(
        &mut self,
        label: usize,
        row: &'static EventRow,
        mut outgoing: OutgoingEvent<'_>,
        to: &mut OutputContext<'_>,
    ) {
        if row.shape == EventShape::OutputBlock && self.peer.text_format == TextFormat::Blocks {
            self.text_writer.mark_nonempty(&outgoing);
        }
        let (before, kind) = (to.out.len(), row.kind);
        let (snake, home) = (self.peer.member_case == MemberCase::Snake, self.peer.dialect.carry_location);
        let mut row = row;
        carry::restore_number_ids(&mut outgoing.members, &mut outgoing.extensions);
        if home == CarryLocation::Metadata {
            self.denormalize(&mut row, &mut outgoing);
        }
        let place = home.carry_member().map_or("", |(member, _)| member);
        let own = carry::take(&mut outgoing.extensions, place);
        let carried = carry::wrap_canonical(home, own.as_ref(), &outgoing.canonical, outgoing.canonical_type);
        self.write_frame(to.out, row.wire, |object| {
            for (key, value) in &outgoing.members {
                match key {
                    MemberKey::Known(field) => object.member(row.field_name(*field, snake), value.as_str()),
                    MemberKey::Other(_) => object.copy_member(&(key.clone(), value.as_borrowed()), snake),
                }
            }
            outgoing.extensions.iter().for_each(|member| object.copy_member(member, snake));
            if let Some(carried) = carried {
                object.member(place, carried.as_str());
            }
        });
        self.commit_frame((label, kind), before, to);
    }

    fn denormalize(&mut self, row: &mut &'static EventRow, outgoing: &mut OutgoingEvent<'_>) {
        if row.kind == EventType::RunError
            && let Some((_, custom)) = self.row_of(EventType::Custom)
            && run_error::restore_custom(self.peer, outgoing)
        {
            *row = custom;
        }
        aliases::write_aliases(self.peer, row.kind, outgoing);
        if row.shape == EventShape::NestedError {
            run_error::write_nested(outgoing);
        }
        if self.peer.dialect.option_names.contains(&"timestamp") {
            aliases::write_time(self.peer, outgoing);
        }
        self.run_stamps.write(self.peer.dialect, row.kind, outgoing);
        aliases::write_nulls(row, outgoing);
        carry::keep_notes(self.peer.dialect.name, NOTES_TO_KEEP, &mut outgoing.extensions);
        // Any other event may have a member of that name.
        if matches!(row.kind, EventType::RunStarted | EventType::ToolCallResult) && self.peer.dialect.is_versioned() {
            carry::keep_notes(self.peer.dialect.name, REJECTED_MEMBERS, &mut outgoing.extensions);
        }
    }

    pub(super) fn split_members<'a>(
        &self,
        row: &'static EventRow,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
    ) -> OutgoingEvent<'a> {
        // Most events have only members of the row: the list stays as it is.
        if event.members.iter().all(|(key, _)| matches!(key, MemberKey::Known(field) if row.has_field(*field))) {
            return OutgoingEvent {
                members: event.members,
                extensions: Members::new(),
                canonical: Members::new(),
                canonical_type,
            };
        }
        let mut said = OutgoingEvent {
            members: Members::new(),
            extensions: Members::new(),
            canonical: Members::new(),
            canonical_type,
        };
        for (key, value) in event.members {
            match &key {
                MemberKey::Known(field) if row.has_field(*field) => said.members.push((key, value)),
                MemberKey::Known(Field::Metadata) => {
                    let home = self.peer.dialect.carry_location;
                    let says = |key: &MemberKey<'_>| match key {
                        MemberKey::Known(Field::Metadata) => home == CarryLocation::Metadata,
                        MemberKey::Known(field) if row.has_field(*field) => true,
                        // A carried member of this name would conflict with the alias of a row member.
                        key => row.field_aliases.iter().any(|(_, name)| carry::is_named(key, name)),
                    };
                    let splices = |key: &MemberKey<'_>| !says(key);
                    let (own, rest) = carry::unpack(value, self.peer.dialect.name, splices);
                    said.extensions.extend(own);
                    let rest = rest.map(|rest| (MemberKey::Known(Field::Metadata), rest));
                    match self.peer.dialect.carry_location {
                        CarryLocation::Metadata => {
                            said.extensions.extend(rest.map(|(key, rest)| (key, rest.into_owned())));
                        }
                        CarryLocation::Extra | CarryLocation::Native => said.canonical.extend(rest),
                    }
                }
                _ => said.canonical.push((key, value)),
            }
        }
        said
    }

    /// Writes an event without a counterpart here: CUSTOM `ag-ui.<TYPE>` with the whole event as value.
    pub(super) fn write_as_custom(&mut self, event: Event<'_>, to: &mut OutputContext<'_>) {
        let name = format!("{CANONICAL_PREFIX}{}", event.kind.wire());
        let value = event_to_value(&event);
        let label =
            self.row_of(EventType::Custom).map_or_else(|| self.peer.dialect.other_label_index(), |(label, _)| label);
        let before = to.out.len();
        self.write_frame(to.out, EventType::Custom.wire(), |object| {
            object.member(Field::Name.camel(), Json::string(&name).as_str());
            object.member(Field::Value.camel(), value.as_str());
        });
        self.commit_frame((label, EventType::Custom), before, to);
    }

    /// Writes a complete event of this row.
    pub(super) fn write_complete(
        &mut self,
        row: &'static EventRow,
        outgoing: OutgoingEvent<'_>,
        to: &mut OutputContext<'_>,
    ) {
        let label = self
            .peer
            .dialect
            .row_for_wire(row.wire)
            .map_or_else(|| self.peer.dialect.other_label_index(), |(label, _)| label);
        self.write_outgoing(label, row, outgoing, to);
    }
}
