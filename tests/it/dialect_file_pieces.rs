//! Dialect files: how pieces of texts and calls open and close what they belong to.

use super::support::gateway::{TempFile, diglot};

/// An agent with an index in place of ids, whole texts, and calls among texts.
pub const PIECES: &str = r#"
name: acme
events:
  - has: say
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: "{id}", delta: "{say}"}
  - has: all
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: "{id}", content: "{all}"}
  - has: n
    emit: {type: TOOL_CALL_CHUNK, key: "{n}", toolCallId: "{own}", toolCallName: "{fn}", delta: "{in}"}
  - has: call
    emit: {type: TOOL_CALL_CHUNK, toolCallId: "{call}", toolCallName: "{fn}", delta: "{in}"}
  - has: result
    emit: {type: TOOL_CALL_RESULT, toolCallId: "{of}", messageId: "{id}", content: "{result}"}
  - when: {kind: text}
    emit: {type: TEXT_MESSAGE_CHUNK, delta: "{words}"}
  - has: over
    done: true
  - has: bad
    fail: {message: "{bad}"}
tests:
"#;

/// Events of a run in short: the agent's frames, and what its client gets.
const PIECE_ROWS: &[(&str, &[&str], &[&str])] = &[
    (
        "a call with a key goes on behind a text, and ends once",
        &[
            r#"{"n":0,"fn":"f","in":"{"}"#,
            r#"{"id":"m","say":"x"}"#,
            r#"{"n":0,"in":"}"}"#,
            r#"{"id":"m","say":"y"}"#,
            r#"{"kind":"text","words":"z"}"#,
        ],
        &[
            r#"{"type":"TOOL_CALL_START","toolCallId":"r1-c1","toolCallName":"f"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"r1-c1","delta":"{"}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"r1-c1","delta":"}"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"y"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"r1-m2","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"r1-m2","delta":"z"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"r1-m2"}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"r1-c1"}"#,
        ],
    ),
    (
        "a call without a key ends with a text, and goes on under its own name",
        &[r#"{"call":"c","fn":"f","in":"{"}"#, r#"{"id":"m","say":"x"}"#, r#"{"call":"c","in":"}"}"#],
        &[
            r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{"}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
            r#"{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"}"}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"c"}"#,
        ],
    ),
    (
        "arguments wait for the name",
        &[r#"{"n":0,"in":"{"}"#, r#"{"n":0,"fn":"f","in":"}"}"#],
        &[
            r#"{"type":"TOOL_CALL_START","toolCallId":"r1-c1","toolCallName":"f"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"r1-c1","delta":"{"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"r1-c1","delta":"}"}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"r1-c1"}"#,
        ],
    ),
    (
        "a whole text is compared with what was sent, also of another message and behind a call",
        &[
            r#"{"id":"a","all":"Hi"}"#,
            r#"{"id":"b","all":"Yo"}"#,
            r#"{"n":0,"fn":"f","in":""}"#,
            r#"{"id":"a","all":"Hi"}"#,
            r#"{"id":"b","all":"Yo!"}"#,
        ],
        &[
            r#"{"type":"TEXT_MESSAGE_START","messageId":"a","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"Hi"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"a"}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"b","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"b","delta":"Yo"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"b"}"#,
            r#"{"type":"TOOL_CALL_START","toolCallId":"r1-c1","toolCallName":"f"}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"b","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"b","delta":"!"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"b"}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"r1-c1"}"#,
        ],
    ),
    (
        "a replacement is a further message, which goes on",
        &[r#"{"id":"a","all":"Hello"}"#, r#"{"id":"a","all":"Bye"}"#, r#"{"id":"a","all":"Bye bye"}"#],
        &[
            r#"{"type":"TEXT_MESSAGE_START","messageId":"a","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"Hello"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"a"}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"r1-m1","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"r1-m1","delta":"Bye"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"r1-m1","delta":" bye"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"r1-m1"}"#,
        ],
    ),
    (
        "a late result leaves the call that has its key by now",
        &[
            r#"{"n":0,"fn":"f","in":"1"}"#,
            r#"{"id":"m","say":"x"}"#,
            r#"{"n":0,"fn":"g","in":"2"}"#,
            r#"{"of":"r1-c1","id":"t","result":"done"}"#,
            r#"{"n":0,"in":"3"}"#,
        ],
        &[
            r#"{"type":"TOOL_CALL_START","toolCallId":"r1-c1","toolCallName":"f"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"r1-c1","delta":"1"}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"r1-c1"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
            r#"{"type":"TOOL_CALL_START","toolCallId":"r1-c2","toolCallName":"g"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"r1-c2","delta":"2"}"#,
            r#"{"type":"TOOL_CALL_RESULT","toolCallId":"r1-c1","messageId":"t","content":"done"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"r1-c2","delta":"3"}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"r1-c2"}"#,
        ],
    ),
    (
        "a name without an id behind a text that stays open begins another call with the key",
        &[
            r#"{"id":"m","say":"x"}"#,
            r#"{"n":0,"fn":"f","in":"1"}"#,
            r#"{"id":"m","say":"y"}"#,
            r#"{"n":0,"in":"2"}"#,
            r#"{"id":"m","say":"z"}"#,
            r#"{"n":0,"fn":"g","in":"3"}"#,
        ],
        &[
            r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
            r#"{"type":"TOOL_CALL_START","toolCallId":"r1-c1","toolCallName":"f"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"r1-c1","delta":"1"}"#,
            r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"y"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"r1-c1","delta":"2"}"#,
            r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"z"}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"r1-c1"}"#,
            r#"{"type":"TEXT_MESSAGE_END","messageId":"m"}"#,
            r#"{"type":"TOOL_CALL_START","toolCallId":"r1-c2","toolCallName":"g"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"r1-c2","delta":"3"}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"r1-c2"}"#,
        ],
    ),
    (
        "an id that comes late is that of the call, and one that comes behind its start names it",
        &[
            r#"{"n":0,"in":"{"}"#,
            r#"{"n":0,"own":"a","fn":"f","in":"}"}"#,
            r#"{"n":1,"fn":"g","in":"{"}"#,
            r#"{"n":1,"own":"b","in":"}"}"#,
            r#"{"of":"b","id":"t","result":"done"}"#,
            r#"{"n":2,"in":"{}"}"#,
        ],
        &[
            r#"{"type":"TOOL_CALL_START","toolCallId":"a","toolCallName":"f"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"a","delta":"{"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"a","delta":"}"}"#,
            r#"{"type":"TOOL_CALL_START","toolCallId":"r1-c2","toolCallName":"g"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"r1-c2","delta":"{"}"#,
            r#"{"type":"TOOL_CALL_ARGS","toolCallId":"r1-c2","delta":"}"}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"r1-c2"}"#,
            r#"{"type":"TOOL_CALL_RESULT","toolCallId":"r1-c2","messageId":"t","content":"done"}"#,
            r#"{"type":"TOOL_CALL_END","toolCallId":"a"}"#,
        ],
    ),
    (
        "a frame without the text that its rule is for does not disappear",
        &[r#"{"kind":"text","wordz":"lost"}"#],
        &[r#"{"type":"RAW","event":{"kind":"text","wordz":"lost"},"source":"acme"}"#],
    ),
];

#[test]
fn pieces_open_and_close_what_they_belong_to() {
    let mut file = PIECES.to_owned();
    for (name, frames, events) in PIECE_ROWS {
        let frames = frames.iter().chain(&[r#"{"over":true}"#]).map(|frame| format!("      data: {frame}\n\n"));
        let begun = [r#"{"type":"RUN_STARTED","threadId":"t1","runId":"r1"}"#];
        let ended = [r#"{"type":"RUN_FINISHED","threadId":"t1","runId":"r1"}"#];
        let events = begun.iter().chain(*events).chain(&ended).map(|event| format!("      - {event}\n"));
        file += &format!(
            "  - name: {name}\n    stream: |\n{}    events:\n{}",
            frames.collect::<String>(),
            events.collect::<String>()
        );
    }
    let file = TempFile::new(&file);
    let output = diglot().args(["check", "--test", file.path().to_str().expect("UTF-8")]).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Events that do not reach the client, or follow the end of the run, are counted once. Behind the end, only frames that
/// would have been sent are.
#[test]
fn counts_what_no_client_gets() {
    const RULES: &str = r#"name: acme
events:
  - has: say
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: m, delta: "{say}"}
  - has: n
    emit: {type: TOOL_CALL_CHUNK, key: "{n}", toolCallName: "{fn}", delta: "{in}"}
  - has: whole
    emit: {type: TOOL_CALL_CHUNK, key: w, toolCallName: f, content: "{whole}"}
  - has: session
    keep: {session: "{session}"}
  - has: beat
    ignore: true
  - has: over
    done: true
  - has: tail
    emit: {type: CUSTOM, name: tail, value: 1}
  - each: items
    emit: {type: CUSTOM, name: "{@item}", value: 1}
    done: true
"#;
    let file = TempFile::new(RULES);
    let path = |file: &TempFile| file.path().to_str().expect("UTF-8").to_owned();
    let rows: &[(&[&str], &str)] = &[
        (
            &[r#"{"say":"a"}"#, r#"{"over":1,"tail":1}"#],
            "2 events in, 5 out; carried: nothing; repaired: nothing; lost: nothing",
        ),
        (&[r#"{"items":["a","b"]}"#], "1 event in, 3 out; carried: nothing; repaired: nothing; lost: nothing"),
        (
            &[r#"{"over":1}"#, r#"{"say":"b"}"#],
            "2 events in, 2 out; carried: nothing; repaired: nothing; lost: after_terminal 1",
        ),
        (
            &[r#"{"over":1}"#, r#"{"beat":1}"#, r#"{"session":"s"}"#],
            "3 events in, 2 out; carried: nothing; repaired: nothing; lost: nothing",
        ),
        (
            &[r#"{"over":1}"#, r#"{"huh":1}"#],
            "2 events in, 2 out; carried: nothing; repaired: nothing; lost: after_terminal 1",
        ),
        (&[r#"{"n":0,"in":"{}"}"#], "1 event in, 2 out; carried: nothing; repaired: nothing; lost: event_not_shown 1"),
        (
            &[r#"{"whole":"{a"}"#, r#"{"whole":"{ab"}"#, r#"{"whole":"{c"}"#, r#"{"over":1}"#],
            "4 events in, 6 out; carried: nothing; repaired: nothing; lost: event_not_shown 1",
        ),
    ];
    for (frames, expected) in rows {
        let stream = TempFile::new(&frames.iter().map(|frame| format!("data: {frame}\n\n")).collect::<String>());
        let arguments = ["translate", "--explain", "--from", &path(&file), "--to", "ag-ui", &path(&stream)];
        let output = diglot().args(arguments).output().expect("the program runs");
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(text.ends_with(&format!(": {expected}\n")), "{frames:?}: {text}");
    }
}

#[test]
fn counts_arguments_of_a_call_without_a_name() {
    let file = TempFile::new(PIECES.trim_end().trim_end_matches("tests:"));
    let frames = [
        r#"{"n":0,"own":"a","in":"{}"}"#,
        r#"{"of":"a","id":"t","result":"x"}"#,
        r#"{"n":1,"in":"{}"}"#,
        r#"{"over":true}"#,
    ];
    let stream = TempFile::new(&frames.map(|frame| format!("data: {frame}\n\n")).concat());
    let path = |file: &TempFile| file.path().to_str().expect("UTF-8").to_owned();
    let arguments = ["translate", "--explain", "--from", &path(&file), "--to", "ag-ui", &path(&stream)];
    let output = diglot().args(arguments).output().expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.contains("event_not_shown 2"), "{text}");
}
