//! Recordings, from a captured run to the same run again.

mod causes;
mod mapped_rows;
mod silences;

use super::aligner::RunAligner;
use super::capture_step::CaptureStep;
use super::captured_run::RunHead;
use super::recorded_run::{RecordedItem, RecordedRun};
use super::recording::{RecordingEnd, RecordingLine};
use super::redaction::Redaction;
use super::replayed_stream::ReplayedStream;
use super::row::{AlignedRow, IdChange, LeftOpen, RowCause};
use super::run_capture::RunCapture;
use super::run_reader::{ReaderStep, RunReader};
use super::run_recorder::RunRecorder;
use super::store::CaptureStore;
use super::stream_settings::StreamSettings;
use crate::codec::Framing;
use crate::codec::sse::SseLimits;
use crate::config::dialect_text::parse_dialect;
use crate::config::inspect::{CaptureMode, InspectConfig, PathStep, RedactRule};
use crate::dialect::ThreadState;
use crate::inspect::CapturedRequests;
use crate::telemetry::{Metrics, RunTimeline};
use crate::translate::{AllowedTools, ConversationState, GuardMode, RunIds, request};
use bytes::Bytes;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const BYTES: usize = 1 << 20;

const AGE: Duration = Duration::from_secs(60);

const STARTED_MS: i64 = 1_732_650_000_000;

const AGENT: &str = concat!(
    "data: {\"type\":\"RUN_STARTED\",\"messageId\":\"m1\",\"role\":\"assistant\"}\n\n",
    "data: {\"type\":\"BUSINESS_DATA_START\",\"messageId\":\"m1\",\"role\":\"assistant\"}\r\n\r\n",
    ": ping\n\n",
    "data: {\"type\":\"BUSINESS_DATA_CONTENT\",\"messageId\":\"m1\",\"delta\":\"你好\"}\n\n",
);

/// A second turn, whose agent repeats the id of the first.
const REQUEST: &str = r#"{"threadId":"t\u4f60","runId":"r2","messages":[{"id":"u1","role":"user","content":"a"},
    {"id":"m1","role":"assistant","content":"b","toolCalls":[{"id":"c1","type":"function","function":{"name":"ask","arguments":"{}"}}]},
    {"id":"m1:text","role":"assistant","content":"c","metadata":{"diglot":{"id":"m1"}}}],"tools":[],"context":[]}"#;

fn store() -> Arc<CaptureStore> {
    let count = |number| NonZero::new(number).expect("positive");
    let bounds = InspectConfig { runs: count(10), bytes: BYTES, run_bytes: BYTES, age: AGE };
    CaptureStore::new(bounds, Arc::new(Metrics::new().expect("unique names")))
}

/// Begins to capture a run.
fn begin(store: &CaptureStore, route: &str) -> RunCapture {
    let timeline = RunTimeline::new(Instant::now(), false);
    let settings = settings("hai", "ag-ui", RunIds::new("t", "r"));
    store.begin_run(head(route), settings, ConversationState::default(), timeline, None, None)
}

/// Reads so many bytes, event by event.
fn read(capture: &RunCapture, bytes: usize) {
    let event = [b'x'; 128];
    (0..bytes / event.len()).for_each(|_| capture.record_read(STARTED_MS, &event));
}

fn ids(store: &CaptureStore) -> Vec<u64> {
    store.runs().iter().map(|run| run.id).collect()
}

fn steps() -> Vec<(i64, CaptureStep, Vec<u8>)> {
    let mut steps = vec![(3, CaptureStep::Responded(Framing::Sse), Vec::new())];
    // Every character is cut.
    let pieces = AGENT.as_bytes().chunks(7).enumerate();
    steps.extend(pieces.map(|(at, piece)| (4 + at as i64, CaptureStep::Read(piece.len()), piece.to_vec())));
    let failure = ("upstream_reset".to_owned(), "It \"broke\".\n".to_owned());
    steps.push((200, CaptureStep::Failed(Box::new(failure)), Vec::new()));
    steps
}

