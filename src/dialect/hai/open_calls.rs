//! The open calls, for a snapshot of the agent that does not have them.
//!
//! A client adds arguments to a call of its messages (§4.1 "HAI会自动拼接数据"), and a snapshot replaces those: it would
//! fail at the next piece. So a call that the snapshot lacks starts again behind it, with the arguments so far.

use super::kept_messages::TEXTS_LIMIT;
use crate::codec::json;
use crate::event::{Event, EventLoss, EventType, Field, IdMap, Json, get};

/// Maximum number of snapshots behind which a call starts again. Without it, the output would grow with the square of a
/// run's length.
const MAX_SNAPSHOTS: u32 = 4;

/// Cost of a call besides its arguments.
const ENTRY_COST: usize = 256;

#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    calls: IdMap<OpenCall>,
    /// open calls that the client does not have, because a snapshot lacked them
    lost: IdMap<()>,
    bytes: usize,
    losses: Vec<EventLoss>,
}

#[derive(Debug)]
enum OpenCall {
    Kept {
        /// the start as it was written
        start: Event<'static>,
        /// text with its escapes
        arguments: String,
        /// number of snapshots that lacked it
        snapshots: u32,
    },
    /// over a limit
    NotKept,
}

impl OpenCalls {
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Records a call, with the parent that the client gets.
    pub(crate) fn start(&mut self, call: &Event<'_>) {
        let id = call.get_or_empty(Field::ToolCallId);
        let mut start = Event::new(EventType::ToolCallStart);
        for field in [Field::ToolCallId, Field::ToolCallName, Field::ParentMessageId] {
            call.get_owned(field).into_iter().for_each(|value| start.set(field, value));
        }
        self.bytes += ENTRY_COST;
        self.calls.insert(id, OpenCall::Kept { start, arguments: String::new(), snapshots: 0 });
    }

    /// Adds to the arguments of a call. Returns false if the client does not have the call.
    pub(crate) fn add_arguments(&mut self, event: &Event<'_>) -> bool {
        let (Some(id), Some(delta)) = (event.get(Field::ToolCallId), event.get(Field::Delta)) else { return true };
        let Some(call) = self.calls.get_mut(id) else { return !self.lost.contains(id) };
        let OpenCall::Kept { arguments, .. } = call else { return true };
        let piece = delta.unquoted();
        if self.bytes + piece.len() > TEXTS_LIMIT {
            self.bytes -= arguments.len();
            *call = OpenCall::NotKept;
        } else {
            self.bytes += piece.len();
            arguments.push_str(piece);
        }
        true
    }

    pub(crate) fn end(&mut self, event: &Event<'_>) {
        let Some(id) = event.get(Field::ToolCallId) else { return };
        if let Some(call) = self.calls.remove(id) {
            self.bytes -= ENTRY_COST + call.arguments_len();
        } else if self.lost.remove(id).is_some() {
            self.bytes -= ENTRY_COST;
        }
    }

    /// Returns the starts and the arguments of the calls that a snapshot lacks.
    pub(crate) fn missing_events(&mut self, snapshot: &Event<'_>) -> Vec<Event<'static>> {
        let list = snapshot.get(Field::Messages).and_then(json::parse_elements).unwrap_or_default();
        let messages = list.iter().filter_map(json::parse_message);
        let mut listed = Vec::new();
        for message in messages {
            let calls = get(&message, Field::ToolCalls).and_then(json::parse_elements).unwrap_or_default();
            let ids = calls.iter().filter_map(|call| json::parse_member(call, Field::Id.camel()));
            listed.extend(ids.map(|id| (id.into_owned(), ())));
        }
        let listed: IdMap<()> = listed.into_iter().collect();
        let mut events = Vec::new();
        let missing: Vec<_> = self.calls.iter().map(|(id, _)| id).filter(|id| !listed.contains(id)).cloned().collect();
        for id in missing {
            let Some(call) = self.calls.get_mut(&id) else { continue };
            match call {
                OpenCall::Kept { start, arguments, snapshots } if *snapshots < MAX_SNAPSHOTS => {
                    *snapshots += 1;
                    events.push(start.clone());
                    if !arguments.is_empty() {
                        let arguments = Json::from_trusted(format!("\"{arguments}\""));
                        let piece = Event::new(EventType::ToolCallArgs).with(Field::ToolCallId, id);
                        events.push(piece.with(Field::Delta, arguments));
                    }
                }
                OpenCall::Kept { .. } | OpenCall::NotKept => {
                    self.bytes -= call.arguments_len();
                    self.calls.remove(&id);
                    self.lost.insert(id, ());
                    self.losses.push(EventLoss::EventNotShown);
                }
            }
        }
        events
    }

    /// Returns the calls that the client no longer has, since the last call of this.
    pub(crate) fn take_losses(&mut self) -> Vec<EventLoss> {
        std::mem::take(&mut self.losses)
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.bytes
    }
}

impl OpenCall {
    fn arguments_len(&self) -> usize {
        match self {
            OpenCall::Kept { arguments, .. } => arguments.len(),
            OpenCall::NotKept => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str) -> Event<'static> {
        let event = Event::new(EventType::ToolCallArgs).with(Field::ToolCallId, Json::string("c"));
        event.with(Field::Delta, Json::string(text))
    }

    fn open_call() -> OpenCalls {
        let mut calls = OpenCalls::default();
        calls.start(&Event::new(EventType::ToolCallStart).with(Field::ToolCallId, Json::string("c")));
        calls
    }

    fn snapshot(messages: &'static str) -> Event<'static> {
        Event::new(EventType::MessagesSnapshot).with(Field::Messages, Json::from_trusted(messages))
    }

    #[test]
    fn repeats_a_call_for_a_limited_number_of_snapshots() {
        let mut calls = open_call();
        assert!(calls.add_arguments(&piece("{\"a\":\"\u{1f44d}")));
        let repeated: Vec<_> = (0..2 * MAX_SNAPSHOTS).map(|_| calls.missing_events(&snapshot("[]")).len()).collect();
        assert_eq!(repeated.iter().sum::<usize>(), 2 * MAX_SNAPSHOTS as usize);
        assert_eq!(calls.take_losses(), [EventLoss::EventNotShown]);
        assert!(!calls.add_arguments(&piece("}")));
        calls.end(&piece(""));
        assert_eq!(calls.retained_bytes(), 0);
    }

    #[test]
    fn leaves_a_call_that_the_snapshot_has() {
        let mut calls = open_call();
        let listed = r#"[{"id":"m","role":"assistant","toolCalls":[{"id":"c","function":{}}]}]"#;
        assert!(calls.missing_events(&snapshot(listed)).is_empty());
        assert!(calls.add_arguments(&piece("{}")));
    }

    #[test]
    fn counts_a_call_over_the_limit_once_a_snapshot_lacks_it() {
        let mut calls = open_call();
        assert!(calls.add_arguments(&piece(&"x".repeat(TEXTS_LIMIT))) && calls.add_arguments(&piece("x")));
        assert_eq!(calls.take_losses(), []);
        assert!(calls.missing_events(&snapshot("[]")).is_empty() && !calls.add_arguments(&piece("x")));
        assert_eq!(calls.take_losses(), [EventLoss::EventNotShown]);
        calls.end(&piece(""));
        assert_eq!(calls.retained_bytes(), 0);
    }
}
