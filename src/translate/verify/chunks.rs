//! Chunks: unfolded to what they stand for, as `transformChunks` of the real client does (`specs/ag-ui-1.0.md` §3.2 "Chunks").
//!
//! [`Piece`] says what a chunk is a piece of. The guard keeps [`Lanes`](crate::event::lane::Lanes) to mend chunks; here they
//! become the starts, contents and ends that [`Order`](super::order::Order) then judges.

use super::finding::shown;
use super::rule::Rule;
use super::value::Problem;
use crate::event::lane::Piece;
use crate::event::run::Item;
use crate::event::{Event, Field, Json, Kind};

/// The role of a text that names none.
const ASSISTANT: &str = "assistant";

/// An open chunk stream.
#[derive(Debug)]
struct Open {
    /// who the lane belongs to; nobody for the agent itself
    lane: Option<String>,
    piece: Piece,
    id: String,
    /// what the first chunk settled, absence included
    settled: Vec<(Field, Option<String>)>,
    owner: Option<String>,
}

/// The chunk streams that are open, one a lane at the most.
#[derive(Debug, Default)]
pub(super) struct Unfolding(Vec<Open>);

impl Unfolding {
    /// Hands over what `event` stands for: the ends of the chunk streams that it closes, and itself or its parts.
    pub fn event(
        &mut self,
        event: &Event<'_>,
        problems: &mut Vec<Problem>,
        each: &mut impl FnMut(&Event<'_>, &mut Vec<Problem>),
    ) {
        match event.kind {
            Kind::TextMessageChunk | Kind::ToolCallChunk | Kind::ReasoningMessageChunk => {
                let mut parts = Vec::new();
                if let Err(problem) = self.chunk(event, &mut parts) {
                    problems.push(problem);
                }
                return parts.iter().for_each(|part| each(part, problems));
            }
            Kind::Raw
            | Kind::ActivitySnapshot
            | Kind::ActivityDelta
            | Kind::ReasoningEncryptedValue
            | Kind::SubagentStarted => {}
            Kind::RunStarted | Kind::RunFinished | Kind::RunError | Kind::MessagesSnapshot => {
                for open in std::mem::take(&mut self.0) {
                    each(&open.end(), problems);
                }
            }
            _ => {
                let lane = text(event, Field::SubagentRunId);
                if let Some(end) = self.close(lane.as_deref()) {
                    each(&end, problems);
                }
            }
        }
        each(event, problems);
    }

    fn close(&mut self, lane: Option<&str>) -> Option<Event<'static>> {
        let at = self.0.iter().position(|open| open.lane.as_deref() == lane)?;
        Some(self.0.remove(at).end())
    }

    fn chunk(&mut self, event: &Event<'_>, parts: &mut Vec<Event<'static>>) -> Result<(), Problem> {
        let Some(piece) = Piece::of(event.kind) else {
            return Ok(());
        };
        let (id, tag) = (text(event, piece.id()), text(event, Field::SubagentRunId));
        let lane = self.lane(piece, id.as_deref(), tag.as_deref())?;
        let continued = self
            .0
            .iter()
            .find(|open| open.lane == lane && open.piece == piece && id.as_ref().is_none_or(|id| *id == open.id));
        let (id, owner) = match continued {
            Some(open) => {
                open.agrees(event)?;
                (open.id.clone(), open.owner.clone())
            }
            None => {
                parts.extend(self.close(lane.as_deref()));
                let open = Open::first(event, piece, lane)?;
                parts.push(open.start());
                let said = (open.id.clone(), open.owner.clone());
                self.0.push(open);
                said
            }
        };
        let says = |field| event.get(field).is_some();
        let alone = parts.is_empty() && says(Field::Metadata);
        if says(Field::Delta) || says(Field::RawEvent) || alone {
            let delta = event.get(Field::Delta).cloned().map_or_else(|| Json::string(""), Json::into_owned);
            let content = Event::new(piece.content()).with(piece.id(), Json::string(&id)).with(Field::Delta, delta);
            parts.push(tagged(content, tag.or(owner).as_deref()));
        }
        Ok(())
    }

