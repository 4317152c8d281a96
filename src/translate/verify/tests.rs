//! Rows of streams and their findings. Verdicts are those of `specs/ag-ui-1.0.md` §3; tests/interop/verify.test.mjs
//! compares them with the real client, over the conformance cases and over generated streams.

use super::*;
use crate::dialect::{self, AG_UI, Dialect, HAI};

const START: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
const FINISH: &str = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#;
const TEXT: &str = r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#;

fn verify_pieces(dialect: &'static Dialect, pieces: &[&[u8]]) -> (Vec<Finding>, VerifySummary) {
    let mut verifier = Verifier::new(PeerDialect::new(dialect));
    let mut findings = Vec::new();
    pieces.iter().for_each(|piece| verifier.push(piece, &mut findings));
    verifier.finish(&mut findings);
    (findings, verifier.summary().clone())
}

/// Formats findings as `line rule path`.
fn finding_lines(findings: &[Finding]) -> Vec<String> {
    let line = |finding: &Finding| format!("{} {} {}", finding.line, finding.rule.label(), finding.path);
    findings.iter().map(|finding| line(finding).trim_end().to_owned()).collect()
}

fn sse(events: &[&str]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// Checks rows of events and their findings. The first event is on line 1, and each later one two lines below.
fn check(rows: &[(&[&str], &[&str])]) {
    for (events, expected) in rows {
        let input = sse(events);
        let (findings, summary) = verify_pieces(&AG_UI, &[input.as_bytes()]);
        assert_eq!(finding_lines(&findings), *expected, "{input}");
        let violations = findings.iter().filter(|finding| finding.rule.severity() == RuleSeverity::Violation).count();
        assert_eq!(summary.violations, violations as u64);
    }
}

#[test]
fn checks_event_order_like_the_client() {
    check(&[
        (&[START, TEXT, r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#, FINISH], &[]),
        (&[TEXT], &["1 not-started", "1 truncated"]),
        (&[START, START, FINISH], &["3 already-active"]),
        (&[START, FINISH, TEXT, TEXT], &["5 after-finish"]),
        (&[START, r#"{"type":"RUN_ERROR","message":"x"}"#, FINISH], &["5 after-error"]),
        (&[START, FINISH, r#"{"type":"RUN_ERROR","message":"x"}"#], &["5 second-terminal"]),
        (&[r#"{"type":"RUN_ERROR","message":"x"}"#, START, FINISH], &[]),
        (&[START, TEXT, TEXT, FINISH], &["5 already-open", "7 still-open"]),
        (&[START, r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":""}"#, FINISH], &["3 not-open"]),
        (&[START, r#"{"type":"STEP_FINISHED","stepName":"s"}"#, FINISH], &["3 not-open"]),
        (
            &[
                START,
                r#"{"type":"STEP_STARTED","stepName":"s"}"#,
                r#"{"type":"STEP_FINISHED","stepName":"s","subagentRunId":"x"}"#,
                FINISH,
            ],
            &["5 other-owner"],
        ),
        (
            &[START, TEXT, r#"{"type":"TEXT_MESSAGE_END","messageId":"m","subagentRunId":"x"}"#, FINISH],
            &["5 other-owner"],
        ),
        (
            &[START, r#"{"type":"SUBAGENT_STARTED","subagentRunId":"x","name":"n","parentSubagentRunId":"y"}"#],
            &["3 unknown-parent", "3 truncated"],
        ),
    ]);
}

/// "failure ⇒ console.warn, state unchanged" (§3.4): the client goes on with what it had.
#[test]
fn names_patches_that_do_not_fit_what_the_client_holds() {
    const SNAPSHOT: &str = r#"{"type":"STATE_SNAPSHOT","snapshot":{"a":1}}"#;
    const PATCH: &str = r#"{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/b/c","value":2}]}"#;
    const RESULT: &str = r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"p","content":{}}"#;
    const CHANGE: &str =
        r#"{"type":"ACTIVITY_DELTA","messageId":"m","activityType":"p","patch":[{"op":"remove","path":"/x"}]}"#;
    check(&[
        (&[START, SNAPSHOT, PATCH, FINISH], &["5 unfit-patch /delta"]),
        // The state before the stream is not known.
        (&[START, PATCH, FINISH], &[]),
        (&[START, RESULT, CHANGE, FINISH], &["5 unfit-patch /patch"]),
    ]);
    let hostile = PATCH.replace("/b/c", "/b\\u001b[2J");
    let (findings, summary) = verify_pieces(&AG_UI, &[sse(&[START, SNAPSHOT, &hostile, FINISH]).as_bytes()]);
    assert_eq!(findings[0].found, r"`replace` of `/b\u{1b}[2J` does not fit the state that the client holds");
    assert!(summary.is_accepted());
}

#[test]
fn checks_values_like_the_client() {
    check(&[
        (&[START, r#"{"type":"CUSTOM","name":"a.b"}"#, FINISH], &["3 missing-member /value"]),
        (&[START, r#"{"type":"CUSTOM","name":"a.b","value":null}"#, FINISH], &[]),
        (&[START, r#"{"type":"RAW","event":1,"timestamp":1.5}"#, FINISH], &["3 wrong-value /timestamp"]),
        (&[START, r#"{"type":"RAW","event":1,"timestamp":2e3,"rawEvent":null}"#, FINISH], &["3 null-member /rawEvent"]),
        (
            &[START, r#"{"type":"STATE_DELTA","delta":[{"op":"spin"},{"op":"remove","path":"a"}]}"#, FINISH],
            &["3 unknown-variant /delta/0", "3 wrong-value /delta/1/path"],
        ),
        (
            &[
                START,
                r#"{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"bot","id":1},{"role":"user","id":"u","content":[{"type":"image","source":{"type":"tape","value":1}},{"type":"text","text":"x","metadata":null}]}]}"#,
                FINISH,
            ],
            &[
                "3 unknown-variant /messages/0",
                "3 unknown-variant /messages/1/content/0",
                "3 wrong-value /messages/1/content/1/metadata",
            ],
        ),
        (
            &[
                START,
                r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[]}}"#,
            ],
            &["3 wrong-value /outcome/interrupts"],
        ),
        (
            &[START, r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"later"}}"#],
            &["3 unknown-variant /outcome"],
        ),
        (
            &[START, r#"{"type":"RAW","event":1,"a/b":1,"event_":{"x":2}}"#, FINISH],
            &["3 unknown-member /a~1b", "3 unknown-member /event_"],
        ),
    ]);
}

#[test]
fn expands_chunks_and_retired_events_like_the_client() {
    check(&[
        (
            &[
                START,
                r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}"#,
                r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"b"}"#,
                FINISH,
            ],
            &[],
        ),
        (&[START, r#"{"type":"TEXT_MESSAGE_CHUNK","delta":"a"}"#, FINISH], &["3 chunk-without-name /messageId"]),
        (&[START, r#"{"type":"TOOL_CALL_CHUNK","toolCallId":"c"}"#, FINISH], &["3 chunk-without-name /toolCallName"]),
        (
            &[
                START,
                r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m"}"#,
                r#"{"type":"TEXT_MESSAGE_CHUNK","role":"user"}"#,
                FINISH,
            ],
            &["5 chunk-conflict /role"],
        ),
        (
            &[
                START,
                r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","subagentRunId":"a"}"#,
                r#"{"type":"TEXT_MESSAGE_CHUNK","messageId":"n","subagentRunId":"b"}"#,
                r#"{"type":"TEXT_MESSAGE_CHUNK"}"#,
                FINISH,
            ],
            &["7 chunk-ambiguous /messageId"],
        ),
        (
            &[START, r#"{"type":"THINKING_START","title":"x"}"#, r#"{"type":"THINKING_END"}"#, FINISH],
            &["3 retired-shape", "5 retired-shape"],
        ),
        (&[START, r#"{"type":"THINKING_END"}"#, FINISH], &["3 retired-shape", "3 not-open"]),
        (&[START, r#"{"type":"SURPRISE"}"#, FINISH], &["3 unknown-event"]),
    ]);
}

#[test]
fn reports_broken_promises_as_warnings() {
    let call = r#"{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f","delta":"{"}"#;
    let finish = |outcome: &str| format!(r#"{{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{outcome}}}"#);
    let pending = finish(r#"{"type":"success","pendingToolCallIds":["c","d"]}"#);
    let twice = finish(r#"{"type":"interrupt","interrupts":[{"id":"i","reason":"x"},{"id":"i","reason":"y"}]}"#);
    check(&[
        (
            &[START, r#"{"type":"RUN_FINISHED","threadId":"u","runId":"s"}"#],
            &["3 ids-differ /threadId", "3 ids-differ /runId"],
        ),
        (
            &[
                START,
                FINISH,
                r#"{"type":"RUN_STARTED","threadId":"u","runId":"s"}"#,
                r#"{"type":"RUN_ERROR","message":""}"#,
            ],
            &["5 other-thread /threadId"],
        ),
        (&[START, call, &pending], &["5 invalid-arguments /toolCallId", "5 pending-call /outcome"]),
        (
            &[START, r#"{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":""}"#, FINISH],
            &["3 unknown-call /toolCallId"],
        ),
        (&[START, &twice], &["3 duplicate-interrupt /outcome"]),
        (&[START, r#"{"type":"CUSTOM","name":"x","value":1}"#, FINISH], &["3 custom-name /name"]),
        (&[START], &["1 truncated"]),
        (&[], &["1 no-events"]),
    ]);
}

#[test]
fn accepts_only_the_separator_that_the_client_knows() {
    let rows: &[(String, &[&str])] = &[
        (sse(&[START, FINISH]).replace('\n', "\r\n"), &["1 not-separated"]),
        (sse(&[START, FINISH]).replace("\n\n", "\n"), &["1 not-separated"]),
        (sse(&[START, FINISH]).replace("\n\n", "\r\n\n"), &["1 line-endings"]),
        (format!("data: {START}\n\ndata: {FINISH}"), &["3 unterminated"]),
        (format!("data: {START}\n\ndata: {{\"type\":"), &["3 not-json", "3 truncated"]),
        (format!("\u{feff}{}", sse(&[START, FINISH])), &[]),
        (format!("data: {START}\n\n\u{feff}data: {FINISH}\n\n"), &["3 marked-line", "1 truncated"]),
        (format!("data: {START}\n\n:\n\u{feff}data: {FINISH}"), &["4 marked-line", "1 truncated"]),
        (format!("{}data: [DONE]\n\n", sse(&[START, FINISH])), &["5 done-marker"]),
        (format!("{}data:\n\n", sse(&[START, FINISH])), &["5 empty-data"]),
        (format!("{}data: null\n\n", sse(&[START, FINISH])), &["5 not-an-object"]),
        (format!("{}data: {{\"type\":\"\"}}\n\n", sse(&[START, FINISH])), &["5 no-type /type"]),
        (format!(": hi\n\nid: 1\nevent: error\n{}", sse(&[START, FINISH])), &[]),
        ("<html>\n".to_owned(), &["1 no-events"]),
    ];
    for (input, expected) in rows {
        for cut in 0..=input.len() {
            let (findings, _) = verify_pieces(&AG_UI, &[&input.as_bytes()[..cut], &input.as_bytes()[cut..]]);
            assert_eq!(finding_lines(&findings), *expected, "{input:?} at {cut}");
        }
    }
}

#[test]
fn counts_ndjson_lines_and_rejects_a_document() {
    let rows: &[(&[&str], &[&str])] = &[
        (&[START, "", FINISH], &[]),
        (&["", START, TEXT, FINISH], &["4 still-open"]),
        (&[START, "oops", FINISH], &["2 not-json"]),
        (&["{\"error\":1}", START], &["1 no-events"]),
    ];
    for (input, expected) in rows {
        let (mut verifier, mut findings) = (Verifier::new(PeerDialect::new(&AG_UI)), Vec::new());
        input.iter().for_each(|line| verifier.push_line(line, &mut findings));
        verifier.finish(&mut findings);
        assert_eq!(finding_lines(&findings), *expected, "{input:?}");
    }
}

#[test]
fn accepts_hai_streams_as_their_builders_write_them() {
    let start = r#"{"type":"RUN_STARTED","messageId":"m","role":"assistant","timestamp":1}"#;
    let finish = r#"{"type":"RUN_FINISHED","messageId":"m","role":"assistant","timestamp":1}"#;
    // The builder writes `from` on every operation.
    let built = r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1,"from":""}]}"#;
    let rows: &[(&[&str], &[&str])] = &[
        (
            &[
                start,
                r#"{"type":"BUSINESS_DATA_START","messageId":"m","role":"assistant"}"#,
                r#"{"type":"BUSINESS_DATA_CONTENT","messageId":"m","delta":{"output":{"type":"thinking","data":{"content":"x","elapsed":1,"thinking":true}}},"blockId":"b","style":{}}"#,
                r#"{"type":"BUSINESS_DATA_END","messageId":"m","role":"assistant"}"#,
                finish,
            ],
            &[],
        ),
        (&[start, built, finish], &[]),
        (&[start, r#"{"type":"SURPRISE"}"#, finish], &["3 foreign-event"]),
        (&[start, "hello", finish], &["3 not-json"]),
        (&[start, r#"{"type":"STEP_STARTED","stepName":"s"}"#, finish], &["5 still-open"]),
        (&[start, r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#, finish], &["3 not-open"]),
        (&[start], &["1 truncated"]),
    ];
    for (events, expected) in rows {
        let input = sse(events);
        for input in [&input, &input.replace('\n', "\r\n")] {
            for cut in 0..=input.len() {
                let (findings, _) = verify_pieces(&HAI, &[&input.as_bytes()[..cut], &input.as_bytes()[cut..]]);
                assert_eq!(finding_lines(&findings), *expected, "{input:?} at {cut}");
            }
        }
    }
}

#[test]
fn allows_a_missing_start_where_the_dialect_does() {
    let cloudbase = dialect::find_by_name("cloudbase").expect("a dialect");
    let input = sse(&[
        r#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#,
        r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
        r#"{"type":"RUN_FINISHED"}"#,
    ]);
    assert_eq!(finding_lines(&verify_pieces(cloudbase, &[input.as_bytes()]).0), [""; 0]);
    assert_eq!(finding_lines(&verify_pieces(&AG_UI, &[input.as_bytes()]).0)[0], "1 not-started");
}

/// Reads any input to its end, with all findings inside it.
#[test]
fn no_input_breaks_the_verifier() {
    let whole = sse(&[
        START,
        TEXT,
        r#"{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":[1]}],"x":"\ud800"}"#,
        FINISH,
    ]);
    let deep = format!("data: {}{}\n\n", "[".repeat(5000), "]".repeat(5000));
    let wide: Vec<String> = (0..300).map(|at| format!("\"k{at}\":0")).collect();
    let wide = format!("data: {{\"type\":\"RAW\",\"event\":1,{}}}\n\n", wide.join(","));
    for text in [whole.as_str(), &deep, &wide] {
        // The rest of a long input adds no new case.
        for at in 0..if text.len() < 500 { text.len() } else { 20 } {
            for byte in [b'\n', b'\r', b'"', b'{', b'\\', 0, 0xED, 0xEF] {
                let mut bytes = text.as_bytes().to_vec();
                bytes[at] = byte;
                for dialect in dialect::ALL {
                    let (findings, _) = verify_pieces(dialect, &[&bytes]);
                    let last = bytes.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
                    assert!(findings.iter().all(|finding| (1..=last).contains(&finding.line)), "{findings:?}");
                }
            }
        }
    }
}

#[test]
fn reports_a_damaged_first_line_if_another_is_an_event() {
    let verify_lines = |lines: &[&str]| {
        let (mut verifier, mut findings) = (Verifier::new(PeerDialect::new(&AG_UI)), Vec::new());
        lines.iter().for_each(|line| verifier.push_line(line, &mut findings));
        verifier.finish(&mut findings);
        findings.iter().map(|finding| (finding.line, finding.rule.label())).collect::<Vec<_>>()
    };
    for first in [r#"{"type":"RUN_STARTED""#, "starting agent …"] {
        assert_eq!(verify_lines(&[first, START, FINISH]), [(1, "not-json")], "{first}");
    }
    assert_eq!(verify_lines(&["{", r#""a": 1"#, "}"]).iter().map(|one| one.1).collect::<Vec<_>>(), ["no-events"]);
}
