//! The agent that answers with the examples of a dialect file, for `mock-agent`.

use super::output::{CliExit, CliFailure};
use crate::codec::sse::SseLimits;
use crate::config::dialect_file::{DialectExample, DialectFile, ExampleInput};
use crate::config::intern_file_dialect;
use crate::demo::{AgentExample, ExampleAgent, ExampleAnswer, ExampleOutcome, UserTextPlace};
use crate::dialect::{AG_UI, PeerDialect};
use crate::event::{EventType, Field};
use crate::translate::request::translate_request;
use crate::translate::{RunIds, Stream};
use serde_json::{Value, json};
use std::time::Duration;

/// A text of the user that no template has.
const SAMPLE_TEXT: &str = "\u{1}the text of the user\u{1}";

/// Creates the agent of a file.
pub(super) fn create(file: &DialectFile, pace: Duration) -> Result<ExampleAgent, CliFailure> {
    let agent = PeerDialect::new(intern_file_dialect(file.dialect.clone()));
    let examples: Vec<AgentExample> = file.examples.iter().filter_map(|example| read_example(example, agent)).collect();
    if examples.iter().all(|example| example.outcome == ExampleOutcome::Refusal) {
        return Err(CliExit::Unavailable.failure(format_args!(
            "the dialect file of `{}` has no example with a `stream:` with which the agent could answer; add one under `tests:`",
            file.dialect.name
        )));
    }
    Ok(ExampleAgent::new(examples, find_text_place(agent), pace))
}

/// Finds where the requests of the agent have the user's text, by making one.
fn find_text_place(agent: PeerDialect) -> Option<UserTextPlace> {
    let message = json!({"id": "u1", "role": "user", "content": SAMPLE_TEXT});
    let input = json!({"threadId": "t1", "runId": "r1", "messages": [message]}).to_string();
    let made = translate_request(input.as_bytes(), PeerDialect::new(&AG_UI), agent, &RunIds::new("t1", "r1"));
    let request: Value = serde_json::from_str(&made.ok()?.body).ok()?;
    UserTextPlace::find(&request, SAMPLE_TEXT)
}

/// Finds the frames of a stream behind the last piece of a call.
fn find_end(bytes: &str, agent: PeerDialect) -> String {
    let frames: Vec<&str> = bytes.split("\n\n").filter(|frame| !frame.trim().is_empty()).collect();
    let mut stream = Stream::new(agent, PeerDialect::new(&AG_UI), Some(RunIds::new("t1", "r1")), SseLimits::default());
    let labels = [EventType::ToolCallStart, EventType::ToolCallArgs].map(|kind| AG_UI.label_index(kind));
    let count_pieces = |stream: &Stream| {
        let counts = stream.report().events_written.to_vec();
        labels.iter().map(|label| counts[*label]).sum::<u64>()
    };
    let mut end = 0;
    for (at, frame) in frames.iter().enumerate() {
        let pieces_before = count_pieces(&stream);
        if stream.push(format!("{frame}\n\n").as_bytes(), 0, &mut Vec::new()).is_err() {
            break;
        }
        if count_pieces(&stream) > pieces_before {
            end = at + 1;
        }
    }
    frames[end..].join("\n\n")
}

fn read_example(example: &DialectExample, agent: PeerDialect) -> Option<AgentExample> {
    let (answer, events) = match &example.input {
        ExampleInput::Stream { bytes, events, .. } => (ExampleAnswer::Stream(bytes.clone()), events),
        ExampleInput::Answer { status, media_type, body, events } => {
            let answer = ExampleAnswer::Whole { status: *status, media_type, body: body.clone() };
            (answer, events)
        }
        ExampleInput::Request { .. } => return None,
    };
    let events: Vec<Value> = events.iter().filter_map(|event| serde_json::from_str(event.as_str()).ok()).collect();
    let has = |event: &Value, kind: EventType| event["type"] == kind.wire();
    let calls = events.iter().filter(|event| has(event, EventType::ToolCallStart));
    let calls: Vec<&str> = calls.filter_map(|event| event[Field::ToolCallId.camel()].as_str()).collect();
    let is_answered = |call: &str| {
        events.iter().any(|event| has(event, EventType::ToolCallResult) && event[Field::ToolCallId.camel()] == call)
    };
    let outcome = match events.last() {
        _ if matches!(answer, ExampleAnswer::Whole { .. }) => ExampleOutcome::Refusal,
        Some(last) if has(last, EventType::RunError) => ExampleOutcome::Failure,
        _ if !calls.is_empty() => ExampleOutcome::Call,
        _ => ExampleOutcome::Answer,
    };
    // A run that goes on behind its calls does not wait for the client.
    let waits = matches!(events.as_slice(), [.., call, _] if has(call, EventType::ToolCallEnd));
    let open_calls = calls.iter().filter(|call| waits && !is_answered(call)).map(|call| (*call).to_owned()).collect();
    let end = match &answer {
        ExampleAnswer::Stream(bytes) if outcome == ExampleOutcome::Call => find_end(bytes, agent),
        _ => String::new(),
    };
    let ids = [Field::MessageId, Field::ToolCallId].map(Field::camel);
    let ids = events.iter().flat_map(|event| ids.map(|name| event[name].as_str())).flatten();
    // The files that ship make ids such as `ID:thought` from the agent's.
    let mut ids: Vec<String> = ids.flat_map(|id| [id, id.split(':').next().unwrap_or(id)]).map(str::to_owned).collect();
    ids.sort_unstable();
    ids.dedup();
    Some(AgentExample { name: example.name.clone(), answer, outcome, ids, open_calls, end })
}
