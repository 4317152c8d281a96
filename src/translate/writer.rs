//! Writing: a canonical event becomes a frame of the client's dialect.
//!
//! One arm per [`Shape`]; which shape an event has is the dialect table's business.

use super::aliases::{self, RunStamps};
use super::budget::OutputBudget;
use super::buffered_calls::{self, ArgsBuffer, OpenToolCalls};
use super::buffered_messages::{self, BufferResult};
use super::chunk::ChunkUnfolder;
use super::collaboration::CollaborationState;
use super::fallback_events::is_reasoning;
use super::outgoing_shape::{
    event_to_value, flatten_parts, restore_chunk, restore_empty_id, write_as_json, write_boundary,
};
use super::output_blocks::BlockWriter;
use super::reasoning::{self, FoldOutput, SpanFolder, SpanWrapper};
use super::report::{EventLoss, TranslationReport};
use super::run_error;
use super::sequencer::{self, EventSequencer};
use super::subagent::SubagentNames;
use super::{CANONICAL_PREFIX, RunIds, carry, downgrade, json_patch, message, reader};
use crate::codec::json::{self, ObjectWriter};
use crate::codec::{Framing, proto, sse};
use crate::dialect::{CarryLocation, EventRow, EventShape, MemberCase, PeerDialect, PeerVersion, TextFormat};
use crate::event::{Event, EventType, Field, Json, MemberKey, Members, PROTOCOL_VERSION};

/// Notes that mean nothing to some peers of the dialect that has them.
const NOTES_TO_KEEP: &[&str] =
    &[run_error::CUSTOM_NOTE, reader::EMPTY_ID_NOTE, reasoning::NAMELESS_NOTE, reasoning::ROLE_NOTE];

/// Members that no version takes as they were said: they stay where they were carried. The echo of an input needs members that
/// it may not have (measured), and content is a text.
const REJECTED_MEMBERS: &[&str] = &[carry::AS_JSON_NOTE, Field::Input.camel()];

/// Writes one side of a route.
#[derive(Debug)]
pub(super) struct EventWriter {
    pub(super) peer: PeerDialect,
    /// what writes each kind, by its number: the label of its row, looked up once. Streams are many, so it is a small number
    labels: Box<[Option<u16>]>,
    buffering: BufferingMode,
    /// the row of content, where the dialect has output blocks
    pub(super) content_row: Option<&'static EventRow>,
    pub(super) text_writer: BlockWriter,
    pub(super) collaborations: CollaborationState,
    pub(super) subagent_names: SubagentNames,
    chunk_unfolder: ChunkUnfolder,
    span_folder: SpanFolder,
    span_wrapper: SpanWrapper,
    pending_start: buffered_calls::PendingCallStart,
    open_calls: OpenToolCalls,
    args_buffer: ArgsBuffer,
    message_buffer: buffered_messages::MessageBuffer,
    run_stamps: RunStamps,
    sequencer: EventSequencer,
    scratch: String,
    /// how canonical events are framed; every other dialect has SSE alone
    pub(crate) framing: Framing,
    /// whether an event found no room in a frame: nothing is written any more
    pub(crate) is_full: bool,
    /// how much may still leave
    pub(crate) budget: OutputBudget,
    /// numbers the frames, on a route whose clients may come back
    pub(crate) frame_ids: Option<Box<FrameIds>>,
}

/// The ids of frames: a token of the run, and a number that counts them.
#[derive(Debug)]
pub(super) struct FrameIds {
    /// what tells this run's ids from any other's
    pub(crate) token: Box<str>,
    /// the number of the last frame that left; 0 before the first
    pub(crate) last_number: u64,
}

/// An event on its way out, sorted by what the dialect's row says.
pub(super) struct OutgoingEvent<'a> {
    /// members that the dialect says as they are
    pub(crate) members: Members<'a>,
    /// the dialect's own, carried until now
    pub(crate) extensions: Members<'static>,
    /// members that only canonical AG-UI has
    pub(crate) canonical: Members<'a>,
    /// the canonical event that this one stands for, when it is not the row's own
    pub(crate) canonical_type: Option<&'static str>,
}

