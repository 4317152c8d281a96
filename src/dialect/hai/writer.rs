//! The adapter that writes `hai`.
//!
//! For events that the dialect lacks, it writes its own: thinking blocks for reasoning, output blocks for other
//! activities, messages between agents for subagents, and tool calls for interrupts.

mod texts;
mod calls;
mod activities;
mod reasoning;

use super::block_activity::is_opaque_content;
use super::block_writer::BlockWriter;
use super::blocks::{self, REST, STRING};
use super::collaboration::{CollaborationState, CollaborationStep};
use super::kept_messages::KeptMessages;
use super::last_message::{HeldStart, LastMessage};
use super::members::{block, rename};
use super::message_parts::{self, MessageParts};
use super::open_calls::OpenCalls;
use super::shown_activities::ShownActivities;
use super::subagents::SubagentNames;
use super::{placeholder, run_boundary, state_delta};
use crate::dialect::adapter::{DialectAdapter, ReleasedEvent, ReleasedEvents};
use crate::dialect::carry;
use crate::dialect::earlier_messages::EarlierMessages;
use crate::dialect::event_parts::{ABSENT_FIELDS, FOLLOWS_SENT_STARTS, OutgoingEvent};
use crate::dialect::interrupts;
use crate::dialect::memory_limits;
use crate::dialect::row::EventRow;
use crate::dialect::table::{MemberCase, PeerDialect};
use crate::dialect::text_format::TextFormat;
use crate::event::{
    Event, EventLoss, EventType, Field, Json, MemberKey, Members, find_member, get, get_owned, message_id, set,
};

#[derive(Debug)]
pub(super) struct HaiWriter {
    peer: PeerDialect,
    collaborations: CollaborationState,
    block_writer: BlockWriter,
    last_message: LastMessage,
    held_start: Option<HeldStart>,
    message_parts: MessageParts,
    /// whether the next frame starts a message
    is_start_next: bool,
    /// the message that the last frame started, which a reader holds back
    last_start: Option<Json<'static>>,
    shown_activities: ShownActivities,
    kept_messages: KeptMessages,
    open_calls: OpenCalls,
    subagent_names: SubagentNames,
}

impl HaiWriter {
    pub(super) fn boxed(peer: PeerDialect) -> Box<dyn DialectAdapter> {
        // Only a client's text is written here.
        let peer = peer.for_client();
        Box::new(HaiWriter {
            peer,
            collaborations: CollaborationState::default(),
            block_writer: BlockWriter::default(),
            last_message: LastMessage::default(),
            held_start: None,
            message_parts: MessageParts::default(),
            is_start_next: false,
            last_start: None,
            shown_activities: ShownActivities::default(),
            kept_messages: KeptMessages::default(),
            open_calls: OpenCalls::default(),
            subagent_names: SubagentNames::default(),
        })
    }

    fn writes_blocks(&self) -> bool {
        self.peer.text_format == TextFormat::Blocks
    }

