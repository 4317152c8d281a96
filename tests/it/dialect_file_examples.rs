//! Examples of dialect files: what a run keeps for the later ones of its thread, and what becomes of error answers.

use super::dialect_file_tools::{BYE, Printed, run, utf8};
use super::support::client::{post, send_request};
use super::support::gateway::{Process, TempFile, diglot};
use serde_json::json;

/// A dialect file that keeps the session of a thread, and says where errors have their text.
const KEEPING: &str = r#"
name: acme
error: {message: problem.why, code: problem.no}
events:
  - when: {"@event": hello}
    keep: {session: "{session}", flow: "{flow}"}
  - when: {"@event": bye}
    done: true
tests:
  - name: a new session
    thread: {session: s-1}
    stream: |
      event: hello
      data: {"session":"s-2"}

      event: bye
      data: {}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
    keep: {session: s-2}
  - name: too many
    status: 429
    answer: {problem: {why: slow down, no: 7}}
    events: [{type: RUN_ERROR, message: slow down (7), code: upstream_status}]
  - name: an error with the status of a success
    status: 200
    answer: {problem: {no: 8}}
    events: [{type: RUN_ERROR, message: code 8, code: upstream_content_type}]
  - name: an error as a stream
    status: 500
    answer: |
      data: {"problem":{"why":"busy"}}

    events: [{type: RUN_ERROR, message: busy, code: upstream_status}]
  - name: an error without JSON
    status: 502
    answer: Traceback
    events: [{type: RUN_ERROR, message: The agent answered with status 502., code: upstream_status}]
"#;

