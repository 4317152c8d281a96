//! Text in dialects that say a message whole, in its end (`Shape::Answer`).
//!
//! Reading makes start, text, what is to be shown beside it, and end of one event. Writing gathers until the message ends:
//! ```text
//!   START ─▶ Gather{pieces} ── CONTENT, ui_schema ──▶ … ── END ──▶ one event
//!                                        └── the run fails ──▶ one event, without an end
//! ```
//! How the text was cut is noted, so that the way back gives the same pieces; that other events came in between is not.

use super::call::{self, FILLED};
use super::read::Parts;
use super::{Sink, carry, held};
use crate::codec::json;
use crate::dialect::{ASSISTANT, Dialect, answer};
use crate::event::kind::TEXT_ROLES;
use crate::event::{Event, Field, Json, Key, Kind, Members, Type, get, message_id, remove, set};
use std::collections::VecDeque;

/// Under the home of canonical material: how many bytes of the answer each piece has, as JSON spells it.
const PIECES: &str = "$pieces";

/// What is added to a message's id for the activity that shows what stands beside it.
const BESIDE: &str = ":ui_schema";

/// Under the home of canonical material: the answer that an end said beside the text that had been streamed.
const BESIDE_TEXT: &str = "$answer";

/// Messages that are remembered at once; the oldest is forgotten first.
const STREAMED_LIMIT: usize = 1024;

