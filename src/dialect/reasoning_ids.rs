//! Generates missing ids for thinking: `<run>:reasoning:<n>`, shared by a span and its first message.

use super::carry;
use super::event_parts::{IncomingEvent, OutgoingEvent};
use crate::event::input::REASONING;
use crate::event::{Event, EventType, Field, Json, get, remove};

/// Stores the dialect's role for thinking.
pub(crate) const ROLE_NOTE: &str = "$role";

/// Marks thinking that had no ids.
pub(crate) const NAMELESS_NOTE: &str = "$nameless";

#[derive(Debug, Default)]
pub(crate) struct ReasoningIds {
    /// of the request
    request_run_id: Option<Json<'static>>,
    /// of the run's start
    started_run_id: Option<Json<'static>>,
    /// whether a run has begun, maybe without its start, and has not ended
    is_running: bool,
    id_count: u32,
    span_id: Option<Json<'static>>,
    /// the open message, or the last one in the span
    message_id: Option<Json<'static>>,
}

impl ReasoningIds {
    /// Bases generated ids on the run's id, which is that of the request if there is one: the client's start has it.
    pub(crate) fn set_run_id(&mut self, run_id: &Json<'static>) {
        self.request_run_id = Some(run_id.clone());
    }

    /// Reads the boundaries of runs. A start that comes late ends no thinking.
    pub(crate) fn observe(&mut self, event: &Event<'_>) {
        match event.kind {
            EventType::RunStarted if !self.is_running => {
                let run_id = event.get(Field::RunId).filter(|id| !id.is_str("")).cloned().map(Json::into_owned);
                let request_run_id = self.request_run_id.take();
                *self = ReasoningIds {
                    request_run_id,
                    started_run_id: run_id,
                    is_running: true,
                    ..ReasoningIds::default()
                };
            }
            EventType::RunFinished | EventType::RunError => self.is_running = false,
            _ => {}
        }
    }

    /// Adds a missing id to a thinking event.
    pub(crate) fn supply_id(&mut self, parts: &mut IncomingEvent<'_>) {
        let id = self.resolve_id(parts);
        if parts.event.get(Field::MessageId).is_none() {
            parts.event.set(Field::MessageId, id);
            carry::add_note(&mut parts.extensions, NAMELESS_NOTE);
        }
    }

    pub(crate) fn assign_ids(&mut self, parts: &mut IncomingEvent<'_>) {
        let kind = parts.event.kind;
        let id = self.resolve_id(parts);
        if kind == EventType::ReasoningMessageStart && parts.event.get(Field::Role).is_none() {
            parts.event.set(Field::Role, Json::string(REASONING));
        }
        if parts.restored_fields.is_empty() {
            carry::add_note(&mut parts.extensions, NAMELESS_NOTE);
        }
        parts.event.set(Field::MessageId, id);
    }

    /// Returns the id of a thinking event, or derives one.
    fn resolve_id(&mut self, parts: &IncomingEvent<'_>) -> Json<'static> {
        let kind = parts.event.kind;
        let given = parts.event.get(Field::MessageId).or_else(|| get(&parts.extensions, Field::MessageId));
        let id = match (given.cloned().map(Json::into_owned), kind) {
            (Some(given), EventType::ReasoningStart | EventType::ReasoningMessageStart) => {
                self.skip_id(&given);
                given
            }
            (Some(given), _) => given,
            (None, EventType::ReasoningStart) => self.next_id(),
            (None, EventType::ReasoningEnd) => self.span_id.clone().unwrap_or_else(|| self.next_id()),
            (None, EventType::ReasoningMessageStart) => match (&self.span_id, &self.message_id) {
                (Some(span), None) => span.clone(),
                _ => self.next_id(),
            },
            (None, _) => self.message_id.clone().unwrap_or_else(|| self.next_id()),
        };
        match kind {
            EventType::ReasoningStart => (self.span_id, self.message_id) = (Some(id.clone()), None),
            EventType::ReasoningEnd => (self.span_id, self.message_id) = (None, None),
            _ => self.message_id = Some(id.clone()),
        }
        id
    }

    /// Generates no id again that an earlier hop generated, and that came back.
    fn skip_id(&mut self, given: &Json<'_>) {
        let Some(given) = given.text() else { return };
        let number = given.rsplit_once(":reasoning:").and_then(|(_, number)| number.parse::<u16>().ok());
        if let Some(number) = number.filter(|number| self.id(u32::from(*number)).is_str(&given)) {
            self.id_count = self.id_count.max(u32::from(number));
        }
    }

    fn next_id(&mut self) -> Json<'static> {
        self.is_running = true;
        self.id_count += 1;
        self.id(self.id_count)
    }

    fn id(&self, number: u32) -> Json<'static> {
        let run = self.request_run_id.as_ref().or(self.started_run_id.as_ref());
        let run = run.cloned().unwrap_or_else(|| Json::string("run"));
        run.with_suffix(&format!(":reasoning:{number}"))
    }
}

/// The open thinking that is written without ids. Its ends may be the guard's, which knows only the ids that reading
/// gave it.
#[derive(Debug, Default)]
pub(crate) struct NamelessThinking {
    span_id: Option<Json<'static>>,
    message_id: Option<Json<'static>>,
}

impl NamelessThinking {
    /// Removes ids and roles that the reader will add again.
    pub(crate) fn remove_generated_ids(&mut self, kind: EventType, outgoing: &mut OutgoingEvent<'_>) {
        let mut is_nameless = carry::take(&mut outgoing.extensions, NAMELESS_NOTE).is_some();
        let id = get(&outgoing.canonical, Field::MessageId).or_else(|| get(&outgoing.members, Field::MessageId));
        let is_span = matches!(kind, EventType::ReasoningStart | EventType::ReasoningEnd);
        let open = if is_span { &mut self.span_id } else { &mut self.message_id };
        match kind {
            EventType::ReasoningStart | EventType::ReasoningMessageStart => {
                *open = id.filter(|_| is_nameless).map(|id| id.clone().into_owned());
            }
            EventType::ReasoningEnd | EventType::ReasoningMessageEnd => {
                let started = open.take();
                is_nameless |= id.is_some_and(|id| started.is_some_and(|started| started.is_same(id)));
            }
            _ => {}
        }
        if is_nameless {
            remove(&mut outgoing.canonical, Field::MessageId);
            remove(&mut outgoing.members, Field::MessageId);
        }
        if get(&outgoing.canonical, Field::Role).is_some_and(|role| role.is_str(REASONING)) {
            remove(&mut outgoing.canonical, Field::Role);
        }
    }
}