    fn split_members<'a>(
        &self,
        kind: EventType,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
    ) -> Option<(&'static EventRow, OutgoingEvent<'a>)> {
        let (_, row) = self.peer.dialect.row_for_kind(kind, self.peer.peer_version)?;
        Some((row, self.peer.dialect.split_members(row, event, canonical_type)))
    }

    fn write_content<'a>(&mut self, row: &'static EventRow, outgoing: OutgoingEvent<'a>) -> ReleasedEvents<'a> {
        if self.writes_blocks() {
            self.block_writer.mark_nonempty(&outgoing);
        }
        ReleasedEvents::from(ReleasedEvent::Complete { row, outgoing })
    }

    fn write_text(&mut self, outgoing: &mut OutgoingEvent<'_>) {
        self.block_writer.texts.mark_text(outgoing);
        self.block_writer.write_content(outgoing, self.peer.text_format);
        if self.writes_blocks() {
            self.block_writer.mark_nonempty(outgoing);
        }
    }

    /// Writes a block that the dialect sent, unless the string that contained it has been written.
    fn write_native_content<'a>(
        &mut self,
        row: &'static EventRow,
        mut outgoing: OutgoingEvent<'a>,
    ) -> ReleasedEvents<'a> {
        if carry::take(&mut outgoing.extensions, REST).is_some() {
            return ReleasedEvents::default();
        }
        if let Some(string) = carry::take(&mut outgoing.extensions, STRING) {
            set(&mut outgoing.members, MemberKey::Known(Field::Delta), string);
        }
        self.write_content(row, outgoing)
    }

    fn write_event<'a>(
        &mut self,
        mut event: Event<'a>,
        canonical_type: Option<&'static str>,
        now_ms: i64,
        released: ReleasedEvents<'a>,
    ) -> ReleasedEvents<'a> {
        match event.kind {
            EventType::TextMessageStart if canonical_type.is_none() => {
                let id = message_id(&event.members);
                // A note on an earlier event, or an earlier part, may have opened the message.
                let is_open = self.block_writer.is_open(&id);
                self.block_writer.texts.start_text(&id, is_open || self.message_parts.is_last_a_part());
                if is_open {
                    return released;
                }
                self.is_start_next = true;
                released.with_event(event, canonical_type)
            }
            EventType::ToolCallStart => {
                self.record_call(&mut event, canonical_type);
                released.with_event(event, canonical_type)
            }
            EventType::RunFinished => released.with_all(self.write_finish(event, canonical_type)),
            kind if kind.is_reasoning() => self.write_reasoning(event, canonical_type, now_ms, released),
            kind if placeholder::carries_event(kind) => released.with_all(self.write_activity(event)),
            _ => released.with_event(event, canonical_type),
        }
    }

    /// Returns true if a reader that saw the last start may take it for a part of the message before.
    fn is_start_reopened(&self) -> bool {
        self.last_start.as_ref().is_some_and(|start| self.block_writer.is_reopened(start))
    }

    /// Forgets the last start if a reader sends it with this event of the same message.
    fn forget_start(&mut self, outgoing: &OutgoingEvent<'_>) {
        let id = get(&outgoing.members, Field::MessageId);
        self.last_start.take_if(|start| outgoing.canonical_type.is_none() && id.is_some_and(|id| id.is_same(start)));
    }

    /// Writes calls for a run's interrupts before the run ends.
    fn write_finish<'a>(&self, mut event: Event<'a>, canonical_type: Option<&'static str>) -> ReleasedEvents<'a> {
        let mut released = ReleasedEvents::default();
        let calls = interrupts::write_calls(&mut event, &self.peer);
        calls.into_iter().for_each(|call| released.push_event(call, Some("")));
        released.with_event(event, canonical_type)
    }
}

/// Replaces a text by its first piece, and carries it whole.
fn set_first_piece(outgoing: &mut OutgoingEvent<'_>, pieces: &[Json<'static>]) {
    let Some(first) = pieces.first() else { return };
    let whole = get_owned(&outgoing.members, Field::Delta).unwrap_or(Json::EMPTY_STRING);
    outgoing.canonical.push((carry::extension_key(blocks::WHOLE), whole));
    set(&mut outgoing.members, MemberKey::Known(Field::Delta), first.clone());
}

impl DialectAdapter for HaiWriter {
    fn record_earlier(&mut self, earlier: EarlierMessages) {
        self.last_message.record_earlier(&earlier);
        self.shown_activities.record_earlier(&earlier);
        self.kept_messages.record_earlier(earlier);
    }

    fn is_unreadable(&self, row: &'static EventRow, members: &Members<'_>) -> bool {
        match CollaborationStep::from_shape(row.shape) {
            Some(step) => self.collaborations.interpret(step, members).is_none(),
            None => row.kind == EventType::TextMessageContent && is_opaque_content(members),
        }
    }