#[test]
fn examples_state_what_is_kept_and_what_becomes_of_errors() {
    let test = |text: &str| {
        let file = TempFile::new(text);
        let Printed { code, out, .. } = run(&["check", "--test", utf8(file.path())], "");
        (code, out)
    };
    let (code, out) = test(KEEPING);
    assert!(code == Some(0) && out.ends_with(": 5 examples passed\n"), "{out}");
    let kept = "  keep: expected {\"session\":\"s-3\"}\n             got {\"session\":\"s-2\"}\n";
    for (right, wrong, expected) in [
        ("keep: {session: s-2}", "keep: {session: s-3}", kept),
        ("keep: {session: s-2}", "keep: {}", "keep: expected {}\n"),
        ("thread: {session: s-1}", "thread: {session: s-2}", "got {}\n"),
        ("slow down (7)", "slow down", "event 1: expected "),
        ("status: 429", "status: 200", "upstream_content_type"),
        ("status: 429", "status: 42", "must be an HTTP status"),
        ("    status: 429\n", "", "an answer needs its HTTP status"),
        ("keep: {session: s-2}", "keep: {sesion: s-2}", "no rule keeps `sesion`"),
    ] {
        let (code, out) = test(&KEEPING.replace(right, wrong));
        assert!(code != Some(0) && out.contains(expected), "{wrong}: {out}");
    }
    let file = TempFile::new(KEEPING);
    let stream = format!("event: hello\ndata: {{\"session\":\"s-2\",\"flow\":\"{}\"}}\n\n{BYE}", "x".repeat(200));
    let Printed { err, .. } = run(&["translate", "--explain", "--from", utf8(file.path()), "--to", "ag-ui"], &stream);
    assert!(err.contains(r#"; kept for the thread: session = "s-2", flow = "xxx"#) && err.contains("xx…"), "{err}");
}

/// A path that leads nowhere hides until the agent sends what the rule is for.
#[test]
fn rules_that_no_example_needs_are_warnings() {
    const RULES: &str = r#"name: acme
payload: body
events:
  - has: txt
    emit: {type: TEXT_MESSAGE_CHUNK, delta: "{txt}"}
  - has: $.falt
    fail: {message: "{$.falt.why}"}
  - when: {mood: sad}
    emit: {type: CUSTOM, name: mood, value: sad}
  - when: {event: oops}
    fail: {}
  - has: beat
    ignore: true
  - has: over
    done: true
tests:
  - stream: |
      event: text
      data: {"body":{"txt":"Hi","mood":"glad"}}

      data: {"body":{"over":1},"fault":{"why":"late"}}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: TEXT_MESSAGE_START, messageId: r1-m1, role: assistant}
      - {type: TEXT_MESSAGE_CONTENT, messageId: r1-m1, delta: Hi}
      - {type: TEXT_MESSAGE_END, messageId: r1-m1}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
"#;
    let test = |text: &str, more: &[&str]| {
        let file = TempFile::new(text);
        let Printed { code, out, err } = run(&[&["check", "--test", utf8(file.path())], more].concat(), "");
        (code, out.replace(utf8(file.path()), "f"), err)
    };
    let (code, out, err) = test(RULES, &[]);
    let expected = "f:6:3: warning: events[1]: no frame of the examples is for this rule: none has `$.falt`
  hint: add an example with such a frame, so that the rule is tested; did you mean `$.fault`?
  6 |   - has: $.falt
    |   ^
f:8:3: warning: events[2]: no frame of the examples is for this rule: none has `sad` at `mood`
  hint: add an example with such a frame, so that the rule is tested
  8 |   - when: {mood: sad}
    |   ^
f:10:3: warning: events[3]: no frame of the examples is for this rule: none has `event`
  hint: add an example with such a frame, so that the rule is tested, or write `\"@event\"` for the `event:` line
  10 |   - when: {event: oops}
     |   ^
f: 1 example passed
";
    assert_eq!((code, out.as_str()), (Some(0), expected), "{err}");
    assert!(err.ends_with(": 3 warnings\n"), "{err}");
    assert_eq!(test(RULES, &["--strict"]).0, Some(1));
    let (_, out, _) = test(RULES, &["--format", "json"]);
    assert!(out.contains("\"warning\"") && out.contains("\"events[1]\""), "{out}");
    // The other way round, the line is not there.
    let lines = RULES.replace("{event: oops}", "{\"@event\": oops}").replace("      event: text\n", "");
    let (_, out, _) = test(&lines.replace("\"over\":1}", "\"over\":1},\"event\":\"x\""), &[]);
    let hint = ": none has an `event:` line\n  hint: add an example with such a frame, so that the rule is tested, or write `$.event`";
    assert!(out.contains(hint), "{out}");
    let (_, out, _) = test(&RULES.replace("mood: sad", "mood: Glad"), &[]);
    let hint = "none has `Glad` at `mood`\n  hint: add an example with such a frame, so that the rule is tested, or write `glad`";
    assert!(out.contains(hint), "{out}");
    // A payload that no frame has is one mistake.
    let (code, out, err) = test(&RULES.replace("payload: body", "payload: bdy"), &[]);
    let warning = "f:2:1: warning: payload: no frame of the examples has `bdy`, where all paths begin\n  hint: did you mean `body`? Otherwise";
    assert!(out.starts_with(warning) && err.contains(": 1 warning\n"), "{out}{err}");
    assert_eq!(code, Some(1));
    // Without a stream there is nothing to compare rules with.
    let (_, out, err) = test(&RULES[..RULES.find("tests:").expect("examples")], &[]);
    assert!(out.ends_with("it has no examples; add some under `tests:`\n") && err.is_empty(), "{out}{err}");
}

/// A misspelt path of a value makes it empty, which an example without this value does not show.
#[test]
fn places_that_no_example_has_are_warnings() {
    const PLACES: &str = r#"name: acme
payload: body
error: {message: [problem.wy, problem.why]}
events:
  - has: call
    emit: {type: TOOL_CALL_CHUNK, toolCallId: "{call}", toolCallName: "{fn}", delta: "{param}"}
  - each: a.list
    has: "@item.name"
    emit: {type: CUSTOM, name: "{@item.name}", value: [{each: "@item.more", as: "{@item.value}"}, {has: $.seq, as: 1}, "{seq}"]}
  - has: over
    finish: {usage: [{inputTokens: "{usage.input|usage.prompt}", outputTokens: "{usage.out}"}]}
  - has: heart
    keep: {beat: "{heart.beat}"}
tests:
  - stream: |
      data: {"seq":1,"body":{"call":"c1","fn":"f"}}

      data: {"body":{"a":{"list":[{"name":"x","more":[{"data":"{\\\"valu\\\":3}","values":1}]}]}}}

      data: {"body":{"params":"","over":1,"usage":{"input":null}}}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: TOOL_CALL_START, toolCallId: c1, toolCallName: f}
      - {type: CUSTOM, name: x, value: null}
      - {type: TOOL_CALL_END, toolCallId: c1}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
  - status: 500
    answer: {problem: {why: late}}
    events: [{type: RUN_ERROR, message: late, code: upstream_status}]
request: {body: {beat: "{@thread.beat}"}}
"#;
    let file = TempFile::new(PLACES);
    let path = utf8(file.path());
    let Printed { code, out, err } = run(&["check", "--test", path], "");
    let shown: Vec<&str> = out.lines().filter(|line| !line.contains(" | ")).collect();
    let out = shown.join("\n").replace(path, "f");
    let expected = "f:3:19: warning: error.message[0]: no answer of the examples has a value at `problem.wy`
  hint: did you mean `problem.why`? Otherwise add an example with it
f:6:86: warning: events[0].emit.delta: no frame of the examples has a value at `param`
  hint: did you mean `params`? Otherwise add an example with it
f:9:81: warning: events[1].emit.value[0].as: no frame of the examples has a value at `@item.value`
  hint: did you mean `@item.values`? Otherwise add an example with it
f:9:120: warning: events[1].emit.value[2]: no frame of the examples has a value at `seq`
  hint: paths begin at the payload `body`: write `$.seq` for the member beside it
f:11:36: warning: events[2].finish.usage[0].inputTokens: no frame of the examples has a value at `usage.prompt`
  hint: add an example with it, or correct the path; there is `input`
f:11:80: warning: events[2].finish.usage[0].outputTokens: no frame of the examples has a value at `usage.out`
  hint: add an example with it, or correct the path; there is `input`
f:12:3: warning: events[3]: no frame of the examples is for this rule: none has `heart`
  hint: add an example with such a frame, so that the rule is tested, or correct the path; there is `a`, `call`, `fn`, `over`, `params`, `usage`
f: 2 examples passed";
    assert_eq!((code, out.as_str()), (Some(0), expected), "{err}");
    assert_eq!(run(&["check", "--test", "--strict", path], "").code, Some(1));
    for name in ["openai-chat", "dify-chat", "coze-chat"] {
        let Printed { code, out, .. } = run(&["check", "--test", "--strict", name], "");
        assert_eq!(code, Some(0), "{name}: {out}");
    }
}