    /// The lane that a chunk belongs to.
    fn lane(&self, piece: Piece, id: Option<&str>, tag: Option<&str>) -> Result<Option<String>, Problem> {
        if let Some(id) = id {
            let holder = self.0.iter().find(|open| open.piece == piece && open.id == id);
            return match holder {
                Some(open) if tag.is_some() && tag != open.lane.as_deref() => {
                    let found = format!("the stream of \"{}\" is open under another owner", shown(id));
                    Err(problem(Rule::ChunkConflict, Field::SubagentRunId, found))
                }
                Some(open) => Ok(open.lane.clone()),
                None => Ok(tag.map(str::to_owned)),
            };
        }
        if tag.is_some() {
            return Ok(tag.map(str::to_owned));
        }
        let of_kind: Vec<_> = self.0.iter().filter(|open| open.piece == piece).collect();
        if of_kind.iter().any(|open| open.lane.is_none()) {
            return Ok(None);
        }
        match of_kind.as_slice() {
            [] => Ok(None),
            [open] => Ok(open.lane.clone()),
            many => {
                let found = format!("{} streams of its kind are open", many.len());
                Err(problem(Rule::ChunkAmbiguous, piece.id(), found))
            }
        }
    }
}

impl Open {
    fn first(event: &Event<'_>, piece: Piece, lane: Option<String>) -> Result<Self, Problem> {
        let nothing = |field: Field| problem(Rule::ChunkWithoutName, field, "it is missing".to_owned());
        let id = text(event, piece.id()).ok_or_else(|| nothing(piece.id()))?;
        let mut settled: Vec<_> = piece.settled().iter().map(|field| (*field, text(event, *field))).collect();
        for (field, value) in &mut settled {
            match field {
                Field::ToolCallName if value.is_none() => return Err(nothing(*field)),
                // "Absent means assistant."
                Field::Role => _ = value.get_or_insert_with(|| ASSISTANT.to_owned()),
                _ => {}
            }
        }
        Ok(Open { lane, piece, id, settled, owner: text(event, Field::SubagentRunId) })
    }

    /// "A value first appearing on a continuation conflicts with absent."
    fn agrees(&self, event: &Event<'_>) -> Result<(), Problem> {
        for (field, settled) in &self.settled {
            if let Some(said) = text(event, *field).filter(|said| Some(said) != settled.as_ref()) {
                let before =
                    settled.as_ref().map_or_else(|| "nothing".to_owned(), |text| format!("\"{}\"", shown(text)));
                let found = format!("\"{}\", while the first chunk said {before}", shown(&said));
                return Err(problem(Rule::ChunkConflict, *field, found));
            }
        }
        Ok(())
    }

    fn item(&self) -> Item {
        match self.piece {
            Piece::Text => Item::Text,
            Piece::Reasoning => Item::ReasoningMessage,
            Piece::ToolCall => Item::ToolCall,
        }
    }

    fn start(&self) -> Event<'static> {
        let mut start = Event::new(self.item().opener()).with(self.piece.id(), Json::string(&self.id));
        for (field, value) in &self.settled {
            if let Some(value) = value {
                start.set(*field, Json::string(value));
            }
        }
        tagged(start, self.owner.as_deref())
    }

    fn end(&self) -> Event<'static> {
        let (end, field) = self.item().closer();
        tagged(Event::new(end).with(field, Json::string(&self.id)), self.owner.as_deref())
    }
}

fn tagged(event: Event<'static>, owner: Option<&str>) -> Event<'static> {
    match owner {
        Some(owner) => event.with(Field::SubagentRunId, Json::string(owner)),
        None => event,
    }
}

fn text(event: &Event<'_>, field: Field) -> Option<String> {
    event.text(field).map(|text| text.into_owned())
}

fn problem(rule: Rule, field: Field, found: String) -> Problem {
    Problem { rule, path: format!("/{}", field.camel()), found }
}
