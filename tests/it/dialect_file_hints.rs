//! `diglot check --test`: mistakes that only the examples show, and the lines that made what differs.

use super::dialect_file_tools::{run, utf8};
use super::support::gateway::TempFile;

/// An agent and its examples, both without mistakes.
const RULES: &str = r#"name: acme
payload: in
events:
  - when: {"@event": say}
    emit: {type: TEXT_MESSAGE_CHUNK, delta: "{txt}"}
  - when: {"@event": step}
    emit: {type: STEP_STARTED, stepName: {from: "{st}", table: {A: start}, otherwise: "{st}"}}
  - when: {"@event": call}
    emit: {type: TOOL_CALL_CHUNK, key: "{no}", toolCallId: "{id}", toolCallName: "{fn}"}
  - when: {"@event": result}
    emit: {type: TOOL_CALL_RESULT, key: "{no}", content: "{got}"}
  - when: {"@event": beat, alive: true}
    ignore: true
  - when: {"@event": bye}
    done: true
request:
  body:
    q: "{@user_text}"
    turns:
      each: messages
      rules:
        - when: {"@item.role": user}
          as: {who: human, text: "{@item.content}"}
        - when: {"@item.role": assistant}
          has: "@item.toolCalls"
          as:
            who: bot
            calls: {each: "@item.toolCalls", as: {id: "{@item.id}", input: {as_json: "{@item.function.arguments}"}}}
        - when: {"@item.role": assistant}
          as: {who: bot, text: "{@item.content}"}
tests:
  - name: hello
    stream: |
      event: say
      data: {"in":{"txt":"Hi"}}

      event: say
      data: {"in":{"txt":" you"}}

      event: step
      data: {"in":{"st":"A"}}

      event: call
      data: {"in":{"no":0,"id":"x1","fn":"f"}}

      event: beat
      data: {"in":{"alive":true}}

      event: result
      data: {"in":{"no":0,"got":"ok"}}

      event: bye
      data: {"in":{}}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: TEXT_MESSAGE_START, messageId: r1-m1, role: assistant}
      - {type: TEXT_MESSAGE_CONTENT, messageId: r1-m1, delta: Hi}
      - {type: TEXT_MESSAGE_CONTENT, messageId: r1-m1, delta: " you"}
      - {type: STEP_STARTED, stepName: start}
      - {type: TEXT_MESSAGE_END, messageId: r1-m1}
      - {type: TOOL_CALL_START, toolCallId: x1, toolCallName: f}
      - {type: TOOL_CALL_END, toolCallId: x1}
      - {type: TOOL_CALL_RESULT, messageId: r1-t2, toolCallId: x1, content: ok}
      - {type: STEP_FINISHED, stepName: start}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
  - name: a question
    request:
      threadId: t1
      runId: r1
      messages:
        - {id: u1, role: user, content: Hi}
        - {id: a1, role: assistant, toolCalls: [{id: x1, type: function, function: {name: f, arguments: '{"n":1}'}}]}
        - {id: t1, role: tool, toolCallId: x1, content: ok}
        - {id: a2, role: assistant, content: Done}
        - {id: u2, role: user, content: Thanks}
      tools: [{name: f, description: d, parameters: {type: object}}]
    body:
      q: Thanks
      turns:
        - {who: human, text: Hi}
        - {who: bot, calls: [{id: x1, input: {n: 1}}]}
        - {who: bot, text: Done}
        - {who: human, text: Thanks}
"#;

/// A part of a file, and what stands there by mistake.
struct Edit(&'static str, &'static str);

/// Returns the exit code and the output of a file with some mistakes.
fn check(edits: &[Edit]) -> (Option<i32>, String) {
    let mut text = RULES.to_owned();
    for Edit(right, wrong) in edits {
        assert!(text.contains(right), "{right}");
        text = text.replacen(right, wrong, 1);
    }
    let file = TempFile::new(&text);
    let printed = run(&["check", "--test", "--strict", utf8(file.path())], "");
    (printed.code, printed.out.replace(utf8(file.path()), "f"))
}

/// Asserts that a file whose examples agree has only this warning.
fn assert_warning(edits: &[Edit], place: &str, message: &str, hint: &str) {
    let (code, out) = check(edits);
    let begin = format!("f:{place} warning: ");
    assert!(out.starts_with(&begin) && out.matches("warning: ").count() == 1, "{out}");
    assert!(out.contains(message) && out.contains(&format!("\n  hint: {hint}")), "{out}");
    assert!(code == Some(1) && out.ends_with("f: 2 examples passed\n"), "{out}");
}

