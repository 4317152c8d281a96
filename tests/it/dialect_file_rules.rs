//! Dialect files: values without content, ids, lists, and ends of runs, as the page of the format has them.

use super::support::gateway::{TempFile, diglot};

/// One agent; what its clients get is in the examples.
const RULES: &str = r#"
name: acme
events:
  - has: words
    emit: {type: TEXT_MESSAGE_CHUNK, messageId: "{id}", delta: "{words}"}
  - has: n
    emit: {type: TOOL_CALL_CHUNK, key: "{n}", toolCallId: "{own}", toolCallName: "{fn}", delta: "{in}"}
  - has: call
    emit: {type: TOOL_CALL_CHUNK, toolCallName: "{call}", delta: "{in}"}
  - has: piece
    emit: {type: TOOL_CALL_CHUNK, toolCallId: "{of}", delta: "{piece}"}
  - has: of
    lacks: piece
    emit: {type: TOOL_CALL_RESULT, toolCallId: "{of}", messageId: "{id}", content: "{result}"}
  - has: name
    emit: {type: CUSTOM, name: "{name}", value: "{@thread_id} {@run_id} {none|empty|@run.log|@run.mark}"}
  - when: {kind: keep}
    keep: {session: "{session}"}
    emit: {type: CUSTOM, name: kept, value: "{@thread.session}"}
  - has: more
    append: {log: "{more}"}
  - when: {kind: mark}
    set: {mark: "{mark}"}
  - has: list
    emit: {type: CUSTOM, name: list, value: {all: "{list}", each: {each: list, as: {id: "{@item.id}"}}, own: [{id: "{none}"}], nil: "{nil}", text: {text_of: "{list}"}, json: {as_json: "{json}"}}}
  - has: messages
    emit: {type: MESSAGES_SNAPSHOT, messages: "{messages}"}
  - has: level
    emit: {type: CUSTOM, name: level, value: {from: "{level}", table: {7: seven, true: always, low: LOW}, otherwise: other}}
  - lacks: [words, n, call, of, piece, name, kind, more, list, messages, level, bad, over, items, unknown]
    emit: {type: CUSTOM, name: plain, value: "{$}"}
  - has: bad
    fail: {message: "{why}", code: "{bad}"}
  - has: over
    finish: {result: "{@run.log}"}
    done: true
  - has: late
    emit: {type: CUSTOM, name: late, value: 1}
  - each: items
    emit: {type: CUSTOM, name: "{@item}", value: 1}
    done: true
