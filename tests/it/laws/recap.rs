//! The law of the recap: a client that joins a run late, at any frame and with any part of the conversation, ends with
//! the messages and the state of a client that received the whole run; and its stream is legal.

use super::super::exact_json::canonical;
use super::super::golden::{client_streams, side};
use super::dice::Dice;
use super::reducer::ReducerClient;
use super::{HAI, STREAMS, ag_ui, all_sides, hai, old_client};
use diglot::codec::sse::SseLimits;
use diglot::dialect::{AG_UI, CarryLocation, DialectOverrides, MemberCase, PeerDialect, TextFormat};
use diglot::translate::recap::{Recap, RecapInput};
use diglot::translate::verify::Verifier;
use diglot::translate::{RunIds, Stream};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The id that the last frame of a recap has here.
const CURSOR: &str = "k-9";

/// `now` of every recap: the timestamp of the seed's example of a snapshot (000 §3.3.3).
const NOW: i64 = 1_620_000_004_500;

/// Messages and state that the client sends with its request.
struct PriorInput {
    messages: Vec<Value>,
    /// JSON text
    state: Option<&'static str>,
}

/// A state to which the generated patches apply, or do not.
const STATE: &str = r#"{"a/b":[1,2],"键":1.10,"a":{"cart":[12345678901234567890,"\ud800"]}}"#;

fn prior_input(state: Option<&'static str>) -> PriorInput {
    let messages = vec![
        json!({"id": "u0", "role": "user", "content": "hi"}),
        json!({"id": "d0", "role": "developer", "content": "hello"}),
        json!({"id": "u1", "role": "user", "content": "again"}),
    ];
    PriorInput { messages, state }
}

/// The frames of a stream, without comments.
fn frames(text: &str) -> Vec<String> {
    text.split("\n\n").filter(|frame| frame.contains("data: ")).map(str::to_owned).collect()
}

fn join_frames(frames: &[String]) -> String {
    frames.iter().map(|frame| format!("{frame}\n\n")).collect()
}

fn recap_frames(client: PeerDialect, prior: &PriorInput, received: &[String]) -> Vec<String> {
    let messages = Some(json!(prior.messages).to_string().into());
    let input = RecapInput { messages, state: prior.state.map(Into::into) };
    let mut recap = Recap::new(client, &RunIds::new("t1", "r1"), input);
    // In pieces, as a log that was trimmed gives them.
    let (left, right) = received.split_at(received.len() / 2);
    recap.push(join_frames(left).as_bytes());
    recap.push(b": keep-alive\n\n");
    recap.push(join_frames(right).as_bytes());
    let mut out = Vec::new();
    recap.write(NOW, Some(CURSOR), &mut out);
    let mut output = frames(&String::from_utf8(out).expect("UTF-8"));
    let ids = output.iter().filter(|frame| frame.starts_with("id: ")).count();
    assert_eq!(ids, usize::from(!output.is_empty()), "{output:#?}");
    if let Some(last) = output.last_mut() {
        *last = last.strip_prefix(&format!("id: {CURSOR}\n")).expect("the id is on the last frame").to_owned();
    }
    output
}

/// The same by way of a sum that travelled: what a follower of the run makes of the sum of its home, and what came behind that.
fn resume_from_forwarded_recap(client: PeerDialect, prior: &PriorInput, received: &[String]) -> Vec<String> {
    let (left, right) = received.split_at((received.len() / 2).max(1));
    let sum = recap_frames(client, prior, left);
    let mut recap = Recap::new(client, &RunIds::new("t1", "r1"), RecapInput::default());
    recap.push(join_frames(if sum.is_empty() { left } else { &sum }).as_bytes());
    recap.push(join_frames(right).as_bytes());
    let mut out = Vec::new();
    recap.write(1_620_000_004_500, None, &mut out);
    frames(&String::from_utf8(out).expect("UTF-8"))
}