/// Where frames go, and what else writing touches.
pub(super) struct OutputContext<'o> {
    /// bytes for the client
    pub(crate) out: &'o mut Vec<u8>,
    /// counts
    pub(crate) report: &'o mut TranslationReport,
    /// ms since the epoch, for durations that a dialect wants said
    pub(crate) now_ms: i64,
}

/// What has to wait for later events, or needs others around it, on one side of a route.
#[derive(Clone, Copy, Debug)]
enum BufferingMode {
    /// nothing: every event leaves as it comes
    None,
    /// the start of a call, for its arguments
    CallStart,
    /// text and arguments, until they are whole
    WholeMessage,
    /// a span of thinking, for its message
    FoldSpans,
    /// everything but what is open
    Sequenced,
    /// nothing, but thinking has a span
    WrapSpans,
}

impl BufferingMode {
    fn for_peer(side: PeerDialect) -> Self {
        let has = |shape| side.dialect.row_with_shape(shape).is_some();
        match side.peer_version {
            _ if has(EventShape::StartWithArgs) => BufferingMode::CallStart,
            _ if has(EventShape::EndWithMessage) => BufferingMode::WholeMessage,
            _ if has(EventShape::ThinkingWithoutSpan) => BufferingMode::FoldSpans,
            PeerVersion::Any | PeerVersion::V0_1 | PeerVersion::V0_0_35 => BufferingMode::Sequenced,
            PeerVersion::V0_0_39 | PeerVersion::V0_0_42 => BufferingMode::WrapSpans,
            _ => BufferingMode::None,
        }
    }
}

/// The label of the row that writes `kind` for this side.
fn row_label(side: PeerDialect, kind: EventType) -> Option<u16> {
    let (label, _) = side.dialect.row_for_kind(kind, side.peer_version)?;
    u16::try_from(label).ok()
}

impl EventWriter {
    /// A writer for `side`, of a run whose ids may be known before it says them.
    pub(crate) fn new(peer: PeerDialect, ids: Option<&RunIds>) -> Self {
        let content = peer.dialect.row_for_kind(EventType::TextMessageContent, peer.peer_version).map(|(_, row)| row);
        EventWriter {
            peer,
            labels: EventType::ALL.iter().map(|kind| row_label(peer, *kind)).collect(),
            buffering: BufferingMode::for_peer(peer),
            content_row: content.filter(|row| row.shape == EventShape::OutputBlock),
            text_writer: BlockWriter::default(),
            collaborations: CollaborationState::default(),
            subagent_names: SubagentNames::default(),
            chunk_unfolder: ChunkUnfolder::default(),
            span_folder: SpanFolder::default(),
            span_wrapper: SpanWrapper::default(),
            pending_start: buffered_calls::PendingCallStart::default(),
            open_calls: OpenToolCalls::default(),
            args_buffer: ArgsBuffer::default(),
            message_buffer: buffered_messages::MessageBuffer::default(),
            run_stamps: RunStamps::from_ids(peer.dialect, ids),
            sequencer: EventSequencer::default(),
            scratch: String::new(),
            framing: Framing::Sse,
            is_full: false,
            budget: OutputBudget::default(),
            frame_ids: None,
        }
    }

