//! Lists what clients of a dialect do not show, by translating an example of each content that a dialect may lack.

use super::Stream;
use super::event_shapes::event_to_value;
use crate::codec::sse::SseLimits;
use crate::dialect::{AG_UI, PeerDialect};
use crate::event::input::REASONING;
use crate::event::{Event, EventLoss, EventType, Field, Json};

const IMAGE: &str = r#"[{"type":"image","source":{"type":"url","value":"u"}}]"#;
const MESSAGES: &str = r#"[{"id":"1","role":"user","content":[{"type":"image","source":{"type":"url","value":"u"}}]}]"#;
const OUTCOME: &str = r#"{"type":"interrupt","interrupts":[{"id":"i","reason":"x"}]}"#;

/// Returns the losses of what such a client gets and does not show.
pub(crate) fn list_not_shown(client: PeerDialect) -> Vec<EventLoss> {
    let mut stream = Stream::new(PeerDialect::new(&AG_UI), client, None, SseLimits::default());
    let mut out = Vec::new();
    for event in examples() {
        // An example is smaller than any limit, and breaks no rule.
        let _ = stream.push_event(event_to_value(&event).as_str(), 0, &mut out);
    }
    let losses = stream.report().losses;
    EventLoss::ALL.iter().copied().filter(|loss| loss.is_carried() && losses[*loss as usize] > 0).collect()
}

/// Returns a run with an activity, reasoning, a subagent, images and an interrupt.
fn examples() -> Vec<Event<'static>> {
    let event = |kind, texts: &[(Field, &str)]| {
        texts.iter().fold(Event::new(kind), |event, (field, text)| event.with(*field, Json::string(text)))
    };
    let run = [(Field::ThreadId, "t"), (Field::RunId, "r")];
    let [reasoning, call, subagent] = [(Field::MessageId, "k"), (Field::ToolCallId, "c"), (Field::SubagentRunId, "s")];
    vec![
        event(EventType::RunStarted, &run),
        event(EventType::MessagesSnapshot, &[]).with(Field::Messages, Json::from_trusted(MESSAGES)),
        event(EventType::ActivitySnapshot, &[(Field::MessageId, "a"), (Field::ActivityType, "x")])
            .with(Field::Content, Json::from_trusted("{}")),
        event(EventType::ReasoningStart, &[reasoning]),
        event(EventType::ReasoningMessageStart, &[reasoning, (Field::Role, REASONING)]),
        event(EventType::ReasoningMessageContent, &[reasoning, (Field::Delta, "x")]),
        event(EventType::ReasoningMessageEnd, &[reasoning]),
        event(EventType::ReasoningEnd, &[reasoning]),
        event(EventType::SubagentStarted, &[subagent, (Field::Name, "x")]),
        event(EventType::SubagentFinished, &[subagent]),
        event(EventType::ToolCallStart, &[call, (Field::ToolCallName, "x")]),
        event(EventType::ToolCallEnd, &[call]),
        event(EventType::ToolCallResult, &[call, (Field::MessageId, "x")])
            .with(Field::Content, Json::from_trusted(IMAGE)),
        event(EventType::RunFinished, &run).with(Field::Outcome, Json::from_trusted(OUTCOME)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{PeerVersion, find_by_name};

    fn labels(client: PeerDialect) -> String {
        list_not_shown(client).iter().map(|loss| loss.label()).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn lists_what_each_dialect_lacks() {
        let named = |name: &str| PeerDialect::new(find_by_name(name).expect("a dialect"));
        assert_eq!(labels(named("ag-ui")), "");
        let pinned = |peer_version| PeerDialect { peer_version, ..named("ag-ui-0") };
        assert_eq!(labels(pinned(PeerVersion::V0_0_59)), "part_not_shown");
        let backend_client = labels(named("social-app"));
        assert!(
            backend_client.starts_with("activity_not_shown, reasoning_not_shown, subagent_not_shown, "),
            "{backend_client}"
        );
    }
}
