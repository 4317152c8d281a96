//! Turns a frame of the agent's dialect into canonical events.
//!
//! Shared shapes are read here; events with a dialect-specific shape go to its adapter.

mod mapped_frames;
mod dialect_switch;
mod ag_ui_names;

use super::aliases::{self, RunStamps};
use super::carry::{self, CarriedMembers};
use super::detect::{self, DialectDetector};
use super::event_parts::{FOLLOWS_SENT_STARTS, IncomingEvent, restore_absent};
use super::event_shapes::{stringify_value, supply_result_id, supply_run_ids};
use super::foreign_stream::{FirstFrames, UnknownFrames};
use super::object_arguments::{self, ArgumentsStep, ObjectArguments, arguments_step};
use super::report::TranslationReport;
use super::{EventSink, message, run_error, value_aliases};
use crate::codec::json::{self, JsonObject};
use crate::dialect::content_parts;
use crate::dialect::{
    CarryLocation, Dialect, DialectAdapter, EventRow, EventShape, FallbackPolicy, MappedReader, PeerDialect,
    RetiredEventReader, UnreadableEvent, find_retired_row,
};
use crate::event::{Event, EventLoss, EventRepair, EventType, Field, Json, MemberKey, Members, get, set};

/// End marker sent by some producers. It is not a frame in any dialect.
const DONE_MARKER: &str = "[DONE]";

/// The `source` of RAW events that wrap a malformed frame.
const MALFORMED_SOURCE: &str = "diglot.malformed";

#[derive(Debug)]
pub(super) struct EventReader {
    peer: PeerDialect,
    dialect: &'static Dialect,
    adapter: Option<Box<dyn DialectAdapter>>,
    run_stamps: RunStamps,
    last_row: Option<(usize, &'static EventRow)>,
    has_begun: bool,
    object_arguments: ObjectArguments,
    detector: Option<Box<DialectDetector>>,
    /// as in the request
    run_id: Option<Json<'static>>,
    /// made for the first retired event
    retired_events: Option<Box<RetiredEventReader>>,
    /// reads all frames, if a file describes the dialect
    mapped: Option<Box<MappedReader>>,
    /// label and type of the last frame, if a file's rules did nothing but copy its text
    last_copy: Option<(u8, EventType)>,
    /// type of the last event that a file's rules made
    last_mapped: Option<EventType>,
    first_frames: FirstFrames,
    /// whether the dialect does not know the frame that is read
    is_unknown: bool,
}

/// The canonical event for a frame, according to the note that it may carry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CarriedType {
    /// none; the frame is read by its own type
    OwnType,
    /// a gateway added the frame, which has no canonical event
    Nothing,
    Canonical(EventType),
}

impl EventReader {
    /// Creates a reader; `run_id` is the request's.
    pub(crate) fn new(peer: PeerDialect, run_id: Option<Json<'static>>) -> Self {
        let mut adapter = peer.new_read_adapter();
        if let (Some(adapter), Some(run_id)) = (&mut adapter, &run_id) {
            adapter.set_run_id(run_id);
        }
        EventReader {
            peer,
            dialect: peer.dialect,
            adapter,
            run_stamps: RunStamps::default(),
            last_row: None,
            has_begun: false,
            object_arguments: ObjectArguments::default(),
            detector: peer.is_auto.then(Default::default),
            mapped: peer.dialect.mapping.map(|mapping| Box::new(MappedReader::new(mapping, peer.dialect.name))),
            last_copy: None,
            last_mapped: None,
            run_id,
            retired_events: None,
            first_frames: FirstFrames::default(),
            is_unknown: false,
        }
    }

    /// Reads a frame; `event_line` is the value of its `event:` line.
    pub(crate) fn read_frame(&mut self, event_line: Option<&str>, data: &str, sink: &mut impl EventSink) {
        if self.mapped.is_some() {
            return self.read_mapped_frame(event_line, data, sink);
        }
        if !data.starts_with('{') && data.trim() == DONE_MARKER {
            return sink.report().count_loss(EventLoss::DoneMarker);
        }
        self.detect(data, sink);
        match json::parse_object(data) {
            Ok(object) => self.read_object(object, data, sink),
            Err(_) => self.emit_malformed(&Json::string(data), sink),
        }
        self.first_frames.add(self.peer, std::mem::take(&mut self.is_unknown), event_line, data);
    }