/// The rules are right: only the example, a list or a word of a table is not.
#[test]
fn warnings_name_the_cause_and_not_what_follows_from_it() {
    const RULES: &str = r#"name: acme
events:
  - when: {"@event": say}
    emit: {type: TEXT_MESSAGE_CHUNK, delta: "{txt}"}
  - each: parts
    emit: {type: CUSTOM, name: part, value: "{@item}"}
  - when: {"@event": step}
    emit: {type: STEP_STARTED, stepName: {from: "{st}", table: {A: start, "2": stop}, otherwise: other}}
  - when: {"@event": bye}
    done: true
tests:
  - name: hello
    stream: |
      event: say
      data: {"txt":"Hi"}

      data: {"parts":[1]}

      event: step
      data: {"st":"A"}

      event: bye
      data: {}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: TEXT_MESSAGE_START, messageId: r1-m1, role: assistant}
      - {type: TEXT_MESSAGE_CONTENT, messageId: r1-m1, delta: Hi}
      - {type: CUSTOM, name: part, value: 1}
      - {type: STEP_STARTED, stepName: start}
      - {type: TEXT_MESSAGE_END, messageId: r1-m1}
      - {type: STEP_FINISHED, stepName: start}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
"#;
    let test = |right: &str, wrong: &str| {
        assert!(right.is_empty() || RULES.contains(right), "{right}");
        let file = TempFile::new(&RULES.replacen(right, wrong, 1));
        let Printed { code, out, .. } = run(&["check", "--test", "--strict", utf8(file.path())], "");
        (code, out.replace(utf8(file.path()), "f"))
    };
    assert_eq!(test("", ""), (Some(0), "f: 1 example passed\n".to_owned()));
    let table = "f:8:64: warning: events[2].emit.stepName.table: no row is used: frames of the examples have `A` at `st`\n  hint: ";
    let unused = |hint: &str| format!("{table}{hint}\n");
    let no_rule = "warning: events[0]: no frame of the examples is for this rule";
    let tested = "hint: add an example with such a frame, so that the rule is tested";
    for (right, wrong, expected) in [
        // An error in a frame hides what would be blamed on the rules.
        ("\"Hi\"}", "\"Hi\"", "f:15:23: warning: tests[0].stream: this frame is no JSON: EOF".to_owned()),
        ("[1]}\n\n", "[1]}\n", "f:18:7: warning: tests[0].stream: two frames run together".to_owned()),
        ("A: start", "B: start", unused("add a row for it, or an example with a word of the table")),
        ("A: start", "a: start", unused("did you mean `A`?")),
        ("A: start", "start: A", unused("the agent's word stands first: write `A: start`")),
        ("each: parts", "each: prts", format!("f:5:3: {}: none has a list at `prts`\n  {tested}; did you mean `parts`?\n", no_rule.replace("[0]", "[1]"))),
        ("{\"@event\": say}", "{on: say}", format!("f:3:3: {no_rule}: none has `on`\n  {tested}, or write `\"@event\"` for the `event:` line\n")),
        ("{txt}", "{txt|upper}", "`upper`\n  hint: add an example with it, or correct the path; there is `parts`, `st`, `txt`; `|` stands before the place that is read if the first has no value, not a filter\n".to_owned()),
        // No example would help.
        ("each: parts", "each: txt", format!("{}: `txt` is no list\n  hint: remove `each`, and write `{{txt}}`", no_rule.replace("[0]", "[1]"))),
        ("{\"@event\": say}", "{\"@event\": }", format!("{no_rule}: `@event` is compared with nothing\n  hint: write the value behind the colon")),
        ("{\"@event\": say}", "{\"@event\": \"event: say\"}", format!("{no_rule}: none has `event: say` at `@event`\n  hint: write `say` alone\n")),
        ("{\"@event\": say}", "{\"@event\": \"!say\"}", format!("{no_rule}: none has `!say` at `@event`\n  hint: write all values that it may have, as a list")),
        ("{\"@event\": say}", "{\"@event\": say|tell}", format!("{no_rule}: none has `say|tell` at `@event`\n  hint: write a list: `[say, tell]`\n")),
        ("{\"@event\": say}", "{\"@event\": say, st: A}", format!("{no_rule}: none fulfils all its conditions at once\n  {tested}, or remove the condition")),
    ] {
        let (code, out) = test(right, wrong);
        assert!(code == Some(1) && out.contains(&expected), "{wrong}: {out}");
        assert_eq!(out.matches("warning: ").count(), 1, "{wrong}: {out}");
    }
    // A payload that is missing is one mistake, as is one that a path repeats.
    let below = |frame: &str| format!("      data: {{\"v\":1,\"in\":{{\"d\":{frame}}}}}\n");
    let mut inner = RULES.to_owned();
    for line in RULES.lines().filter_map(|line| line.strip_prefix("      data: ")) {
        inner = inner.replacen(&format!("      data: {line}\n"), &below(line), 1);
    }
    let inner_test = |right: &str, wrong: &str| {
        let file = TempFile::new(&inner.replacen(right, wrong, 1));
        run(&["check", "--test", utf8(file.path())], "").out.replace(utf8(file.path()), "f")
    };
    let out = inner_test("", "");
    let expected = "f:1:1: warning: payload: no path of the rules has a value in the frames of the examples\n  hint: add `payload: in.d`";
    assert!(out.starts_with(expected) && out.matches("warning: ").count() == 1, "{out}");
    let out = inner_test("events:\n", "payload: in\nevents:\n");
    let expected = "f:2:1: warning: payload: no path of the rules has a value below `in` in the frames of the examples\n  hint: write `payload: in.d`";
    assert!(out.starts_with(expected) && out.matches("warning: ").count() == 1, "{out}");
    let out = inner_test("events:\n", "payload: in.d\nevents:\n");
    assert_eq!(out, "f: 1 example passed\n");
    let inside = inner.replacen("events:\n", "payload: in.d\nevents:\n", 1).replacen("{txt}", "{in.d.txt}", 1);
    let file = TempFile::new(&inside);
    let out = run(&["check", "--test", utf8(file.path())], "").out;
    let hint = "has a value at `in.d.txt`\n  hint: paths begin at the payload `in.d`: write `txt`\n";
    assert!(out.contains(hint) && out.matches("warning: ").count() == 1, "{out}");
    // A name cannot control the terminal.
    let (_, out) =
        test("tests:\n", "tests:\n  - name: \"a\\e[2J\\n::b\"\n    stream: |\n      data: {}\n\n    events: []\n");
    assert!(out.contains("`a␛[2J␊::b` differs\n"), "{out}");
    // A request that is refused has the line of its mistake.
    let request = "tests:\n  - request:\n      threadId: t\n      runId: r\n      messages:\n        - {id: u1, role: user, content: Hi}\n        - {role: user, content: Hi}\n    body: {}\n";
    let (_, out) = test("tests:\n", request);
    assert!(
        out.starts_with("f:17: `tests[0]` differs\n") && out.contains("refused: /messages/1/id: is missing"),
        "{out}"
    );
    // A difference has the line of what is expected.
    for (right, wrong, line) in [("delta: Hi", "delta: Ho", 28), ("name: part, value: 1", "name: part, value: 2", 29)] {
        let (_, out) = test(right, wrong);
        assert!(out.starts_with(&format!("f:{line}: `hello` differs\n")), "{out}");
    }
}

