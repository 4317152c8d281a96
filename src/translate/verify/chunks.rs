//! Expands chunks into the events that they represent, as `transformChunks` in the real client does
//! (`specs/ag-ui-1.0.md` §3.2 "Chunks").
//!
//! [`ChunkStreamKind`] and [`ClosedStreams`] are shared with the run guard. The guard keeps its own
//! [`ChunkLanes`](crate::event::lane::ChunkLanes) to repair chunks; here they become the starts, contents and ends that
//! [`OrderCheck`](super::order::OrderCheck) checks.

use super::finding::sanitize;
use super::rule::Rule;
use super::value::VerifyProblem;
use crate::event::lane::{ChunkStreamKind, ClosedStreams};
use crate::event::{Event, Field, Json};
use std::collections::{BTreeMap, BTreeSet, HashMap};

const ASSISTANT: &str = "assistant";

#[derive(Debug)]
struct OpenChunkStream {
    /// `None` for the agent itself
    lane: Option<String>,
    chunk_kind: ChunkStreamKind,
    id: String,
    fixed_fields: Vec<(Field, Option<String>)>,
    owner: Option<String>,
}

/// Open chunk streams, at most one per lane.
#[derive(Debug, Default)]
pub(super) struct ChunkExpander {
    /// by number in order of opening
    streams: BTreeMap<usize, OpenChunkStream>,
    lanes: HashMap<Option<String>, usize>,
    ids: HashMap<(ChunkStreamKind, String), usize>,
    of_kind: [BTreeSet<usize>; ChunkStreamKind::ALL.len()],
    opened_count: usize,
}

impl ChunkExpander {
    /// Ends the chunk streams that `event` closes, then passes on the event or its parts.
    pub(crate) fn expand(
        &mut self,
        event: &Event<'_>,
        problems: &mut Vec<VerifyProblem>,
        each: &mut impl FnMut(&Event<'_>, &mut Vec<VerifyProblem>),
    ) {
        if let Some(piece) = ChunkStreamKind::from_event(event.kind) {
            let mut parts = Vec::new();
            if let Err(problem) = self.expand_chunk(event, piece, &mut parts) {
                problems.push(problem);
            }
            return parts.iter().for_each(|part| each(part, problems));
        }
        match ClosedStreams::by_event(event.kind) {
            ClosedStreams::None => {}
            ClosedStreams::All => {
                for open in std::mem::take(self).streams.values() {
                    each(&open.end_event(), problems);
                }
            }
            ClosedStreams::OfItsLane => {
                let lane = event.owned_text(Field::SubagentRunId);
                if let Some(end) = self.close_lane(lane.as_deref()) {
                    each(&end, problems);
                }
            }
        }
        each(event, problems);
    }

    fn close_lane(&mut self, lane: Option<&str>) -> Option<Event<'static>> {
        let number = self.lanes.remove(&lane.map(str::to_owned))?;
        let open = self.streams.remove(&number)?;
        self.ids.remove(&(open.chunk_kind, open.id.clone()));
        self.of_kind[open.chunk_kind as usize].remove(&number);
        Some(open.end_event())
    }

    fn open(&mut self, open: OpenChunkStream) {
        self.opened_count += 1;
        let number = self.opened_count;
        self.lanes.insert(open.lane.clone(), number);
        self.ids.insert((open.chunk_kind, open.id.clone()), number);
        self.of_kind[open.chunk_kind as usize].insert(number);
        self.streams.insert(number, open);
    }

    fn in_lane(&self, lane: &Option<String>) -> Option<&OpenChunkStream> {
        self.streams.get(self.lanes.get(lane)?)
    }

    fn expand_chunk(
        &mut self,
        event: &Event<'_>,
        piece: ChunkStreamKind,
        parts: &mut Vec<Event<'static>>,
    ) -> Result<(), VerifyProblem> {
        let id = event.owned_text(piece.id_field());
        let tag = event.owned_text(Field::SubagentRunId);
        let lane = self.find_lane(piece, id.as_deref(), tag.as_deref())?;
        let continued =
            self.in_lane(&lane).filter(|open| open.chunk_kind == piece && id.as_ref().is_none_or(|id| *id == open.id));
        let (id, owner) = match continued {
            Some(open) => {
                open.check_continuation(event)?;
                (open.id.clone(), open.owner.clone())
            }
            None => {
                parts.extend(self.close_lane(lane.as_deref()));
                let open = OpenChunkStream::from_first_chunk(event, piece, lane)?;
                parts.push(open.start_event());
                let opened = (open.id.clone(), open.owner.clone());
                self.open(open);
                opened
            }
        };
        let has = |field| event.get(field).is_some();
        let alone = parts.is_empty() && has(Field::Metadata);
        if has(Field::Delta) || has(Field::RawEvent) || alone {
            let delta = event.get_or_empty(Field::Delta);
            let content =
                Event::new(piece.content_event()).with(piece.id_field(), Json::string(&id)).with(Field::Delta, delta);
            parts.push(with_owner(content, tag.or(owner).as_deref()));
        }
        Ok(())
    }

