//! Thinking in dialects that say it with fewer words than AG-UI: without ids ([`Shape::Nameless`]), or without a span around
//! its messages ([`Shape::Spanless`]).
//!
//! ```text
//!   nameless   THINKING_START, THINKING_TEXT_MESSAGE_START …   ids <run>:reasoning:<n>, a span and its first message share one
//!   spanless   THINKING_TEXT_MESSAGE_START(m) … END(m)         a span m opens before the message m, and closes behind it
//! ```
//! Writing folds a span into its message where both say the same, which takes one event of patience: the start of a span
//! waits for the message, the end of a message for the end of the span. Whatever else comes sends them out first.

use super::read::Parts;
use super::shown::is_reasoning;
use super::write::Said;
use super::{Sink, carry, spell};
use crate::codec::json;
use crate::dialect::{Dialect, Pin, Row, Shape, Side};
use crate::event::input::REASONING;
use crate::event::{Event, Field, Json, Key, Kind, Members, get, message_id, remove};

/// Note: the role that thinking had over there.
pub(super) const ROLE: &str = "$role";

/// Note: this thinking had no ids over there.
pub(super) const NAMELESS: &str = "$nameless";

/// Under the home of canonical material: members of the span that was folded into its message.
const SPAN: &str = "$span";

/// The reading side.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    run: Option<Json<'static>>,
    count: u32,
    span: Option<Json<'static>>,
    /// the message that is open, or was the last in its span
    message: Option<Json<'static>>,
}

impl Thoughts {
    /// Takes note of the run that begins: ids are made of its own.
    pub fn run(&mut self, event: &Event<'_>) {
        let run = event.get(Field::RunId).filter(|id| !id.is("")).cloned().map(Json::into_owned);
        *self = Thoughts { run, ..Thoughts::default() };
    }

    /// Gives thinking without ids the ones that a client needs.
    pub fn name(&mut self, parts: &mut Parts<'_>) {
        let kind = parts.event.kind;
        let id = self.id(parts);
        if kind == Kind::ReasoningMessageStart && parts.event.get(Field::Role).is_none() {
            parts.event.set(Field::Role, Json::string(REASONING));
        }
        if parts.restored.is_empty() {
            parts.own.push((carry::own(NAMELESS), Json::trusted("true")));
        }
        parts.event.set(Field::MessageId, id);
    }

    /// The id that an event of thinking says, or else the one that it means.
    fn id(&mut self, parts: &Parts<'_>) -> Json<'static> {
        let kind = parts.event.kind;
        let said = parts.event.get(Field::MessageId).or_else(|| get(&parts.own, Field::MessageId));
        let id = match (said.cloned().map(Json::into_owned), kind) {
            (Some(said), _) => said,
            (None, Kind::ReasoningStart) => self.fresh(),
            (None, Kind::ReasoningEnd) => self.span.clone().unwrap_or_else(|| self.fresh()),
            (None, Kind::ReasoningMessageStart) => match (&self.span, &self.message) {
                (Some(span), None) => span.clone(),
                _ => self.fresh(),
            },
            (None, _) => self.message.clone().unwrap_or_else(|| self.fresh()),
        };
        match kind {
            Kind::ReasoningStart => (self.span, self.message) = (Some(id.clone()), None),
            Kind::ReasoningEnd => (self.span, self.message) = (None, None),
            _ => self.message = Some(id.clone()),
        }
        id
    }

    fn fresh(&mut self) -> Json<'static> {
        self.count += 1;
        let run = self.run.clone().unwrap_or_else(|| Json::string("run"));
        run.followed_by(&format!(":reasoning:{}", self.count))
    }

