//! The recap of a run: the frames that a late client needs before the run's next ones.
//!
//! ```text
//!   frames 1 … n as sent to the client ─▶ fold ─▶ written ─▶ frames n+1 … unchanged
//!
//!   written   RUN_STARTED  verbatim, or supplied if the run failed before it
//!             MESSAGES_SNAPSHOT  the input's messages, and the run's finished ones               (`messages`)
//!             STATE_SNAPSHOT  the input's state, or the run's last one, with the changes since   (`state`)
//!             CUSTOM, RAW, steps, subagents …  which no snapshot contains, in their order        (`verbatim`)
//!             START and the content so far  of all open items, and of calls without a result     (`open_items`)
//!             the terminal event  verbatim
//! ```
//! The recap is built from the frames sent, not from canonical events: other dialects' messages differ from AG-UI's (a
//! HAI client has blocks, a client before 1.0 has split messages). Frames are repeated verbatim, except that pieces of
//! one text are joined.
//!
//! The snapshot excludes open items, because a client appends to a message that is opened again (`specs/ag-ui-1.0.md`
//! §3.3); if a closed message follows, the open one keeps its position. A call without a result is repeated as events
//! even after its end: a client treats a call as pending once it received the start, and runs a tool when its call
//! ends.
//!
//! A dialect with whole messages (`OwnShape::is_whole_message`) receives all of them again, because a message list
//! cannot express everything in them.

mod recap_frame;
mod recap_message;
mod recap_state;
mod recap_item;
mod linked_messages;
mod message_classes;
mod message_list;
mod open_items;

use super::RunIds;
use super::aliases::RunStamps;
use crate::codec::json;
use crate::codec::sse::{self, SseDecoder, SseLimits, SseStep};
use crate::dialect::{EventRow, MemberCase, PeerDialect, PeerVersion};
use crate::event::heap_size::allocation_size;
use crate::event::lane::{ChunkLanes, ChunkStream, ChunkStreamKind};
use crate::event::{Event, EventType, Field, Json, MemberKey, Members, PROTOCOL_VERSION};
use message_list::{ListSnapshot, MessageList};
use open_items::RecapItems;
use recap_frame::{RecapFrame, frames_size, push_merged};
use recap_item::{RecapItem, item_of};
use recap_state::RecapState;

/// The state of a run, folded from the frames sent to its client.
///
/// ```
/// use diglot::{dialect::{self, PeerDialect}, translate::{RunIds, recap::{Recap, RecapInput}}};
///
/// let client = PeerDialect::new(dialect::find_by_name("ag-ui").expect("a dialect"));
/// let messages = Some(r#"[{"id":"u","role":"user","content":"hi"}]"#.into());
/// let mut recap = Recap::new(client, &RunIds::new("t", "r"), RecapInput { messages, state: None });
/// recap.push(b"id: k-1\ndata: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n");
/// let mut out = Vec::new();
/// recap.write(0, Some("k-1"), &mut out);
/// assert!(String::from_utf8_lossy(&out).contains(r#""messages":[{"id":"u","role":"user","content":"hi"}]"#));
/// ```
#[derive(Clone, Debug)]
pub struct Recap {
    client: PeerDialect,
    run_stamps: RunStamps,
    /// for a run that fails before its start
    ids: Option<RunIds>,
    /// whether the dialect sends whole messages, so that no snapshot is needed
    whole_messages: bool,
    start: Option<RecapFrame>,
    messages: MessageList,
    state: RecapState,
    verbatim: Vec<RecapFrame>,
    open_items: RecapItems,
    lanes: ChunkLanes,
    terminal: Option<RecapFrame>,
}

/// The parts of a run's input that its client holds from the beginning.
#[derive(Clone, Debug, Default)]
pub struct RecapInput {
    /// the canonical messages, a JSON array
    pub messages: Option<Box<str>>,
    /// any JSON value
    pub state: Option<Box<str>>,
}

impl Recap {
    /// Creates the recap of a run that has not begun.
    #[must_use]
    pub fn new(client: PeerDialect, ids: &RunIds, input: RecapInput) -> Self {
        let RecapInput { messages, state } = input;
        Recap {
            client,
            run_stamps: RunStamps::from_ids(client.dialect, Some(ids)),
            ids: Some(ids.clone()),
            whole_messages: client.dialect.has_whole_messages(),
            start: None,
            messages: MessageList::from_input(client, messages),
            state: RecapState::from_input(client, state),
            verbatim: Vec::new(),
            open_items: RecapItems::default(),
            lanes: ChunkLanes::default(),
            terminal: None,
        }
    }

