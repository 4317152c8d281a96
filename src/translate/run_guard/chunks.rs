//! Chunk lanes for agents that send pieces without starts and ends.

use super::removed_items::first_text;
use super::{DEFAULT_IDS, RunGuard, UNKNOWN_TOOL, carry_member, memory_limits, supply_member};
use crate::event::lane::{ChunkStream, ChunkStreamKind};
use crate::event::run::{ItemAction, RunItem};
use crate::event::{Event, EventRepair, EventType, Field, Json};
use crate::translate::report::TranslationReport;

impl RunGuard {
    /// Adds the members that the real client needs to find a chunk's stream.
    pub(super) fn assign_lane<'a>(&mut self, event: Event<'a>, report: &mut TranslationReport) -> Event<'a> {
        let mut event = self.convert_to_chunk(event, report);
        let Some(piece) = ChunkStreamKind::from_event(event.kind) else {
            return event;
        };
        if event.get(piece.id_field()).is_none() {
            let owner = event.get_owned(Field::SubagentRunId);
            let mut open = self.lanes.open_streams(piece).filter(|stream| owner.is_none() || stream.owner == owner);
            let latest = open.next_back().cloned();
            let is_one = open.next().is_none();
            drop(open);
            match (latest, is_one) {
                (Some(stream), true) => return self.continue_stream(event, stream, report),
                // "Ambiguous: it carries neither … but N lanes have an open …"
                (Some(stream), false) => {
                    supply_member(&mut event, piece.id_field(), stream.id, report);
                }
                (None, _) => {
                    let id = self.last_stream_id(piece, owner.as_ref());
                    supply_member(&mut event, piece.id_field(), id, report);
                }
            }
            self.number_ids.mark(&mut event, piece.id_field());
            event = self.resolve_owners(event, report);
        }
        let Some(id) = event.get_owned(piece.id_field()) else {
            return event;
        };
        if self.run.is_open(piece.item(), &id) {
            return into_content_event(event, piece, report);
        }
        let stream = self.lanes.open_streams(piece).find(|stream| stream.id.is_same(&id)).cloned();
        match stream {
            Some(stream) => self.continue_stream(event, stream, report),
            None => self.open_stream(event, piece, id, report),
        }
    }

    /// Converts a start or content event into a chunk if its item has chunks in another lane: the client would not
    /// close them.
    fn convert_to_chunk<'a>(&mut self, mut event: Event<'a>, report: &mut TranslationReport) -> Event<'a> {
        let touched = RunItem::action_for(event.kind).filter(|(_, step, _)| *step != ItemAction::Close);
        let Some((chunk, piece)) = touched.and_then(|(item, ..)| chunk_for_item(item)) else {
            return event;
        };
        let owner = event.get(Field::SubagentRunId);
        let id = event.get(piece.id_field());
        let is_apart =
            |stream: &ChunkStream| id.is_some_and(|id| stream.id.is_same(id)) && stream.owner.as_ref() != owner;
        if !self.lanes.open_streams(piece).any(is_apart) {
            return event;
        }
        report.count_repair(EventRepair::TypeConverted);
        event.kind = chunk;
        event.source = None;
        if piece == ChunkStreamKind::Reasoning {
            // The chunk type implies the reasoning role.
            event.remove(Field::Role);
        }
        self.resolve_owners(event, report)
    }

    /// Continues an open stream, carrying any members that contradict it.
    fn continue_stream<'a>(
        &mut self,
        mut event: Event<'a>,
        mut stream: ChunkStream,
        report: &mut TranslationReport,
    ) -> Event<'a> {
        if event.get(Field::SubagentRunId).is_some_and(|owner| Some(owner) != stream.owner.as_ref()) {
            carry_member(&mut event, Field::SubagentRunId, report);
        }
        for &field in stream.kind.fixed_fields() {
            let settled = stream.fixed_fields.iter().find(|(own, _)| *own == field).map(|(_, value)| value);
            if event.get(field).is_some_and(|value| Some(value) != settled) {
                carry_member(&mut event, field, report);
            }
        }
        stream.first_text = stream.first_text.or_else(|| first_text(&event));
        self.lanes.mark_used(stream);
        event
    }

    /// Returns the last stream's id for a chunk without one: "First … must have a messageId / a toolCallId".
    fn last_stream_id(&self, piece: ChunkStreamKind, owner: Option<&Json<'_>>) -> Json<'static> {
        let last = self.lanes.last_stream(piece).filter(|last| owner.is_none() || last.owner.as_ref() == owner);
        last.map_or_else(
            || {
                let run = self.ids.as_ref().map_or_else(|| Json::string(DEFAULT_IDS[1].0), |ids| ids.run_id.clone());
                run.with_suffix(":chunks")
            },
            |last| last.id.clone(),
        )
    }

    /// Opens a stream. A missing name is copied from the last call with the same id: "First … must have a
    /// toolCallName".
    fn open_stream<'a>(
        &mut self,
        mut event: Event<'a>,
        piece: ChunkStreamKind,
        id: Json<'static>,
        report: &mut TranslationReport,
    ) -> Event<'a> {
        if piece == ChunkStreamKind::ToolCall && event.get(Field::ToolCallName).is_none() {
            let last = self.lanes.last_stream(piece).filter(|last| last.id.is_same(&id));
            let name = last.and_then(|last| last.fixed_fields.iter().find(|(field, _)| *field == Field::ToolCallName));
            let name = name.map_or_else(|| Json::string(UNKNOWN_TOOL), |(_, name)| name.clone());
            supply_member(&mut event, Field::ToolCallName, name, report);
        }
        let value = |field: &Field| Some((*field, event.get(*field)?.clone().into_owned()));
        let settled = piece.fixed_fields().iter().filter_map(value).collect();
        self.retained_bytes += memory_limits::retained_ids_cost(&event);
        let owner = event.get_owned(Field::SubagentRunId);
        let first_text = first_text(&event);
        self.lanes.mark_used(ChunkStream { kind: piece, id, owner, first_text, fixed_fields: settled });
        event
    }
}

const fn chunk_for_item(item: RunItem) -> Option<(EventType, ChunkStreamKind)> {
    match item {
        RunItem::Text => Some((EventType::TextMessageChunk, ChunkStreamKind::Text)),
        RunItem::ReasoningMessage => Some((EventType::ReasoningMessageChunk, ChunkStreamKind::Reasoning)),
        RunItem::ToolCall => Some((EventType::ToolCallChunk, ChunkStreamKind::ToolCall)),
        RunItem::Step | RunItem::ReasoningSpan | RunItem::Subagent => None,
    }
}

fn into_content_event<'a>(mut event: Event<'a>, piece: ChunkStreamKind, report: &mut TranslationReport) -> Event<'a> {
    for &field in piece.fixed_fields() {
        carry_member(&mut event, field, report);
    }
    event.kind = piece.content_event();
    let delta = event.remove(Field::Delta).unwrap_or(Json::EMPTY_STRING);
    event.set(Field::Delta, delta);
    report.count_repair(EventRepair::TypeConverted);
    event
}