fn settings(agent: &str, client: &str, ids: RunIds) -> StreamSettings {
    StreamSettings {
        agent: parse_dialect(agent).expect("known"),
        client: parse_dialect(client).expect("known"),
        ids,
        limits: SseLimits { line: 2 * BYTES, frame: 2 * BYTES },
        guard: GuardMode::Repair,
        tools: Some(Arc::new(AllowedTools::new(["ask"]))),
        max_events: Some(100),
        max_bytes: None,
        framing: Framing::Sse,
        frame_token: Some("tok".into()),
        thread: ThreadState::default(),
    }
}

fn head(route: &str) -> RunHead {
    RunHead {
        route: route.into(),
        caller: None,
        request_id: "q".to_owned(),
        mode: CaptureMode::Full,
        started_ms: STARTED_MS,
        started_at: Instant::now(),
    }
}

/// Captures a run; returns its recording, and what its client was written.
fn record(is_kept: bool) -> (Vec<u8>, Vec<u8>) {
    let store = store();
    let agent = parse_dialect("hai:string").expect("known");
    let client = parse_dialect("ag-ui-0:pin=0.0.42").expect("known");
    let ids = RunIds::new("t", "r");
    let request = request::translate_request(REQUEST.as_bytes(), client, agent, &ids).expect("a request");
    let settings = settings("hai:string", "ag-ui-0:pin=0.0.42", request.ids.clone());
    let head = head("chat");
    let bodies = CapturedRequests { client: REQUEST.into(), agent: Bytes::from(request.body) };
    let mut original = settings.create_stream(request.conversation.clone());
    let timeline = RunTimeline::new(head.started_at, true);
    let capture = store.begin_run(head, settings, request.conversation, timeline, Some(bodies), None);
    let mut written = Vec::new();
    for (at_ms, step, bytes) in steps() {
        let now_ms = STARTED_MS + at_ms;
        match &step {
            CaptureStep::Read(_) => {
                capture.record_read(now_ms, &bytes);
                original.push(&bytes, now_ms, &mut written).expect("no limit is near");
            }
            CaptureStep::Failed(failure) => {
                original.fail(&failure.0, &failure.1, now_ms, &mut written);
                capture.record_step(now_ms, step);
            }
            _ => capture.record_step(now_ms, step),
        }
    }
    capture.record_end("upstream_error", Some("upstream_reset".to_owned()), None);
    let run = store.find(1).expect("kept");
    let mut recorder = RunRecorder::new(&run);
    let mut recording = recorder.next_lines().expect("a head");
    if !is_kept {
        drop((store, run));
    }
    while let Some(lines) = recorder.next_lines() {
        recording.extend_from_slice(&lines);
    }
    // Both count as missed runs.
    assert_eq!(recorder.is_gone(), !is_kept);
    (recording, written)
}

#[test]
fn a_recording_holds_the_input_and_gives_the_same_bytes_again() {
    let (recording, written) = record(true);
    let run = RecordedRun::read(recording.as_slice()).unwrap_or_else(|error| panic!("{}: {error}", error.line));
    assert_eq!(String::from_utf8(run.client_bytes()), String::from_utf8(written.clone()));
    assert_eq!((run.agent_bytes(), run.end), (AGENT.into(), RecordingEnd::Ended { missed_bytes: 0 }));
    assert_eq!(run.client_request.as_deref(), Some(REQUEST.as_bytes()));
    assert_eq!((run.head.agent.as_str(), run.head.client.as_str()), ("hai:content=string", "ag-ui-0:pin=0.0.42"));
    assert_eq!(run.head.outcome.as_deref(), Some("upstream_error"));
    assert_eq!(run.items.iter().map(|(at_ms, _)| *at_ms).max(), Some(200));
    assert!(run.items.iter().any(|(_, item)| matches!(item, RecordedItem::Client(_))));

    let settings = run.head.settings().expect("settings");
    let mut stream = ReplayedStream::new(&settings, run.conversation());
    let mut again = Vec::new();
    for (now_ms, step, bytes) in run.steps() {
        stream.apply(now_ms, step, bytes, &mut again).expect("no limit is near");
    }
    assert_eq!(String::from_utf8(again), String::from_utf8(written.clone()));
    // The agent's id is one of an earlier run, so this depends on what was known.
    assert!(String::from_utf8_lossy(&written).contains("m1:text:2"), "{}", String::from_utf8_lossy(&written));
}