    /// Thinking whose message has no span: the span is added. Over there the message has an id; one that has not gets it.
    pub fn spanless(&mut self, mut parts: Parts<'_>, dialect: &Dialect, sink: &mut impl Sink) {
        let id = self.id(&parts);
        if parts.event.get(Field::MessageId).is_none() {
            parts.event.set(Field::MessageId, id);
            parts.own.push((carry::own(NAMELESS), Json::trusted("true")));
        }
        let Parts { mut event, mut own, .. } = parts;
        let noted = carry::take(&mut event.members, SPAN).map(Json::into_owned);
        let id = message_id(&event.members);
        let span = |kind| match noted.as_ref().and_then(json::message) {
            Some(members) => Event { kind, members: crate::event::owned(members), source: None },
            None => Event::new(kind).with(Field::MessageId, id.clone()),
        };
        match event.kind {
            Kind::ReasoningMessageStart => {
                read_role(dialect, &mut event, &mut own);
                sink.event(span(Kind::ReasoningStart));
                carry::pack(&mut event, dialect.name, own);
                sink.event(event);
            }
            Kind::ReasoningMessageEnd => {
                carry::pack(&mut event, dialect.name, own);
                sink.event(event);
                sink.event(span(Kind::ReasoningEnd));
            }
            _ => {
                carry::pack(&mut event, dialect.name, own);
                sink.event(event);
            }
        }
    }
}

/// The role of thinking is one of its own here; what it was over there is noted unless it is the word for the assistant.
pub(super) fn read_role(dialect: &Dialect, event: &mut Event<'_>, own: &mut Members<'_>) {
    if let Some(role) = event.remove(Field::Role).map(Json::into_owned)
        && !role.is(default_role(dialect))
    {
        own.push((carry::own(ROLE), role));
    }
    event.set(Field::Role, Json::string(REASONING));
}

fn default_role(dialect: &Dialect) -> &'static str {
    let mut words = dialect.words.iter();
    words.find(|word| word.canonical == crate::dialect::ASSISTANT).map_or(crate::dialect::ASSISTANT, |word| word.word)
}

/// The role of thinking as the dialect says it: what was said, or its word for the assistant.
pub(super) fn write_role(dialect: &Dialect, kind: Kind, members: &mut Members<'_>, own: &mut Members<'_>) {
    if kind == Kind::ReasoningMessageStart && spell::was_null(own, Field::Role) {
        remove(members, Field::Role);
    } else if kind == Kind::ReasoningMessageStart {
        let role = carry::take(own, ROLE).map_or_else(|| Json::string(default_role(dialect)), Json::into_owned);
        crate::event::set(members, Key::Known(Field::Role), role);
    }
}

