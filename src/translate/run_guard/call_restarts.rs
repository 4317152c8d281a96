//! Calls that start again while they are open ([`OpenArguments`](super::open_arguments::OpenArguments)).

use super::open_arguments::ArgumentsPiece;
use super::{EventConsumer, RunGuard};
use crate::event::{Event, EventLoss, EventRepair, EventType, Field, Json};
use crate::translate::report::TranslationReport;

impl RunGuard {
    /// Keeps a piece of arguments as it was copied.
    pub(crate) fn add_repeated_arguments(&mut self, piece: &str) -> usize {
        self.arguments.as_mut().map_or(0, |arguments| arguments.add(piece))
    }

    /// Returns the last piece of arguments, if it is kept.
    pub(crate) fn last_arguments(&self) -> Option<&str> {
        self.arguments.as_ref().and_then(|arguments| arguments.last_piece())
    }

    pub(crate) fn arguments_bytes(&self) -> usize {
        self.arguments.as_ref().map_or(0, |arguments| arguments.retained_bytes())
    }

    /// Returns the piece of arguments without what repeats those before its call's second start; another call starts
    /// before the piece if it belongs to one.
    pub(super) fn follow_restart<'a>(
        &mut self,
        mut event: Event<'a>,
        report: &mut TranslationReport,
        next: &mut impl EventConsumer,
    ) -> Option<Event<'a>> {
        let Some(arguments) = self.arguments.as_mut().filter(|own| own.has_restarts()) else { return Some(event) };
        if matches!(event.kind, EventType::ToolCallStart | EventType::ToolCallEnd) {
            if let Some(text) = event.get(Field::ToolCallId).and_then(|id| arguments.take_left_out(id)) {
                let piece = of_same_call(EventType::ToolCallArgs, &event).with(Field::Delta, text);
                self.admit_supplied(piece, report, next);
            }
            return Some(event);
        }
        if event.kind != EventType::ToolCallArgs {
            return Some(event);
        }
        match arguments.compare(&event) {
            None => {}
            Some(ArgumentsPiece::Repeated) => {
                report.count_loss(EventLoss::StrayBoundary);
                return None;
            }
            Some(ArgumentsPiece::Continues(text)) => event.set(Field::Delta, text),
            Some(ArgumentsPiece::Restarts { mut start, is_open, text }) => {
                event.set(Field::Delta, text);
                if is_open {
                    let piece = of_same_call(EventType::ToolCallArgs, &event).with(Field::Delta, Json::string("}"));
                    self.admit_supplied(piece, report, next);
                }
                report.count_repair(EventRepair::CloserSupplied);
                self.admit_supplied(of_same_call(EventType::ToolCallEnd, &event), report, next);
                self.retained_bytes += self.conversation.client_ids.reopen_call(&mut start, &mut event, report);
                self.conversation.call_tracker.record_call(start.get(Field::ToolCallId));
                self.admit_supplied(start, report, next);
            }
        }
        Some(event)
    }
}