tests:
  - name: words, numbers and booleans of a table
    stream: |
      data: {"level":7}

      data: {"level":"7"}

      data: {"level":true}

      data: {"level":"low"}

      data: {"level":70}

      data: {"over":1}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: CUSTOM, name: level, value: seven}
      - {type: CUSTOM, name: level, value: seven}
      - {type: CUSTOM, name: level, value: always}
      - {type: CUSTOM, name: level, value: LOW}
      - {type: CUSTOM, name: level, value: other}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
  - name: ids and texts that are added to
    stream: |
      data: {"name":"a","empty":[ ]}

      data: {"more":"a"}

      data: {"more":1}

      data: {"more":"\"\n"}

      data: {"more":{"b":"\""}}

      data: {"name":"b","none":null}

      data: {"over":1,"late":1}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: CUSTOM, name: a, value: "t1 r1 "}
      - {type: CUSTOM, name: b, value: "t1 r1 a1\"\n{\"b\":\"\\\"\"}"}
      - {type: RUN_FINISHED, threadId: t1, runId: r1, result: "a1\"\n{\"b\":\"\\\"\"}"}
    keep: {}
  - name: a set without a value leaves none, and nothing is kept behind the end
    stream: |
      data: {"kind":"mark","mark":"a"}

      data: {"name":"a"}

      data: {"kind":"mark","mark":null}

      data: {"name":"b"}

      data: {"over":1}

      data: {"kind":"keep","session":"s1"}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: CUSTOM, name: a, value: "t1 r1 a"}
      - {type: CUSTOM, name: b, value: "t1 r1 "}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
    keep: {}
  - name: a value that is kept is there at once, and an empty one is none
    stream: |
      data: {"kind":"keep","session":"s1"}

      data: {"kind":"keep","session":""}

      data: {"kind":"keep","session":{ }}

      data: {"over":1}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: CUSTOM, name: kept, value: s1}
      - {type: CUSTOM, name: kept, value: s1}
      - {type: CUSTOM, name: kept, value: s1}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
    keep: {session: s1}
  - name: an empty value is none
    stream: |
      data: {"kind":"keep","session":""}

      data: {"over":1}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: CUSTOM, name: kept, value: null}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
    keep: {}
  - name: an id or a name without content is none
    stream: |
      data: {"id":"","words":"x"}

      data: {"n":0,"own":"","fn":"","in":"{"}

      data: {"n":0,"own":"","fn":"f","in":"}"}

      data: {"n":0,"fn":"g","in":" "}

      data: {"over":1}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: TEXT_MESSAGE_START, messageId: r1-m1, role: assistant}
      - {type: TEXT_MESSAGE_CONTENT, messageId: r1-m1, delta: x}
      - {type: TEXT_MESSAGE_END, messageId: r1-m1}
      - {type: TOOL_CALL_START, toolCallId: r1-c2, toolCallName: f}
      - {type: TOOL_CALL_ARGS, toolCallId: r1-c2, delta: "{"}
      - {type: TOOL_CALL_ARGS, toolCallId: r1-c2, delta: "}"}
      - {type: TOOL_CALL_ARGS, toolCallId: r1-c2, delta: " "}
      - {type: TOOL_CALL_END, toolCallId: r1-c2}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
  - name: a call without a key is the latest one, or begins with its name
    stream: |
      data: {"call":"f","in":"1"}

      data: {"call":"g","in":"2"}

      data: {"piece":"3"}

      data: {"n":0,"own":"a","fn":"h"}

      data: {"of":"a","piece":"4"}

      data: {"n":0,"own":"b","fn":"i"}

      data: {"of":"a","id":"t","result":"done"}

      data: {"over":1}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: TOOL_CALL_START, toolCallId: r1-c1, toolCallName: f}
      - {type: TOOL_CALL_ARGS, toolCallId: r1-c1, delta: "1"}
      - {type: TOOL_CALL_START, toolCallId: r1-c2, toolCallName: g}
      - {type: TOOL_CALL_ARGS, toolCallId: r1-c2, delta: "2"}
      - {type: TOOL_CALL_ARGS, toolCallId: r1-c2, delta: "3"}
      - {type: TOOL_CALL_START, toolCallId: a, toolCallName: h}
      - {type: TOOL_CALL_ARGS, toolCallId: a, delta: "4"}
      - {type: TOOL_CALL_END, toolCallId: a}
      - {type: TOOL_CALL_START, toolCallId: b, toolCallName: i}
      - {type: TOOL_CALL_RESULT, toolCallId: a, messageId: t, content: done}
      - {type: TOOL_CALL_END, toolCallId: r1-c1}
      - {type: TOOL_CALL_END, toolCallId: r1-c2}
      - {type: TOOL_CALL_END, toolCallId: b}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
  - name: a result ends a text, and the name of a call that has ended means nothing
    stream: |
      data: {"n":0,"own":"a","fn":"f","in":"1"}

      data: {"id":"m","words":"x"}

      data: {"of":"a","id":"t","result":"done"}

      data: {"id":"m","words":"y"}

      data: {"n":0,"own":"a","fn":"f"}

      data: {"over":1}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: TOOL_CALL_START, toolCallId: a, toolCallName: f}
      - {type: TOOL_CALL_ARGS, toolCallId: a, delta: "1"}
      - {type: TEXT_MESSAGE_START, messageId: m, role: assistant}
      - {type: TEXT_MESSAGE_CONTENT, messageId: m, delta: x}
      - {type: TOOL_CALL_END, toolCallId: a}
      - {type: TEXT_MESSAGE_END, messageId: m}
      - {type: TOOL_CALL_RESULT, toolCallId: a, messageId: t, content: done}
      - {type: TEXT_MESSAGE_START, messageId: m, role: assistant}
      - {type: TEXT_MESSAGE_CONTENT, messageId: m, delta: y}
      - {type: TEXT_MESSAGE_END, messageId: m}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
  - name: a list of messages closes what is open
    stream: |
      data: {"id":"m","words":"x"}

      data: {"messages":[{"id":"m","role":"assistant","content":"x"}]}

      data: {"over":1}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: TEXT_MESSAGE_START, messageId: m, role: assistant}
      - {type: TEXT_MESSAGE_CONTENT, messageId: m, delta: x}
      - {type: TEXT_MESSAGE_END, messageId: m}
      - {type: MESSAGES_SNAPSHOT, messages: [{id: m, role: assistant, content: x}]}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
  - name: lists, and what is left out of them
    stream: |
      data: {"list":[{"id":"a"},{"x":1}],"nil":null,"json":" [1.0] "}

      data: {"over":1}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: CUSTOM, name: list, value: {all: [{id: a}, {x: 1}], each: [{id: a}, {}], text: '[{"id":"a"},{"x":1}]', json: [1.0]}}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
  - name: values without content, names with spaces, and a frame that no rule is for
    stream: |
      data: {"words":[ ]}

      data: {"words":{ }," name":"x"}

      event: x
      data: {"unknown":1}

      data: {"over":1}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: CUSTOM, name: plain, value: {words: []}}
      - {type: CUSTOM, name: plain, value: {words: {}, " name": x}}
      - {type: RAW, source: acme, event: {unknown: 1}}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
  - name: an error without a message
    stream: |
      data: {"bad":"E1","why":""}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: RUN_ERROR, message: The agent failed without a message., code: E1}
  - name: another id begins another call, and a name that comes twice none
    stream: |
      data: {"n":0,"own":"a","in":"1"}

      data: {"n":0,"own":"b","fn":"f","in":"2"}

      data: {"n":1,"in":"1"}

      data: {"n":1,"own":"c","in":"2"}

      data: {"n":1,"own":"d","fn":"g","in":"3"}

      data: {"n":2,"fn":"h","in":"1"}

      data: {"n":2,"own":"e","in":"2"}

      data: {"n":2,"own":"f","in":"3"}

      data: {"n":2,"own":"f","fn":"i"}

      data: {"n":3,"fn":"j","in":"1"}

      data: {"id":"m","words":"x"}

      data: {"n":3,"in":"2"}

      data: {"n":3,"fn":"j","in":"3"}

      data: {"over":1}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: TOOL_CALL_START, toolCallId: b, toolCallName: f}
      - {type: TOOL_CALL_ARGS, toolCallId: b, delta: "2"}
      - {type: TOOL_CALL_START, toolCallId: d, toolCallName: g}
      - {type: TOOL_CALL_ARGS, toolCallId: d, delta: "3"}
      - {type: TOOL_CALL_START, toolCallId: r1-c2, toolCallName: h}
      - {type: TOOL_CALL_ARGS, toolCallId: r1-c2, delta: "1"}
      - {type: TOOL_CALL_ARGS, toolCallId: r1-c2, delta: "2"}
      - {type: TOOL_CALL_END, toolCallId: r1-c2}
      - {type: TOOL_CALL_START, toolCallId: f, toolCallName: i}
      - {type: TOOL_CALL_ARGS, toolCallId: f, delta: "3"}
      - {type: TOOL_CALL_START, toolCallId: r1-c3, toolCallName: j}
      - {type: TOOL_CALL_ARGS, toolCallId: r1-c3, delta: "1"}
      - {type: TEXT_MESSAGE_START, messageId: m, role: assistant}
      - {type: TEXT_MESSAGE_CONTENT, messageId: m, delta: x}
      - {type: TOOL_CALL_ARGS, toolCallId: r1-c3, delta: "2"}
      - {type: TOOL_CALL_ARGS, toolCallId: r1-c3, delta: "3"}
      - {type: TEXT_MESSAGE_END, messageId: m}
      - {type: TOOL_CALL_END, toolCallId: b}
      - {type: TOOL_CALL_END, toolCallId: d}
      - {type: TOOL_CALL_END, toolCallId: f}
      - {type: TOOL_CALL_END, toolCallId: r1-c3}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
  - name: the end of the run within a list
    stream: |
      data: {"items":["a","b"]}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: CUSTOM, name: a, value: 1}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