/// The writing side of [`Shape::Spanless`](crate::dialect::Shape::Spanless).
#[derive(Debug, Default)]
pub(super) enum Fold {
    /// nothing waits
    #[default]
    Idle,
    /// the start of a span waits for its message
    SpanOpens(Event<'static>),
    /// the span of this id was folded into its message, which is open
    Folded(Json<'static>),
    /// the end of that message waits for the end of the span
    MessageEnds(Json<'static>, Event<'static>),
}

/// What leaves: an event and how.
pub(super) enum Leaves<'a> {
    /// in the dialect's own word
    Said(Event<'a>),
    /// in the dialect's own word, which is more than is meant: the canonical event alone
    Alone(Event<'a>),
    /// whole, because there is no word for it
    Whole(Event<'a>),
}

impl Fold {
    /// What waited leaves, because something comes that is not to be folded.
    pub fn flush(&mut self, mut out: impl FnMut(Leaves<'_>)) {
        match std::mem::take(self) {
            Fold::SpanOpens(span) => out(Leaves::Whole(span)),
            Fold::MessageEnds(_, end) => out(Leaves::Alone(end)),
            other => *self = other,
        }
    }

    /// What leaves now that `event` comes.
    pub fn next<'a>(&mut self, event: Event<'a>, mut out: impl FnMut(Leaves<'_>)) {
        let id = message_id(&event.members);
        match (std::mem::take(self), event.kind) {
            (Fold::SpanOpens(span), Kind::ReasoningMessageStart) if message_id(&span.members).same(&id) => {
                *self = Fold::Folded(id);
                out(Leaves::Said(with_span(event, &span)));
                return;
            }
            (Fold::MessageEnds(open, end), Kind::ReasoningEnd) if open.same(&id) => {
                out(Leaves::Said(with_span(end, &event)));
                return;
            }
            (Fold::Folded(open), Kind::ReasoningMessageEnd) if open.same(&id) => {
                *self = Fold::MessageEnds(open, event.into_owned());
                return;
            }
            (Fold::SpanOpens(span), _) => out(Leaves::Whole(span)),
            (Fold::MessageEnds(_, end), _) => out(Leaves::Alone(end)),
            (folded @ Fold::Folded(_), kind) if kind != Kind::ReasoningStart => *self = folded,
            _ => {}
        }
        match event.kind {
            Kind::ReasoningStart => *self = Fold::SpanOpens(event.into_owned()),
            Kind::ReasoningEnd => out(Leaves::Whole(event)),
            Kind::ReasoningMessageStart | Kind::ReasoningMessageEnd => out(Leaves::Alone(event)),
            _ => out(Leaves::Said(event)),
        }
    }
}

/// The boundary of a message that stands for that of its span as well; what the span says more is noted.
fn with_span<'a>(mut event: Event<'a>, span: &Event<'_>) -> Event<'a> {
    if span.members.len() > 1 {
        event.members.push((carry::own(SPAN), json::to_object(&span.members)));
    }
    event
}

/// The writing side for peers whose thinking always has a span: a message that has none gets one, which stands for nothing.
#[derive(Debug, Default)]
pub(super) enum Spans {
    /// no span is open
    #[default]
    Closed,
    /// one that the agent opened
    Said,
    /// one of our own, around a message
    Made,
}

impl Spans {
    /// Whether the peer is told this event in a word of its own, if it is one of thinking. Who may have any version is where
    /// the agent said it so: from the start of a span or a message on, until that has ended.
    pub fn admits(&self, event: &Event<'_>, side: Side) -> bool {
        let nameless = |(_, row): (usize, &Row)| row.shape == Shape::Nameless;
        if !is_reasoning(event.kind) || !side.dialect.row_of(event.kind, side.pin).is_some_and(nameless) {
            return true;
        }
        match (side.pin, event.kind) {
            (Pin::Any, Kind::ReasoningStart) => is_nameless(event, side),
            (Pin::Any, Kind::ReasoningMessageStart) => self.is_open() || is_nameless(event, side),
            (Pin::Any, _) => self.is_open(),
            (pin, _) => pin >= Pin::V0_0_39,
        }
    }

    fn is_open(&self) -> bool {
        !matches!(self, Spans::Closed)
    }

    /// What has to leave before this event, and what behind it.
    pub fn around(&mut self, event: &Event<'_>, side: Side) -> (Option<Event<'static>>, Option<Event<'static>>) {
        if side.pin >= Pin::V0_0_45 {
            return (None, None);
        }
        let made = |kind| {
            let id = message_id(&event.members).into_owned();
            let mut made = Event::new(kind).with(Field::MessageId, id);
            if is_nameless(event, side) {
                carry::pack(&mut made, side.dialect.name, vec![(carry::own(NAMELESS), Json::trusted("true"))]);
            }
            Some(made)
        };
        match (std::mem::take(self), event.kind) {
            (Spans::Closed, Kind::ReasoningMessageStart) => {
                *self = Spans::Made;
                (made(Kind::ReasoningStart), None)
            }
            (Spans::Made, Kind::ReasoningMessageEnd) => (None, made(Kind::ReasoningEnd)),
            (before, Kind::ReasoningStart) => {
                *self = Spans::Said;
                (matches!(before, Spans::Made).then(|| made(Kind::ReasoningEnd)).flatten(), None)
            }
            (_, Kind::ReasoningEnd | Kind::RunStarted) => (None, None),
            (same, _) => {
                *self = same;
                (None, None)
            }
        }
    }
}

/// Whether the agent said this piece of thinking without an id.
fn is_nameless(event: &Event<'_>, side: Side) -> bool {
    event.get(Field::Metadata).is_some_and(|metadata| {
        let own = json::members(metadata).and_then(|mut metadata| carry::take(&mut metadata, side.dialect.name));
        own.as_ref().and_then(json::members).is_some_and(|own| has_note(&own))
    })
}

fn has_note(own: &Members<'_>) -> bool {
    own.iter().any(|(key, _)| carry::is_named(key, NAMELESS))
}

/// Takes out of thinking without ids what its reader knows anyway.
pub(super) fn forget_names(said: &mut Said<'_>) {
    if carry::take(&mut said.own, NAMELESS).is_some() {
        remove(&mut said.canonical, Field::MessageId);
        remove(&mut said.members, Field::MessageId);
    }
    if get(&said.canonical, Field::Role).is_some_and(|role| role.is(REASONING)) {
        remove(&mut said.canonical, Field::Role);
    }
}