/// Creates an event of the call of another event.
fn of_same_call(kind: EventType, event: &Event<'_>) -> Event<'static> {
    let mut own = Event::new(kind);
    for field in [Field::ToolCallId, Field::SubagentRunId] {
        event.get_owned(field).into_iter().for_each(|value| own.set(field, value));
    }
    own
}

#[cfg(test)]
mod tests {
    use crate::codec::sse::SseLimits;
    use crate::dialect::{AG_UI, HAI, PeerDialect};
    use crate::translate::{RunIds, Stream};
    use serde_json::{Value, json};

    /// Returns the arguments of an agent that sends a start with each piece, as the client has them.
    fn arguments_of(pieces: &[&str]) -> String {
        let side = PeerDialect::new(&AG_UI);
        let mut stream = Stream::new(side, side, Some(RunIds::new("t", "r")), SseLimits::default());
        let mut out = Vec::new();
        let mut push = |event: Value| stream.push(format!("data: {event}\n\n").as_bytes(), 0, &mut out);
        push(json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})).expect("a start");
        for piece in pieces {
            push(json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"})).expect("a start");
            push(json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": piece})).expect("a piece");
        }
        push(json!({"type": "TOOL_CALL_END", "toolCallId": "c"})).expect("an end");
        let frames = String::from_utf8(out).expect("UTF-8");
        let events = frames.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        events.filter_map(|event| event["delta"].as_str().map(str::to_owned)).collect()
    }

    /// Returns the arguments of each call of a HAI agent that sends these objects, `None` for a second start.
    fn arguments_of_objects(objects: &[Option<&str>]) -> Vec<String> {
        let [agent, client] = [&HAI, &AG_UI].map(PeerDialect::new);
        let mut stream = Stream::new(agent, client, Some(RunIds::new("t", "r")), SseLimits::default());
        let mut out = Vec::new();
        let start = r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#;
        let args = |object| format!(r#"{{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":{object}}}"#);
        let pieces = objects.iter().map(|object| object.map_or_else(|| start.to_owned(), args));
        let ends = [r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#, r#"{"type":"RUN_FINISHED","messageId":"m"}"#];
        let start_run = r#"{"type":"RUN_STARTED","messageId":"m"}"#;
        for event in [start_run, start].map(str::to_owned).into_iter().chain(pieces).chain(ends.map(str::to_owned)) {
            stream.push(format!("data: {event}\n\n").as_bytes(), 0, &mut out).expect("an event");
        }
        let frames = String::from_utf8(out).expect("UTF-8");
        let events = frames.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        let mut calls = Vec::<String>::new();
        for event in events {
            match event["type"].as_str() {
                Some("TOOL_CALL_START") => calls.push(String::new()),
                Some("TOOL_CALL_ARGS") => {
                    calls.last_mut().expect("a call").push_str(event["delta"].as_str().expect("text"));
                }
                _ => {}
            }
        }
        calls
    }

    /// "The names within an object SHOULD be unique" (RFC 8259 §4).
    #[test]
    fn objects_of_a_call_that_starts_again_repeat_no_name() {
        let [a, b, both] = [r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":1,"b":2}"#].map(Some);
        assert_eq!(arguments_of_objects(&[a, b, None, a]), [r#"{"a":1,"b":2}"#]);
        assert_eq!(arguments_of_objects(&[a, b, None, both]), [r#"{"a":1,"b":2}"#]);
        assert_eq!(arguments_of_objects(&[a, b, None, a, b]), [r#"{"a":1,"b":2}"#]);
        assert_eq!(arguments_of_objects(&[a, None, b]), [r#"{"a":1,"b":2}"#]);
        let [c, with_c] = [r#"{"c":3}"#, r#"{"a":1,"c":3}"#].map(Some);
        assert_eq!(arguments_of_objects(&[a, b, None, with_c, b]), [r#"{"a":1,"b":2,"c":3}"#]);
        assert_eq!(arguments_of_objects(&[a, b, None, c, a]), [r#"{"a":1,"b":2,"c":3}"#]);
        let other = r#"{"a":9}"#;
        assert_eq!(arguments_of_objects(&[a, b, None, Some(other)]), [r#"{"a":1,"b":2}"#, other]);
    }

    #[test]
    fn pieces_that_look_like_a_repetition_are_not_lost() {
        assert_eq!(arguments_of(&["{", "\"a\":", "{", "\"b\":1}", "}"]), r#"{"a":{"b":1}}"#);
        assert_eq!(arguments_of(&["{", "\"a\":\"x", "{", "{", "\"}"]), r#"{"a":"x{{"}"#);
        assert_eq!(arguments_of(&["[1,", "["]), "[1,[");
        assert_eq!(arguments_of(&["{\"a\":1}", "{\"a\"", "{\"a\":1}"]), r#"{"a":1}"#);
    }
}
