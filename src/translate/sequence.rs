//! One thing at a time, for peers of AG-UI 0.0.35: while a message or a call is open there, anything but its own pieces (and
//! RAW) rejects the run (measured; `specs/ag-ui-1.0.md` §3.6).
//!
//! ```text
//!   text   open ── anything else ──▶ END* ── … ── its next piece ──▶ START*, piece
//!                                               └─ its end ──▶ whole, as CUSTOM: over there it has ended
//!   call   START, pieces wait for the end; anything else ──▶ what waits leaves whole, as CUSTOM, and START*, pieces* at the end
//! ```
//! A piece without text leaves as RAW. What is marked with a star stands for nothing, so the way back gives the order in which things were said. A call never
//! ends over there before its arguments are whole: somebody might carry it out.

use super::{held, older};
use crate::event::{Event, Field, Json, Kind};

/// What is open over there, and what waits.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// the message that is open, with its start
    text: Option<Event<'static>>,
    /// messages that were ended because something else came, with their starts
    paused: Vec<Event<'static>>,
    calls: Vec<Call>,
    /// what all of it holds, in bytes
    held: usize,
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
        let id = event.get(Field::MessageId).cloned().map(Json::into_owned);
        let is_it = |start: &Event<'_>| start.get(Field::MessageId) == id.as_ref();
        match event.kind {
            Kind::TextMessageStart => {
                self.pause(out);
                self.text = Some(start_of(&event));
            }
            _ if self.text.as_ref().is_some_and(is_it) => {
                if event.kind == Kind::TextMessageEnd {
                    self.text = None;
                }
            }
            _ => {
                self.pause(out);
                if let Some(at) = self.paused.iter().position(is_it) {
                    let start = self.paused.remove(at);
                    self.held -= held::cost(&start);
                    // Another start would be an empty message to many versions.
                    if event.kind == Kind::TextMessageEnd {
                        return out(Leaves::Whole(event.into_owned()));
                    }
                    out(Leaves::Made(start.clone()));
                    self.text = Some(start);
                }
            }
        }
        out(Leaves::Said(event));
    }

    /// Ends the open message, because something else comes.
    fn pause(&mut self, out: &mut impl FnMut(Leaves<'_>)) {
        if let Some(start) = self.text.take() {
            let mut end = Event::new(Kind::TextMessageEnd);
            if let Some(id) = start.get(Field::MessageId) {
                end.set(Field::MessageId, id.clone());
            }
            out(Leaves::Made(end));
            self.held += held::cost(&start);
            self.paused.push(start);
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