    /// Folds complete SSE frames as sent to the client, ids and comments included, in order.
    pub fn push(&mut self, frames: &[u8]) {
        // The gateway wrote these frames, so they are within the limits then in force.
        let mut decoder = SseDecoder::new(SseLimits::UNLIMITED);
        let mut rest = frames;
        while let SseStep::Frame(frame) = decoder.next(&mut rest) {
            self.fold_frame(&frame.data);
        }
    }

    /// Returns whether the run's terminal event was folded.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.terminal.is_some()
    }

    /// Returns the memory used, in bytes.
    #[must_use]
    pub fn byte_size(&self) -> usize {
        let ends = self.start.iter().chain(&self.terminal).map(RecapFrame::heap_size).sum::<usize>();
        let ids = self.ids.iter().map(|ids| ids.thread_id.heap_size() + ids.run_id.heap_size()).sum::<usize>();
        let frames = ends + frames_size(&self.verbatim) + self.open_items.heap_size();
        let own = allocation_size(size_of::<Self>()) + ids + self.lanes.heap_size();
        own + frames + self.state.heap_size() + self.messages.heap_size()
    }

    /// Writes the frames that a client needs before it can follow the run, or nothing if the run has not begun. `now`
    /// is the time in ms since the epoch. Only the last frame has the `id`, so a client that misses it requests
    /// everything again.
    pub fn write(&self, now: i64, id: Option<&str>, out: &mut Vec<u8>) {
        let mut writer = RecapWriter { side: self.client, out, last_start: None };
        let supplied = self.supply_start();
        if let Some(start) = self.start.as_ref().or(supplied.as_ref()) {
            writer.write(start);
            let (open, lost): (Vec<&RecapItem>, Vec<&RecapItem>) =
                self.open_items.in_order().into_iter().partition(|open| !open.is_lost && self.messages.contains(open));
            // An agent snapshot removed these while they were open: open them, and remove them again. An empty snapshot
            // does, so that a message that has one of their ids now does not get their place.
            lost.iter().for_each(|open| writer.write(&open.opener));
            if !lost.is_empty() {
                self.write_snapshot(now, &ListSnapshot::empty(), &mut writer);
            }
            let snapshot = self.messages.snapshot(self.client, |entry| self.open_items.has_chunks_of(entry));
            self.write_snapshot(now, &snapshot, &mut writer);
            self.state.frames(self.client, &self.run_stamps).for_each(|kept| writer.write(&kept));
            self.messages.activity_changes().chain(&self.verbatim).for_each(|kept| writer.write(kept));
            // Chunks come last, because any other event in their lane closes them.
            let (chunks, started): (Vec<&RecapItem>, Vec<&RecapItem>) =
                open.into_iter().partition(|open| open.is_chunk());
            started.into_iter().chain(chunks).flat_map(RecapItem::frames).for_each(|kept| writer.write(kept));
        }
        self.terminal.iter().for_each(|end| writer.write(end));
        if let (Some(id), Some(at)) = (id, writer.last_start) {
            let mut head = Vec::new();
            if sse::write_fields(&mut head, Some(id), None).is_ok() {
                out.splice(at..at, head);
            }
        }
    }

    /// Returns the start of a run that failed before it, since a client accepts no snapshot without a start. Without an
    /// input, there is nothing to put into a snapshot.
    fn supply_start(&self) -> Option<RecapFrame> {
        let has_input = !self.messages.is_empty() || !self.state.is_empty();
        let ids = self.ids.as_ref().filter(|_| has_input && self.terminal.is_some())?;
        let (_, row) = self.client.dialect.row_for_kind(EventType::RunStarted, self.client.peer_version)?;
        let mut members: Members<'_> = vec![
            (MemberKey::Known(Field::ThreadId), ids.thread_id.as_borrowed()),
            (MemberKey::Known(Field::RunId), ids.run_id.as_borrowed()),
        ];
        if self.client.dialect.is_canonical() {
            members.push((MemberKey::Known(Field::ProtocolVersion), Json::string(PROTOCOL_VERSION)));
        }
        let data = json::build_object(|object| {
            object.string_member(json::TYPE, row.wire);
            row.write_members(object, &members, self.client.member_case == MemberCase::Snake);
        });
        Some(RecapFrame::verbatim(row.wire, data.as_str()))
    }

    fn write_snapshot(&self, now: i64, snapshot: &ListSnapshot, writer: &mut RecapWriter<'_>) {
        let Some((_, row)) = self.client.dialect.row_for_kind(EventType::MessagesSnapshot, self.client.peer_version)
        else {
            return;
        };
        let snake = self.client.member_case == MemberCase::Snake;
        let data = json::build_object(|object| {
            object.string_member(json::TYPE, row.wire);
            self.run_stamps.iter().for_each(|(field, value)| object.member(field.wire_name(snake), value.as_str()));
            object.member(row.field_name(Field::Messages, snake), snapshot.messages.as_str());
            object.member(
                row.field_name(Field::Timestamp, snake),
                super::aliases::timestamp_in_unit(self.client, now).as_str(),
            );
            if self.client.dialect.is_canonical() && snapshot.shares_activities {
                object.member(Field::Metadata.camel(), message_list::SHARED_ACTIVITIES);
            }
        });
        writer.write(&RecapFrame::verbatim(row.wire, data.as_str()));
    }

    fn fold_frame(&mut self, data: &str) {
        let Ok(object) = json::parse_object(data) else { return };
        let Some(wire) = object.kind.as_ref().and_then(Json::text) else { return };
        let Some((_, row)) = self.client.dialect.row_for_wire(&wire) else {
            return self.verbatim.push(RecapFrame::verbatim(&wire, data));
        };
        let mut members = object.members;
        super::aliases::read_field_names(row.field_aliases, &mut members);
        let event = Event { kind: row.kind, members, source: None };
        self.lanes.observe(&self.lane_event(&event));
        self.open_items.close_chunks(&self.lanes, &mut self.messages, self.client);
        match event.kind {
            EventType::RunStarted => {
                self.run_stamps.observe_start(&event);
                self.messages.append_input(event.get(Field::Input), self.client);
                self.start = Some(RecapFrame::verbatim(&wire, data));
                self.ids = None;
            }
            EventType::RunFinished | EventType::RunError => self.terminal = Some(RecapFrame::verbatim(&wire, data)),
            EventType::StateSnapshot => self.state.set_snapshot(row, &event),
            EventType::StateDelta => self.state.add_change(&event, RecapFrame::verbatim(&wire, data)),
            _ if !self.is_in_snapshot(row) => {
                push_merged(&mut self.verbatim, RecapFrame::from_event(row, &event, data, self.client));
            }
            EventType::MessagesSnapshot => {
                let changes = self.messages.replace(&event, self.client);
                self.open_items.drop_content(&self.messages, &changes);
            }
            _ => self.fold_message(row, &event, data),
        }
    }

    /// Keeps the members that determine the lane: a client without subagents has only one.
    fn lane_event<'a>(&self, event: &Event<'a>) -> Event<'a> {
        let mut event = event.clone();
        if self.client.dialect.is_versioned() && self.client.peer_version < PeerVersion::V0_0_59 {
            event.remove(Field::SubagentRunId);
        }
        event
    }

    /// Returns true if a message snapshot can replace the event.
    fn is_in_snapshot(&self, row: &EventRow) -> bool {
        !self.whole_messages
            && row.shape.own_shape().is_none_or(|own| own.is_in_snapshot)
            && !matches!(
                row.kind,
                EventType::Raw
                    | EventType::Custom
                    | EventType::StepStarted
                    | EventType::StepFinished
                    | EventType::SubagentStarted
                    | EventType::SubagentFinished
                    | EventType::SubagentError
            )
    }

    fn fold_message(&mut self, row: &'static EventRow, event: &Event<'_>, data: &str) {
        let in_lane = self.lane_event(event);
        let Recap { client: side, messages: list, open_items: opens, lanes, .. } = self;
        let kept = || RecapFrame::from_event(row, event, data, *side);
        match event.kind {
            EventType::TextMessageStart
            | EventType::ReasoningMessageStart
            | EventType::ToolCallStart
            | EventType::ReasoningStart => {
                let Some(what) = item_of(event.kind) else { return };
                list.open_item(what, event, *side);
                opens.open_item(what, event, kept(), list, *side);
            }
            EventType::TextMessageContent | EventType::ReasoningMessageContent | EventType::ToolCallArgs => {
                opens.add_content(event, kept(), list, *side);
            }
            EventType::TextMessageEnd
            | EventType::ReasoningMessageEnd
            | EventType::ReasoningEnd
            | EventType::ToolCallEnd => {
                // A call stays open until its result arrives; a versioned peer would then receive one call as two.
                let waits = event.kind == EventType::ToolCallEnd && !side.dialect.is_versioned();
                opens.end_item(event, kept(), waits, list, *side);
            }
            EventType::TextMessageChunk | EventType::ReasoningMessageChunk | EventType::ToolCallChunk => {
                if let Some(stream) = find_stream(&in_lane, lanes) {
                    let what = stream.kind.item();
                    let named = event.clone().with(stream.kind.id_field(), stream.id.clone());
                    if !opens.is_chunked(what, &stream.id) {
                        list.open_item(what, &named, *side);
                    }
                    lanes.mark_used(stream);
                    // This ends another stream in the same lane.
                    opens.close_chunks(lanes, list, *side);
                    opens.add_chunk(what, &named, RecapFrame::from_event(row, &named, data, *side), list, *side);
                }
            }
            EventType::ToolCallResult => {
                list.insert_result(row, event, *side);
                opens.mark_answered(event.get(Field::ToolCallId), list, *side);
            }
            EventType::ActivitySnapshot => list.set_activity(event),
            EventType::ActivityDelta => list.patch_activity(event, kept(), *side),
            EventType::ReasoningEncryptedValue => {
                list.set_encrypted(event);
                opens.add_encrypted(event, kept(), list);
            }
            _ => {}
        }
    }
}

