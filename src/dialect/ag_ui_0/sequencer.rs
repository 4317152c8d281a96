//! Sequences events for peers of AG-UI 0.0.35, which reject the run if any event except RAW interrupts an open message
//! or call (measured; `specs/ag-ui-1.0.md` §3.6).
//!
//! ```text
//!   text   open ── anything else ──▶ END* ── … ── its next piece ──▶ START* of `<id>:2`, piece, under that id from here on
//!                                               └─ its end ──▶ whole, as CUSTOM: for the peer it has ended
//!          START ── anything but its piece or end ──▶ START whole, as CUSTOM ── … ── its first piece ──▶ START*, piece
//!   call   START, pieces wait for the end; anything else ──▶ what waits leaves whole, as CUSTOM, and START*, pieces* at the end
//!          END while a call that started before has none ──▶ waits for that, and leaves as CUSTOM too
//!          result before the END ──▶ START*, pieces*, }*, END*, result ── … ── its rest and END ──▶ whole, as CUSTOM
//! ```
//! So the peer gets calls in the order in which they started, as a message lists them. A result needs its call before it.
//! A snapshot leaves whole as CUSTOM, and without the calls that wait.
//!
//! Empty deltas are sent as RAW. Events with a star have no canonical counterpart, so reading restores the original
//! order. For the peer, a call ends only when its arguments are complete, because the peer might execute it. A closed
//! id is not reused: some versions would show an empty message, others two messages with the same id (measured).

use super::downgrade;
use crate::codec::json;
use crate::dialect::event_shapes::{LAST_BRACE, lacks_last_brace};
use crate::dialect::memory_limits;
use crate::event::{Event, EventType, Field, IdMap, Json, MemberKey, Members, get, get_owned, remove, set};

#[derive(Debug, Default)]
pub(super) struct EventSequencer {
    open_message: Option<SequencedMessage>,
    /// the start of a message, until its next event shows that the peer gets text before anything else
    unsent_start: Option<Event<'static>>,
    /// messages ended early because of another event
    paused_messages: IdMap<SequencedMessage>,
    pending_calls: IdMap<SequencedCall>,
    /// the call whose last events were not flushed: any other event flushes them, so it is the only one
    unflushed_call: Option<Json<'static>>,
    /// calls ended early because of their result
    ended_calls: IdMap<EarlyEnd>,
    /// number of pieces of arguments that came after the end of their call, and go nowhere
    late_pieces: usize,
    buffered_bytes: usize,
}

#[derive(Debug)]
struct SequencedMessage {
    id: Json<'static>,
    /// the start event last sent to the peer, or the one to send
    start: Event<'static>,
    /// number of starts that the peer got
    start_count: usize,
}

#[derive(Debug, Default)]
struct SequencedCall {
    events: Vec<Event<'static>>,
    flushed_count: usize,
    /// whether its end is among the events, since an earlier call has none
    has_ended: bool,
}

/// The end of a call that the peer got before the agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EarlyEnd {
    AsSent,
    /// behind a brace that the arguments lacked
    WithBrace,
}