"#;

#[test]
fn rules_follow_the_page_of_their_format() {
    let file = TempFile::new(RULES);
    let output = diglot().args(["check", "--test", file.path().to_str().expect("UTF-8")]).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Such frames take a shortcut from the third on.
#[test]
fn a_whole_behind_many_pieces_is_compared_with_all_of_them() {
    let file = TempFile::new(
        "name: acme\nevents:\n\
         - {has: text, emit: {type: TEXT_MESSAGE_CHUNK, messageId: m, delta: \"{text}\"}}\n\
         - {has: texts, emit: {type: TEXT_MESSAGE_CHUNK, messageId: m, content: \"{texts}\"}}\n\
         - {has: in, emit: {type: TOOL_CALL_CHUNK, key: \"{n}\", toolCallName: f, delta: \"{in}\"}}\n\
         - {has: ins, emit: {type: TOOL_CALL_CHUNK, key: \"{n}\", content: \"{ins}\"}}\n\
         - {has: over, done: true}\n",
    );
    for (piece, whole) in [("text", "texts"), ("in", "ins")] {
        let pieces = ["a", "b", "c", "d", "e"].map(|text| format!("data: {{\"n\":0,\"{piece}\":\"{text}\"}}\n\n"));
        let end = format!("data: {{\"n\":0,\"{whole}\":\"abcdef\"}}\n\ndata: {{\"over\":1}}\n\n");
        let stream = TempFile::new(&(pieces.concat() + &end));
        let mut command = diglot();
        command.args(["translate", "--to", "ag-ui", "--from"]).args([file.path(), stream.path()]);
        let printed = String::from_utf8(command.output().expect("the program runs").stdout).expect("UTF-8");
        let deltas = printed.split("\"delta\":\"").skip(1).filter_map(|rest| rest.chars().next()).collect::<String>();
        assert_eq!(deltas, "abcdef", "{printed}");
    }
}

#[test]
fn check_explains_words_of_conditions_that_no_frame_has() {
    const WORDS: &str = r#"name: acme
events:
  - when: {kind: a, alive: true}
    ignore: true
  - when: {kind: [b, c], n: "1"}
    emit: {type: CUSTOM, name: n, value: 1}
  - has: end
    done: true
tests:
  - name: words
    stream: |
      data: {"kind":"a","alive":true}

      data: {"kind":"b","n":"1"}

      data: {"end":1}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: CUSTOM, name: n, value: 1}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
"#;
    let check = |right: &str, wrong: &str| {
        assert!(WORDS.contains(right), "{right}");
        let file = TempFile::new(&WORDS.replacen(right, wrong, 1));
        let output = diglot().args(["check", "--test", "--strict"]).arg(file.path()).output().expect("runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let out = check("name", "name");
    assert!(out.ends_with(": 1 example passed\n") && !out.contains("warning"), "{out}");
    let first = ":3:3: warning: events[0]: no frame of the examples is for this rule: they have";
    let second = ":5:3: warning: events[1]: no frame of the examples is for this rule:";
    for (right, wrong, message, hint) in [
        ("true}", "\"true\"}", format!("{first} `true`, which is no text, at `alive`"), "write `true`, without quotes"),
        ("true}", "yes}", format!("{first} `true`, which is no text, at `alive`"), "write `true`, without quotes"),
        ("n: \"1\"", "n: 1", format!("{second} they have the text `\"1\"` at `n`"), "write it in quotes: `\"1\"`"),
        ("[b, c]", "[b c]", format!("{second} none has `b c` at `kind`"), "write a list: `[b, c]`"),
        ("[b, c]", "b, c", format!("{second} `c` is compared with nothing"), "write a list: `kind: [b, c]`"),
        (
            "[b, c]",
            "[b, c a]",
            ":5:3: warning: events[1]: a word of this rule has no frame: none has `c a` at `kind`".to_owned(),
            "write a list: `[c, a]`",
        ),
    ] {
        let out = check(right, wrong);
        assert!(out.contains(&format!("{message}\n  hint: {hint}")), "{wrong}: {out}");
        assert_eq!(out.matches("warning: ").count(), 1, "{wrong}: {out}");
    }
}

/// The word that ends the streams of an agent is one with which a rule compares the data of frames.
#[test]
fn a_word_that_ends_streams_may_have_blanks_around_it() {
    let file = TempFile::new(
        "name: acme\nevents:\n\
         - {has: text, emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{text}\"}}\n\
         - {when: {\"@data\": OVER}, done: true}\n",
    );
    for (end, last, is_raw) in [
        ("data: OVER\n\n", "RUN_FINISHED", false),
        ("data:  OVER \n\n", "RUN_FINISHED", false),
        ("data: OVERT\n\n", "upstream_truncated", true),
    ] {
        let stream = TempFile::new(&format!("data: {{\"text\":\"a\"}}\n\n{end}"));
        let mut command = diglot();
        command.args(["translate", "--to", "ag-ui", "--from"]).args([file.path(), stream.path()]);
        let printed = String::from_utf8(command.output().expect("the program runs").stdout).expect("UTF-8");
        let ends = printed.trim_end().lines().last().is_some_and(|line| line.contains(last));
        assert!(ends && printed.contains("\"RAW\"") == is_raw, "{end}: {printed}");
    }
}
