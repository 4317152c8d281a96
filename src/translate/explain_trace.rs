//! What happens to each event, for whoever asks (`diglot translate --explain`): nothing of it is done on the way of a run.
//!
//! The notes are taken where an event passes from one stage to the next, by looking at it, so that no stage knows of them.

use super::carry;
use super::conform::OURS;
use super::report::{Loss, Repair};
use crate::codec::json;
use crate::codec::sse::{Decoder, Step};
use crate::dialect::{Dialect, Row};
use crate::event::{Event, Field, Key, Kind, Members, Type, get};

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Note {
    /// an event of the agent's was read: its type, and its row where the dialect's table has one
    Read(String, Option<&'static Row>),
    /// it is this event in the canonical dialect, and the members named travel under the key
    Canonical(Kind, Vec<String>, String),
    /// the run guard let this event through, the members named under its own key
    Passed(Kind, Vec<String>, String),
    /// an event was written: its type, and the members that travel under the key
    Written(String, Vec<String>, String),
    /// something was mended
    Repair(Repair),
    /// something was left out
    Loss(Loss),
}

/// Notes since somebody took them.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// in the order in which things happened
    pub notes: Vec<Note>,
}

impl Trace {
    /// A frame of the agent's, before it is read.
    pub(super) fn frame(&mut self, data: &str, agent: &'static Dialect) {
        let kind = json::object(data).ok().and_then(|object| object.kind);
        if let Some(wire) = kind.as_ref().and_then(super::Json::text) {
            let row = agent.row(&wire).map(|(_, row)| row);
            self.notes.push(Note::Read(wire.into_owned(), row));
        }
    }

    /// What reading made of it.
    pub(super) fn canonical(&mut self, event: &Event<'_>, agent: &Dialect) {
        let home = format!("metadata.{}", agent.name);
        self.notes.push(Note::Canonical(event.kind, under(&event.members, Field::Metadata, agent.name), home));
    }

    /// What the guard made of it.
    pub(super) fn passed(&mut self, event: &Event<'_>) {
        let names = under(&event.members, Field::Metadata, OURS);
        self.notes.push(Note::Passed(event.kind, names, format!("metadata.{OURS}")));
    }

    /// A canonical event that was written in protobuf, which is none to look into.
    pub(super) fn message(&mut self, kind: Kind) {
        self.notes.push(Note::Written(kind.wire().to_owned(), Vec::new(), String::new()));
    }

    /// Frames that were written.
    pub(super) fn written(&mut self, frames: &[u8], client: &Dialect) {
        let (mut decoder, mut rest) = (Decoder::default(), frames);
        while let Step::Frame(frame) = decoder.next(&mut rest) {
            let Ok(object) = json::object(&frame.data) else { continue };
            let wire = object.kind.as_ref().and_then(super::Json::text).unwrap_or_default().into_owned();
            let (names, home) = match client.home.place() {
                None => (Vec::new(), String::new()),
                Some((member, key)) => (named(&object.members, member, key), format!("{member}[\"{key}\"]")),
            };
            self.notes.push(Note::Written(wire, names, home));
        }
    }
}

fn under(members: &Members<'_>, field: Field, key: &str) -> Vec<String> {
    get(members, field).map(|_| named(members, field.camel(), key)).unwrap_or_default()
}

/// The names of the members in the object `outer.inner`.
fn named(members: &Members<'_>, outer: &str, inner: &str) -> Vec<String> {
    let find = |members: &Members<'_>, name: &str| {
        let found =
            members.iter().find(|(key, _)| carry::is_named(key, name)).map(|(_, value)| value.clone().into_owned());
        found.filter(|value| value.shape() == Type::Object)
    };
    let Some(held) = find(members, outer) else { return Vec::new() };
    let Some(held) = json::members(&held).and_then(|held| find(&held, inner)) else { return Vec::new() };
    let all = json::members(&held).unwrap_or_default();
    all.iter()
        .map(|(key, _)| match key {
            Key::Known(field) => field.camel().to_owned(),
            Key::Other(name) => name.to_string(),
        })
        .collect()
}