fn find_stream(event: &Event<'_>, lanes: &ChunkLanes) -> Option<ChunkStream> {
    let piece = ChunkStreamKind::from_event(event.kind)?;
    let owner = event.get_owned(Field::SubagentRunId);
    let id = event.get_owned(piece.id_field());
    let mut open = lanes.open_streams(piece).filter(|stream| match &id {
        Some(id) => stream.id.is_same(id),
        None => owner.is_none() || stream.owner == owner,
    });
    match (open.next_back().cloned(), id) {
        (Some(stream), _) => Some(stream),
        (None, Some(id)) => Some(ChunkStream { kind: piece, id, owner, first_text: None, fixed_fields: Vec::new() }),
        (None, None) => None,
    }
}

/// Writes frames and remembers where the last one begins.
struct RecapWriter<'o> {
    side: PeerDialect,
    out: &'o mut Vec<u8>,
    last_start: Option<usize>,
}

impl RecapWriter<'_> {
    fn write(&mut self, kept: &RecapFrame) {
        self.last_start = Some(self.out.len());
        let data = kept.data();
        if !self.side.dialect.has_event_line || sse::write_frame_with(self.out, None, Some(kept.wire()), &data).is_err()
        {
            sse::write_frame(self.out, &data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{AG_UI_SNAKE, Dialect};

    static WITHOUT_RESULT_ROW: Dialect = Dialect { rows: &[], ..AG_UI_SNAKE };

    /// Of a small message, its places in lists and maps take most.
    #[test]
    fn counts_the_places_of_small_messages() {
        let messages: Vec<_> = (0..1000).map(|id| format!(r#"{{"id":"m{id}","role":"user","content":""}}"#)).collect();
        let text = format!("[{}]", messages.join(",")).into_boxed_str();
        let input = RecapInput { messages: Some(text), state: None };
        let recap = Recap::new(PeerDialect::new(&crate::dialect::AG_UI), &RunIds::new("t", "r"), input);
        let per_message = recap.byte_size() / messages.len();
        assert!((450..800).contains(&per_message), "{per_message} bytes");
    }

    #[test]
    fn keeps_the_parts_of_a_result_for_which_the_dialect_has_no_row() {
        let ids = RunIds::new("t", "r");
        let mut recap = Recap::new(PeerDialect::new(&WITHOUT_RESULT_ROW), &ids, RecapInput::default());
        recap.push(b"data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n");
        let content = r#""content":[{"type":"text","text":"a"}]"#;
        let result = format!(r#"{{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c",{content}}}"#);
        recap.push(format!("data: {result}\n\n").as_bytes());
        let mut out = Vec::new();
        recap.write(0, None, &mut out);
        let written = String::from_utf8(out).expect("UTF-8");
        assert!(written.contains(content), "{written}");
    }
}