#[test]
fn a_recording_of_a_run_that_was_evicted_meanwhile_ends_as_gone() {
    let (recording, _) = record(false);
    assert!(recording.ends_with(b"{\"gone\":true}\n"));
    let run = RecordedRun::read(recording.as_slice()).expect("whole");
    assert_eq!((run.end, run.items.len()), (RecordingEnd::Gone, 0));
}

#[test]
fn lines_come_back_as_they_were_written() {
    let mut lines: Vec<RecordingLine> = steps()
        .into_iter()
        .map(|(at_ms, step, bytes)| RecordingLine::Step { at_ms: at_ms as u64, step, bytes })
        .collect();
    for step in [
        CaptureStep::Responded(Framing::Proto),
        CaptureStep::Followed(None),
        CaptureStep::Followed(Some("r".into())),
        CaptureStep::Reconnected,
        CaptureStep::BodyEnded,
        CaptureStep::Cancelled,
    ] {
        lines.push(RecordingLine::Step { at_ms: 1, step, bytes: Vec::new() });
    }
    lines.push(RecordingLine::Client { at_ms: 2, bytes: vec![0, 255] });
    lines.push(RecordingLine::AgentRequest(b"{}".to_vec()));
    lines.push(RecordingLine::Known(ConversationState::default().to_recorded()));
    for end in [RecordingEnd::Ended { missed_bytes: 7 }, RecordingEnd::Running, RecordingEnd::Gone] {
        lines.push(RecordingLine::End(end));
    }
    for line in lines {
        let mut text = Vec::new();
        line.write(&mut text);
        let text = String::from_utf8(text).expect("JSON");
        assert_eq!(RecordingLine::parse(&text), Ok(line), "{text}");
    }
}

#[test]
fn bad_files_are_refused_with_the_line_and_the_cause() {
    let (recording, _) = record(true);
    let recording = String::from_utf8(recording).expect("JSON");
    let lines: Vec<&str> = recording.lines().collect();
    let head = lines[0];
    let cases = [
        (String::new(), 1, "the file is empty"),
        ("data: {}\n\n".to_owned(), 1, "not a recording"),
        (head.replace("\"diglot_recording\":1", "\"diglot_recording\":2"), 1, "version 2 of the format"),
        (head.replace("\"route\"", "\"rout\""), 1, "unknown field `rout`"),
        (head.to_owned(), 2, "the file ends before the recording does"),
        (format!("{head}\n{{\"at_ms\":1,\"agent\":"), 2, "EOF while parsing"),
        (format!("{head}\n{{\"at_ms\":1}}"), 2, "no line of this format"),
        (format!("{head}\n{{\"agent\":\"x\"}}"), 2, "`at_ms` is missing"),
        (format!("{head}\n{{\"at_ms\":1,\"step\":\"jumped\"}}"), 2, "unknown step `jumped`"),
        (format!("{head}\n{{\"at_ms\":1,\"agent_base64\":\"!\"}}"), 2, "`agent_base64` is not base64"),
        (format!("{head}\n{{\"known\":{{}}}}"), 2, "`known` has another form"),
        (format!("{head}\n{{\"at_ms\":-1,\"agent\":\"x\"}}"), 2, "invalid value"),
        (format!("{recording}{head}"), lines.len() + 1, "something follows the end"),
    ];
    for (text, line, cause) in cases {
        let error = RecordedRun::read(text.as_bytes()).expect_err(cause);
        assert_eq!(error.line, line, "{error}");
        assert!(error.to_string().contains(cause), "{error} is not {cause}");
    }
    let mut bytes = head.as_bytes().to_vec();
    bytes.extend_from_slice(b"\n\xff\n");
    assert!(RecordedRun::read(bytes.as_slice()).expect_err("bytes").to_string().starts_with("the line is not UTF-8"));
}