const TABLE: &str = "{from: \"{st}\", table: {A: start}, otherwise: \"{st}\"}";
const STEP: &str = "    emit: {type: STEP_STARTED";
const QUESTION: &str = "    q: \"{@user_text}\"\n";

/// The example was copied from what the file makes.
#[test]
fn texts_that_frames_or_requests_have_as_members_are_warnings() {
    assert_eq!(check(&[]), (Some(0), "f: 2 examples passed\n".to_owned()));
    let of_rule = |name: &str| format!("`{name}` is always this text, although frames for this rule have `{name}`");
    assert_warning(
        &[Edit("otherwise: \"{st}\"", "otherwise: st")],
        "7:87:",
        &format!("events[1].emit.stepName.otherwise: {}", of_rule("st")),
        "write `\"{st}\"` for its value",
    );
    let step =
        [Edit(TABLE, "st"), Edit("stepName: start}", "stepName: st}"), Edit("stepName: start}", "stepName: st}")];
    assert_warning(&step, "7:42:", &of_rule("st"), "write `\"{st}\"`");
    let result = [Edit("content: \"{got}\"", "content: got"), Edit("content: ok}", "content: got}")];
    assert_warning(&result, "11:58:", &of_rule("got"), "write `\"{got}\"`");
    let question = [Edit("\"{@user_text}\"", "user_text"), Edit("q: Thanks", "q: user_text")];
    assert_warning(
        &question,
        "18:8:",
        "`user_text` is always this text, and nothing reads `@user_text`",
        "write `\"{@user_text}\"`",
    );
    let of_request =
        |name: &str| format!("`{name}` is always this text, although requests of the examples have `{name}`");
    let tools = [
        Edit(QUESTION, "    q: \"{@user_text}\"\n    ops: tools\n"),
        Edit("q: Thanks\n", "q: Thanks\n      ops: tools\n"),
    ];
    assert_warning(&tools, "19:10:", &of_request("tools"), "write `\"{tools}\"`");
    let user = [
        Edit(QUESTION, "    q: \"{@user_text}\"\n    user: threadId\n"),
        Edit("q: Thanks\n", "q: Thanks\n      user: threadId\n"),
    ];
    assert_warning(&user, "19:11:", &of_request("threadId"), "write `\"{threadId}\"`");
    // Texts that are meant as such: a condition reads the member, the request reads it elsewhere, or frames of
    // other rules have it.
    for edits in [
        [
            Edit(STEP, "    has: st\n    emit: {type: STEP_STARTED"),
            Edit(TABLE, "st"),
            Edit("stepName: start}", "stepName: st}"),
            Edit("stepName: start}", "stepName: st}"),
        ]
        .as_slice(),
        &[Edit(TABLE, "got"), Edit("stepName: start}", "stepName: got}"), Edit("stepName: start}", "stepName: got}")],
        &[
            Edit(QUESTION, "    q: \"{@user_text}\"\n    mode: messages\n"),
            Edit("q: Thanks\n", "q: Thanks\n      mode: messages\n"),
        ],
        &[
            Edit(QUESTION, "    q: \"{@user_text}\"\n    mode: context\n"),
            Edit("q: Thanks\n", "q: Thanks\n      mode: context\n"),
        ],
        &[Edit("{\"@event\": bye}", "{\"@event\": \"bye*\"}"), Edit("event: bye", "event: bye*")],
        &[
            Edit("{\"@event\": bye}", "{\"@event\": bye, n: \"a*\"}"),
            Edit("data: {\"in\":{}}", "data: {\"in\":{\"n\":\"a*\"}}"),
        ],
    ] {
        assert_eq!(check(edits), (Some(0), "f: 2 examples passed\n".to_owned()), "{}", edits[0].1);
    }
}

#[test]
fn a_result_for_no_call_of_the_run_is_a_warning() {
    let unknown = [
        Edit("key: \"{no}\", content", "toolCallId: \"r{no}\", content"),
        Edit("      - {type: TOOL_CALL_END, toolCallId: x1}\n", ""),
        Edit(
            "toolCallId: x1, content: ok}",
            "toolCallId: r0, content: ok}\n      - {type: TOOL_CALL_END, toolCallId: x1}",
        ),
    ];
    assert_warning(
        &unknown,
        "10:3:",
        "events[3]: an example has a result of this rule for the call `r0`, which no event of its run begins",
        "write the `toolCallId` that its call has, or the same `key:` as there",
    );
    // An earlier run of the thread may have called.
    let (code, out) = check(&[
        Edit("key: \"{no}\", content", "toolCallId: \"{@thread.call}\", content"),
        Edit("    done: true\n", "    done: true\n  - has: fn\n    keep: {call: \"{id}\"}\n"),
        Edit("    stream: |\n", "    thread: {call: x0}\n    stream: |\n"),
        Edit(
            "  - when: {\"@event\": call}\n    emit: {type: TOOL_CALL_CHUNK, key: \"{no}\", toolCallId: \"{id}\", toolCallName: \"{fn}\"}\n",
            "",
        ),
        Edit(
            "      - {type: TOOL_CALL_START, toolCallId: x1, toolCallName: f}\n      - {type: TOOL_CALL_END, toolCallId: x1}\n",
            "",
        ),
    ]);
    assert!(code == Some(0) && !out.contains("warning"), "{out}");
}