    fn release_before<'a>(&mut self, event: &mut Event<'a>) -> ReleasedEvents<'a> {
        self.last_message.observe(event, self.peer.dialect.name);
        let mut released = ReleasedEvents::default();
        for boundary in message_parts::take_boundaries(event, self.peer.dialect.name) {
            let kind = boundary.kind;
            let is_start = kind == EventType::TextMessageStart;
            if self.block_writer.is_open(&message_id(&boundary.members)) == is_start {
                continue;
            }
            let Some((row, mut outgoing)) = self.split_members(kind, boundary, None) else { continue };
            match kind {
                EventType::TextMessageStart => self.block_writer.start_message(&mut outgoing),
                EventType::TextMessageEnd => self.block_writer.end_message(&mut outgoing),
                _ if carry::take(&mut outgoing.extensions, REST).is_some() => continue,
                _ => match carry::take(&mut outgoing.extensions, STRING) {
                    // A piece of a block's text.
                    Some(string) => set(&mut outgoing.members, MemberKey::Known(Field::Delta), string),
                    None => self.write_text(&mut outgoing),
                },
            }
            released.push(ReleasedEvent::Complete { row, outgoing });
        }
        released
    }

    fn buffer<'a>(
        &mut self,
        event: Event<'a>,
        canonical_type: Option<&'static str>,
        now_ms: i64,
    ) -> ReleasedEvents<'a> {
        let Some(mut event) = self.message_parts.join(event, self.peer.dialect.name) else {
            return ReleasedEvents::default();
        };
        if !self.writes_blocks() {
            return self.write_event(event, canonical_type, now_ms, ReleasedEvents::default());
        }
        let mut released = ReleasedEvents::default();
        self.release_start(&event, &mut released);
        match event.kind {
            EventType::TextMessageStart => {
                self.hold_start(event, canonical_type, now_ms);
                return released;
            }
            EventType::TextMessageContent => return self.write_text_piece(event, canonical_type, released),
            EventType::TextMessageEnd => return self.write_text_end(event, canonical_type, released),
            EventType::ToolCallStart => return self.write_call_start(event, canonical_type, released),
            EventType::ToolCallResult => {
                self.leave_message(&mut released);
                self.last_message.add(event.get(Field::MessageId).unwrap_or(&Json::EMPTY_STRING));
            }
            EventType::MessagesSnapshot => {
                self.leave_message(&mut released);
                self.last_message.record_snapshot(&event);
                self.shown_activities.replace(&event);
                if self.last_message.is_native() {
                    self.kept_messages.forget_earlier();
                }
                let shown = &self.shown_activities;
                self.kept_messages.complete(&mut event, self.peer.dialect.name, |id| shown.content(id));
                return self.write_snapshot(event, released);
            }
            EventType::ToolCallArgs => return self.write_call_arguments(event, canonical_type, released),
            EventType::ToolCallEnd => self.open_calls.end(&event),
            EventType::RunError if !self.last_message.is_native() => self.end_open_messages(&mut released),
            _ => {}
        }
        self.write_event(event, canonical_type, now_ms, released)
    }

    fn write(&mut self, row: &'static EventRow, outgoing: &mut OutgoingEvent<'_>) {
        match row.kind {
            EventType::RunStarted | EventType::RunFinished => run_boundary::write(outgoing),
            EventType::TextMessageStart => self.block_writer.start_message(outgoing),
            EventType::TextMessageContent => {
                // A reader holds back an empty text as well.
                if get(&outgoing.members, Field::Delta).is_some_and(|delta| !delta.is_str("")) {
                    self.forget_start(outgoing);
                }
                self.write_text(outgoing);
            }
            EventType::TextMessageEnd => {
                if !self.is_start_reopened() {
                    self.forget_start(outgoing);
                }
                self.block_writer.end_message(outgoing);
            }
            EventType::StateDelta => state_delta::write(outgoing),
            _ => {}
        }
    }

    /// Spells the members, and marks a frame that a reader would place before the start that it holds back, so that it
    /// does not.
    fn finish_frame(&mut self, row: &'static EventRow, outgoing: &mut OutgoingEvent<'_>) {
        if self.peer.member_case == MemberCase::Snake && row.kind == EventType::TextMessageContent {
            rename(&mut outgoing.extensions, block::BLOCK_ID, block::BLOCK_ID_SNAKE);
        }
        if outgoing.canonical_type == Some("") {
            return;
        }
        let is_reopened = self.is_start_reopened();
        if let Some(start) = self.last_start.take() {
            // A reader restores an event with another type where it stands.
            let sends_start = outgoing.canonical_type.is_some()
                || (row.kind == EventType::RunFinished && !is_reopened)
                || (row.kind == EventType::ToolCallStart
                    && find_member(&outgoing.canonical, ABSENT_FIELDS).is_none()
                    && get(&outgoing.members, Field::ParentMessageId).is_some_and(|parent| parent.is_same(&start)));
            if !sends_start {
                carry::add_note(&mut outgoing.canonical, FOLLOWS_SENT_STARTS);
            }
        }
        if std::mem::take(&mut self.is_start_next) {
            self.last_start = Some(message_id(&outgoing.members));
        }
    }

    fn must_finish_frame(&self) -> bool {
        self.last_start.is_some()
    }

    fn held_bytes(&self) -> usize {
        self.held_start.as_ref().map_or(0, |start| memory_limits::event_cost(&start.event))
    }

    /// Thinking has the time since its start.
    fn measures_time(&self, kind: EventType) -> bool {
        kind.is_reasoning()
    }

    fn bookkeeping_bytes(&self) -> usize {
        self.shown_activities.retained_bytes()
            + self.kept_messages.retained_bytes()
            + self.open_calls.retained_bytes()
            + self.last_message.retained_bytes()
    }

    fn take_losses(&mut self) -> Vec<EventLoss> {
        let mut losses = self.kept_messages.take_losses();
        losses.append(&mut self.open_calls.take_losses());
        losses
    }
}