#[tokio::test(start_paused = true)]
async fn a_run_in_progress_gets_the_memory_of_runs_that_ended() {
    let store = store();
    let long = begin(&store, "chat");
    read(&long, BYTES / 4);
    for _ in 0..8 {
        let other = begin(&store, "chat");
        read(&other, BYTES / 4);
        other.record_end("finished", None, None);
        assert!(store.used_bytes() <= BYTES, "{}", store.used_bytes());
    }
    read(&long, BYTES / 4);
    // Other runs that are in progress lose nothing; they leave no room for more.
    let last = begin(&store, "chat");
    read(&last, BYTES);
    let kept = |id| store.find(id).map(|run| run.kept_and_missed());
    assert_eq!(kept(1), Some(((BYTES / 2) as u64, 0)));
    assert!(kept(10).is_some_and(|(kept, missed)| kept > (BYTES / 3) as u64 && missed > 0), "{:?}", kept(10));
    assert_eq!(ids(&store), [1, 10]);
    drop((long, last));
    // They have ended: the next run evicts them.
    let next = begin(&store, "chat");
    read(&next, BYTES / 2);
    assert_eq!(kept(11), Some(((BYTES / 2) as u64, 0)));
    drop(next);
    tokio::time::advance(AGE * 2).await;
    assert_eq!((ids(&store), store.used_bytes()), (Vec::new(), 0));
}