#[test]
fn what_differs_has_its_line_and_its_cause() {
    let rows: &[(&[Edit], &str)] = &[
        (
            &[Edit("{as_json: \"{@item.function.arguments}\"}", "\"{@item.function.arguments}\"")],
            "`turns[1].calls[0].input` differs: expected {\"n\":1}, got \"{\\\"n\\\":1}\"\n  `request` makes it on line 28\n  \
             it is the JSON text of what is expected: `{as_json: VALUE}` makes the value\n",
        ),
        (
            &[Edit("          has: \"@item.toolCalls\"", "          lacks: \"@item.toolCalls\"")],
            "`request` makes it on line 30; the rule of line 24 has `calls`, and is not used for this element\n",
        ),
        (
            &[Edit("who: human, text", "who: user, text")],
            "`turns[0].who` differs: expected \"human\", got \"user\"\n  `request` makes it on line 23\n",
        ),
        (
            &[Edit("input: {n: 1}", "input: '{\"n\":1}'")],
            "what is expected is its JSON text, which `{as_text: VALUE}` makes\n",
        ),
        (
            &[Edit("emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{txt}\"}", "ignore: true")],
            "\n  before it, the rule of line 4 ignores the frame of line 34\n  before it, the rule of line 4 ignores the frame of line 37\n",
        ),
        (
            &[Edit("      - {type: RUN_STARTED, threadId: t1, runId: r1}\n", "")],
            "\n  every run begins with this event, also one that fails\n",
        ),
        (
            &[Edit("delta: \"{txt}\"", "content: \"{txt}\"")],
            "\n  `content` is the whole text so far, and does not begin with what was sent; a piece of it is `delta`\n",
        ),
        (
            &[Edit("\"@event\": beat", "\"@event\": baet")],
            "f:12:3: warning: events[4]: no frame of the examples is for this rule: none has `baet` at `@event`\n  \
             hint: did you mean `beat`, for which there is no rule?\n",
        ),
        (
            &[Edit("beat, alive: true", "beat, alve: true")],
            "f:12:3: warning: events[4]: no frame of the examples is for this rule: none has `alve`\n  hint: did you mean `alive`?\n",
        ),
        (
            &[Edit("from: \"{st}\"", "from: \"{txt}\"")],
            "no row is used: frames of the examples have ` you`, `Hi` at `txt`\n  hint: did you mean `st`, which has `A`?\n",
        ),
        (
            &[Edit("delta: \"{txt}\"", "delta: \"{$.txt}\"")],
            "at `$.txt`\n  hint: paths begin at the payload `in`: write `txt`\n",
        ),
        (&[Edit("delta: \"{txt}\"", "delta: \"{txt[0]}\"")], "at `txt[0]`\n  hint: did you mean `txt`? Otherwise"),
        (
            &[Edit("payload: in\n", "payload: data.in\n")],
            "has `data.in`, where all paths begin\n  hint: write `payload: in`, below which",
        ),
        // A rule that ignores what no example has is none of the causes.
        (
            &[
                Edit(
                    "  - when: {\"@event\": bye}",
                    "  - when: {\"@event\": pong}\n    ignore: true\n  - when: {\"@event\": bye}",
                ),
                Edit("q: Thanks", "q: Thank"),
            ],
            "f:81: `a question` differs\n",
        ),
    ];
    for (edits, expected) in rows {
        let (code, out) = check(edits);
        assert!(code == Some(1) && out.contains(expected), "expected {expected}\nfound {out}");
    }
    // No form has the member that differs.
    let calls = "calls: {each: \"@item.toolCalls\", as: {id: \"{@item.id}\", input: {as_json: \"{@item.function.arguments}\"}}}";
    let (_, out) = check(&[Edit(calls, "calls: \"{@item.toolCalls}\"")]);
    assert!(out.contains("`request` makes it on line 28\n"), "{out}");
    let (_, out) = check(rows[rows.len() - 1].0);
    assert!(!out.contains("warning"), "{out}");
}
