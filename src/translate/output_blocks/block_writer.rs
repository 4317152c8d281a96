//! Writing: text and reasoning events become output blocks, or the strings that a route asks for.

use super::{Blocks, DATA, DELTA, OUTPUT, START, TEXT, THINKING_MEMBERS, copy_all, outer};
use crate::codec::json;
use crate::dialect::{ASSISTANT, Content, block};
use crate::event::{Event, Field, Json, Key, Kind, Members, get, message_id, remove};
use crate::translate::carry;
use crate::translate::write::Said;

/// The writing side: messages that are open over there.
#[derive(Debug, Default)]
pub(in crate::translate) struct Writing {
    /// id and role
    pub(super) open: Vec<(Json<'static>, Json<'static>)>,
    /// those of the open messages that have said something
    filled: Vec<Json<'static>>,
    /// reasoning that the dialect itself said inside a message: id of the reasoning, id of the message
    native: Vec<(Json<'static>, Json<'static>)>,
    /// when each rendered reasoning message began, ms
    began: Vec<(Json<'static>, i64)>,
    pub(super) blocks: Blocks,
}

impl Writing {
    /// Notes the start of a message; `false` when it is open already because thinking opened it.
    pub fn start(&mut self, said: &mut Said<'_>) -> bool {
        let id = message_id(&said.members);
        let role = get(&said.members, Field::Role).cloned().map_or_else(|| Json::string(ASSISTANT), Json::into_owned);
        crate::event::set(&mut said.members, Key::Known(Field::Role), role.clone());
        let fresh = !self.open.iter().any(|(own, _)| own.same(&id));
        if fresh {
            self.open.push((id, role));
        }
        fresh
    }

    /// Puts the text of one piece of content into the form that the route asks for, or that it came in.
    pub fn content(&self, said: &mut Said<'_>, content: Content) {
        let blocks = said
            .own
            .iter()
            .any(|(key, _)| [block::LAYOUT, DELTA, OUTPUT].iter().any(|name| carry::is_named(key, name)));
        let string = carry::take(&mut said.own, TEXT).is_some();
        if (content == Content::String || string) && !blocks {
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

    /// Takes note of a piece of content that is written.
    pub fn fill(&mut self, said: &Said<'_>) {
        if let Some(id) = get(&said.members, Field::MessageId)
            && !self.filled.iter().any(|own| own.same(id))
        {
            self.filled.push(id.clone().into_owned());
        }
    }

    /// Whether a message is about to end with nothing in it. The component that the seed prints (§4.1) takes the content
    /// apart as blocks when the message ends, and fails on one that has none.
    pub fn ends_empty(&self, end: &Event<'_>) -> bool {
        let id = message_id(&end.members);
        self.open.iter().any(|(own, _)| own.same(&id)) && !self.filled.iter().any(|own| own.same(&id))
    }

    /// Adds the role to the end of a message, as its start said it.
    pub fn end(&mut self, said: &mut Said<'_>) {
        let id = message_id(&said.members);
        self.filled.retain(|own| !own.same(&id));
        let Some(at) = self.open.iter().position(|(own, _)| own.same(&id)) else {
            return;
        };
        let (_, role) = self.open.remove(at);
        if !said.own.iter().any(|(key, _)| *key == Key::Known(Field::Role)) {
            said.own.push((Key::Known(Field::Role), role));
        }
    }

    /// Whether the dialect itself said this reasoning: the message it stands in, and the start that has to be written
    /// first.
    pub fn adopt(&mut self, reasoning: &Json<'_>, own: &mut Members<'static>) -> Option<Option<Event<'static>>> {
        // Only what reading names so came from over there.
        let message = get(own, Field::MessageId).filter(|message| is_span_of(reasoning, message)).cloned()?;
        remove(own, Field::MessageId);
        let open = self.open.iter().any(|(id, _)| id.same(&message));
        self.native.push((reasoning.clone().into_owned(), message));
        let start = carry::take(own, START).filter(|_| !open);
        Some(start.and_then(|start| {
            let members = crate::event::owned(json::members(&start)?);
            Some(Event { kind: Kind::TextMessageStart, members, source: None })
        }))
    }

    /// The message that native reasoning stands in.
    pub fn native(&self, reasoning: &Json<'_>) -> Option<&Json<'static>> {
        self.native.iter().find(|(id, _)| id.same(reasoning)).map(|(_, message)| message)
    }

    /// The span of native reasoning has ended.
    pub fn forget(&mut self, reasoning: &Json<'_>) {
        self.native.retain(|(id, _)| !id.same(reasoning));
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
    pub fn rendered(&mut self, reasoning: &Json<'_>, kind: Kind, now: i64) -> Members<'static> {
        let at = match self.began.iter().position(|(id, _)| id.same(reasoning)) {
            Some(at) => at,
            None => {
                self.began.push((reasoning.clone().into_owned(), now));
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

/// Whether reasoning of this id is a span that reading found in a message of that id.
fn is_span_of(reasoning: &Json<'_>, message: &Json<'_>) -> bool {
    let (Some(reasoning), Some(message)) = (reasoning.text(), message.text()) else {
        return false;
    };
    let count = reasoning.strip_prefix(&*message).and_then(|rest| rest.strip_prefix(":reasoning:"));
    count.is_some_and(|count| count.parse::<u32>().is_ok())
}