pub(super) enum SequencerOutput<'a> {
    AsIs(Event<'a>),
    /// added only for the peer, without a canonical counterpart
    Synthetic(Event<'static>),
    AsCustom(Event<'static>),
}

const fn is_call(kind: EventType) -> bool {
    matches!(kind, EventType::ToolCallStart | EventType::ToolCallArgs | EventType::ToolCallEnd)
}

const fn is_text(kind: EventType) -> bool {
    matches!(kind, EventType::TextMessageStart | EventType::TextMessageContent | EventType::TextMessageEnd)
}

impl EventSequencer {
    pub(crate) fn push<'a>(&mut self, event: Event<'a>, out: &mut Vec<SequencerOutput<'a>>) {
        self.send_start(&event, out);
        if event.kind == EventType::Raw || downgrade::is_empty_content(&event) {
            self.flush_calls(out);
            return out.push(SequencerOutput::AsIs(event));
        }
        if is_call(event.kind) {
            return self.push_call(event, out);
        }
        self.flush_calls(out);
        if is_text(event.kind) {
            return self.push_message(event, out);
        }
        self.pause_message(out);
        match event.kind {
            EventType::ToolCallResult => {
                self.release_before_result(&event.get_or_empty(Field::ToolCallId), out);
            }
            EventType::RunError => {
                let ids: Vec<_> = self.pending_calls.iter().map(|(id, _)| id.clone()).collect();
                for id in &ids {
                    self.release_ended(id, out);
                }
            }
            EventType::MessagesSnapshot => {
                if let Some(messages) = self.remove_pending_calls(&event) {
                    out.push(SequencerOutput::AsCustom(event.into_owned()));
                    let made = Event::new(EventType::MessagesSnapshot).with(Field::Messages, messages);
                    return out.push(SequencerOutput::Synthetic(made));
                }
            }
            _ => {}
        }
        out.push(SequencerOutput::AsIs(event));
    }

    /// Returns a snapshot's messages without the calls that wait for their end, since the peer gets those whole then;
    /// `None` if there are none. A call with its result in the list is complete.
    fn remove_pending_calls(&self, snapshot: &Event<'_>) -> Option<Json<'static>> {
        let list = snapshot.get(Field::Messages).filter(|_| !self.pending_calls.is_empty())?;
        let list = json::parse_elements(list)?;
        let messages: Vec<Members<'_>> = list.iter().map(json::parse_message).collect::<Option<_>>()?;
        let answered: IdMap<()> =
            messages.iter().filter_map(|message| Some((get_owned(message, Field::ToolCallId)?, ()))).collect();
        let waits = |call: &Json<'_>| {
            let id = json::parse_member(call, Field::Id.camel());
            id.is_some_and(|id| self.pending_calls.contains(&id) && !answered.contains(&id))
        };
        let mut is_changed = false;
        let mut left = Vec::new();
        for mut message in messages {
            let calls = get(&message, Field::ToolCalls).and_then(json::parse_elements).unwrap_or_default();
            let others: Vec<Json<'static>> =
                calls.iter().filter(|call| !waits(call)).cloned().map(Json::into_owned).collect();
            if others.len() < calls.len() {
                is_changed = true;
                match others.is_empty() {
                    true => drop(remove(&mut message, Field::ToolCalls)),
                    false => set(&mut message, MemberKey::Known(Field::ToolCalls), json::to_array(&others)),
                }
                if others.is_empty() && get(&message, Field::Content).is_none_or(|content| content.is_str("")) {
                    continue;
                }
            }
            left.push(json::to_object(&message));
        }
        is_changed.then(|| json::to_array(&left))
    }

    fn push_message<'a>(&mut self, event: Event<'a>, out: &mut Vec<SequencerOutput<'a>>) {
        let id = event.get_or_empty(Field::MessageId);
        if event.kind == EventType::TextMessageStart {
            self.pause_message(out);
            self.unsent_start = Some(event.into_owned());
            return;
        }
        if self.open_message.as_ref().is_none_or(|open| !open.id.is_same(&id)) {
            self.pause_message(out);
            if let Some(text) = self.paused_messages.remove(&id) {
                self.buffered_bytes -= memory_limits::event_cost(&text.start);
                // Restarting it would show an empty message.
                if event.kind == EventType::TextMessageEnd {
                    return out.push(SequencerOutput::AsCustom(event.into_owned()));
                }
                let text = text.reopen();
                out.push(SequencerOutput::Synthetic(text.start.clone()));
                self.open_message = Some(text);
            }
        }
        let ends = event.kind == EventType::TextMessageEnd;
        out.push(SequencerOutput::AsIs(match &self.open_message {
            Some(open) => open.with_current_id(event),
            None => event,
        }));
        if ends {
            self.open_message = None;
        }
    }

    /// Sends a start that waits, or carries it if another event would leave its message empty.
    fn send_start<'a>(&mut self, next: &Event<'_>, out: &mut Vec<SequencerOutput<'a>>) {
        let Some(start) = self.unsent_start.take() else { return };
        let id = start.get_or_empty(Field::MessageId);
        let mut message = SequencedMessage { id: id.clone(), start: make_start(&start), start_count: 1 };
        let is_own = is_text(next.kind) && next.kind != EventType::TextMessageStart;
        if next.kind == EventType::Raw || (is_own && next.get_or_empty(Field::MessageId).is_same(&id)) {
            self.open_message = Some(message);
            return out.push(SequencerOutput::AsIs(start));
        }
        message.start_count = 0;
        self.add_paused(message);
        out.push(SequencerOutput::AsCustom(start));
    }

    fn add_paused(&mut self, message: SequencedMessage) {
        self.buffered_bytes += memory_limits::event_cost(&message.start);
        if let Some(before) = self.paused_messages.insert(message.id.clone(), message) {
            self.buffered_bytes -= memory_limits::event_cost(&before.start);
        }
    }

    fn pause_message<'a>(&mut self, out: &mut Vec<SequencerOutput<'a>>) {
        if let Some(text) = self.open_message.take() {
            let mut end = Event::new(EventType::TextMessageEnd);
            if let Some(id) = text.start.get(Field::MessageId) {
                end.set(Field::MessageId, id.clone());
            }
            out.push(SequencerOutput::Synthetic(end));
            self.add_paused(text);
        }
    }

    fn push_call<'a>(&mut self, event: Event<'a>, out: &mut Vec<SequencerOutput<'a>>) {
        let id = event.get_or_empty(Field::ToolCallId);
        if let Some(end) = self.ended_calls.get(&id).copied() {
            self.flush_calls(out);
            // The event leaves as CUSTOM, which would interrupt the text.
            self.pause_message(out);
            if event.kind != EventType::ToolCallArgs {
                self.ended_calls.remove(&id);
            } else if !end.includes(&event) {
                self.late_pieces += 1;
            }
            if event.kind != EventType::ToolCallStart {
                return out.push(SequencerOutput::AsCustom(event.into_owned()));
            }
        }
        // The pending events of another call arrived first.
        if self.unflushed_call.as_ref().is_some_and(|unflushed| !unflushed.is_same(&id)) {
            self.flush_calls(out);
        }
        if event.kind != EventType::ToolCallEnd {
            return self.push_pending(id, event);
        }
        let first = self.pending_calls.iter().next();
        if first.is_some_and(|(first, _)| !first.is_same(&id)) && self.pending_calls.contains(&id) {
            return self.push_pending(id, event);
        }
        let Some(call) = self.pending_calls.remove(&id) else { return self.push_pending(id, event) };
        self.unflushed_call = None;
        self.pause_message(out);
        self.release_call(call, out);
        out.push(SequencerOutput::AsIs(event));
        self.release_first(out);
    }

    /// Releases the calls that have ended, up to the first that has not.
    fn release_first<'a>(&mut self, out: &mut Vec<SequencerOutput<'a>>) {
        loop {
            let next = self.pending_calls.iter().next().map(|(id, _)| id.clone());
            if !next.is_some_and(|next| self.release_ended(&next, out)) {
                break;
            }
        }
    }

    /// Releases the call of a result. One that is open ends for the peer.
    fn release_before_result<'a>(&mut self, id: &Json<'static>, out: &mut Vec<SequencerOutput<'a>>) {
        if self.release_ended(id, out) {
            return;
        }
        let Some(call) = self.pending_calls.remove(id) else { return };
        let arguments: String = call.events.iter().filter_map(|event| event.text(Field::Delta)).collect();
        self.release_call(call, out);
        let own = |kind| Event::new(kind).with(Field::ToolCallId, id.clone());
        let mut early_end = EarlyEnd::AsSent;
        if lacks_last_brace(&arguments) {
            let brace = own(EventType::ToolCallArgs).with(Field::Delta, Json::string(LAST_BRACE));
            out.push(SequencerOutput::Synthetic(brace));
            early_end = EarlyEnd::WithBrace;
        }
        out.push(SequencerOutput::Synthetic(own(EventType::ToolCallEnd)));
        self.ended_calls.insert(id.clone(), early_end);
        self.release_first(out);
    }

    /// Releases a call if it has ended; returns true if it had.
    fn release_ended<'a>(&mut self, id: &Json<'_>, out: &mut Vec<SequencerOutput<'a>>) -> bool {
        let has_ended = self.pending_calls.get(id).is_some_and(|call| call.has_ended);
        if let Some(call) = has_ended.then(|| self.pending_calls.remove(id)).flatten() {
            self.release_call(call, out);
        }
        has_ended
    }

    fn release_call<'a>(&mut self, call: SequencedCall, out: &mut Vec<SequencerOutput<'a>>) {
        let SequencedCall { events, flushed_count, .. } = call;
        self.buffered_bytes -= events.iter().map(memory_limits::event_cost).sum::<usize>();
        if flushed_count > 0 {
            events[flushed_count..].iter().for_each(|rest| out.push(SequencerOutput::AsCustom(rest.clone())));
            events.into_iter().for_each(|made| out.push(SequencerOutput::Synthetic(made)));
        } else {
            events.into_iter().for_each(|pending| out.push(SequencerOutput::AsIs(pending)));
        }
    }

    fn push_pending(&mut self, id: Json<'static>, event: Event<'_>) {
        if !self.pending_calls.contains(&id) {
            self.pending_calls.insert(id.clone(), SequencedCall::default());
        }
        if let Some(call) = self.pending_calls.get_mut(&id) {
            self.buffered_bytes += memory_limits::event_cost(&event);
            call.has_ended = event.kind == EventType::ToolCallEnd;
            call.events.push(event.into_owned());
        }
        self.unflushed_call = Some(id);
    }

    /// Forgets the calls that wait for their end; returns their number. The peer has them only as CUSTOM.
    pub(crate) fn drop_pending_calls(&mut self) -> usize {
        let dropped = std::mem::take(&mut self.pending_calls);
        self.unflushed_call = None;
        let events = dropped.iter().flat_map(|(_, call)| &call.events);
        self.buffered_bytes -= events.map(memory_limits::event_cost).sum::<usize>();
        dropped.len()
    }

    /// Returns the number of late pieces, which the peer has only as CUSTOM, and resets it.
    pub(crate) fn take_late_pieces(&mut self) -> usize {
        std::mem::take(&mut self.late_pieces)
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    fn flush_calls<'a>(&mut self, out: &mut Vec<SequencerOutput<'a>>) {
        let Some(id) = self.unflushed_call.take() else { return };
        self.pause_message(out);
        let Some(call) = self.pending_calls.get_mut(&id) else { return };
        call.events[call.flushed_count..].iter().for_each(|event| out.push(SequencerOutput::AsCustom(event.clone())));
        call.flushed_count = call.events.len();
    }
}

