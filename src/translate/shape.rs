//! How one event is shaped for the peer that takes it: members that it wants said in another way, and events that it cannot take.

use super::write::Said;
use super::{carry, message, part, thought};
use crate::codec::json;
use crate::dialect::{ASSISTANT, Pin, Shape, Side};
use crate::event::{Event, Field, Json, Key, Kind, Type, get};
use std::borrow::Cow;

/// Whether a peer has no way to take this event: no word for it in its version, or a rule against it.
pub(super) fn is_unsaid(side: Side, shape: Shape, event: &Event<'_>) -> bool {
    let is_empty = || event.get(Field::Delta).is_some_and(|delta| delta.is(""));
    match (shape, event.kind) {
        (Shape::Unsaid, _) => true,
        // "Empty deltas fatal ≤ 0.0.47" [specs §3.6]
        (Shape::NonEmpty, _) => is_empty(),
        (Shape::Nameless, Kind::ReasoningMessageContent) if is_empty() => true,
        (Shape::Nameless, _) => !thought::is_nameless(event, side),
        // Two steps of one name are one to who knows no subagents.
        (_, Kind::StepStarted | Kind::StepFinished) => {
            side.pin < Pin::V0_0_59 && event.get(Field::SubagentRunId).is_some()
        }
        _ => false,
    }
}

/// An event that stands for a chunk, as that chunk.
pub(super) fn marked<'a>(mut event: Event<'a>, stands_for: Option<&'static str>) -> Event<'a> {
    if let Some(kind) = stands_for.and_then(Kind::from_wire) {
        event.kind = kind;
        super::chunk::restore_absent(&mut event);
    }
    event
}

/// A start whose role is always said; the oldest peers know but one.
pub(super) fn say_role(pin: Pin, said: &mut Said<'_>) {
    let role = get(&said.members, Field::Role).cloned();
    if let Some(role) = role.clone().filter(|role| pin < Pin::V0_0_39 && !role.is(ASSISTANT)) {
        said.canonical.push((Key::Known(Field::Role), role));
    }
    if role.is_none_or(|role| pin < Pin::V0_0_39 && !role.is(ASSISTANT)) {
        crate::event::set(&mut said.members, Key::Known(Field::Role), Json::string(ASSISTANT));
    }
}

/// The outcomes that older peers take, or do not look at: interrupts, and success without pending calls. Any member more
/// is fatal to 0.0.57 and 0.0.59 [specs §3.6].
pub(super) fn old_outcome(said: &mut Said<'_>) {
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
        let outcome = crate::event::remove(&mut said.members, Field::Outcome);
        said.canonical.extend(outcome.map(|outcome| (Key::Known(Field::Outcome), outcome)));
    }
}

/// A run boundary needs a message id and a role over there: the run's id and "assistant", unless it said others.
pub(super) fn boundary(said: &mut Said<'_>) {
    let has = |field: Field| said.own.iter().any(|(key, _)| *key == Key::Known(field));
    let (has_id, has_role) = (has(Field::MessageId), has(Field::Role));
    if has_id {
        return;
    }
    if let Some(run_id) = get(&said.members, Field::RunId).cloned() {
        said.own.push((Key::Known(Field::MessageId), run_id.into_owned()));
    }
    if !has_role {
        said.own.push((Key::Known(Field::Role), Json::string(ASSISTANT)));
    }
}

/// A text that was a JSON value over there is one again.
pub(super) fn as_json(said: &mut Said<'_>, field: Field) {
    if carry::take_json_note(&mut said.own, field)
        && let Some(text) = get(&said.members, field).and_then(Json::text).map(Cow::into_owned)
        && let Some(value) = json::value(&text).map(Json::into_owned)
    {
        crate::event::set(&mut said.members, Key::Known(field), value);
    }
}

/// Content parts are said as their text; the parts themselves are carried.
pub(super) fn flatten_parts(said: &mut Said<'_>) {
    let Some(parts) = get(&said.members, Field::Content).filter(|content| content.shape() == Type::Array) else {
        return;
    };
    if message::is_parts(parts) {
        let text = Json::string(&part::text(parts));
        let parts = parts.clone();
        said.canonical.push((Key::Known(Field::Content), parts));
        crate::event::set(&mut said.members, Key::Known(Field::Content), text);
    }
}
