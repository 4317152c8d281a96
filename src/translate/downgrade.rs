//! What peers of AG-UI before 1.0 cannot be told in its own word, by their version (`specs/ag-ui-1.0.md` §1.4, §3.6).
//!
//! An event without a word leaves whole, as CUSTOM. A piece of text that is empty leaves as RAW: it is the one event that even
//! 0.0.35 takes while a message is open, so that nothing has to be ended for a piece that shows nothing.

use super::shape::{marked, to_value};
use super::write::{Outlet, Said, Writer};
use super::{CANONICAL_PREFIX, carry};
use crate::codec::json;
use crate::dialect::{ASSISTANT, Pin, Shape, Side};
use crate::event::{Event, Field, Json, Key, Kind, get, remove, set};
use std::borrow::Cow;

/// Whether a peer has no way to take this event: no word for it in its version, or a rule against it.
pub(super) fn is_unsaid(side: Side, shape: Shape, event: &Event<'_>) -> bool {
    match (shape, event.kind) {
        (Shape::Unsaid, _) => true,
        // "Empty deltas fatal ≤ 0.0.47" [specs §3.6]
        (Shape::NonEmpty, _) => is_empty(event),
        (_, Kind::ReasoningMessageContent) if side.pin < Pin::V0_0_53 && is_empty(event) => true,
        // Two steps of one name are one to who knows no subagents.
        (_, Kind::StepStarted | Kind::StepFinished) => {
            side.pin < Pin::V0_0_59 && event.get(Field::SubagentRunId).is_some()
        }
        _ => false,
    }
}

/// Whether this is a piece of text without text.
pub(super) fn is_empty(event: &Event<'_>) -> bool {
    matches!(event.kind, Kind::TextMessageContent | Kind::ReasoningMessageContent)
        && event.get(Field::Delta).is_some_and(|delta| delta.is(""))
}

impl Writer {
    /// An event that the peer cannot be told in its own word. What stands for nothing need not be said at all.
    pub(super) fn unsaid(&mut self, event: Event<'_>, stands_for: Option<&'static str>, to: &mut Outlet<'_>) {
        match stands_for {
            Some("") => {}
            None if is_empty(&event) => self.aside(&event, to),
            _ => self.whole(marked(event, stands_for), to),
        }
    }

    /// RAW with the whole event, its source saying which it is.
    fn aside(&mut self, event: &Event<'_>, to: &mut Outlet<'_>) {
        let source = Json::string(&format!("{CANONICAL_PREFIX}{}", event.kind.wire()));
        let raw = Event::new(Kind::Raw).with(Field::Event, to_value(event)).with(Field::Source, source);
        self.placed(raw, None, to);
    }
}

/// The empty piece of text that a RAW event holds.
pub(super) fn held(raw: &Event<'_>) -> Option<Event<'static>> {
    let source = raw.text(Field::Source)?;
    let kind = Kind::from_wire(source.strip_prefix(CANONICAL_PREFIX)?)?;
    let object = json::object(raw.get(Field::Event)?.as_str()).ok()?;
    let event = Event { kind, members: crate::event::owned(object.members), source: None };
    is_empty(&event).then_some(event)
}

/// A start whose role is always said; the oldest peers know but one. A chunk that says none goes on as it began.
pub(super) fn say_role(pin: Pin, kind: Kind, said: &mut Said<'_>) {
    let role = get(&said.members, Field::Role).cloned();
    let newer = role.as_ref().is_some_and(|role| pin < Pin::V0_0_39 && !role.is(ASSISTANT));
    if newer || (role.is_none() && kind == Kind::TextMessageStart) {
        set(&mut said.members, Key::Known(Field::Role), Json::string(ASSISTANT));
    }
    if newer {
        said.canonical.extend(role.map(|role| (Key::Known(Field::Role), role)));
    }
}

/// The outcomes that older peers take, or do not look at: interrupts, and success without pending calls. Any member more
/// is fatal to 0.0.57 and 0.0.59 [specs §3.6].
pub(super) fn outcome(said: &mut Said<'_>) {
    let Some(outcome) = get(&said.members, Field::Outcome) else {
        return;
    };
    let members = json::members(outcome).unwrap_or_default();
    let kind = members.iter().find(|(key, _)| carry::is_named(key, json::TYPE)).and_then(|(_, kind)| kind.text());
    let taken = match kind.as_deref() {
        Some("interrupt") => members.len() == 2,
        Some("success") => members.len() == 1,
        _ => false,
    };
    if !taken {
        carry_outcome(said);
    }
}

/// The outcomes of a subagent that 0.0.59 knows; a later one is fatal to it (measured).
pub(super) fn subagent_outcome(said: &mut Said<'_>) {
    let outcome = get(&said.members, Field::Outcome).and_then(json::members);
    let kind = outcome.and_then(|mut outcome| {
        carry::take(&mut outcome, json::TYPE).and_then(|kind| kind.text().map(Cow::into_owned))
    });
    if !matches!(kind.as_deref(), Some("success" | "suspended")) {
        carry_outcome(said);
    }
}

fn carry_outcome(said: &mut Said<'_>) {
    let outcome = remove(&mut said.members, Field::Outcome);
    said.canonical.extend(outcome.map(|outcome| (Key::Known(Field::Outcome), outcome)));
}