/// An example that differs is as often right as the rules are, so both lines are named.
#[test]
fn differences_name_the_member_the_rule_and_the_frame() {
    const RULES: &str = r#"name: acme
events:
  - when: {"@event": say}
    emit: {type: TEXT_MESSAGE_CHUNK, delta: "{txt}"}
  - when: {"@event": step}
    emit:
      type: ACTIVITY_SNAPSHOT
      messageId: m
      activityType: step
      content:
        label: "{label}"
        state: {from: "{st}", table: {ACTIVE: open}, otherwise: other}
    keep: {last: "{label}"}
  - when: {"@event": bye}
    done: true
request:
  - when: {"messages[-1].role": tool}
    body: {x: "{@thread.last}"}
  - body:
      a: 1
      q: "{@user_text}"
tests:
  - name: run
    stream: |
      event: say
      data: {"txt":"Hi"}

      event: step
      data: {"st":"ACTIVE","label":"L"}

      event: bye
      data: {}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: TEXT_MESSAGE_START, messageId: r1-m1, role: assistant}
      - {type: TEXT_MESSAGE_CONTENT, messageId: r1-m1, delta: Hi}
      - {type: ACTIVITY_SNAPSHOT, messageId: m, activityType: step, content: {label: L, state: open}}
      - {type: TEXT_MESSAGE_END, messageId: r1-m1}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
    keep: {last: L}
  - name: ask
    request: {threadId: t1, runId: r1, messages: [{id: u, role: user, content: Hi}], tools: [], context: []}
    body:
      a: 1
      q: Hi
