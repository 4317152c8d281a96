//! Limits the elements of the lists that a translation takes apart: messages, their calls and parts, tools, context
//! entries and answers to interrupts.
//!
//! Each element takes memory while it is read, and a repaired one can be thirty times as long as before (`{}` becomes a
//! call). So the elements are counted in the text of a list, before anything is allocated for one of them. Lists in
//! state, arguments and other values of applications stay text, and do not count.

use super::CANONICAL_PREFIX;
use crate::codec::json::{self, JsonObject};
use crate::dialect::CarryLocation;
pub(crate) use crate::dialect::memory_limits::ELEMENTS_LIMIT;
use crate::event::input::{INTERRUPTS, MessageMembers};
use crate::event::{Event, EventType, Field, Json, JsonType, Members, find_member, get};
use std::fmt;

/// Length in bytes of the shortest text with more elements: each has a comma.
const SHORTEST_EXCESS: usize = 2 * ELEMENTS_LIMIT;

/// Levels of events in events: a snapshot in a carried event in a custom one.
const MAX_EVENT_DEPTH: usize = 3;

const EVENT_LISTS: [Field; 5] = [Field::Tools, Field::Context, Field::Resume, Field::Patch, Field::Usage];
const MESSAGE_LISTS: [Field; 2] = [Field::Content, Field::ToolCalls];
const INPUT_LISTS: [Field; 3] = [Field::Tools, Field::Context, Field::Resume];

/// The elements that were counted so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListBudget {
    used: usize,
}

/// The list with which there are too many elements; `None` is the list of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyElements {
    pub(super) list: Option<Field>,
    count: usize,
}

impl fmt::Display for TooManyElements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count;
        write!(
            f,
            "the lists up to here have {count} elements; at most {ELEMENTS_LIMIT} messages, calls, parts, tools, "
        )?;
        f.write_str("context entries and answers are taken together")
    }
}

impl ListBudget {
    /// Counts a message, its calls and its parts.
    pub(super) fn take_message(&mut self, message: &MessageMembers<'_>) -> Result<(), TooManyElements> {
        self.take(1, None)?;
        self.take_lists(message, &MESSAGE_LISTS)
    }

    /// Counts the lists of a request, except that of its messages.
    pub(super) fn take_input(&mut self, input: &Members<'_>) -> Result<(), TooManyElements> {
        self.take_lists(input, &INPUT_LISTS)
    }

    /// Counts the lists in an event, or in a run input that an event has.
    fn take_event(
        &mut self,
        kind: Option<EventType>,
        members: &Members<'_>,
        depth: usize,
    ) -> Result<(), TooManyElements> {
        if let Some(messages) = get(members, Field::Messages) {
            self.take_messages(messages)?;
        }
        self.take_lists(members, &EVENT_LISTS)?;
        if kind == Some(EventType::StateDelta) {
            self.take_lists(members, &[Field::Delta])?;
        }
        let outcome = get(members, Field::Outcome).and_then(json::parse_members);
        if let Some(interrupts) = outcome.as_ref().and_then(|outcome| find_member(outcome, INTERRUPTS)) {
            self.take(json::count_elements(interrupts), Some(Field::Outcome))?;
        }
        if depth == 0 {
            return Ok(());
        }
        let is_wrapped =
            get(members, Field::Name).and_then(Json::text).is_some_and(|name| name.starts_with(CANONICAL_PREFIX));
        let wrapped = get(members, Field::Value).filter(|_| is_wrapped).cloned();
        let inner = get(members, Field::Input).cloned().into_iter().chain(wrapped).chain(find_carried(members));
        for inner in inner {
            if let Ok(inner) = json::parse_object(inner.as_str()) {
                self.take_event(kind_of(&inner), &inner.members, depth - 1)?;
            }
        }
        Ok(())
    }

    /// Counts messages, and what they carry.
    fn take_messages(&mut self, list: &Json<'_>) -> Result<(), TooManyElements> {
        if self.used + json::count_elements(list) > ELEMENTS_LIMIT {
            return self.take(json::count_elements(list), None);
        }
        for element in json::parse_elements(list).unwrap_or_default() {
            let message = json::parse_message(&element).unwrap_or_default();
            self.take_message(&message)?;
            for carried in find_carried(&message) {
                let carried = json::parse_members(&carried).unwrap_or_default();
                for (_, list) in carried.iter().filter(|(_, value)| value.json_type() == JsonType::Array) {
                    self.take_messages(list)?;
                }
            }
        }
        Ok(())
    }

