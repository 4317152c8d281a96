//! The client's last message, and the ids of its messages.
//!
//! The component of the seed (§4.1) shows only the last message when a piece arrives, and a second start of an id makes
//! an empty message. So what goes on behind another message, or starts with an id that is in use, has a message of its
//! own:
//! ```text
//!   AG-UI  START a  "1"         START b  "2"         "3" of a                           END a     END b
//!   HAI    START a  "1"  END a  START b  "2"  END b  START a:2  "3"                     END a:2
//! ```
//! A message ends before another one follows: at an end, the component parses the content of the last message, which may be
//! the result of a call. An id of an earlier run is in use, too ([`Dialect::reopens_since`](crate::dialect::Dialect)).
//! The messages of a HAI agent stay as they are.

use crate::codec::json;
use crate::dialect::earlier_messages::EarlierMessages;
use crate::dialect::memory_limits;
use crate::event::{Event, EventType, Field, IdMap, Json, get};

#[derive(Debug, Default)]
pub(super) struct LastMessage {
    last: Option<Json<'static>>,
    /// the message that a call makes because its text has not begun
    call_message: Option<Json<'static>>,
    /// the client's messages, by id; the highest number that follows the id of one, or 0 if it is of an earlier run
    counts: IdMap<u32>,
    id_bytes: usize,
    /// open texts, by the agent's id
    texts: IdMap<OpenText>,
    /// the text whose message is the client's last one, by the agent's id
    last_text: Option<Json<'static>>,
    /// the client's last message for each text that has more than one, or another one, by the agent's id
    added: IdMap<Json<'static>>,
    thought: Option<OpenThought>,
    /// ids of thoughts whose message ended before they did
    left_thoughts: IdMap<()>,
    /// whether the agent speaks the dialect
    is_native: bool,
}

#[derive(Debug)]
pub(super) struct OpenText {
    pub(crate) role: Option<Json<'static>>,
    /// id of the client's message, if that has started
    pub(crate) message: Option<Json<'static>>,
    /// whether the message is not the one that the agent started
    pub(crate) is_added: bool,
    /// whether the client has a part of the text
    pub(crate) has_begun: bool,
}

/// The start of a text or a thought, until the next event shows whether its content follows at once.
#[derive(Debug)]
pub(super) struct HeldStart {
    pub(crate) event: Event<'static>,
    pub(crate) canonical_type: Option<&'static str>,
    /// whether the agent started a part of a message
    pub(crate) is_part: bool,
    /// in ms since the epoch
    pub(crate) now_ms: i64,
}

/// A thought whose message is the client's last one.
#[derive(Clone, Debug)]
pub(super) struct OpenThought {
    /// the agent's id
    pub(crate) id: Json<'static>,
    /// id of the client's message
    pub(crate) message: Json<'static>,
    /// of its last event, in ms since the epoch by the agent's clock, if that sends times
    pub(crate) time: i64,
}

impl LastMessage {
    /// Recognizes an agent of the dialect by what its events carry, in each run anew.
    pub(crate) fn observe(&mut self, event: &Event<'_>, dialect: &str) {
        if event.kind == EventType::RunStarted {
            self.texts = IdMap::default();
            self.added = IdMap::default();
            self.thought = None;
            self.left_thoughts = IdMap::default();
            self.is_native = false;
        }
        let own = event.get(Field::Metadata).and_then(|metadata| json::parse_member(metadata, dialect));
        self.is_native |= own.is_some();
    }

    pub(crate) fn is_native(&self) -> bool {
        self.is_native
    }

