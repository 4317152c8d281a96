//! One thing at a time, for peers of AG-UI 0.0.35: while a message or a call is open there, anything but its own pieces (and
//! RAW) rejects the run (measured; `specs/ag-ui-1.0.md` §3.6).
//!
//! ```text
//!   text   open ── anything else ──▶ END* ── … ── its next piece ──▶ START* of `<id>:2`, piece, under that id from here on
//!                                               └─ its end ──▶ whole, as CUSTOM: over there it has ended
//!   call   START, pieces wait for the end; anything else ──▶ what waits leaves whole, as CUSTOM, and START*, pieces* at the end
//! ```
//! A piece without text leaves as RAW. What is marked with a star stands for nothing, so the way back gives the order in which things were said. A call never
//! ends over there before its arguments are whole: somebody might carry it out. An id that has ended is not used again: to some
//! versions that is an empty message more, to others a second one of one id (measured). The id that was said is carried.

use super::{held, older};
use crate::event::{Event, Field, Json, Key, Kind};

/// What is open over there, and what waits.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// the message that is open
    text: Option<Text>,
    /// messages that were ended because something else came
    paused: Vec<Text>,
    calls: Vec<Call>,
    /// what all of it holds, in bytes
    held: usize,
}

/// A message whose end has not come.
#[derive(Debug)]
struct Text {
    /// as the agent calls it
    id: Json<'static>,
    /// its start as it was said over there last
    start: Event<'static>,
    /// how often it was begun there
    times: usize,
}

/// A call whose end has not come.
#[derive(Debug)]
struct Call {
    id: Json<'static>,
    events: Vec<Event<'static>>,
    /// how many of them have left whole
    shown: usize,
}

/// What leaves, and how.
pub(super) enum Leaves<'a> {
    /// as it is
    Said(Event<'a>),
    /// as it is over there, and nothing here
    Made(Event<'static>),
    /// whole, as CUSTOM
    Whole(Event<'static>),
}

const fn is_call(kind: Kind) -> bool {
    matches!(kind, Kind::ToolCallStart | Kind::ToolCallArgs | Kind::ToolCallEnd)
}

const fn is_text(kind: Kind) -> bool {
    matches!(kind, Kind::TextMessageStart | Kind::TextMessageContent | Kind::TextMessageEnd)
}

impl Sequence {
    /// What leaves now that `event` comes.
    pub fn next<'a>(&mut self, event: Event<'a>, out: &mut impl FnMut(Leaves<'_>)) {
        if event.kind == Kind::Raw || older::is_empty(&event) {
            self.show_calls(out);
            return out(Leaves::Said(event));
        }
        if is_call(event.kind) {
            return self.call(event, out);
        }
        self.show_calls(out);
        if is_text(event.kind) {
            return self.message(event, out);
        }
        self.pause(out);
        out(Leaves::Said(event));
    }

    fn message<'a>(&mut self, event: Event<'a>, out: &mut impl FnMut(Leaves<'_>)) {
        let id = event.get(Field::MessageId).cloned().map_or_else(|| Json::string(""), Json::into_owned);
        if event.kind == Kind::TextMessageStart {
            self.pause(out);
            self.text = Some(Text { id, start: start_of(&event), times: 1 });
            return out(Leaves::Said(event));
        }
        if self.text.as_ref().is_none_or(|open| !open.id.same(&id)) {
            self.pause(out);
            if let Some(at) = self.paused.iter().position(|paused| paused.id.same(&id)) {
                let text = self.paused.remove(at);
                self.held -= held::cost(&text.start);
                // Another start would be an empty message.
                if event.kind == Kind::TextMessageEnd {
                    return out(Leaves::Whole(event.into_owned()));
                }
                let text = text.again();
                out(Leaves::Made(text.start.clone()));
                self.text = Some(text);
            }
        }
        let ends = event.kind == Kind::TextMessageEnd;
        out(Leaves::Said(match &self.text {
            Some(open) => open.called(event),
            None => event,
        }));
        if ends {
            self.text = None;
        }
    }

    /// Ends the open message, because something else comes.
    fn pause(&mut self, out: &mut impl FnMut(Leaves<'_>)) {
        if let Some(text) = self.text.take() {
            let mut end = Event::new(Kind::TextMessageEnd);
            if let Some(id) = text.start.get(Field::MessageId) {
                end.set(Field::MessageId, id.clone());
            }
            out(Leaves::Made(end));
            self.held += held::cost(&text.start);
            self.paused.push(text);
        }
    }

    fn call<'a>(&mut self, event: Event<'a>, out: &mut impl FnMut(Leaves<'_>)) {
        let id = event.get(Field::ToolCallId).cloned().map_or_else(|| Json::string(""), Json::into_owned);
        let at = self.calls.iter().position(|call| call.id.same(&id));
        // What waits of another call was said before.
        let others = self.calls.iter().any(|call| !call.id.same(&id) && call.shown < call.events.len());
        if others {
            self.show_calls(out);
        }
        match (event.kind, at) {
            (Kind::ToolCallEnd, Some(at)) => {
                let Call { events, shown, .. } = self.calls.remove(at);
                self.held -= events.iter().map(held::cost).sum::<usize>();
                self.pause(out);
                if shown > 0 {
                    events[shown..].iter().for_each(|rest| out(Leaves::Whole(rest.clone())));
                    events.into_iter().for_each(|made| out(Leaves::Made(made)));
                } else {
                    events.into_iter().for_each(|waited| out(Leaves::Said(waited)));
                }
                out(Leaves::Said(event));
            }
            (_, at) => {
                let at = at.unwrap_or_else(|| {
                    self.calls.push(Call { id, events: Vec::new(), shown: 0 });
                    self.calls.len() - 1
                });
                self.held += held::cost(&event);
                self.calls[at].events.push(event.into_owned());
            }
        }
    }

    /// What waits, in bytes.
    pub fn held(&self) -> usize {
        self.held
    }

    /// What waits of calls leaves whole, because something else comes.
    fn show_calls(&mut self, out: &mut impl FnMut(Leaves<'_>)) {
        if self.calls.iter().any(|call| call.shown < call.events.len()) {
            self.pause(out);
        }
        for call in &mut self.calls {
            for event in &call.events[call.shown..] {
                out(Leaves::Whole(event.clone()));
            }
            call.shown = call.events.len();
        }
    }
}

impl Text {
    /// The message as it goes on, under an id of its own.
    fn again(mut self) -> Self {
        self.times += 1;
        self.start.set(Field::MessageId, self.id.followed_by(&format!(":{}", self.times)));
        self
    }

    /// A piece as it is said over there; what the agent called its message is carried.
    fn called<'a>(&self, mut piece: Event<'a>) -> Event<'a> {
        if self.times > 1
            && let Some(id) = self.start.get(Field::MessageId)
        {
            piece.set(Field::MessageId, id.clone());
            piece.members.push((Key::Other(Field::MessageId.camel().into()), self.id.clone()));
        }
        piece
    }
}

/// A start as it can be said again.
fn start_of(event: &Event<'_>) -> Event<'static> {
    let mut start = Event::new(Kind::TextMessageStart);
    for field in [Field::MessageId, Field::Role] {
        if let Some(value) = event.get(field) {
            start.set(field, value.clone().into_owned());
        }
    }
    start
}