    fn take_lists(&mut self, owner: &Members<'_>, lists: &[Field]) -> Result<(), TooManyElements> {
        let is_list = |value: &&Json<'_>| value.json_type() == JsonType::Array;
        for field in lists {
            if let Some(list) = get(owner, *field).filter(is_list) {
                self.take(json::count_elements(list), Some(*field))?;
            }
        }
        Ok(())
    }

    fn take(&mut self, count: usize, list: Option<Field>) -> Result<(), TooManyElements> {
        self.used += count;
        if self.used > ELEMENTS_LIMIT { Err(TooManyElements { list, count: self.used }) } else { Ok(()) }
    }
}

/// Returns the objects in which gateways carry what a dialect lacks.
fn find_carried<'a>(members: &Members<'a>) -> Vec<Json<'static>> {
    let places = [CarryLocation::Metadata, CarryLocation::Extra].into_iter().filter_map(CarryLocation::carry_member);
    places.filter_map(|(place, key)| json::parse_member(find_member(members, place)?, key)).collect()
}

/// Returns true if an event has more elements in its lists than are taken apart.
pub(super) fn exceeds_limit(event: &str) -> bool {
    event.len() > SHORTEST_EXCESS
        && json::parse_object(event).is_ok_and(|event| exceeds(kind_of(&event), &event.members))
}

/// Does the same for an event that was read from a frame of another form.
pub(super) fn exceeds_limit_of_event(event: &Event<'_>) -> bool {
    let length: usize = event.members.iter().map(|(_, value)| value.as_str().len()).sum();
    length > SHORTEST_EXCESS && exceeds(Some(event.kind), &event.members)
}

fn exceeds(kind: Option<EventType>, members: &Members<'_>) -> bool {
    ListBudget::default().take_event(kind, members, MAX_EVENT_DEPTH).is_err()
}