"#;
    let test = |right: &str, wrong: &str| {
        assert!(right.is_empty() || RULES.contains(right), "{right}");
        let file = TempFile::new(&RULES.replacen(right, wrong, 1));
        let out = run(&["check", "--test", utf8(file.path())], "").out;
        out.replace(utf8(file.path()), "f")
    };
    assert_eq!(test("", ""), "f: 2 examples passed\n");
    let missing = "`content.label` differs: expected \"L\", got missing\n  the rule of line 5 made it of the frame of line 28, with `content.label` on line 11\n  `txt` of line 11 has no value in that frame\n";
    for (right, wrong, line, expected) in [
        (
            "delta: Hi",
            "delta: Ho",
            37,
            "`delta` differs: expected \"Ho\", got \"Hi\"\n  the rule of line 3 made it of the frame of line 25, with `delta` on line 4\n",
        ),
        ("label: \"{label}\"", "label: \"{txt}\"", 38, missing),
        (
            "{ACTIVE:",
            "{ACTVE:",
            38,
            "with `content.state` on line 12\n  the table of line 12 has no row for `ACTIVE`: correct `ACTVE`, or add one\n",
        ),
        (
            "last: \"{label}\"",
            "last: \"{txt}\"",
            41,
            "`last` differs: expected \"L\", got missing\n  `keep` of line 13 sets it\n  `txt` of line 13 has no value in that frame\n",
        ),
        (
            "\"@event\": bye",
            "\"@event\": by",
            39,
            "no rule applies to the frame of line 31, `bye`: add one, or correct the conditions",
        ),
        (
            "event: bye\n      data: {}",
            ": bye",
            38,
            "the stream ends, and no rule with `finish`, `done` or `fail` has applied",
        ),
        ("  q: Hi", "  q: Ho", 46, "`q` differs: expected \"Ho\", got \"Hi\"\n  `request` makes it on line 21\n"),
        (
            "activityType: step\n",
            "activityType: step\n      timestamp: \"{label}\"\n",
            39,
            "ACTIVITY_SNAPSHOT cannot have \"L\" as `timestamp`, so that it stands in `metadata.diglot`\n",
        ),
    ] {
        let out = test(right, wrong);
        assert!(out.contains(&format!("f:{line}: `")) && out.contains(expected), "{wrong}: {out}");
    }
    // A path that only frames of other rules have, a `finish` before other texts, and an end of nothing.
    let finish = "  - when: {\"@event\": say}\n    finish: {}\n  - when: {\"@event\": step}\n    emit: {type: TEXT_MESSAGE_CHUNK, delta: x}\n  - when: {\"@event\": step}\n    emit:\n";
    for (right, wrong, expected) in [
        (
            "label: \"{label}\"",
            "label: \"{txt}\"",
            "f:11:16: warning: events[1].emit.content.label: no frame of the examples for this rule has a value at `txt`\n  hint: add an example with it, or correct the path; there is `label`, `st`\n",
        ),
        (
            "  - when: {\"@event\": step}\n    emit:\n",
            finish,
            "f:5:3: warning: events[1]: `finish` says here that the run has succeeded, but texts or calls follow",
        ),
        (
            "  - when: {\"@event\": bye}\n",
            "  - when: {\"@event\": bye}\n    emit: {type: STEP_FINISHED, stepName: s}\n",
            "f:14:3: warning: events[2]: an event of this rule is left out: it ends what has not begun",
        ),
    ] {
        let out = test(right, wrong);
        assert!(out.contains(expected) && out.matches("warning: ").count() == 1, "{wrong}: {out}");
    }
}

