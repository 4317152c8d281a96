//! Chunks: the lanes in which an agent that starts and ends nothing says its pieces.

use super::{Guard, UNKNOWN_TOOL, UNNAMED, held, set_aside, supply};
use crate::event::lane::{ChunkStream, Piece};
use crate::event::run::{Item, Move};
use crate::event::{Event, Field, Json, Kind};
use crate::translate::report::{Repair, Report};

impl Guard {
    /// Brings a chunk into the form in which the real client can tell what it is a piece of.
    pub(super) fn in_lane<'a>(&mut self, event: Event<'a>, report: &mut Report) -> Event<'a> {
        let mut event = self.rejoined(event, report);
        let Some(piece) = Piece::of(event.kind) else {
            return event;
        };
        if event.get(piece.id()).is_none() {
            let owner = event.get(Field::SubagentRunId).cloned().map(Json::into_owned);
            let mut open = self.lanes.open(piece).filter(|stream| owner.is_none() || stream.owner == owner);
            let (latest, is_one) = (open.next_back().cloned(), open.next().is_none());
            drop(open);
            match (latest, is_one) {
                (Some(stream), true) => return self.go_on(event, stream, report),
                // "Ambiguous: it carries neither … but N lanes have an open …"
                (Some(stream), false) => supply(&mut event, piece.id(), stream.id, report),
                (None, _) => {
                    let id = self.last_id(piece, owner.as_ref());
                    supply(&mut event, piece.id(), id, report);
                }
            }
            event = self.owned(event, report);
        }
        let Some(id) = event.get(piece.id()).cloned().map(Json::into_owned) else {
            return event;
        };
        if self.run.is_open(started(piece), &id) {
            return as_content(event, piece, report);
        }
        let stream = self.lanes.open(piece).find(|stream| stream.id.same(&id)).cloned();
        match stream {
            Some(stream) => self.go_on(event, stream, report),
            None => self.open_lane(event, piece, id, report),
        }
    }

    /// What was chunked and is started or used by another lane than its own, which the client would not close for that, is
    /// one more chunk.
    fn rejoined<'a>(&mut self, mut event: Event<'a>, report: &mut Report) -> Event<'a> {
        let touched = Item::touched_by(event.kind).filter(|(_, step, _)| *step != Move::Close);
        let Some((chunk, piece)) = touched.and_then(|(item, ..)| chunked(item)) else {
            return event;
        };
        let owner = event.get(Field::SubagentRunId);
        let id = event.get(piece.id());
        let is_apart = |stream: &ChunkStream| id.is_some_and(|id| stream.id.same(id)) && stream.owner.as_ref() != owner;
        if !self.lanes.open(piece).any(is_apart) {
            return event;
        }
        report.repair(Repair::TypeConverted);
        event.kind = chunk;
        event.source = None;
        if piece == Piece::Reasoning {
            // The role of reasoning is said by the kind of its chunks.
            event.remove(Field::Role);
        }
        self.owned(event, report)
    }

    /// A chunk of a stream that is open says what that settled, or nothing.
    fn go_on<'a>(&mut self, mut event: Event<'a>, stream: ChunkStream, report: &mut Report) -> Event<'a> {
        if event.get(Field::SubagentRunId).is_some_and(|owner| Some(owner) != stream.owner.as_ref()) {
            set_aside(&mut event, Field::SubagentRunId, report);
        }
        for &field in stream.piece.settled() {
            let settled = stream.settled.iter().find(|(own, _)| *own == field).map(|(_, value)| value);
            if event.get(field).is_some_and(|said| Some(said) != settled) {
                set_aside(&mut event, field, report);
            }
        }
        self.lanes.used(stream);
        event
    }

    /// "First … must have a messageId / a toolCallId": a chunk without one goes on with the last of its kind.
    fn last_id(&self, piece: Piece, owner: Option<&Json<'_>>) -> Json<'static> {
        let last = self.lanes.last(piece).filter(|last| owner.is_none() || last.owner.as_ref() == owner);
        last.map_or_else(
            || {
                let run = self.ids.as_ref().map_or_else(|| Json::string(UNNAMED[1].0), |ids| ids.run_id.clone());
                run.followed_by(":chunks")
            },
            |last| last.id.clone(),
        )
    }

    /// "First … must have a toolCallName": that of the last call, if it is the same one.
    fn open_lane<'a>(
        &mut self,
        mut event: Event<'a>,
        piece: Piece,
        id: Json<'static>,
        report: &mut Report,
    ) -> Event<'a> {
        if piece == Piece::ToolCall && event.get(Field::ToolCallName).is_none() {
            let last = self.lanes.last(piece).filter(|last| last.id.same(&id));
            let name = last.and_then(|last| last.settled.iter().find(|(field, _)| *field == Field::ToolCallName));
            let name = name.map_or_else(|| Json::string(UNKNOWN_TOOL), |(_, name)| name.clone());
            supply(&mut event, Field::ToolCallName, name, report);
        }
        let said = |field: &Field| Some((*field, event.get(*field)?.clone().into_owned()));
        let settled = piece.settled().iter().filter_map(said).collect();
        self.kept += held::kept(&event);
        let owner = event.get(Field::SubagentRunId).cloned().map(Json::into_owned);
        self.lanes.used(ChunkStream { piece, id, owner, settled });
        event
    }
}

/// What a piece is a piece of when that was started rather than chunked.
const fn started(piece: Piece) -> Item {
    match piece {
        Piece::Text => Item::Text,
        Piece::Reasoning => Item::ReasoningMessage,
        Piece::ToolCall => Item::ToolCall,
    }
}

/// The chunk that says a piece of such an item.
const fn chunked(item: Item) -> Option<(Kind, Piece)> {
    match item {
        Item::Text => Some((Kind::TextMessageChunk, Piece::Text)),
        Item::ReasoningMessage => Some((Kind::ReasoningMessageChunk, Piece::Reasoning)),
        Item::ToolCall => Some((Kind::ToolCallChunk, Piece::ToolCall)),
        Item::Step | Item::ReasoningSpan | Item::Subagent => None,
    }
}

/// A chunk of something that was started is its content.
fn as_content<'a>(mut event: Event<'a>, piece: Piece, report: &mut Report) -> Event<'a> {
    for &field in piece.settled() {
        set_aside(&mut event, field, report);
    }
    event.kind = piece.content();
    let delta = event.remove(Field::Delta).unwrap_or_else(|| Json::string(""));
    event.set(Field::Delta, delta);
    report.repair(Repair::TypeConverted);
    event
}