    /// What waits, and what is remembered of calls that have no result yet, in bytes.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.open_calls.retained_bytes()
            + self.args_buffer.buffered_bytes()
            + self.message_buffer.buffered_bytes()
            + self.sequencer.buffered_bytes()
    }

    /// Writes one event.
    pub(crate) fn write_event(&mut self, event: Event<'_>, to: &mut OutputContext<'_>) {
        if self.peer.dialect.carry_location == CarryLocation::Native {
            return self.write_canonical(event, to);
        }
        if let Some((closer, mark)) = self.chunk_unfolder.close_before(&event) {
            self.write_mapped(closer, mark, to);
        }
        self.write_interrupt_calls(&event, to);
        if !self.must_unfold(event.kind) {
            return self.write_mapped(event, None, to);
        }
        let (opener, (event, mark)) = self.chunk_unfolder.unfold(event);
        if let Some((opener, mark)) = opener {
            self.write_mapped(opener, mark, to);
        }
        self.write_mapped(event, mark, to);
    }

    /// Whether a chunk has to become start, content and end.
    fn must_unfold(&self, kind: EventType) -> bool {
        match self.row_of(kind) {
            Some((_, row)) => row.shape == EventShape::ExpandedChunk,
            // Where text is written as strings there is no thinking block that a chunk could unfold to.
            None => kind != EventType::ReasoningMessageChunk || self.peer.text_format == TextFormat::Blocks,
        }
    }

    pub(super) fn row_of(&self, kind: EventType) -> Option<(usize, &'static EventRow)> {
        let label = usize::from(self.labels[kind as usize]?);
        Some((label, self.peer.dialect.row_at_label(label, kind)))
    }

    fn write_canonical(&mut self, mut event: Event<'_>, to: &mut OutputContext<'_>) {
        if self.is_full {
            return;
        }
        let (before, label) = (to.out.len(), self.peer.dialect.label_index(event.kind));
        // "a proxy that forwards a run untranslated declares what the original producer spoke, and one that translates
        // declares what it emits" [spec versioning]
        if event.kind == EventType::RunStarted && to.report.agent != to.report.client {
            event.set(Field::ProtocolVersion, Json::string(PROTOCOL_VERSION));
        }
        match event.source {
            _ if self.framing == Framing::Proto => self.write_protobuf(&event, to),
            Some(source) => {
                self.write_frame_id(to.out);
                sse::write_frame(to.out, source);
            }
            None => self.write_frame(to.out, event.kind.wire(), |object| {
                event.members.iter().for_each(|member| object.copy_member(member, false));
            }),
        }
        self.commit_frame((label, event.kind), before, to);
    }

    /// Counts the frame that was written from `before` on, or takes it back where the run may not get so large.
    fn commit_frame(&mut self, (label, kind): (usize, EventType), before: usize, to: &mut OutputContext<'_>) {
        if self.budget.admit(kind, to.out.len() - before) {
            to.report.events_written[label] += 1;
            if let Some(numbers) = &mut self.frame_ids {
                numbers.last_number += 1;
            }
        } else {
            to.out.truncate(before);
        }
    }

    fn write_protobuf(&mut self, event: &Event<'_>, to: &mut OutputContext<'_>) {
        match proto::encode_frame(to.out, event.kind, &event.members) {
            Ok(proto::WireFidelity::Exact | proto::WireFidelity::Carried) => {}
            Ok(proto::WireFidelity::Lossy) => to.report.count_loss(EventLoss::Rounded),
            Err(proto::EventTooLarge) => self.is_full = true,
        }
    }

    fn write_frame(&mut self, out: &mut Vec<u8>, wire: &str, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
        self.scratch.clear();
        let mut object = ObjectWriter::begin(&mut self.scratch);
        object.string_member(json::TYPE, wire);
        fill(&mut object);
        object.end();
        self.write_data(out, wire, &self.scratch);
    }

    /// One frame, which also says its type where the dialect wants that: unless it fits on no line, but it stands in the data.
    fn write_data(&self, out: &mut Vec<u8>, wire: &str, data: &str) {
        self.write_frame_id(out);
        if !self.peer.dialect.has_event_line || sse::write_frame_with(out, None, Some(wire), data).is_err() {
            sse::write_frame(out, data);
        }
    }

    /// The id of the frame that comes next, where frames have one.
    fn write_frame_id(&self, out: &mut Vec<u8>) {
        if let Some(numbers) = &self.frame_ids {
            sse::write_id(out, &numbers.token, numbers.last_number + 1);
        }
    }

    pub(super) fn write_mapped(
        &mut self,
        mut event: Event<'_>,
        canonical_type: Option<&'static str>,
        to: &mut OutputContext<'_>,
    ) {
        if event.kind == EventType::Custom && self.restore_custom(&event, to) {
            return;
        }
        // What a hop speaks is said by whoever speaks on it.
        if event.kind == EventType::RunStarted && self.peer.dialect.carry_location == CarryLocation::Metadata {
            event.remove(Field::ProtocolVersion);
        }
        match self.buffering {
            BufferingMode::None => self.write_by_row(event, canonical_type, to),
            BufferingMode::CallStart => {
                let (waited, now) = self.pending_start.push(event, self.peer.dialect.name);
                waited.into_iter().for_each(|start| self.write_by_row(start, None, to));
                now.into_iter().for_each(|event| self.write_by_row(event, canonical_type, to));
            }
            BufferingMode::WholeMessage => self.write_buffered(event, canonical_type, to),
            BufferingMode::FoldSpans => self.write_folded(event, canonical_type, to),
            BufferingMode::Sequenced => self.write_sequenced(event, canonical_type, to),
            BufferingMode::WrapSpans => self.write_in_span(event, canonical_type, to),
        }
    }

    /// Thinking without ids is only taken in spans.
    fn write_in_span(&mut self, event: Event<'_>, canonical_type: Option<&'static str>, to: &mut OutputContext<'_>) {
        if !self.span_wrapper.admits(&event, self.peer) {
            return self.write_unsupported(event, canonical_type, to);
        }
        let (before, after) = self.span_wrapper.wrap_message(&event, self.peer);
        before.into_iter().for_each(|made| self.write_by_row(made, Some(""), to));
        self.write_by_row(event, canonical_type, to);
        after.into_iter().for_each(|made| self.write_by_row(made, Some(""), to));
    }

    /// One thing at a time.
    fn write_sequenced(&mut self, event: Event<'_>, canonical_type: Option<&'static str>, to: &mut OutputContext<'_>) {
        let mut sequence = std::mem::take(&mut self.sequencer);
        sequence.push(event, &mut |leaves| match leaves {
            sequencer::SequencerOutput::AsIs(event) => self.write_in_span(event, canonical_type, to),
            sequencer::SequencerOutput::Synthetic(event) => self.write_by_row(event, Some(""), to),
            sequencer::SequencerOutput::AsCustom(event) => self.write_as_custom(event, to),
        });
        self.sequencer = sequence;
    }

    /// Text and arguments wait until they are whole.
    fn write_buffered(&mut self, event: Event<'_>, canonical_type: Option<&'static str>, to: &mut OutputContext<'_>) {
        if event.kind.is_terminal() {
            let rest = [self.message_buffer.drain(), self.args_buffer.drain()].concat();
            rest.into_iter().for_each(|whole| self.write_by_row(whole, None, to));
        }
        let event = match self.message_buffer.buffer_event(event, canonical_type) {
            BufferResult::Buffered => return,
            BufferResult::Complete(whole) => return self.write_by_row(whole, None, to),
            BufferResult::PassThrough(event) => event,
        };
        if event.kind == EventType::ToolCallArgs {
            return self.args_buffer.push(buffered_calls::call_id(&event), restore_chunk(event, canonical_type));
        }
        // A result may come before the end, and no result before the arguments.
        if matches!(event.kind, EventType::ToolCallEnd | EventType::ToolCallResult)
            && let Some(whole) = self.args_buffer.finish(&buffered_calls::call_id(&event))
        {
            self.write_by_row(whole, None, to);
        }
        self.write_by_row(event, canonical_type, to);
    }

    /// A span of thinking is folded into its message.
    fn write_folded(&mut self, event: Event<'_>, canonical_type: Option<&'static str>, to: &mut OutputContext<'_>) {
        let mut fold = std::mem::take(&mut self.span_folder);
        let mut out = |leaves: FoldOutput<'_>| match leaves {
            FoldOutput::Native(event) => self.write_by_row(event, None, to),
            FoldOutput::CanonicalOnly(event) => {
                let stands_for = event.kind.wire();
                self.write_by_row(event, Some(stands_for), to);
            }
            FoldOutput::AsCustom(event) => self.write_as_custom(event, to),
        };
        // What a chunk was unfolded to has no span.
        if canonical_type.is_some() {
            fold.flush(&mut out);
            self.write_by_row(event, canonical_type, to);
        } else {
            fold.push(event, &mut out);
        }
        self.span_folder = fold;
    }

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
            (Some(content), None) if is_reasoning(event.kind) => {
                self.write_reasoning(content, event, canonical_type, to)
            }
            (_, None) if EventWriter::has_fallback(event.kind) => self.write_fallback(event, to),
            (_, None) => self.write_as_custom(event, to),
        }
    }

    /// CUSTOM `<dialect>.<TYPE>` holds an event of this very dialect: it leaves as what it was.
    fn restore_custom(&mut self, event: &Event<'_>, to: &mut OutputContext<'_>) -> bool {
        let dialect = self.peer.dialect;
        let (Some(name), Some(value)) = (event.text(Field::Name), event.get(Field::Value)) else {
            return false;
        };
        let Some(wire) = name.strip_prefix(dialect.name).and_then(|rest| rest.strip_prefix('.')) else {
            return false;
        };
        // Only what reading wraps is unwrapped; anything else would pass the run guard by.
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
            EventShape::ExplicitRole if aliases::was_null(&outgoing.extensions, Field::Role) => {}
            EventShape::ExplicitRole => downgrade::write_role(self.peer.peer_version, row.kind, &mut outgoing),
            EventShape::VersionedOutcome => downgrade::downgrade_outcome(&mut outgoing),
            EventShape::ThinkingWithoutIds => reasoning::remove_generated_ids(&mut outgoing),
            EventShape::ThinkingWithoutSpan => {
                reasoning::remove_generated_ids(&mut outgoing);
                reasoning::write_reasoning_role(
                    self.peer.dialect,
                    row.kind,
                    &mut outgoing.members,
                    &mut outgoing.extensions,
                );
            }
            EventShape::StartWithArgs => buffered_calls::remove_start_note(&mut outgoing),
            EventShape::EndWithMessage => buffered_messages::write(&mut outgoing),
            EventShape::CallStart => self.open_calls.write_start(&mut outgoing),
            EventShape::CallArgs => {
                self.open_calls.write_repeats(&mut outgoing);
                buffered_calls::write_args(&mut outgoing);
            }
            EventShape::CallEnd => self.open_calls.write_repeats(&mut outgoing),
            EventShape::CallResult => {
                flatten_parts(&mut outgoing);
                write_as_json(&mut outgoing, Field::Content);
                self.open_calls.write_result(&mut outgoing);
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
                buffered_calls::remove_start_note(&mut outgoing);
                write_as_json(&mut outgoing, Field::Delta);
            }
            EventShape::AnyContent => {
                restore_empty_id(&mut outgoing);
                // First the parts: what is a JSON value again afterwards is the dialect's own.
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

    /// Says what is canonical as the dialect says it.
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
        // Any other event may have a member of that name, which nobody minds.
        if matches!(row.kind, EventType::RunStarted | EventType::ToolCallResult) && self.peer.dialect.is_versioned() {
            carry::keep_notes(self.peer.dialect.name, REJECTED_MEMBERS, &mut outgoing.extensions);
        }
    }

    /// Sorts the members of an event by what `row` says.
    pub(super) fn split_members<'a>(
        &self,
        row: &'static EventRow,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
    ) -> OutgoingEvent<'a> {
        // Most events say nothing that the row does not: the list stays as it is.
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
                        // What the row calls one of its members by this name cannot stand beside it.
                        key => row.field_aliases.iter().any(|(_, name)| carry::is_named(key, name)),
                    };
                    let splices = |key: &MemberKey<'_>| !says(key);
                    let (own, rest) = carry::unpack(value, self.peer.dialect.name, splices);
                    said.extensions.extend(own);
                    let rest = rest.map(|rest| (MemberKey::Known(Field::Metadata), rest));
                    match self.peer.dialect.carry_location {
                        CarryLocation::Metadata => {
                            said.extensions.extend(rest.map(|(key, rest)| (key, rest.into_owned())))
                        }
                        CarryLocation::Extra | CarryLocation::Native => said.canonical.extend(rest),
                    }
                }
                _ => said.canonical.push((key, value)),
            }
        }
        said
    }

    /// An event without a word here: CUSTOM `ag-ui.<TYPE>` with the whole event as value.
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

    pub(super) fn write_content(
        &mut self,
        content: &'static EventRow,
        outgoing: OutgoingEvent<'_>,
        to: &mut OutputContext<'_>,
    ) {
        let label = self
            .peer
            .dialect
            .row_for_wire(content.wire)
            .map_or_else(|| self.peer.dialect.other_label_index(), |(label, _)| label);
        self.write_outgoing(label, content, outgoing, to);
    }
}