/// A variable is a text, but an agent's code is a number.
#[test]
fn variables_in_conditions_stand_for_numbers_and_booleans() {
    let example = |frame: &str| {
        format!(
            "name: acme\nevents: [{{when: {{code: \"${{DIGLOT_NONE:-7}}\", ok: [\"${{DIGLOT_NONE:-true}}\"]}}, done: true}}]\ntests:\n  - stream: '{frame}'\n    \
             events: [{{type: RUN_STARTED, threadId: t1, runId: r1}}, {{type: RUN_FINISHED, threadId: t1, runId: r1}}]\n"
        )
    };
    for (frame, code) in [
        (r#"data: {"code":7,"ok":true}"#, 0),
        (r#"data: {"code":"7","ok":"true"}"#, 0),
        (r#"data: {"code":8,"ok":true}"#, 1),
        (r#"data: {"code":7,"ok":"yes"}"#, 1),
    ] {
        let file = TempFile::new(&example(frame));
        let Printed { code: found, out, err } = run(&["check", "--test", utf8(file.path())], "");
        assert_eq!(found, Some(code), "{frame} {out}{err}");
    }
}

#[tokio::test]
async fn the_mock_of_a_configuration_answers_with_the_error_of_its_file() {
    let plain = KEEPING.replace("events:\n  - when", "request: {body: {q: \"{@user_text}\"}}\nevents:\n  - when");
    let file = TempFile::new(&plain);
    let config = TempFile::new(&format!(
        "dialect_files: [{}]\nroutes: [{{path: /a, client: ag-ui, agent: acme, upstream: \"http://h/\"}}, {{path: /b, client: ag-ui, agent: hai, upstream: \"http://h/\"}}]\n",
        file.path().display()
    ));
    let named = format!("{}#acme", utf8(config.path()));
    let mut mock = Process::start(diglot().args(["mock-agent", "--dialect", &named]), true);
    let line = mock.line().await.expect("its address");
    let url = line.strip_prefix("agent acme http://").expect("its address").trim_end_matches('/').to_owned();
    let send = async |text: &str| {
        let body = json!({"q": text}).to_string();
        send_request(url.parse().expect("an address"), post("/", "", &body)).await
    };
    let refused = send("status, please").await;
    assert_eq!((refused.status, refused.text()), (429, r#"{"problem":{"why":"slow down","no":7}}"#));
    assert_eq!(send("an error").await.status, 429, "without a stream that fails");
    assert_eq!(send("AN ERROR AS A STREAM").await.status, 500);
    // A name within a word is none.
    assert_eq!(send("too manyfold").await.status, 200);
    assert_eq!(send("too many!").await.status, 429);
    let Printed { code, err, .. } = run(&["mock-agent", "--dialect", &format!("{}#hai", utf8(config.path()))], "");
    assert!(code == Some(2) && err.contains("has no examples with which it could answer"), "{err}");
}