impl EarlyEnd {
    /// Returns true if the peer has this piece of arguments already, or if it adds nothing.
    fn includes(self, piece: &Event<'_>) -> bool {
        let delta = piece.text(Field::Delta).unwrap_or_default();
        let text = delta.trim();
        text.is_empty() || (self == EarlyEnd::WithBrace && text == LAST_BRACE)
    }
}

impl SequencedMessage {
    fn reopen(mut self) -> Self {
        self.start_count += 1;
        if self.start_count > 1 {
            self.start.set(Field::MessageId, self.id.with_suffix(&format!(":{}", self.start_count)));
        }
        self
    }

    /// Replaces the agent's message id with the one sent to the peer, and carries the original.
    fn with_current_id<'a>(&self, mut piece: Event<'a>) -> Event<'a> {
        if self.start_count > 1
            && let Some(id) = self.start.get(Field::MessageId)
        {
            piece.set(Field::MessageId, id.clone());
            piece.members.push((MemberKey::Other(Field::MessageId.camel().into()), self.id.clone()));
        }
        piece
    }
}

fn make_start(event: &Event<'_>) -> Event<'static> {
    let mut start = Event::new(EventType::TextMessageStart);
    for field in [Field::MessageId, Field::Role] {
        if let Some(value) = event.get(field) {
            start.set(field, value.clone().into_owned());
        }
    }
    start
}