    pub(crate) fn get(&self) -> Option<&Json<'static>> {
        self.last.as_ref()
    }

    pub(crate) fn is_last(&self, message: &Json<'_>) -> bool {
        self.last.as_ref().is_some_and(|last| last.is_same(message))
    }

    /// Records a message that is added behind the others.
    pub(crate) fn add(&mut self, message: &Json<'_>) {
        let message = message.clone().into_owned();
        self.count(&message);
        self.last = Some(message);
    }

    /// Adds a message for what has this id, and returns the message's own.
    pub(crate) fn add_for(&mut self, id: &Json<'static>) -> Json<'static> {
        let is_new = !self.counts.contains(id);
        let mut number = self.counts.get(id).copied().unwrap_or(0).max(1);
        let mut message = id.clone();
        while self.counts.contains(&message) {
            number += 1;
            message = id.with_suffix(&format!(":{number}"));
        }
        self.add(&message);
        if !is_new {
            self.counts.insert(id.clone(), number);
        }
        message
    }

    /// Returns true if the client has the message from an earlier run, and this one has not begun its own.
    pub(crate) fn is_earlier(&self, message: &Json<'_>) -> bool {
        self.counts.get(message) == Some(&0)
    }

    /// Adds the message of a text that has not begun, for the call that makes it.
    pub(crate) fn add_for_call(&mut self, id: &Json<'static>) -> Json<'static> {
        let message = self.add_for(id);
        if message != *id {
            self.added.insert(id.clone(), message.clone());
        }
        self.call_message = Some(message.clone());
        message
    }

    /// Returns true if calls without a parent are in this message, which a call made.
    pub(crate) fn takes_calls(&self, message: &Json<'_>) -> bool {
        self.call_message.as_ref().is_some_and(|own| own.is_same(message))
    }

    /// Records the messages of earlier runs, whose ids the client has too.
    pub(crate) fn record_earlier(&mut self, earlier: &EarlierMessages) {
        for message in &earlier.messages {
            self.counts.insert(message.id.clone(), 0);
        }
    }

    /// Records the messages of a snapshot, which the client shows in place of its own.
    pub(crate) fn record_snapshot(&mut self, snapshot: &Event<'_>) {
        self.last = None;
        let list = snapshot.get(Field::Messages).and_then(json::parse_elements).unwrap_or_default();
        for message in list.iter().filter_map(json::parse_message) {
            if let Some(id) = get(&message, Field::Id) {
                self.count(&id.clone().into_owned());
            }
        }
    }

    pub(crate) fn open_text(&mut self, id: Json<'static>, text: OpenText) {
        if let Some(message) = &text.message {
            self.last_text = Some(id.clone());
            if text.is_added {
                self.added.insert(id.clone(), message.clone());
            }
        }
        self.texts.insert(id, text);
    }

    pub(crate) fn text(&self, id: &Json<'_>) -> Option<&OpenText> {
        self.texts.get(id)
    }

    /// Takes the message of the text that goes on in another one, if the client's last message has a text that is open.
    pub(crate) fn leave_text(&mut self) -> Option<Json<'static>> {
        let text = self.texts.get_mut(&self.last_text.take()?)?;
        text.is_added = true;
        text.message.take()
    }

    /// Returns the client's message for one of the agent.
    pub(crate) fn message_of(&self, id: &Json<'static>) -> Json<'static> {
        self.added.get(id).unwrap_or(id).clone()
    }

    pub(crate) fn close_text(&mut self, id: &Json<'_>) -> Option<OpenText> {
        let message = self.added.get(id).unwrap_or(id);
        self.call_message.take_if(|own| own.is_same(message));
        self.texts.remove(id)
    }

    pub(crate) fn open_thought(&mut self, thought: OpenThought) {
        self.thought = Some(thought);
    }

    /// Returns the message of a thought that goes on.
    pub(crate) fn message_of_thought(&self, id: &Json<'_>) -> Option<&Json<'static>> {
        self.thought.as_ref().filter(|thought| thought.id.is_same(id)).map(|thought| &thought.message)
    }

    pub(crate) fn set_thought_time(&mut self, time: i64) {
        self.thought.iter_mut().for_each(|thought| thought.time = time);
    }

    pub(crate) fn end_thought(&mut self) {
        self.thought = None;
    }

    /// Records that the message of the open thought ends before the thought.
    pub(crate) fn leave_thought(&mut self) -> Option<OpenThought> {
        let thought = self.thought.take()?;
        self.left_thoughts.insert(thought.id.clone(), ());
        Some(thought)
    }

    /// Records a thought that has no message yet.
    pub(crate) fn postpone_thought(&mut self, id: Json<'static>) {
        self.left_thoughts.insert(id, ());
    }

    /// Returns true if the message of the thought, which ends now, had ended before.
    pub(crate) fn end_left_thought(&mut self, id: &Json<'_>) -> bool {
        self.left_thoughts.remove(id).is_some()
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.id_bytes
    }

    fn count(&mut self, message: &Json<'static>) {
        match self.counts.get_mut(message) {
            Some(number) => *number = (*number).max(1),
            None => {
                self.id_bytes += memory_limits::text_cost(message.as_str());
                self.counts.insert(message.clone(), 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_each_message_an_unused_id() {
        let mut last = LastMessage::default();
        let id = Json::string("m");
        last.add(&Json::string("m:2"));
        let ids: Vec<_> = (0..3).map(|_| last.add_for(&id).as_str().to_owned()).collect();
        assert_eq!(ids, ["\"m\"", "\"m:3\"", "\"m:4\""]);
        assert!(last.is_last(&Json::string("m:4")));
    }
}