fn kind_of(event: &JsonObject<'_>) -> Option<EventType> {
    EventType::from_wire(&event.kind.as_ref().and_then(Json::text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::sse::SseLimits;
    use crate::dialect::{AG_UI, HAI, PeerDialect};
    use crate::translate::{RunIds, RunStateLimit, Stream, StreamError, request};

    fn translate(members: &str, client: PeerDialect) -> Result<String, String> {
        let body = format!(r#"{{"threadId":"t","runId":"r",{members}}}"#);
        let agent = PeerDialect::new(&AG_UI);
        let translated = request::translate_request(body.as_bytes(), client, agent, &RunIds::new("t", "r"));
        translated.map(|request| request.body).map_err(|refused| refused.to_string())
    }

    fn list(element: &str, count: usize) -> String {
        format!("[{}]", vec![element; count].join(","))
    }

    fn message(members: &str) -> String {
        format!(r#""messages":[{{"id":"1",{members}}}]"#)
    }

    #[test]
    fn limits_the_elements_of_every_list_of_a_request() {
        for dialect in [&AG_UI, &HAI] {
            let client = PeerDialect::new(dialect);
            let rows: [(&str, &dyn Fn(usize) -> String); 6] = [
                ("/tools", &|count| format!(r#""messages":[],"tools":{}"#, list(r#"{"name":"f"}"#, count))),
                ("/context", &|count| format!(r#""messages":[],"context":{}"#, list("1", count))),
                ("/context", &|count| format!(r#""messages":[],"context":"{}""#, list("1", count))),
                ("/resume", &|count| {
                    let answer = r#"{"interruptId":"i","status":"resolved"}"#;
                    format!(r#""messages":[],"resume":{}"#, list(answer, count))
                }),
                ("/messages/0/content", &|count| {
                    message(&format!(r#""role":"user","content":{}"#, list("1", count - 1)))
                }),
                ("/messages/0/toolCalls", &|count| {
                    message(&format!(r#""role":"assistant","tool_calls":{}"#, list("{}", count - 1)))
                }),
            ];
            for (pointer, row) in rows {
                let expected = format!("{pointer}: the lists up to here have 20001 elements; at most 20000 messages, ");
                let refused = translate(&row(ELEMENTS_LIMIT + 1), client).expect_err(pointer);
                assert!(refused.starts_with(&expected), "{}: {refused}", dialect.name);
                if let Err(refused) = translate(&row(ELEMENTS_LIMIT), client) {
                    panic!("{}: {refused}", dialect.name);
                }
            }
        }
    }

    fn push(event: &str, agent: PeerDialect, client: PeerDialect) -> (Result<(), StreamError>, String) {
        let mut stream = Stream::new(agent, client, Some(RunIds::new("t", "r")), SseLimits::default());
        let mut out = Vec::new();
        let frames =
            format!("data: {{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}}\n\ndata: {event}\n\n");
        let result = stream.push(frames.as_bytes(), 0, &mut out);
        (result, String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn limits_the_elements_of_every_list_of_an_event() {
        let excess = Err(StreamError::TooMuchState(RunStateLimit::ListElements));
        let (ag_ui, hai) = (PeerDialect::new(&AG_UI), PeerDialect::new(&HAI));
        let snapshot = |list: String| format!(r#"{{"type":"MESSAGES_SNAPSHOT","messages":{list}}}"#);
        let of_one = |members: String| snapshot(format!(r#"[{{"id":"1",{members}}}]"#));
        let carried =
            |list: String| format!(r#""role":"user","content":"x","extra":{{"ag-ui":{{"preceding":{list}}}}}"#);
        let rows: [(PeerDialect, &dyn Fn(usize) -> String); 9] = [
            (ag_ui, &|count| snapshot(list("{}", count))),
            (ag_ui, &|count| of_one(format!(r#""role":"assistant","toolCalls":{}"#, list("{}", count - 1)))),
            (ag_ui, &|count| of_one(format!(r#""role":"user","content":{}"#, list("{}", count - 1)))),
            (ag_ui, &|count| format!(r#"{{"type":"STATE_DELTA","delta":{}}}"#, list("{}", count))),
            (ag_ui, &|count| {
                let interrupts = list("{}", count);
                format!(r#"{{"type":"RUN_FINISHED","outcome":{{"type":"interrupt","interrupts":{interrupts}}}}}"#)
            }),
            (ag_ui, &|count| format!(r#"{{"type":"RUN_STARTED","input":{{"messages":{}}}}}"#, list("{}", count))),
            (hai, &|count| snapshot(list("{}", count)).replace("MESSAGES_", "MESSAGE_")),
            (hai, &|count| of_one(carried(list("{}", count - 1))).replace("MESSAGES_", "MESSAGE_")),
            (hai, &|count| {
                let wrapped = snapshot(list("{}", count));
                format!(r#"{{"type":"CUSTOM","name":"ag-ui.MESSAGES_SNAPSHOT","value":{wrapped}}}"#)
            }),
        ];
        for (at, (agent, row)) in rows.into_iter().enumerate() {
            for client in [ag_ui, hai] {
                let (result, out) = push(&row(ELEMENTS_LIMIT + 1), agent, client);
                assert_eq!((&result, out.matches("data: ").count()), (&excess, 1), "row {at}");
                assert_eq!(push(&row(ELEMENTS_LIMIT), agent, client).0, Ok(()), "row {at}");
            }
        }
        // Lists of applications are not taken apart.
        for event in [
            format!(r#"{{"type":"STATE_SNAPSHOT","snapshot":{}}}"#, list("{}", 3 * ELEMENTS_LIMIT)),
            format!(r#"{{"type":"CUSTOM","name":"n","value":{{"messages":{}}}}}"#, list("{}", 3 * ELEMENTS_LIMIT)),
        ] {
            assert_eq!(push(&event, ag_ui, hai).0, Ok(()));
        }
    }

    #[test]
    fn counts_the_blocks_in_the_texts_of_a_snapshot() {
        let hai = PeerDialect::new(&HAI);
        let block = r#"{\"output\":{\"type\":\"fold\",\"data\":{}}}"#;
        let message = |count: usize| format!(r#"{{"id":"1","role":"assistant","content":"{}"}}"#, block.repeat(count));
        let snapshot = |messages: &str| format!(r#"{{"type":"MESSAGE_SNAPSHOT","messages":[{messages}]}}"#);
        let all = [message(9_000), message(9_000), message(9_000)].join(",");
        let (result, out) = push(&snapshot(&all), hai, PeerDialect::new(&AG_UI));
        assert_eq!(result, Err(StreamError::TooMuchState(RunStateLimit::ListElements)));
        assert_eq!(out.matches("data: ").count(), 1, "{out:.300}");
    }

    #[test]
    fn makes_text_of_a_long_list_as_a_result() {
        let table = list("7", ELEMENTS_LIMIT + 1);
        let event = format!(r#"{{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":{table}}}"#);
        let (result, out) = push(&event, PeerDialect::new(&AG_UI), PeerDialect::new(&AG_UI));
        assert_eq!(result, Ok(()));
        assert!(out.contains(&format!(r#""content":"{table}""#)));
    }

    #[test]
    fn counts_the_lists_of_all_messages_together() {
        let call = r#"{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}"#;
        let turn = |at: usize| {
            format!(
                r#"{{"id":"a{at}","role":"assistant","toolCalls":[{call}]}},{{"id":"b{at}","role":"tool","toolCallId":"c","content":"x"}}"#
            )
        };
        let turns = |count: usize| (0..count).map(turn).collect::<Vec<_>>().join(",");
        let ag_ui = PeerDialect::new(&AG_UI);
        let body = translate(&format!(r#""messages":[{}]"#, turns(5_000)), ag_ui).expect("an ordinary conversation");
        assert_eq!(body.matches(call).count(), 5_000);
        let refused = translate(&format!(r#""messages":[{}],"tools":{}"#, turns(5_000), list("{}", 5_001)), ag_ui);
        assert!(refused.expect_err("too many").starts_with("/tools: the lists up to here have 20001 elements"));
        let more = format!(r#"{{"id":"1","role":"user","content":{}}}"#, list("1", 5_003));
        let refused = translate(&format!(r#""messages":[{},{more}]"#, turns(4_999)), ag_ui).expect_err("too many");
        assert!(refused.starts_with("/messages/9998/content: the lists up to here"), "{refused}");
    }

    #[test]
    fn counts_lists_that_a_message_carries_or_has_in_its_text() {
        let hai = PeerDialect::new(&HAI);
        let rows = [
            (r#""content":"x","extra":{"ag-ui":{"content":@}}"#, "1", "/messages/0/content"),
            (r#""content":"x","extra":{"ag-ui":{"toolCalls":@}}"#, "{}", "/messages/0/toolCalls"),
            (r#""content":"x","extra":{"ag-ui":{"input":{"tools":@}}}"#, "{}", "/tools"),
            (
                r#""content":"x","extra":{"ag-ui":{"preceding":[{"id":"0","role":"user","content":@}]}}"#,
                "1",
                "/messages/0/extra/ag-ui/preceding/0/content",
            ),
        ];
        for (members, element, pointer) in rows {
            let members = members.replace('@', &list(element, ELEMENTS_LIMIT));
            let refused = translate(&message(&format!(r#""role":"user",{members}"#)), hai).expect_err(pointer);
            assert!(refused.starts_with(&format!("{pointer}: the lists up to here")), "{refused}");
        }
        let block = r#"{\"output\":{\"type\":\"image\",\"content\":\"u\"}}"#;
        let text = |count: usize| format!(r#"{{"id":"1","role":"user","content":"{}"}}"#, block.repeat(count));
        assert!(translate(&format!(r#""messages":[{0},{0}]"#, text(9_000)), hai).is_ok());
        let refused = translate(&format!(r#""messages":[{0},{0},{0}]"#, text(9_000)), hai).expect_err("too many");
        assert!(refused.starts_with("/messages/2/content: the lists up to here"), "{refused}");
        // A text of more blocks is text.
        let body = translate(&format!(r#""messages":[{}]"#, text(10_001)), hai).expect("a text");
        assert!(body.contains(r#""content":"{\"output\""#));
    }
}
