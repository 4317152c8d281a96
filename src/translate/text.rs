//! Messages that are streamed as output blocks: text, and the thinking that may come before it.
//!
//! Reading one message `M`:
//! ```text
//!   start ──▶ Held ── thinking ──▶ Noted, a reasoning span M:reasoning:n open or closed
//!              │                     │
//!              │ text, another       │ text, another output, the end
//!              │ output, the end,    │
//!              │ any other event     ▼
//!              └─────────────────▶ Said (TEXT_MESSAGE_START has left)
//! ```
//! The start is held so that thinking which comes first stands first in the client's conversation. Only thinking overtakes
//! it: the span notes the start, so that the way back knows where it stood.

use super::carry;
use super::read::Parts;
use super::report::Repair;
use super::{Sink, write::Said};
use crate::codec::json;
use crate::dialect::{ASSISTANT, Content, block};
use crate::event::{Event, Field, Json, Key, Kind, Member, Members, Type, get, remove};

/// Note on a reasoning span: the start of the message that it stands before, as the dialect said it.
const START: &str = "$start";
/// Notes on a block: members that have no name of their own among the carried ones.
const DELTA: &str = "$delta";
const OUTPUT: &str = "$output";
const DATA: &str = "$data";

/// The reading side: messages that are open.
#[derive(Debug, Default)]
pub(super) struct Reading {
    open: Vec<Message>,
    /// how many reasoning spans a closed message had, for ids that stay unique when it is opened again
    spans: Vec<(Box<str>, u32)>,
}

#[derive(Debug)]
struct Message {
    id: Box<str>,
    role: Option<Json<'static>>,
    start: Start,
    thinking: Option<Box<str>>,
    spans: u32,
}

