//! Records how each event is processed, for `diglot translate --explain`; disabled when serving runs.
//!
//! The trace is recorded between the stages, by inspecting the events, so that no stage depends on it.

use super::carry::GATEWAY_KEY;
use super::memory_limits;
use super::patch_check::PatchChecker;
use crate::codec::json;
use crate::codec::sse::{SseDecoder, SseStep};
use crate::dialect::{Dialect, EventRow, FrameTrace};
use crate::event::run::{ItemAction, RunItem};
use crate::event::{Event, EventLoss, EventRepair, EventType, Field, Json, Members, find_member, get};
use std::borrow::Cow;

#[derive(Clone, Debug)]
pub(crate) enum TraceEntry {
    /// the agent event's type, and its row in the dialect's table
    Read(String, Option<&'static EventRow>),
    /// the rules of a dialect file that applied to the agent's frame
    Mapped(FrameTrace),
    /// the canonical event's type, the names of its carried members, and the key that contains them
    Canonical(EventType, Vec<String>, String),
    /// the item of the canonical event, what happens to it, its id, and the name of a tool
    Item {
        item: RunItem,
        action: ItemAction,
        id: String,
        name: Option<String>,
    },
    /// the id of the call whose result the canonical event has
    CallResult(String),
    /// the names of members carried by the run guard, and the key that contains them
    Guarded(Vec<String>, String),
    /// the written event's type, the names of its carried members, and the key that contains them
    Written(String, Vec<String>, String),
    Repair(EventRepair),
    /// the name of the member that the last repair added
    Supplied(&'static str),
    Loss(EventLoss),
    /// the event's patch does not fit what the client holds
    UnfitPatch(String),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ExplainTrace {
    pub(crate) entries: Vec<TraceEntry>,
    /// absent unless patches are checked
    patches: Option<PatchChecker>,
}

impl ExplainTrace {
    /// Checks patches from now on, against the state that the client has sent with its request, if that is known.
    pub(crate) fn check_patches(&mut self, state: Option<&Json<'_>>) {
        self.patches = Some(PatchChecker::new(state));
    }

    pub(super) fn record_frame(&mut self, data: &str, agent: &'static Dialect) {
        if agent.mapping.is_some() {
            // Its reader records the rules, once they have applied.
            return;
        }
        let kind = json::parse_object(data).ok().and_then(|object| object.kind);
        if let Some(wire) = kind.as_ref().and_then(Json::text) {
            let row = agent.row_for_wire(&wire).map(|(_, row)| row);
            self.entries.push(TraceEntry::Read(wire.into_owned(), row));
        }
    }

    pub(super) fn record_canonical(&mut self, event: &Event<'_>, agent: &Dialect) {
        let location = format!("metadata.{}", agent.name);
        self.entries.push(TraceEntry::Canonical(
            event.kind,
            carried_names(&event.members, Field::Metadata, agent.name),
            location,
        ));
        if event.kind == EventType::ToolCallResult {
            let call = event.get(Field::ToolCallId).and_then(Json::text).unwrap_or_default();
            self.entries.push(TraceEntry::CallResult(call.into_owned()));
        }
        if let Some((item, action, field)) = RunItem::action_for(event.kind) {
            let id = event.get(field).and_then(Json::text).unwrap_or_default();
            // Readers keep ids of open items, so long ones are left out.
            if id.len() <= memory_limits::MAX_ID_LEN {
                let name = event.get(Field::ToolCallName).and_then(Json::text).map(Cow::into_owned);
                let name = name.filter(|name| name.len() <= memory_limits::MAX_ID_LEN);
                self.entries.push(TraceEntry::Item { item, action, id: id.into_owned(), name });
            }
        }
    }

    pub(super) fn record_guarded(&mut self, event: &Event<'_>) {
        let names = carried_names(&event.members, Field::Metadata, GATEWAY_KEY);
        self.entries.push(TraceEntry::Guarded(names, format!("metadata.{GATEWAY_KEY}")));
        let unfit = self.patches.as_mut().and_then(|patches| patches.check(event));
        self.entries.extend(unfit.map(|unfit| TraceEntry::UnfitPatch(unfit.to_string())));
    }

    /// Records only the type, because protobuf frames are not inspected.
    pub(super) fn record_protobuf(&mut self, kind: EventType) {
        self.entries.push(TraceEntry::Written(kind.wire().to_owned(), Vec::new(), String::new()));
    }

    pub(super) fn record_written(&mut self, frames: &[u8], client: &Dialect) {
        let mut decoder = SseDecoder::default();
        let mut rest = frames;
        while let SseStep::Frame(frame) = decoder.next(&mut rest) {
            let Ok(object) = json::parse_object(&frame.data) else { continue };
            let wire = object.kind.as_ref().and_then(Json::text).unwrap_or_default().into_owned();
            let (names, location) = match client.carry_location.carry_member() {
                None => (Vec::new(), String::new()),
                Some((member, key)) => (nested_names(&object.members, member, key), format!("{member}[\"{key}\"]")),
            };
            self.entries.push(TraceEntry::Written(wire, names, location));
        }
    }
}

fn carried_names(members: &Members<'_>, field: Field, key: &str) -> Vec<String> {
    get(members, field).map(|_| nested_names(members, field.camel(), key)).unwrap_or_default()
}

fn nested_names(members: &Members<'_>, outer: &str, inner: &str) -> Vec<String> {
    let held = find_member(members, outer).and_then(|held| json::parse_member(held, inner));
    let all = held.as_ref().and_then(json::parse_members).unwrap_or_default();
    all.iter().map(|(key, _)| key.name().to_owned()).collect()
}