#[tokio::test(start_paused = true)]
async fn runs_that_end_are_evicted_in_the_order_of_their_ends() {
    let store = store();
    let first = begin(&store, "chat");
    for _ in 0..14 {
        drop(begin(&store, "chat"));
    }
    // The first is in progress, and has not ended before those that began later.
    assert_eq!(ids(&store), [1, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    drop(first);
    drop(begin(&store, "chat"));
    assert_eq!(ids(&store), [1, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
}

/// Reads all rows that a run has; only a run in progress has none at times.
fn rows(store: &CaptureStore, id: u64) -> Vec<AlignedRow> {
    let mut reader = RunReader::new(&store.find(id).expect("kept"));
    let mut all = Vec::new();
    loop {
        match reader.next() {
            ReaderStep::Rows(rows) => {
                assert!(!rows.is_empty(), "after {} rows", all.len());
                all.extend(rows);
            }
            ReaderStep::Ended => return all,
            ReaderStep::Evicted => panic!("evicted"),
        }
    }
}

#[test]
fn an_id_that_changes_within_an_item_is_named() {
    // "a message, tool call or step is started before it is continued or ended" (specs/ag-ui-1.0.md §3.2)
    let start = r#"{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}"#;
    let end = r#"{"type":"TEXT_MESSAGE_END","messageId":"m2"}"#;
    let text = |id: &str| format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":"{id}","delta":"a"}}"#);
    let hai_start = r#"{"type":"BUSINESS_DATA_START","messageId":"m1","role":"assistant"}"#;
    let hai_text = |id: &str| format!(r#"{{"type":"BUSINESS_DATA_CONTENT","messageId":"{id}","delta":"a"}}"#);
    let call = r#"{"type":"TOOL_CALL_START","toolCallId":"m1","toolCallName":"f"}"#;
    for (agent, events, change) in [
        ("ag-ui", vec![start.to_owned(), text("m1"), text("m2"), text("m2"), end.to_owned()], Some(3)),
        ("ag-ui", vec![start.to_owned(), text("m1"), end.to_owned()], Some(3)),
        ("hai", vec![hai_start.to_owned(), hai_text("m1"), hai_text("m2")], Some(3)),
        // An agent that sends no start, and a call beside a message.
        ("ag-ui", vec![text("m2"), text("m2")], None),
        ("ag-ui", vec![call.to_owned(), text("m2")], None),
    ] {
        let mut aligner = RunAligner::new(
            &StreamSettings { tools: None, ..settings(agent, "ag-ui", RunIds::new("t", "r")) },
            ConversationState::default(),
        );
        let started = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r","messageId":"m1"}"#.to_owned();
        let body: String = std::iter::once(&started).chain(&events).map(|event| format!("data: {event}\n\n")).collect();
        let mut rows = Vec::new();
        aligner.apply(STARTED_MS, 0, &CaptureStep::Read(body.len()), body.as_bytes(), &mut rows);
        let changes: Vec<_> = rows.iter().filter_map(|row| Some((row.n - 1, row.id_change.as_ref()?))).collect();
        let expected = IdChange { before: "m1".to_owned(), after: "m2".to_owned() };
        assert_eq!(changes, change.map(|n| (n, &expected)).into_iter().collect::<Vec<_>>(), "{agent} {events:?}");
    }
}

#[test]
fn a_line_that_a_byte_order_mark_makes_no_event_has_a_row_of_its_own() {
    // "The UTF-8 decode algorithm strips one leading UTF-8 Byte Order Mark (BOM), if any." (HTML, server-sent events)
    let mut aligner = RunAligner::new(
        &StreamSettings { tools: None, ..settings("ag-ui", "ag-ui", RunIds::new("t", "r")) },
        ConversationState::default(),
    );
    let event =
        |kind: &str| format!("\u{feff}data: {{\"type\":\"{kind}\",\"threadId\":\"t\",\"runId\":\"r\"}}\r\n\r\n");
    let body = event("RUN_STARTED") + ": \u{feff}data\n\n\u{feff}other: 1\n\n" + &event("RUN_FINISHED");
    let mut rows = Vec::new();
    aligner.apply(STARTED_MS, 0, &CaptureStep::Read(body.len()), body.as_bytes(), &mut rows);
    let kinds: Vec<_> = rows.iter().map(|row| row.agent.as_ref().and_then(|agent| agent.kind.as_deref())).collect();
    assert_eq!(kinds, [Some("RUN_STARTED"), Some("RUN_FINISHED")]);
    let lost = &rows[1];
    assert_eq!((lost.cause, lost.client.len(), lost.losses[0].label), (RowCause::Dropped, 0, "marked_line"));
    let data = lost.agent.as_ref().and_then(|agent| agent.data.as_deref()).expect("the line");
    assert!(data.starts_with("\u{feff}data: {") && data.ends_with('}'), "{data}");
}

#[test]
fn items_that_the_agent_never_ends_are_named_at_the_end_of_the_run() {
    // "every item is ended before the run finishes" (specs/ag-ui-1.0.md §3.2)
    let started = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
    let call = r#"{"type":"TOOL_CALL_START","toolCallId":"c7","toolCallName":"weather"}"#;
    let args = r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c7","delta":"{\"city\":\"Pa"}"#;
    let end = r#"{"type":"TOOL_CALL_END","toolCallId":"c7"}"#;
    let finished = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#;
    let failed = r#"{"type":"RUN_ERROR","message":"no"}"#;
    let silent = CaptureStep::Failed(Box::new(("upstream_idle".to_owned(), "silent".to_owned())));
    for (events, last, row) in [
        (vec![started, call, args, finished], CaptureStep::BodyEnded, Some(4)),
        (vec![started, call, args], CaptureStep::BodyEnded, Some(4)),
        (vec![started, call, args], silent, Some(4)),
        (vec![started, call, args], CaptureStep::Cancelled, Some(4)),
        (vec![started, call, args, end, finished], CaptureStep::BodyEnded, None),
        (vec![started, call, args, failed], CaptureStep::BodyEnded, None),
    ] {
        let mut aligner = RunAligner::new(
            &StreamSettings { tools: None, ..settings("ag-ui", "ag-ui", RunIds::new("t", "r")) },
            ConversationState::default(),
        );
        let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let mut rows = Vec::new();
        aligner.apply(STARTED_MS, 0, &CaptureStep::Read(body.len()), body.as_bytes(), &mut rows);
        aligner.apply(STARTED_MS, 0, &last, &[], &mut rows);
        let open = LeftOpen { item: "call", id: "c7".to_owned(), name: Some("weather".to_owned()), lacks: "end", n: 2 };
        let left: Vec<_> = rows.iter().flat_map(|row| row.left_open.iter().map(|one| (row.n, one))).collect();
        assert_eq!(left, row.map(|n| (n, &open)).into_iter().collect::<Vec<_>>(), "{events:?} {last:?}");
    }
}

#[test]
fn an_event_larger_than_what_is_read_at_once_hides_no_row() {
    let store = store();
    let capture = begin(&store, "chat");
    let large = format!("data: {{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":\"{}\"}}\n\n", "x".repeat(200 << 10));
    let finished = "data: {\"type\":\"RUN_FINISHED\",\"messageId\":\"m1\"}\n\n";
    for piece in [AGENT, &large, finished].iter().flat_map(|text| text.as_bytes().chunks(4096)) {
        capture.record_read(STARTED_MS, piece);
    }
    capture.record_end("finished", None, None);
    let types: Vec<_> = rows(&store, 1).into_iter().filter_map(|row| row.agent?.kind).collect();
    let expected = ["RUN_STARTED", "BUSINESS_DATA_START", "BUSINESS_DATA_CONTENT", "STATE_SNAPSHOT", "RUN_FINISHED"];
    assert_eq!(types, expected);
}

#[test]
fn the_beginning_of_an_event_that_does_not_fit_is_shown() {
    let store = store();
    let capture = begin(&store, "chat");
    capture.record_read(STARTED_MS, AGENT.as_bytes());
    let large = format!("data: {{\"type\": \"STATE_SNAPSHOT\",\"snapshot\":\"{}", "x".repeat(4096));
    for _ in 0..2 * BYTES / large.len() {
        capture.record_read(STARTED_MS + 9, large.as_bytes());
    }
    capture.record_end("finished", None, None);
    let rows = rows(&store, 1);
    let last = rows.last().expect("rows");
    assert_eq!((rows.len(), last.cause, last.at_ms, last.client.len()), (4, RowCause::Unrecorded, 9, 0));
    assert_eq!(last.agent.as_ref().and_then(|agent| agent.kind.as_deref()), Some("STATE_SNAPSHOT"));
    let missed = store.find(1).expect("kept").kept_and_missed().1;
    assert!(last.note.as_ref().is_some_and(|note| note.contains(&format!(" {missed} bytes"))), "{last:?}");
}

#[test]
fn protobuf_that_cannot_be_redacted_is_named_as_the_cause() {
    let store = store();
    let timeline = RunTimeline::new(Instant::now(), false);
    let settings = settings("ag-ui", "ag-ui", RunIds::new("t", "r"));
    let rules = Redaction::new(&[RedactRule::Path(vec![PathStep::Member("key".to_owned())])]);
    let capture = store.begin_run(head("chat"), settings, ConversationState::default(), timeline, None, rules);
    capture.record_step(STARTED_MS, CaptureStep::Responded(Framing::Proto));
    capture.record_read(STARTED_MS, &[0; 77]);
    capture.record_step(STARTED_MS, CaptureStep::BodyEnded);
    capture.record_end("finished", None, None);
    let rows = rows(&store, 1);
    let notes: Vec<_> = rows.iter().map(|row| (row.client.len(), row.note.as_deref().unwrap_or_default())).collect();
    let note =
        "the inspector kept nothing of the agent's next 77 bytes: the route has `redact`, which cannot search protobuf";
    assert_eq!(notes, [(0, note)]);
    assert!(store.find(1).expect("kept").is_withheld());
}

#[tokio::test]
async fn a_run_is_in_progress_until_nothing_comes_after_its_end() {
    let store = store();
    let mut capture = begin(&store, "chat");
    capture.prepare_end("finished", None, None);
    // More than all runs may have: it must not evict itself.
    read(&capture, 2 * BYTES);
    let run = store.find(1).expect("kept");
    assert!(!run.is_ended() && run.kept_and_missed().1 > 0);
    drop(capture);
    assert!(run.is_ended());
}

#[tokio::test]
async fn an_evicted_run_gives_its_memory_to_the_next_one_before_it_is_freed() {
    let store = store();
    let large = begin(&store, "chat");
    read(&large, BYTES * 3 / 4);
    large.record_end("finished", None, None);
    // A reader has it still.
    let evicted = store.find(1).expect("kept");
    let next = begin(&store, "chat");
    read(&next, BYTES * 3 / 4);
    assert_eq!((ids(&store), store.find(2).expect("kept").kept_and_missed().1), (vec![2], 0));
    let used = store.used_bytes();
    drop(evicted);
    assert_eq!(store.used_bytes(), used);
}