    /// Returns the bytes of the events that are kept to be read again as another dialect's, or to name it.
    pub(crate) fn kept_bytes(&self) -> usize {
        let unknown = self.first_frames.unknown_frames().map_or(0, UnknownFrames::kept_bytes);
        self.detector.as_ref().map_or(0, |detector| detector.kept_bytes()) + unknown
    }

    /// Returns how many bytes of state are kept for calls without a result.
    pub(crate) fn retained_bytes(&self) -> usize {
        let mapped = self.mapped.as_ref().map_or(0, |mapped| mapped.held_bytes());
        self.adapter.as_ref().map_or(0, |adapter| adapter.held_bytes()) + self.object_arguments.held_bytes() + mapped
    }

    /// Returns label and type of the last event's row, unless the dialect is still uncertain.
    pub(crate) fn last_label(&self) -> Option<(usize, EventType)> {
        let of_row = || self.last_row.filter(|_| self.detector.is_none()).map(|(label, row)| (label, row.kind));
        self.last_copy.map(|(label, kind)| (usize::from(label), kind)).or_else(of_row)
    }

    /// Returns the frames so far, if the dialect knows none of them.
    pub(crate) fn unknown_frames(&self) -> Option<&UnknownFrames> {
        self.first_frames.unknown_frames()
    }

    pub(crate) fn copies_time(&self) -> bool {
        self.peer.copies_time()
    }