/// The reading side: messages that the agent streamed all the same, and whether any text of them has come.
#[derive(Debug, Default)]
pub(super) struct Reading(VecDeque<(Json<'static>, bool)>);

impl Reading {
    /// Takes note of an event that was read. A piece opens its message as well as a start does.
    pub fn note(&mut self, event: &Event<'_>) {
        if !matches!(event.kind, Kind::TextMessageStart | Kind::TextMessageContent | Kind::TextMessageChunk) {
            return;
        }
        let said = event.get(Field::MessageId).map(|_| message_id(&event.members));
        let at = match &said {
            Some(id) => self.0.iter().rposition(|(open, _)| open.same(id)),
            // A chunk without an id goes on with the message before it.
            None => self.0.len().checked_sub(1),
        };
        let at = match (at, said) {
            (Some(at), _) => at,
            (None, Some(id)) => {
                if self.0.len() == STREAMED_LIMIT {
                    self.0.pop_front();
                }
                self.0.push_back((id, false));
                self.0.len() - 1
            }
            (None, None) => return,
        };
        let has_text = event.get(Field::Delta).is_some_and(|delta| !delta.is("") && !delta.is_null());
        self.0[at].1 |= has_text;
    }

    /// The end of a message: with all of it, unless it was streamed.
    pub fn end(&mut self, mut parts: Parts<'_>, dialect: &Dialect, sink: &mut impl Sink) {
        call::forget_filled(&mut parts, answer::FILLERS);
        let text = carry::take(&mut parts.own, answer::TEXT).map(Json::into_owned);
        if let Some(events) = call::take_events(&mut parts.event, is_text) {
            return events.into_iter().for_each(|event| sink.event(event));
        }
        let pieces = carry::take(&mut parts.event.members, PIECES).map(Json::into_owned);
        let beside = carry::take(&mut parts.event.members, BESIDE_TEXT).map(Json::into_owned);
        let Parts { mut event, mut own, .. } = parts;
        let id = message_id(&event.members);
        let open = self.0.iter().position(|(open, _)| open.same(&id)).and_then(|at| self.0.remove(at));
        // Without a name there is no message to speak of: the guard says what is wrong with such an event.
        let is_named = event.get(Field::MessageId).is_some();
        if open.is_none() && is_named {
            let start = Event::new(Kind::TextMessageStart).with(Field::MessageId, id.clone());
            sink.event(start.with(Field::Role, take_role(&mut own)));
        }
        let left = match text {
            Some(text) if text.shape() == Type::String && is_named && open.is_none_or(|(_, has_text)| !has_text) => {
                for piece in cut(&text, pieces.as_ref()) {
                    let content = Event::new(Kind::TextMessageContent).with(Field::MessageId, id.clone());
                    sink.event(content.with(Field::Delta, piece));
                }
                beside
            }
            other => beside.or(other),
        };
        own.extend(left.map(|text| (carry::own(answer::TEXT), text)));
        if is_named {
            show_beside(&id, &mut own, sink);
        }
        carry::pack(&mut event, dialect.name, own);
        sink.event(event);
    }
}

/// The role of a message that begins. A word that AG-UI has no such message for stays where it was.
fn take_role(own: &mut Members<'_>) -> Json<'static> {
    let is_role = |role: &Json<'_>| role.text().is_some_and(|role| TEXT_ROLES.contains(&&*role));
    match get(own, Field::Role).is_some_and(is_role).then(|| remove(own, Field::Role)).flatten() {
        Some(role) => role.into_owned(),
        None => Json::string(ASSISTANT),
    }
}

/// What is to be shown beside the text becomes an activity.
fn show_beside(id: &Json<'static>, own: &mut Members<'_>, sink: &mut impl Sink) {
    let shown = own.iter().position(|(key, value)| {
        carry::is_named(key, answer::UI_SCHEMA) && json::members(value).is_some_and(|members| !members.is_empty())
    });
    if let Some(at) = shown {
        let (_, content) = own.remove(at);
        let beside = Event::new(Kind::ActivitySnapshot).with(Field::MessageId, id.followed_by(BESIDE));
        let beside = beside.with(Field::ActivityType, Json::string(answer::UI_SCHEMA_ACTIVITY));
        sink.event(beside.with(Field::Content, content));
    }
}

const fn is_text(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::TextMessageStart
            | Kind::TextMessageContent
            | Kind::TextMessageEnd
            | Kind::TextMessageChunk
            | Kind::ActivitySnapshot
    )
}

/// The pieces of a text. It stays whole unless the lengths fit it: they come from outside.
fn cut(text: &Json<'_>, lengths: Option<&Json<'_>>) -> Vec<Json<'static>> {
    let whole = || vec![text.clone().into_owned()];
    let Some(lengths) = lengths.and_then(json::elements) else {
        return whole();
    };
    let mut rest = &text.as_str()[1..text.as_str().len() - 1];
    let mut pieces = Vec::with_capacity(lengths.len());
    for length in &lengths {
        let piece = length.as_i64().and_then(|length| rest.split_at_checked(usize::try_from(length).ok()?));
        let Some((piece, more)) = piece else { return whole() };
        let piece = format!("\"{piece}\"");
        let Some(piece) = json::value(&piece).map(Json::into_owned) else { return whole() };
        pieces.push(piece);
        rest = more;
    }
    if rest.is_empty() { pieces } else { whole() }
}

/// The writing side: messages that are not at their end yet.
#[derive(Debug, Default)]
pub(super) struct Writing {
    open: Vec<Gather>,
    /// what they hold, in bytes
    held: usize,
}

#[derive(Debug)]
struct Gather {
    id: Json<'static>,
    events: Vec<Event<'static>>,
}

/// What became of an event.
pub(super) enum Taken<'a> {
    /// it waits
    Waits,
    /// it is the end: the whole message, as the event that ends it
    Ends(Event<'static>),
    /// it is none of a message that waits
    Other(Event<'a>),
}

impl Writing {
    /// Takes an event of a message. `stands_for` is the chunk that it was unfolded from, the empty text when it was made.
    pub fn take<'a>(&mut self, mut event: Event<'a>, stands_for: Option<&'static str>) -> Taken<'a> {
        let id = match event.kind {
            Kind::TextMessageStart | Kind::TextMessageContent | Kind::TextMessageEnd => message_id(&event.members),
            Kind::ActivitySnapshot if is_beside(&event) => match self.owner(&event) {
                Some(id) => id,
                None => return Taken::Other(event),
            },
            _ => return Taken::Other(event),
        };
        let ends = event.kind == Kind::TextMessageEnd;
        let at = self.open.iter().position(|gather| gather.id.same(&id)).unwrap_or_else(|| {
            self.held += held::text(id.as_str());
            self.open.push(Gather { id, events: Vec::new() });
            self.open.len() - 1
        });
        let made = stands_for == Some("");
        if let Some(kind) = stands_for.and_then(Kind::from_wire) {
            event.kind = kind;
            super::chunk::restore_absent(&mut event);
        }
        if !made {
            self.held += held::cost(&event);
            self.open[at].events.push(event.into_owned());
        }
        if !ends {
            return Taken::Waits;
        }
        let gather = self.open.remove(at);
        self.held -= gather.held();
        Taken::Ends(gather.whole(true))
    }

    /// What waits, in bytes.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The message that an activity stands beside, if it waits.
    fn owner(&self, event: &Event<'_>) -> Option<Json<'static>> {
        let id = message_id(&event.members);
        self.open.iter().map(|gather| &gather.id).find(|own| own.followed_by(BESIDE).same(&id)).cloned()
    }

    /// What still waits, because the run failed.
    pub fn rest(&mut self) -> Vec<Event<'static>> {
        self.held = 0;
        self.open.drain(..).map(|gather| gather.whole(false)).collect()
    }
}

fn is_beside(event: &Event<'_>) -> bool {
    event.get(Field::ActivityType).is_some_and(|kind| kind.is(answer::UI_SCHEMA_ACTIVITY))
}

impl Gather {
    fn held(&self) -> usize {
        held::text(self.id.as_str()) + self.events.iter().map(held::cost).sum::<usize>()
    }

    /// The message as the event that ends it. `ended` is whether it came to its end.
    fn whole(self, ended: bool) -> Event<'static> {
        let Gather { id, events } = self;
        let mut text = String::from("\"");
        let mut lengths = Vec::new();
        for event in &events {
            if let Some(delta) = event.get(Field::Delta).filter(|delta| delta.shape() == Type::String) {
                let inner = &delta.as_str()[1..delta.as_str().len() - 1];
                text.push_str(inner);
                lengths.push(Json::integer(i64::try_from(inner.len()).unwrap_or_default()));
            }
        }
        text.push('"');
        let says_end = events.last().is_some_and(|end| end.kind == Kind::TextMessageEnd);
        let plain = says_end && events.iter().enumerate().all(|(at, event)| is_plain(event, at, events.len()));
        let role = events.first().and_then(|start| start.get(Field::Role)).cloned();
        let beside = events
            .iter()
            .find(|event| event.kind == Kind::ActivitySnapshot)
            .and_then(|event| event.get(Field::Content));
        let mut own: Members<'static> =
            vec![(Key::Known(Field::Role), role.unwrap_or_else(|| Json::string(ASSISTANT)))];
        if !lengths.is_empty() {
            own.push((carry::own(answer::TEXT), Json::trusted(text)));
        }
        own.extend(beside.map(|content| (carry::own(answer::UI_SCHEMA), content.clone())));
        if !ended {
            // The run failed in the middle of it; the way back reads the events, not this.
            own.push((carry::own(answer::STATUS), Json::string(answer::FAILED)));
        }
        let mut end = match events.last() {
            Some(end) if end.kind == Kind::TextMessageEnd => end.clone(),
            _ => Event::new(Kind::TextMessageEnd).with(Field::MessageId, id),
        };
        if !plain {
            let list: Vec<_> = events.iter().map(call::record).collect();
            end.members.push((carry::own(call::EVENTS), json::to_array(&list)));
        } else if lengths.len() != 1 {
            end.members.push((carry::own(PIECES), json::to_array(&lengths)));
        }
        end.members.push((carry::own(OWN), json::to_object(&own)));
        end
    }
}

/// Between gathering and writing: the dialect's own members of the whole message.
const OWN: &str = "$own";

/// Whether an event of a message says no more than reading would make of the whole one.
fn is_plain(event: &Event<'_>, at: usize, count: usize) -> bool {
    let only = |fields: &[Field]| {
        event.members.iter().all(|(key, _)| matches!(key, Key::Known(field) if fields.contains(field)))
    };
    match event.kind {
        Kind::TextMessageStart => at == 0 && only(&[Field::MessageId, Field::Role]),
        Kind::TextMessageContent => at > 0 && only(&[Field::MessageId, Field::Delta]),
        Kind::ActivitySnapshot => at + 2 == count && only(&[Field::MessageId, Field::ActivityType, Field::Content]),
        Kind::TextMessageEnd => at + 1 == count,
        _ => false,
    }
}

/// Takes the dialect's own members out of a whole message that is written, and adds what it always says.
pub(super) fn write(said: &mut super::write::Said<'_>) {
    if let Some(own) = carry::take(&mut said.canonical, OWN) {
        for (key, value) in json::message(&own).map(crate::event::owned).unwrap_or_default() {
            if key == Key::Known(Field::Role) && get(&said.own, Field::Role).is_some() {
                continue;
            }
            if carry::is_named(&key, answer::TEXT) {
                let said_beside = carry::take(&mut said.own, answer::TEXT);
                said.canonical.extend(said_beside.map(|answer| (carry::own(BESIDE_TEXT), answer)));
            }
            set(&mut said.own, key, value);
        }
        if !said.own.iter().any(|(key, _)| carry::is_named(key, answer::TEXT)) {
            said.own.push((carry::own(answer::TEXT), Json::string("")));
        }
        call::fill(said, answer::FILLERS);
    }
    debug_assert!(said.canonical.iter().filter(|(key, _)| carry::is_named(key, FILLED)).count() <= 1, "noted once");
}
