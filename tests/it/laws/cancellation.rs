//! A run that is stopped after any event is a complete run for its client; frames with ids have the same content.

use super::{HAI, STREAMS, ag_ui, all_sides, hai, old_client};
use crate::golden::side;
use diglot::codec::sse::{SseDecoder, SseLimits, SseStep};
use diglot::dialect::{CarryLocation, MemberCase, PeerDialect, TextFormat};
use diglot::event::EventType;
use diglot::event::run::RunEnding;
use diglot::translate::verify::Verifier;
use diglot::translate::{RunIds, Stream};
use serde_json::{Value, json};

/// The frames of a stream: id and data.
fn frames(bytes: &[u8]) -> Vec<(Option<String>, String)> {
    let (mut decoder, mut rest, mut all) = (SseDecoder::default(), bytes, Vec::new());
    while let SseStep::Frame(frame) = decoder.next(&mut rest) {
        all.push((frame.id.map(|id| id.into_owned()), frame.data.into_owned()));
    }
    all
}

/// Returns the reason why the client would reject the stream.
fn client_rejection(client: PeerDialect, received: &[u8]) -> Option<String> {
    if client.dialect.name == "ag-ui-0" {
        let events: Vec<String> = frames(received).into_iter().map(|(_, data)| data).collect();
        return old_client::rejection_reason(client.peer_version, &events);
    }
    let (mut verifier, mut found) = (Verifier::new(client), Vec::new());
    verifier.push(received, &mut found);
    verifier.finish(&mut found);
    (!verifier.summary().is_accepted()).then(|| format!("{found:?}"))
}

/// Returns the end of a run as AG-UI 1.0 reads it from the client's dialect.
fn end_as_read(client: PeerDialect, received: &[u8]) -> Value {
    let (mut stream, mut out) = (Stream::new(client, side("ag-ui"), None, SseLimits::default()), Vec::new());
    stream.push(received, 0, &mut out).expect("no limit is near");
    let (_, end) = frames(&out).pop().expect("an end");
    serde_json::from_str(&end).expect("JSON")
}

/// Returns the type that an event has in the peer's dialect.
fn wire_type(peer: PeerDialect, kind: EventType) -> &'static str {
    peer.dialect.row_for_kind(kind, peer.peer_version).expect("every dialect ends runs").1.wire
}

/// Stops a run after each of the agent's events.
fn assert_cancels_at_every_event(agent: PeerDialect, client: PeerDialect, events: &[String]) {
    // Every event but the terminal one.
    for cut in 0..events.len() {
        let input: String = events[..cut].iter().map(|event| format!("data: {event}\n\n")).collect();
        let make = || Stream::new(agent, client, Some(RunIds::new("t1", "r1")), SseLimits::default());
        let (mut plain, mut stream) = (make(), make().with_frame_ids("k3y"));
        let (mut unnumbered, mut out) = (Vec::new(), Vec::new());
        for (stream, out) in [(&mut plain, &mut unnumbered), (&mut stream, &mut out)] {
            stream.push(input.as_bytes(), 0, out).expect("no limit is near");
            assert_eq!(stream.ending(), None);
            stream.cancel(7, out);
            assert_eq!(stream.ending(), Some(RunEnding::Cancelled));
            let before = out.len();
            stream.cancel(8, out);
            stream.fail("late", "too late", 8, out);
            assert_eq!(out.len(), before, "a run ends once");
        }
        let show = || String::from_utf8_lossy(&unnumbered).into_owned();
        let [received, plain_received] = [frames(&out), frames(&unnumbered)];
        let ids: Vec<_> = received.iter().map(|(id, _)| id.clone().expect("an id")).collect();
        let counted: Vec<_> = (1..=received.len()).map(|number| format!("k3y-{number}")).collect();
        assert_eq!((ids, stream.last_frame_number()), (counted, received.len() as u64));
        assert!(plain_received.iter().all(|(id, _)| id.is_none()) && plain.last_frame_number() == 0);
        let data = |all: Vec<(Option<String>, String)>| all.into_iter().map(|(_, data)| data).collect::<Vec<_>>();
        assert_eq!(data(received), data(plain_received.clone()));

        let end: Value =
            serde_json::from_str(&plain_received.last().expect("an end").1.replace("1e400", "1")).expect("JSON");
        // A stopped run looks finished to a person whose client does not read the outcome.
        if client.dialect.carry_location == CarryLocation::Native {
            assert_eq!(end["type"], wire_type(client, EventType::RunFinished), "{}", show());
            assert_eq!(end["outcome"], json!({"type": "cancelled"}), "{}", show());
        } else {
            assert_eq!(end["type"], wire_type(client, EventType::RunError), "{}", show());
            let read = end_as_read(client, &unnumbered);
            assert_eq!((&read["type"], &read["code"]), (&json!("RUN_ERROR"), &json!("cancelled")), "{}", show());
        }
        if let Some(why) = client_rejection(client, &unnumbered) {
            panic!("cut {cut}: {why}\n{}", show());
        }
    }
}

#[test]
fn cancels_a_run_cleanly_after_any_event() {
    for name in all_sides() {
        for seed in 0..STREAMS / 20 {
            let mut events = ag_ui::stream(seed);
            events.pop();
            assert_cancels_at_every_event(side("ag-ui"), side(name), &events);
        }
    }
    for name in HAI {
        for seed in 0..STREAMS / 20 {
            let agent = side(name);
            let events =
                hai::stream(seed, agent.text_format != TextFormat::String, agent.member_case == MemberCase::Snake);
            let ends = [EventType::RunFinished, EventType::RunError].map(|kind| wire_type(agent, kind));
            let lasts = |event: &&String| !ends.iter().any(|end| event.contains(end));
            let events: Vec<String> = events.iter().take_while(lasts).cloned().collect();
            assert_cancels_at_every_event(agent, side("ag-ui"), &events);
        }
    }
}

/// After a violation the open items are unknown, so they cannot be closed in order.
#[test]
fn fails_an_unrepaired_run_when_it_is_cancelled() {
    use diglot::translate::GuardMode;
    let mut stream =
        Stream::new(side("ag-ui"), side("ag-ui"), None, SseLimits::default()).with_guard_mode(GuardMode::Report);
    let mut out = Vec::new();
    stream.push(b"data: {\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"m\"}\n\n", 0, &mut out).expect("no limit");
    stream.cancel(0, &mut out);
    assert_eq!(stream.ending(), Some(RunEnding::Failed));
    let (_, end) = frames(&out).pop().expect("an end");
    assert_eq!(end, r#"{"type":"RUN_ERROR","message":"The run was stopped.","code":"cancelled"}"#);
}