    pub(crate) fn last_event_type(&self) -> Option<&'static str> {
        self.last_row.map(|(_, row)| row.wire).or(self.last_mapped.map(EventType::wire))
    }

    pub(crate) fn finish(&mut self, sink: &mut impl EventSink) {
        self.object_arguments.finish(false, self.dialect.name, sink);
        if let Some(adapter) = &mut self.adapter {
            adapter.finish(sink);
        }
    }

    /// Emits an event that the adapter does not handle.
    fn emit_other(&mut self, mut event: Event<'_>, sink: &mut impl EventSink) {
        if !self.object_arguments.is_idle() {
            self.object_arguments.end_chunks_before(event.kind, self.dialect.name, sink);
            self.object_arguments.release_before(ArgumentsStep::Other, self.dialect.name, sink);
        }
        if let Some(adapter) = &mut self.adapter {
            adapter.read_other(&mut event, sink);
        }
        sink.emit(event);
    }

    fn read_sent_starts(&mut self, sink: &mut impl EventSink) {
        if let Some(adapter) = &mut self.adapter {
            adapter.read_sent_starts(sink);
        }
    }

    fn read_object(&mut self, object: JsonObject<'_>, data: &str, sink: &mut impl EventSink) {
        let dialect = self.dialect;
        let Some(wire) = object.kind.as_ref().and_then(Json::text).filter(|wire| !wire.is_empty()) else {
            let data = aliases::strip_object(dialect, data, sink.report());
            return self.emit_malformed(&Json::from_trusted(&*data), sink);
        };
        // Most events have the same type as the previous one.
        let known = self.last_row.filter(|(_, row)| row.wire == wire).or_else(|| dialect.row_for_wire(&wire));
        self.last_row = known;
        self.supply_start(known.map(|(_, row)| row.kind), sink);
        let Some((label, row)) = known else {
            sink.report().events_read.add(dialect.other_label_index());
            if let Some(names) = &mut sink.report().agent_names {
                names.add(&wire);
            }
            if let Some(row) = find_retired_row(dialect, &wire) {
                return self.read_retired(row, object.members, sink);
            }
            if let Some(kind) = EventType::from_wire(&wire).filter(|_| dialect.fallback == FallbackPolicy::Custom) {
                return self.read_canonical_name(kind, object.members, data, sink);
            }
            self.is_unknown = true;
            match detect::dialect_of_event(&wire, data) {
                Some(foreign) => {
                    sink.report().foreign_dialect.get_or_insert(foreign.name);
                    sink.report().count_repair(EventRepair::ForeignType);
                }
                None => sink.report().count_repair(EventRepair::UnknownType),
            }
            let data = aliases::strip_object(dialect, data, sink.report());
            return self.emit_other(self.wrap_frame(&wire, &data), sink);
        };
        sink.report().events_read.add(label);
        if !dialect.is_canonical() {
            return self.read_row(row, object.members, data, sink);
        }
        if !object.canonical {
            sink.report().count_repair(EventRepair::KeyNormalized);
        }
        let source = object.canonical.then_some(data);
        sink.emit(Event { kind: row.kind, members: object.members, source });
    }

    fn read_retired(&mut self, row: &'static EventRow, members: Members<'_>, sink: &mut impl EventSink) {
        let (parts, _) = self.split_members(row, members, sink.report());
        let run_id = self.run_id.as_ref();
        let reader = self.retired_events.get_or_insert_with(|| Box::new(RetiredEventReader::new(run_id)));
        let event = reader.read(parts, sink);
        self.emit_ag_ui_name(event, sink);
    }

    fn emit_ag_ui_name(&mut self, mut event: Event<'_>, sink: &mut impl EventSink) {
        if let Some(adapter) = &mut self.adapter {
            adapter.read_ag_ui_name(&mut event, sink);
        }
        match event.kind {
            EventType::ToolCallChunk => self.hold_chunk(event, sink),
            _ => self.emit_other(event, sink),
        }
    }

    fn hold_chunk(&mut self, mut event: Event<'_>, sink: &mut impl EventSink) {
        if let Some(adapter) = &mut self.adapter {
            adapter.read_other(&mut event, sink);
        }
        self.object_arguments.hold_chunk(event, self.dialect.name, sink);
    }

    /// Starts the run with its first event if the dialect's start is optional.
    fn supply_start(&mut self, first: Option<EventType>, sink: &mut impl EventSink) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let begins_run = matches!(first, Some(EventType::RunStarted | EventType::RunError));
        if !begins_run && self.dialect.is_start_optional() {
            sink.report().count_allowed_repair(EventRepair::RunStartedSupplied);
            let start = Event::new(EventType::RunStarted).with(Field::ThreadId, Json::EMPTY_STRING);
            sink.emit(start.with(Field::RunId, Json::EMPTY_STRING));
        }
    }

    /// Wraps a frame as CUSTOM `<dialect>.<TYPE>`.
    fn wrap_frame<'a>(&self, wire: &str, data: &'a str) -> Event<'a> {
        Event::new(EventType::Custom)
            .with(Field::Name, Json::string(&format!("{}.{wire}", self.dialect.name)))
            .with(Field::Value, Json::from_trusted(data))
    }

    fn emit_malformed(&mut self, what: &Json<'_>, sink: &mut impl EventSink) {
        self.is_unknown = true;
        let other = self.dialect.other_label_index();
        sink.report().events_read.add(other);
        sink.report().count_repair(EventRepair::MalformedFrame);
        sink.report().count_loss(EventLoss::EventNotShown);
        let event = Event::new(EventType::Raw).with(Field::Event, what.as_borrowed());
        self.emit_other(event.with(Field::Source, Json::string(MALFORMED_SOURCE)), sink);
    }

    fn read_row(&mut self, row: &'static EventRow, members: Members<'_>, data: &str, sink: &mut impl EventSink) {
        let (mut parts, carried_type) = self.split_members(row, members, sink.report());
        let carried = match carried_type {
            Some(note) => self.parse_canonical_type(&note, &parts.event, sink.report()),
            None => CarriedType::OwnType,
        };
        // The gateway that wrote such an event had sent each start in its place.
        if parts.follows_sent_starts || matches!(carried, CarriedType::Canonical(_)) {
            self.read_sent_starts(sink);
        }
        match carried {
            CarriedType::Nothing => return,
            CarriedType::Canonical(kind) => {
                let event = match &mut self.adapter {
                    Some(adapter) if row.shape.own_shape().is_some() => {
                        adapter.restore(row, kind, parts, self.dialect.name)
                    }
                    _ => parts.into_canonical_event(kind, self.dialect.name),
                };
                self.observe(&event);
                return self.emit_other(event, sink);
            }
            CarriedType::OwnType => {}
        }
        let is_held_chunk =
            row.kind == EventType::ToolCallChunk && (self.peer.is_auto || self.dialect.has_object_arguments());
        if !self.object_arguments.is_idle() {
            self.object_arguments.end_chunks_before(row.kind, self.dialect.name, sink);
        }
        match row.kind {
            _ if is_held_chunk => {}
            EventType::RunFinished => self.object_arguments.finish(true, self.dialect.name, sink),
            EventType::RunError => self.object_arguments.finish(false, self.dialect.name, sink),
            EventType::MessagesSnapshot => self.object_arguments.close_before_snapshot(self.dialect.name, sink),
            // In most runs, nothing waits.
            _ if self.object_arguments.is_idle() => {}
            _ => self.object_arguments.release_before(arguments_step(row, &parts), self.dialect.name, sink),
        }
        match row.shape {
            EventShape::Own(_) => return self.read_own(row, parts, data, sink),
            _ if row.kind == EventType::RunError => self.finish(sink),
            _ if row.kind == EventType::Custom => return self.read_custom(parts, sink),
            _ => {}
        }
        self.read_shape(row.shape, &mut parts, sink);
        if row.shape == EventShape::MessageList && sink.report().has_excess {
            return;
        }
        self.observe(&parts.event);
        let is_restored = parts.restored_fields.contains(&Field::Delta);
        let mut event = parts.into_event(self.dialect.name);
        if is_held_chunk && !is_restored {
            return self.hold_chunk(event, sink);
        }
        // An agent whose dialect is not known yet may send objects.
        let may_be_object =
            row.shape == EventShape::ObjectPieces || (self.peer.is_auto && row.kind == EventType::ToolCallArgs);
        if may_be_object && !is_restored {
            if let Some(adapter) = &mut self.adapter {
                adapter.read_other(&mut event, sink);
            }
            return self.object_arguments.hold(event, self.dialect.name, sink);
        }
        self.emit_other(event, sink);
    }

    fn read_own(&mut self, row: &'static EventRow, parts: IncomingEvent<'_>, data: &str, sink: &mut impl EventSink) {
        if self.adapter.as_mut().is_some_and(|adapter| adapter.read(row, parts, sink) == Err(UnreadableEvent)) {
            self.emit_other(self.wrap_frame(row.wire, data), sink);
        }
    }

    /// Reads an event that has one canonical counterpart.
    fn read_shape(&mut self, shape: EventShape, parts: &mut IncomingEvent<'_>, sink: &mut impl EventSink) {
        match shape {
            EventShape::MaybeNestedError => run_error::read(parts),
            EventShape::OptionalIds => supply_run_ids(parts),
            EventShape::ObjectPieces if object_arguments::is_object(parts) => {}
            EventShape::ObjectPieces => stringify_value(parts, Field::Delta),
            EventShape::AnyContent => {
                supply_result_id(parts);
                // An agent whose dialect is not known yet may be of AG-UI 1.0.
                let is_parts = || parts.event.get(Field::Content).is_some_and(content_parts::is_ag_ui_parts);
                if !(self.dialect.is_versioned() && is_parts()) {
                    stringify_value(parts, Field::Content);
                }
            }
            EventShape::MessageList => {
                aliases::strip_messages(self.dialect, &mut parts.event, sink.report());
                message::read_snapshot(&mut parts.event, self.peer, sink.report());
            }
            _ => {}
        }
    }

    /// Splits members into the row's, the dialect's others, and canonical ones that the event carries.
    fn split_members<'a>(
        &mut self,
        row: &'static EventRow,
        mut members: Members<'a>,
        report: &mut TranslationReport,
    ) -> (IncomingEvent<'a>, Option<String>) {
        let dialect = self.dialect;
        let mut parts = IncomingEvent::new(row.kind);
        aliases::strip_members(dialect, &mut members, report);
        aliases::read_field_names(row.field_aliases, &mut members);
        self.run_stamps.read(dialect, row.kind, &mut members);
        // Most events have only their row's members, so the list stays as it is.
        if members.iter().all(|(key, _)| matches!(key, MemberKey::Known(field) if row.has_field(*field))) {
            parts.event.members = members;
            self.normalize(&mut parts, &Members::new());
            return (parts, None);
        }
        let location = dialect.carry_location.carry_member().map_or("", |(member, _)| member);
        let mut unwrapped = CarriedMembers::default();
        for (key, value) in members {
            match &key {
                MemberKey::Known(field) if row.has_field(*field) => parts.event.members.push((key, value)),
                _ if carry::is_named(&key, location) => {
                    unwrapped = carry::unwrap_canonical(&value, dialect.carry_location);
                }
                _ => parts.extensions.push((key, value)),
            }
        }
        parts.follows_sent_starts = carry::take(&mut unwrapped.canonical, FOLLOWS_SENT_STARTS).is_some();
        self.normalize(&mut parts, &unwrapped.canonical);
        if let Some(rest) = unwrapped.rest {
            match dialect.carry_location {
                CarryLocation::Metadata => parts.event.set(Field::Metadata, rest),
                CarryLocation::Extra | CarryLocation::Native => {
                    parts.extensions.push((carry::extension_key(location), rest));
                }
            }
        }
        for (key, value) in unwrapped.canonical {
            if let MemberKey::Known(field) = &key {
                parts.restored_fields.push(*field);
            }
            set(&mut parts.event.members, key, value);
        }
        if unwrapped.canonical_type.is_none() {
            restore_absent(&mut parts.event);
        }
        (parts, unwrapped.canonical_type)
    }

    /// Converts members to canonical form, except those in `canonical`.
    fn normalize(&self, parts: &mut IncomingEvent<'_>, canonical: &Members<'_>) {
        carry::stringify_number_ids(&mut parts.event, &mut parts.extensions);
        if self.dialect.has_ag_ui_values {
            // Versioned peers never accept null, so the guard drops it.
            if !self.dialect.is_versioned() {
                aliases::read_nulls(self.dialect, parts);
            }
            value_aliases::read_aliases(self.peer, parts);
            if self.dialect.option_names.contains(&"timestamp") && get(canonical, Field::Timestamp).is_none() {
                aliases::read_time(self.peer, parts);
            }
        }
    }

    fn observe(&mut self, event: &Event<'_>) {
        if let Some(adapter) = &mut self.adapter {
            adapter.observe(event);
        }
    }

    /// Unwraps CUSTOM `ag-ui.<TYPE>`, a canonical event that this dialect cannot express.
    fn read_custom(&mut self, parts: IncomingEvent<'_>, sink: &mut impl EventSink) {
        let name = parts.event.text(Field::Name).unwrap_or_default();
        let kind = name.strip_prefix(super::CANONICAL_PREFIX).and_then(EventType::from_wire);
        let held = parts.event.get(Field::Value).map(|value| json::parse_object(value.as_str()));
        match (kind, held) {
            // Run boundaries always have their own type, so no note may represent one.
            (Some(kind), Some(Ok(object)))
                if !kind.is_run_boundary() && object.kind.as_ref().is_some_and(|own| own.is_str(kind.wire())) =>
            {
                self.read_sent_starts(sink);
                let event = Event { kind, members: object.members, source: None };
                self.observe(&event);
                self.emit_other(event, sink);
            }
            _ if self.peer.error_events.iter().any(|error| *error == name) => {
                drop(name);
                self.emit_other(run_error::read_custom(parts).into_event(self.dialect.name), sink);
            }
            _ => {
                drop(name);
                self.emit_other(parts.into_event(self.dialect.name), sink);
            }
        }
    }

    /// Parses the canonical type in a note, and ignores an invalid one, since notes are external input.
    fn parse_canonical_type(&mut self, note: &str, event: &Event<'_>, report: &mut TranslationReport) -> CarriedType {
        if note.is_empty() {
            let delta = event.get(Field::Delta).filter(|_| event.kind == EventType::TextMessageContent);
            let text = delta.map(|delta| {
                let text = self.adapter.as_mut().and_then(|adapter| adapter.take_added_text(delta));
                text.unwrap_or_else(|| delta.as_borrowed())
            });
            if text.is_none_or(|text| text.is_str("")) {
                return CarriedType::Nothing;
            }
        } else if let Some(kind) = EventType::from_wire(note).filter(|kind| !kind.is_run_boundary()) {
            return CarriedType::Canonical(kind);
        }
        report.count_repair(EventRepair::UnknownType);
        CarriedType::OwnType
    }
}