/// Why a client would reject the stream.
pub fn client_rejection(client: PeerDialect, stream: &[String]) -> Option<String> {
    let data = |frame: &String| frame.lines().find_map(|line| line.strip_prefix("data: ")).expect("data").to_owned();
    // A placeholder event is for the gateway and means nothing to the client.
    if client.dialect.name == "ag-ui-0" {
        return old_client::rejection_reason(client.peer_version, &stream.iter().map(data).collect::<Vec<_>>());
    }
    // Nor is an event that travels in the words of another dialect.
    if client.dialect.carry_location != CarryLocation::Native {
        let offences = ReducerClient::default().reduce(stream).offences;
        return (!offences.is_empty()).then(|| offences.join("\n"));
    }
    let mut verifier = Verifier::new(client);
    let mut found = Vec::new();
    verifier.push(join_frames(stream).as_bytes(), &mut found);
    verifier.finish(&mut found);
    (!verifier.summary().is_accepted()).then(|| format!("{found:?}"))
}

/// Holds the law for every cut of one stream, with and without a state in the request. Gives the first failure.
fn first_failure(client: PeerDialect, stream: &[String]) -> Option<String> {
    [None, Some(STATE)].into_iter().find_map(|state| first_failure_with(recap_frames, client, state, stream))
}

/// Makes the recap of a client from what it sent and the frames of the run.
type RecapFramesFn = fn(PeerDialect, &PriorInput, &[String]) -> Vec<String>;

fn first_failure_with(
    recap_frames: RecapFramesFn,
    client: PeerDialect,
    state: Option<&'static str>,
    stream: &[String],
) -> Option<String> {
    let prior = prior_input(state);
    let before = || ReducerClient::with_input(&prior.messages, prior.state);
    let whole = before().reduce(stream);
    let legal = client_rejection(client, stream).is_none();
    (1..=stream.len()).find_map(|cut| {
        let output = recap_frames(client, &prior, &stream[..cut]);
        let joined: Vec<String> = output.iter().chain(&stream[cut..]).cloned().collect();
        let show = || format!("cut {cut}\n{}", joined.join("\n"));
        if let Some(why) = client_rejection(client, &joined).filter(|_| legal) {
            return Some(format!("rejected: {why}\n{}", show()));
        }
        // Nothing, what the request held, and what a client had that was cut off in the middle.
        let half = before().reduce(&stream[..cut / 2]);
        // Clients with whole messages differ from AG-UI's, and their reaction to a snapshot is undefined. A message
        // that a snapshot of the agent removed and a client still has keeps its place when the client comes back.
        let whole_texts = client.dialect.name == "social-app";
        let restarted =
            stream[..cut].iter().any(|frame| frame.contains("S_SNAPSHOT\"") || frame.contains("\"MESSAGE_SNAPSHOT\""));
        // Two messages with one id become one in a snapshot.
        let ids: BTreeSet<String> = whole.messages.iter().map(|message| message["id"].to_string()).collect();
        let unique = ids.len() == whole.messages.len();
        let mut half = half.resumed();
        if state.is_none() {
            half.state = None;
        }
        let half = (!whole_texts && !restarted && unique).then_some(half);
        let held = [before(), ReducerClient::default()].into_iter().chain(half);
        held.into_iter().find_map(|client| {
            let held = client.messages.clone();
            let mut late = client.reduce(&joined);
            if whole.started.is_null() {
                // A run that failed before its start gets one in its recap, for the sake of the snapshot.
                late.started = Value::Null;
            }
            (late.comparable_state() != whole.comparable_state()).then(|| {
                let [late, whole] = [late.comparable_state(), whole.comparable_state()];
                let part = whole.as_object().expect("an object").keys().find(|key| whole[*key] != late[*key]).cloned();
                let part = part.unwrap_or_default();
                let (late, whole) = (&late[&part], &whole[&part]);
                let text = stream.join("\n");
                format!("{part} held {held:?}\nwhole {whole:#}\nlate  {late:#}\n{}\nof\n{text}", show())
            })
        })
    })
}