    fn find_lane(
        &self,
        piece: ChunkStreamKind,
        id: Option<&str>,
        tag: Option<&str>,
    ) -> Result<Option<String>, VerifyProblem> {
        if let Some(id) = id {
            let number = self.ids.get(&(piece, id.to_owned()));
            let holder = number.and_then(|number| self.streams.get(number));
            return match holder {
                Some(open) if tag.is_some() && tag != open.lane.as_deref() => {
                    let found = format!("the stream of \"{}\" is open under another owner", sanitize(id));
                    Err(chunk_problem(Rule::ChunkConflict, Field::SubagentRunId, found))
                }
                Some(open) => Ok(open.lane.clone()),
                None => Ok(tag.map(str::to_owned)),
            };
        }
        if tag.is_some() {
            return Ok(tag.map(str::to_owned));
        }
        if self.in_lane(&None).is_some_and(|open| open.chunk_kind == piece) {
            return Ok(None);
        }
        let of_kind = &self.of_kind[piece as usize];
        if of_kind.len() > 1 {
            let found = format!("{} streams of its kind are open", of_kind.len());
            return Err(chunk_problem(Rule::ChunkAmbiguous, piece.id_field(), found));
        }
        let only = of_kind.first().and_then(|number| self.streams.get(number));
        Ok(only.and_then(|open| open.lane.clone()))
    }
}

impl OpenChunkStream {
    fn from_first_chunk(
        event: &Event<'_>,
        piece: ChunkStreamKind,
        lane: Option<String>,
    ) -> Result<Self, VerifyProblem> {
        let nothing = |field: Field| chunk_problem(Rule::ChunkWithoutName, field, "it is missing".to_owned());
        let id = event.owned_text(piece.id_field()).ok_or_else(|| nothing(piece.id_field()))?;
        let mut settled: Vec<_> = piece.fixed_fields().iter().map(|field| (*field, event.owned_text(*field))).collect();
        for (field, value) in &mut settled {
            match field {
                Field::ToolCallName if value.is_none() => return Err(nothing(*field)),
                // "Absent means assistant."
                Field::Role => _ = value.get_or_insert_with(|| ASSISTANT.to_owned()),
                _ => {}
            }
        }
        Ok(OpenChunkStream {
            lane,
            chunk_kind: piece,
            id,
            fixed_fields: settled,
            owner: event.owned_text(Field::SubagentRunId),
        })
    }

    /// Checks that a chunk changes no fixed member: "A value first appearing on a continuation conflicts with absent."
    fn check_continuation(&self, event: &Event<'_>) -> Result<(), VerifyProblem> {
        for (field, settled) in &self.fixed_fields {
            if let Some(own) = event.owned_text(*field).filter(|own| Some(own) != settled.as_ref()) {
                let first =
                    settled.as_ref().map_or_else(|| "nothing".to_owned(), |text| format!("\"{}\"", sanitize(text)));
                let found = format!("\"{}\", but the first chunk has {first}", sanitize(&own));
                return Err(chunk_problem(Rule::ChunkConflict, *field, found));
            }
        }
        Ok(())
    }

    fn start_event(&self) -> Event<'static> {
        let mut start =
            Event::new(self.chunk_kind.item().opener()).with(self.chunk_kind.id_field(), Json::string(&self.id));
        for (field, value) in &self.fixed_fields {
            if let Some(value) = value {
                start.set(*field, Json::string(value));
            }
        }
        with_owner(start, self.owner.as_deref())
    }

    fn end_event(&self) -> Event<'static> {
        let (end, field) = self.chunk_kind.item().closer();
        with_owner(Event::new(end).with(field, Json::string(&self.id)), self.owner.as_deref())
    }
}

fn with_owner(event: Event<'static>, owner: Option<&str>) -> Event<'static> {
    match owner {
        Some(owner) => event.with(Field::SubagentRunId, Json::string(owner)),
        None => event,
    }
}

fn chunk_problem(rule: Rule, field: Field, found: String) -> VerifyProblem {
    VerifyProblem { rule, path: format!("/{}", field.camel()), found }
}