#[derive(Debug)]
enum Start {
    /// nobody has heard of it
    Held(Event<'static>),
    /// a reasoning span holds the note of it
    Noted(Event<'static>),
    /// it has left
    Said,
}

/// What a delta is.
enum Delta<'a> {
    /// a plain string, or nothing that can be told apart
    Plain,
    /// an output block: its type, the block's members, the delta's other members
    Block { kind: Json<'a>, output: Members<'a>, rest: Members<'a> },
}

fn delta<'a>(value: Option<&'a Json<'_>>) -> Delta<'a> {
    let block = || {
        let mut rest = json::members(value?)?;
        let mut output = json::open_object(carry::take(&mut rest, block::OUTPUT)?.source()?).ok()?;
        Some(Delta::Block { kind: output.kind.take()?, output: output.members, rest })
    };
    block().unwrap_or(Delta::Plain)
}

/// The text that a delta says: the string itself, or that of a text or thinking block.
pub(super) fn said<'a>(value: &'a Json<'_>) -> Option<Json<'a>> {
    match delta(Some(value)) {
        Delta::Plain => None,
        Delta::Block { kind, mut output, .. } if kind.is(block::THINKING) => {
            let data = carry::take(&mut output, block::DATA)?;
            json::members(&data).and_then(|mut data| carry::take(&mut data, block::CONTENT)).map(Json::into_owned)
        }
        Delta::Block { mut output, .. } => carry::take(&mut output, block::CONTENT),
    }
}

impl Reading {
    /// BUSINESS_DATA_START and the like.
    pub fn start(&mut self, event: Event<'_>, sink: &mut impl Sink) {
        let id = event.text(Field::MessageId).unwrap_or_default().into_owned();
        if self.open.iter().any(|message| *message.id == *id) {
            return sink.event(event);
        }
        let role = event.get(Field::Role).cloned().map(Json::into_owned);
        self.open_message(&id, role, event.into_owned());
    }

    fn open_message(&mut self, id: &str, role: Option<Json<'static>>, start: Event<'static>) -> usize {
        let spans = match self.spans.iter().position(|(known, _)| **known == *id) {
            Some(at) => self.spans.swap_remove(at).1,
            None => 0,
        };
        // Most agents have one message open at a time.
        self.open.reserve_exact(1);
        self.open.push(Message { id: id.into(), role, start: Start::Held(start), thinking: None, spans });
        self.open.len() - 1
    }

    /// One piece of content. `whole` is the event that carries it when it is no text and no thinking.
    pub fn content(&mut self, parts: Parts<'_>, dialect: &str, whole: Event<'_>, sink: &mut impl Sink) {
        let id = parts.event.text(Field::MessageId).unwrap_or_default().into_owned();
        let at = match self.open.iter().position(|message| *message.id == *id) {
            Some(at) => at,
            None => {
                sink.report().repair(Repair::OpenerSupplied);
                let start = Event::new(Kind::TextMessageStart).with(Field::MessageId, Json::string(&id));
                self.open_message(&id, None, start.with(Field::Role, Json::string(ASSISTANT)))
            }
        };
        let message = &mut self.open[at];
        let Parts { mut event, mut own, .. } = parts;
        let value = event.remove(Field::Delta);
        match delta(value.as_ref()) {
            Delta::Plain if value.as_ref().is_some_and(|value| value.shape() == Type::String) => {
                message.say_start(sink);
                if let Some(value) = value {
                    event.set(Field::Delta, value);
                }
                carry::pack(&mut event, dialect, own);
                sink.event(event);
            }
            Delta::Block { kind, mut output, rest } if kind.is(block::TEXT) && is_text(&output, block::CONTENT) => {
                message.say_start(sink);
                let text = carry::take(&mut output, block::CONTENT).map(Json::into_owned);
                keep_delta(&mut own, rest, output);
                event.set(Field::Delta, text.unwrap_or_else(|| Json::string("")));
                carry::pack(&mut event, dialect, own);
                sink.event(event);
            }
            Delta::Block { kind, mut output, rest } if kind.is(block::THINKING) && thinking_text(&output).is_some() => {
                let data = carry::take(&mut output, block::DATA).unwrap_or(Json::NULL);
                let mut data = json::members(&data).unwrap_or_default();
                let text = carry::take(&mut data, block::CONTENT).unwrap_or_else(|| Json::string(""));
                let ends =
                    data.iter().any(|(key, value)| carry::is_named(key, block::THINKING) && value.as_str() == "false");
                keep_delta(&mut own, rest, output);
                keep_data(&mut own, &data);
                message.think(event, own, text, dialect, sink);
                if ends {
                    message.stop_thinking(sink);
                }
            }
            Delta::Plain | Delta::Block { .. } => {
                message.say_start(sink);
                sink.event(whole);
            }
        }
    }

    /// BUSINESS_DATA_END and the like.
    pub fn end(&mut self, event: Event<'_>, sink: &mut impl Sink) {
        let id = event.text(Field::MessageId).unwrap_or_default().into_owned();
        if let Some(at) = self.open.iter().position(|message| *message.id == *id) {
            let mut message = self.open.remove(at);
            message.say_start(sink);
            if message.spans > 0 {
                self.spans.push((message.id, message.spans));
            }
        }
        sink.event(event);
    }

    /// An end that says the role of its start again says nothing: writing adds it back.
    pub fn forget_role(&self, parts: &mut Parts<'_>) {
        let id = parts.event.text(Field::MessageId).unwrap_or_default();
        let start = self.open.iter().find(|message| *message.id == *id).map(|message| message.role.clone());
        let said = start.map(|role| role.unwrap_or_else(|| Json::string(ASSISTANT)));
        drop(id);
        if said.is_some() && said.as_ref() == get(&parts.own, Field::Role) {
            remove(&mut parts.own, Field::Role);
        }
    }

    /// Says every start that an event would overtake, unless it is an event of the message `but` itself.
    pub fn release(&mut self, but: Option<&str>, sink: &mut impl Sink) {
        for message in &mut self.open {
            if matches!(message.start, Start::Held(_)) && but != Some(&*message.id) {
                message.say_start(sink);
            }
        }
    }

    /// Says every start that is still held; the run guard closes the messages.
    pub fn close_all(&mut self, sink: &mut impl Sink) {
        for mut message in self.open.drain(..) {
            message.say_start(sink);
        }
    }
}

impl Message {
    fn say_start(&mut self, sink: &mut impl Sink) {
        self.stop_thinking(sink);
        if let Start::Held(start) | Start::Noted(start) = std::mem::replace(&mut self.start, Start::Said) {
            sink.event(start);
        }
    }

    fn think(&mut self, event: Event<'_>, own: Members<'_>, text: Json<'_>, dialect: &str, sink: &mut impl Sink) {
        let id = match &self.thinking {
            Some(id) => Json::string(id),
            None => self.start_thinking(&event, dialect, sink),
        };
        let mut content = Event { kind: Kind::ReasoningMessageContent, ..event };
        content.set(Field::MessageId, id);
        content.set(Field::Delta, text.into_owned());
        carry::pack(&mut content, dialect, own);
        sink.event(content);
    }

    fn start_thinking(&mut self, event: &Event<'_>, dialect: &str, sink: &mut impl Sink) -> Json<'static> {
        self.spans += 1;
        let name = format!("{}:reasoning:{}", self.id, self.spans);
        let id = Json::string(&name);
        let mut span = Event::new(Kind::ReasoningStart).with(Field::MessageId, id.clone());
        let mut own: Members<'_> = vec![(Key::Known(Field::MessageId), Json::string(&self.id))];
        let mut happened = event.get(Field::Timestamp).cloned().map(Json::into_owned);
        self.start = match std::mem::replace(&mut self.start, Start::Said) {
            Start::Held(start) => {
                own.push((carry::own(START), json::to_object(&start.members)));
                happened = start.get(Field::Timestamp).cloned();
                Start::Noted(start)
            }
            later => later,
        };
        if let Some(timestamp) = happened {
            span.set(Field::Timestamp, timestamp);
        }
        carry::pack(&mut span, dialect, own);
        sink.event(span);
        let start = Event::new(Kind::ReasoningMessageStart).with(Field::MessageId, id.clone());
        sink.event(start.with(Field::Role, Json::string(crate::event::input::REASONING)));
        self.thinking = Some(name.into());
        id
    }

    fn stop_thinking(&mut self, sink: &mut impl Sink) {
        if let Some(id) = self.thinking.take() {
            let id = Json::string(&id);
            sink.event(Event::new(Kind::ReasoningMessageEnd).with(Field::MessageId, id.clone()));
            sink.event(Event::new(Kind::ReasoningEnd).with(Field::MessageId, id));
        }
    }
}

fn is_text(members: &[Member<'_>], name: &str) -> bool {
    members.iter().any(|(key, value)| carry::is_named(key, name) && value.shape() == Type::String)
}

fn thinking_text(output: &[Member<'_>]) -> Option<()> {
    let (_, data) = output.iter().find(|(key, _)| carry::is_named(key, block::DATA))?;
    is_text(&json::members(data)?, block::CONTENT).then_some(())
}

/// Carries what a block says besides its text: `layout` by its name, and when there is more, all of it under a note.
fn keep_delta(own: &mut Members<'_>, rest: Members<'_>, output: Members<'_>) {
    keep(own, &[block::LAYOUT], &rest, DELTA);
    if !output.is_empty() {
        own.push((carry::own(OUTPUT), json::to_object(&output)));
    }
}

const THINKING_MEMBERS: [&str; 3] = [block::ELAPSED, block::THINKING, block::COLLAPSE];

fn keep_data(own: &mut Members<'_>, data: &Members<'_>) {
    keep(own, &THINKING_MEMBERS, data, DATA);
}

/// Carries `members` by their own names while they are all among `names` and the event itself says none of these; all under
/// `note` otherwise, so that writing knows which stood where.
fn keep(own: &mut Members<'_>, names: &[&'static str], members: &Members<'_>, note: &'static str) {
    let named = |key: &Key<'_>| names.iter().copied().find(|name| carry::is_named(key, name));
    let taken = own.iter().any(|(key, _)| named(key).is_some());
    if taken || members.iter().any(|(key, _)| named(key).is_none()) {
        own.push((carry::own(note), json::to_object(members)));
        return;
    }
    for (key, value) in members {
        own.extend(named(key).map(|name| (carry::own(name), value.clone().into_owned())));
    }
}

/// The writing side: messages that are open over there.
#[derive(Debug, Default)]
pub(super) struct Writing {
    open: Vec<(Box<str>, Json<'static>)>,
    /// reasoning that the dialect itself said inside a message: id of the reasoning, id of the message
    native: Vec<(Box<str>, Json<'static>)>,
    /// when each rendered reasoning message began, ms
    began: Vec<(Box<str>, i64)>,
}

impl Writing {
    /// Notes the start of a message; `false` when it is open already because thinking opened it.
    pub fn start(&mut self, said: &mut Said<'_>) -> bool {
        let id = said.text(Field::MessageId);
        let role = get(&said.members, Field::Role).cloned().map_or_else(|| Json::string(ASSISTANT), Json::into_owned);
        crate::event::set(&mut said.members, Key::Known(Field::Role), role.clone());
        let fresh = !self.open.iter().any(|(own, _)| **own == *id);
        if fresh {
            self.open.push((id.into(), role));
        }
        fresh
    }

    /// Puts the text of one piece of content into the form that the route asks for, or that it came in.
    pub fn content(&self, said: &mut Said<'_>, content: Content) {
        let blocks = said
            .own
            .iter()
            .any(|(key, _)| [block::LAYOUT, DELTA, OUTPUT].iter().any(|name| carry::is_named(key, name)));
        if content == Content::String && !blocks {
            return;
        }
        let text = remove(&mut said.members, Field::Delta).unwrap_or_else(|| Json::string(""));
        let rest = carry::take(&mut said.own, OUTPUT).map(Json::into_owned);
        let output = json::build(|object| {
            object.word(json::TYPE, block::TEXT);
            object.member(block::CONTENT, text.as_str());
            copy_all(object, rest.as_ref());
        });
        let delta = outer(&mut said.own, &output);
        said.members.push((Key::Known(Field::Delta), delta));
    }

    /// Adds the role to the end of a message, as its start said it.
    pub fn end(&mut self, said: &mut Said<'_>) {
        let id = said.text(Field::MessageId);
        let Some(at) = self.open.iter().position(|(own, _)| **own == *id) else {
            return;
        };
        let (_, role) = self.open.remove(at);
        if !said.own.iter().any(|(key, _)| *key == Key::Known(Field::Role)) {
            said.own.push((Key::Known(Field::Role), role));
        }
    }

    /// Whether the dialect itself said this reasoning: the message it stands in, and the start that has to be written
    /// first.
    pub fn adopt(&mut self, reasoning: &str, own: &mut Members<'static>) -> Option<Option<Event<'static>>> {
        let message = remove(own, Field::MessageId)?;
        let open = self.open.iter().any(|(id, _)| message.is(id));
        self.native.push((reasoning.into(), message));
        let start = carry::take(own, START).filter(|_| !open);
        Some(start.and_then(|start| {
            let members = crate::event::owned(json::members(&start)?);
            Some(Event { kind: Kind::TextMessageStart, members, source: None })
        }))
    }

    /// The message that native reasoning stands in.
    pub fn native(&self, reasoning: &str) -> Option<&Json<'static>> {
        self.native.iter().rev().find(|(id, _)| **id == *reasoning).map(|(_, message)| message)
    }

    /// A thinking block. `own` gives what the dialect said about it; without that it is rendered from scratch.
    pub fn thinking(&mut self, text: &Json<'_>, own: &mut Members<'_>) -> Json<'static> {
        let rest = carry::take(own, DATA).map(Json::into_owned);
        let data = json::build(|object| {
            object.member(block::CONTENT, text.as_str());
            for name in THINKING_MEMBERS.iter().filter(|_| rest.is_none()) {
                if let Some(value) = carry::take(own, name) {
                    object.member(name, value.as_str());
                }
            }
            copy_all(object, rest.as_ref());
        });
        let more = carry::take(own, OUTPUT).map(Json::into_owned);
        let output = json::build(|object| {
            object.word(json::TYPE, block::THINKING);
            object.member(block::DATA, data.as_str());
            copy_all(object, more.as_ref());
        });
        outer(own, &output)
    }

    /// The members of a rendered thinking block: how long it took so far, and whether it goes on.
    pub fn rendered(&mut self, reasoning: &str, kind: Kind, now: i64) -> Members<'static> {
        let at = match self.began.iter().position(|(id, _)| **id == *reasoning) {
            Some(at) => at,
            None => {
                self.began.push((reasoning.into(), now));
                self.began.len() - 1
            }
        };
        let elapsed = (now - self.began[at].1).max(0) / 1000;
        let goes_on = kind != Kind::ReasoningMessageEnd;
        if !goes_on {
            self.began.swap_remove(at);
        }
        let flag = |on: bool| Json::trusted(if on { "true" } else { "false" });
        vec![
            (carry::own(block::ELAPSED), Json::integer(elapsed)),
            (carry::own(block::THINKING), flag(goes_on)),
            (carry::own(block::COLLAPSE), flag(true)),
        ]
    }
}

/// The delta around a block, with what was carried beside it.
fn outer(own: &mut Members<'_>, output: &Json<'_>) -> Json<'static> {
    let rest = carry::take(own, DELTA).map(Json::into_owned);
    let layout = if rest.is_none() { carry::take(own, block::LAYOUT).map(Json::into_owned) } else { None };
    json::build(|object| {
        object.member(block::OUTPUT, output.as_str());
        if let Some(layout) = &layout {
            object.member(block::LAYOUT, layout.as_str());
        }
        copy_all(object, rest.as_ref());
    })
}

fn copy_all(object: &mut json::ObjectWriter<'_>, rest: Option<&Json<'_>>) {
    for member in rest.and_then(json::members).unwrap_or_default() {
        object.copy(&member, false);
    }
}