/// Fails with the shortest failure of each kind of client.
fn assert_no_failures(failures: Vec<(String, Vec<String>)>) {
    let shortest = |(name, mut failures): (String, Vec<String>)| {
        failures.sort_by_key(String::len);
        failures.first().map(|first| format!("{} streams break the law for {name}; one is {first}", failures.len()))
    };
    let failures: Vec<String> = failures.into_iter().filter_map(shortest).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn late_clients_catch_up_over_the_corpus() {
    let all = client_streams().into_iter();
    assert_no_failures(
        all.map(|(name, client, text)| (name, first_failure(client, &frames(&text)).into_iter().collect())).collect(),
    );
}

#[test]
fn forwarded_recaps_give_the_same_recap_over_the_corpus() {
    let broken = |client, text: &str| {
        let failure = |state| first_failure_with(resume_from_forwarded_recap, client, state, &frames(text));
        [None, Some(STATE)].into_iter().find_map(failure).into_iter().collect()
    };
    assert_no_failures(
        client_streams().into_iter().map(|(name, client, text)| (name, broken(client, &text))).collect(),
    );
}

fn translate_frames(events: &[String], from: PeerDialect, to: PeerDialect) -> Vec<String> {
    let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let mut stream = Stream::new(from, to, Some(RunIds::new("t1", "r1")), SseLimits::default());
    let mut out = Vec::new();
    stream.push(text.as_bytes(), 0, &mut out).expect("no limit is near");
    frames(&String::from_utf8(out).expect("UTF-8"))
}

#[test]
fn late_clients_catch_up_over_generated_streams() {
    let names = all_sides();
    let of = |seed, client| translate_frames(&ag_ui::stream(seed), side("ag-ui"), client);
    assert_no_failures(names.map(|name| (name.to_string(), failing_seeds(side(name), of))).collect());
}

/// A run with messages and calls of few ids, and snapshots with some of them while others are open.
fn stream_with_snapshots(seed: u64) -> Vec<String> {
    let mut dice = Dice::new(seed);
    let start = r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#.to_owned();
    let mut events = vec![start, r#"{"type":"MESSAGES_SNAPSHOT","messages":[]}"#.to_owned()];
    let (mut texts, mut calls) = (Vec::new(), Vec::new());
    let end = |kind: &str, id: &str| match kind {
        "text" => format!(r#"{{"type":"TEXT_MESSAGE_END","messageId":"{id}"}}"#),
        _ => format!(r#"{{"type":"TOOL_CALL_END","toolCallId":"{id}"}}"#),
    };
    for _ in 0..dice.below(12) {
        let (message, call) = (dice.pick(&["m1", "m2", "m3"]), dice.pick(&["c1", "c2"]));
        let text = dice.below(texts.len().max(1));
        let open_call = dice.below(calls.len().max(1));
        events.push(match dice.below(10) {
            0 if !texts.contains(&message) => {
                texts.push(message);
                format!(r#"{{"type":"TEXT_MESSAGE_START","messageId":"{message}","role":"assistant"}}"#)
            }
            1 if text < texts.len() => {
                format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":"{}","delta":"x"}}"#, texts[text])
            }
            2 if text < texts.len() => end("text", texts.remove(text)),
            3 if !calls.contains(&call) => {
                calls.push(call);
                let parent = dice.pick(&["", r#","parentMessageId":"m1""#, r#","parentMessageId":"m2""#]);
                format!(r#"{{"type":"TOOL_CALL_START","toolCallId":"{call}","toolCallName":"f"{parent}}}"#)
            }
            4 if open_call < calls.len() => {
                format!(r#"{{"type":"TOOL_CALL_ARGS","toolCallId":"{}","delta":"1"}}"#, calls[open_call])
            }
            5 if open_call < calls.len() => end("call", calls.remove(open_call)),
            6 => format!(
                r#"{{"type":"TOOL_CALL_RESULT","messageId":"r{}","toolCallId":"{call}","content":"1"}}"#,
                events.len()
            ),
            // Of a message that a text, a call or a snapshot has created, and of a call.
            9 => {
                let (kind, id) = if dice.one_in(2) { ("message", message) } else { ("tool-call", call) };
                format!(r#"{{"type":"REASONING_ENCRYPTED_VALUE","entityId":"{id}","subtype":"{kind}","encryptedValue":"e"}}"#)
            }
            7 | 8 => {
                let all = [
                    r#"{"id":"u9","role":"user","content":"hi"}"#,
                    r#"{"id":"m1","role":"assistant","content":"y"}"#,
                    r#"{"id":"m2","role":"assistant","toolCalls":[{"id":"c2","type":"function","function":{"name":"f","arguments":"2"}}]}"#,
                    r#"{"id":"c1","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"2"}}]}"#,
                    r#"{"id":"r-c1","role":"tool","toolCallId":"c1","content":"2"}"#,
                ];
                let listed: Vec<_> = all.into_iter().filter(|_| dice.one_in(2)).collect();
                format!(r#"{{"type":"MESSAGES_SNAPSHOT","messages":[{}]}}"#, listed.join(","))
            }
            _ => continue,
        });
    }
    events.extend(texts.into_iter().map(|id| end("text", id)).chain(calls.into_iter().map(|id| end("call", id))));
    events.push(r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#.to_owned());
    events
}

#[test]
fn late_clients_catch_up_after_snapshots_of_the_agent() {
    let of = |seed, client| translate_frames(&stream_with_snapshots(seed), side("ag-ui"), client);
    let client = side("ag-ui");
    let all = (0..STREAMS).map(|seed| (seed, of(seed, client)));
    let failures =
        all.filter_map(|(seed, stream)| first_failure(client, &stream).map(|why| format!("seed {seed}: {why}")));
    assert_no_failures(vec![("ag-ui".to_owned(), failures.collect())]);
}

/// Every event of a dialect that only extends AG-UI has a plain row.
#[test]
fn late_clients_catch_up_over_a_dialect_that_extends_ag_ui() {
    let own = DialectOverrides {
        name: "acme".to_owned(),
        base: &AG_UI,
        events: Vec::new(),
        fields: Vec::new(),
        values: Vec::new(),
        strip: Vec::new(),
    };
    let of = |seed, client| translate_frames(&ag_ui::stream(seed), side("ag-ui"), client);
    let client = PeerDialect::new(own.into_dialect());
    assert_no_failures(vec![(client.dialect.name.to_owned(), failing_seeds(client, of))]);
}

#[test]
fn late_clients_catch_up_over_hai_streams() {
    let of = |seed, client: PeerDialect| {
        let stream =
            hai::stream(seed, client.text_format != TextFormat::String, client.member_case == MemberCase::Snake);
        translate_frames(&stream, client, client)
    };
    assert_no_failures(HAI.iter().map(|name| (name.to_string(), failing_seeds(side(name), of))).collect());
}

/// Agents of `ag-ui-snake` write null for what is absent, and their clients receive it back.
#[test]
fn late_clients_catch_up_with_calls_that_have_a_null_parent() {
    let client = side("ag-ui-snake");
    let events = [
        r#"{"type":"RUN_STARTED","thread_id":"t1","run_id":"r1"}"#,
        r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"search","parentMessageId":null}"#,
        r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#,
        r#"{"type":"RUN_FINISHED","thread_id":"t1","run_id":"r1"}"#,
    ];
    let stream = translate_frames(&events.map(str::to_owned), client, client);
    assert!(stream[1].contains("\"parentMessageId\":null"), "{}", stream[1]);
    assert_eq!(first_failure(client, &stream), None);
}

/// Found by `make soak`: only the call, which comes again whole, has the client create the message.
#[test]
fn late_clients_catch_up_with_the_encrypted_value_of_a_calls_message() {
    let client = side("ag-ui");
    let events = [
        r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#,
        r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"search","parentMessageId":"m"}"#,
        r#"{"type":"REASONING_ENCRYPTED_VALUE","entityId":"m","subtype":"message","encryptedValue":"e"}"#,
        r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#,
        r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#,
    ];
    let stream = translate_frames(&events.map(str::to_owned), client, client);
    assert_eq!(first_failure(client, &stream), None);
}

/// Returns the seeds whose streams break the law.
fn failing_seeds(client: PeerDialect, of: impl Fn(u64, PeerDialect) -> Vec<String>) -> Vec<String> {
    let all = (0..STREAMS / 20).map(|seed| (seed, of(seed, client)));
    all.filter_map(|(seed, stream)| first_failure(client, &stream).map(|why| format!("seed {seed}: {why}"))).collect()
}

/// The output for the folders of `tests/golden/recap/<client>/<case>/`: `messages.json` is the conversation before the
/// run and `heard.sse` the run as its client received it; `preludes.sse` is the output for a client that joins after
/// each of its frames. The real clients are compared with the same files (`tests/interop/recap.test.mjs`). `UPDATE=1`
/// rewrites it.
#[test]
fn recaps_match_the_corpus() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/recap");
    for name in ["ag-ui/everything", "ag-ui-0/everything", "hai/seed-reconnect"] {
        let (client, folder) = (side(name.split('/').next().expect("a client")), root.join(name));
        let read = |file: &str| fs::read_to_string(folder.join(file)).expect("a file of the corpus");
        let messages: Vec<Value> = serde_json::from_str(&read("messages.json")).expect("messages");
        let prior = PriorInput { messages, state: None };
        let stream = frames(&read("heard.sse"));
        let output = |cut: usize| join_frames(&recap_frames(client, &prior, &stream[..cut]));
        let all: String = (1..=stream.len()).map(|cut| format!(": cut {cut}\n\n{}", output(cut))).collect();
        if std::env::var_os("UPDATE").is_some() {
            fs::write(folder.join("preludes.sse"), all).expect("the corpus can be written");
        } else {
            assert_eq!(all, read("preludes.sse"), "{name}");
        }
    }
}

/// The seed's own example, 000 §3.3.3 "断线重连场景": the events for a HAI client that reconnects.
#[test]
fn hai_client_reconnects_as_the_seed_prints() {
    const PRINTED: &str = r#"{
        "type":"MESSAGE_SNAPSHOT",
        "messages":[
            {"id":"msg-1","role":"user","content":"Hello"},
            {"id":"msg-2","role":"assistant","content":"Hi there! How can I help you?"}
        ],
        "timestamp":1620000004500
    }"#;
    let stream = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/recap/hai/seed-reconnect/heard.sse"),
    );
    let stream = frames(&stream.expect("a file of the corpus"));
    let messages = vec![json!({"id": "msg-1", "role": "user", "content": "Hello"})];
    let before = PriorInput { messages, state: None };
    let output = recap_frames(side("hai"), &before, &stream[..stream.len() - 1]);
    assert_eq!(output.len(), 2, "the start, and the conversation: {output:?}");
    assert_eq!(canonical(output[1].strip_prefix("data: ").expect("data")), canonical(PRINTED));
}

/// The size of a text is that of its content, and of a state that of its value, however often they change.
#[test]
fn recap_size_grows_with_content_not_with_event_count() {
    let mut recap = Recap::new(side("ag-ui"), &RunIds::new("t1", "r1"), RecapInput::default());
    let mut push = |event: &str| {
        recap.push(format!("id: k-1\ndata: {event}\n\n").as_bytes());
        recap.byte_size()
    };
    push(r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#);
    push(r#"{"type":"STATE_SNAPSHOT","snapshot":{"n":0}}"#);
    let before = push(r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#);
    let mut held = 0;
    for at in 0..10_000 {
        push(r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x","rawEvent":{"of":"the producer"}}"#);
        held = push(&format!(r#"{{"type":"STATE_DELTA","delta":[{{"op":"replace","path":"/n","value":{at}}}]}}"#));
    }
    assert!((10_000..25_000).contains(&(held - before)), "{before} bytes became {held}");
}

/// A run that fails before its start: the client that comes back gets what it sent, and the failure.
#[test]
fn late_clients_of_a_run_that_never_began_get_its_input() {
    for name in all_sides() {
        let client = side(name);
        let stream = translate_frames(&[r#"{"type":"RUN_ERROR","message":"no"}"#.to_owned()], side("ag-ui"), client);
        let output = recap_frames(client, &prior_input(Some(STATE)), &stream);
        let has = |kind: &str| output.iter().any(|frame| frame.contains(kind));
        assert!(has("RUN_STARTED") && has("again") && has("STATE_SNAPSHOT") && has("RUN_ERROR"), "{name}: {output:#?}");
        assert_eq!(first_failure(client, &stream), None, "{name}");
    }
}
