//! Typos in a file that worked: a word, a quote, a brace or a dash is wrong. Each is one problem, at its line, and not
//! also one for each place that depends on it.

use crate::config::dialect_file::DialectFile;

/// Behind a name: rules, of which the last ends the run.
pub(super) fn file(rules: &str) -> String {
    format!("name: acme\nevents:\n{rules}  - has: end\n    done: true\n")
}

pub(super) fn request(body: &str) -> String {
    file("") + &format!("request: {{body: {{m: {body}}}}}\n")
}

pub(super) fn example(rest: &str) -> String {
    file("") + &format!("tests:\n  - name: a\n{rest}")
}

/// Asserts that each file has only the problem or warning whose place, message and hint begin so.
pub(super) fn assert_one_each(rows: &[(String, &str, &str)]) {
    let mut failures = Vec::new();
    for (text, expected, hint) in rows {
        let found = match DialectFile::compile("f", text.as_bytes(), &|_| None) {
            Ok(compiled) => compiled.warnings,
            Err(problems) => problems.as_slice().to_vec(),
        };
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        let has_hint = |line: &String| line.contains(&format!("\n  hint: {hint}"));
        if lines.len() != 1 || !lines[0].starts_with(&format!("f:{expected}")) || !lines.iter().all(has_hint) {
            failures.push(format!("{text}\n  expected {expected} ({hint})\n  found {}", lines.join("\n")));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_misspelt_key_is_not_also_a_missing_one() {
    let step = |name: &str| file(&format!("  - has: s\n    emit: {{type: STEP_STARTED, stepName: {name}}}\n"));
    assert_one_each(&[
        (
            file("  - has: a\n    emitt: {type: RAW}\n"),
            "4:5: events[0].emitt: there is no such key",
            "did you mean `emit`?",
        ),
        (
            file("  - when:\n      a: b\n      emit: {type: CUSTOM, name: x, value: 1}\n"),
            "5:7: events[0].when.emit: `emit` is a key of the rule, and no condition",
            "indent it as far as `when`",
        ),
        (
            file("  - has: a\n    emit: {type: TOOL_CALL_CHUNK, toolName: \"{n}\", delta: \"{d}\"}\n"),
            "4:35: events[0].emit.toolName: TOOL_CALL_CHUNK has no member `toolName`",
            "use one of: `toolCallId`",
        ),
        (
            step("{from: \"{a}\", tabel: {x: y}, otherwise: z}"),
            "4:42: events[0].emit.stepName: `tabel` is no key of a table",
            "did you mean `table`?",
        ),
        (
            step("{form: \"{a}\", table: {x: y}}"),
            "4:42: events[0].emit.stepName: `form` is no key of a table",
            "did you mean `from`?",
        ),
        (
            file("  - has: a\n    finish: {usage: [{inputTokens: 1}, {input_tokens: \"{a}\"}]}\n"),
            "4:41: events[0].finish.usage[1].input_tokens: AG-UI has no member `input_tokens` here",
            "did you mean `inputTokens`?",
        ),
        (
            file("  - has: a\n    emit: {type: THINKING_TEXT_MESSAGE_CONTENT, delta: \"{a}\"}\n"),
            "4:18: events[0].emit.type: AG-UI has no event `THINKING_TEXT_MESSAGE_CONTENT`",
            "AG-UI 1.0 has REASONING_MESSAGE_CONTENT in its place; write REASONING_MESSAGE_CHUNK",
        ),
        (
            file("  - has: a\n    keep: \"{a}\"\n")
                + "request: {body: {m: \"{@thread.a}\"}}\ntests:\n  - {name: a, thread: {a: 1}, request: {}, body: {m: 1}}\n",
            "4:11: events[0].keep: must be a mapping, not a text",
            "write `keep: {name: \"{PATH}\"}`",
        ),
        (
            request("{each: tools, rules: {n: \"{@item.name}\", p: \"{@item.parameters}\"}}"),
            "5:42: request.body.m.rules: must be a list of rules, each with `as`",
            "write `as: VALUE` for one form of all elements",
        ),
    ]);
}

#[test]
fn keys_that_stand_twice_may_lack_a_dash() {
    let hint = "keep one of the two, or write `- has: …` if the next element of the list begins here";
    assert_one_each(&[
        (
            file("  - has: a\n    fail: {message: a}\n    has: b\n    fail: {message: b}\n"),
            "5:5: events[0].has: the key is already on line 3",
            hint,
        ),
        (
            file("  - has: a\n    fail: {message: a, message: b}\n"),
            "4:24: events[0].fail.message: the key is already",
            "keep one of the two\n",
        ),
    ]);
}

#[test]
fn values_with_the_wrong_marks_name_the_right_ones() {
    let item = |rule: &str| request(&format!("{{each: messages, rules: [{{{rule}, as: x}}]}}"));
    assert_one_each(&[
        (
            item("has: \"{@item.content}\""),
            "5:52: request.body.m.rules[0].has: `{@item.content}` is not a path",
            "a path has no braces, which are for values: write `@item.content`",
        ),
        (
            request("$ACME_APP"),
            "5:21: warning: request.body.m: `$ACME_APP` without braces is this text itself",
            "write `${ACME_APP}` for the variable",
        ),
        (
            request("\"${ACME_APP-web}\""),
            "5:21: request.body.m: `${ACME_APP-web}` is not a valid variable name",
            "a default stands behind `:-`: write `${ACME_APP:-web}`",
        ),
    ]);
}

pub(super) fn assert_no_warning(text: &str) {
    let compiled = DialectFile::compile("f", text.as_bytes(), &|_| None);
    assert!(compiled.as_ref().is_ok_and(|file| file.warnings.is_empty()), "{text}{compiled:?}");
}

#[test]
fn rules_that_another_makes_useless_are_refused() {
    let text = |path: &str| format!("emit: {{type: TEXT_MESSAGE_CHUNK, delta: \"{{{path}}}\"}}");
    let twice = format!("  - when: {{t: a}}\n    {0}\n  - when: {{t: a}}\n    {0}\n", text("x"));
    let narrower = format!("  - when: {{t: [a, b]}}\n    {0}\n  - when: {{t: a}}\n    has: x\n    {0}\n", text("x"));
    let open = format!("  - has: b\n    ignore: true\n  - {}\n", text("x"));
    let elements = |rules: &str| request(&format!("{{each: messages, rules: [{rules}]}}"));
    let hint = "move it to the front, or add `when:`";
    assert_one_each(&[
        (
            file(&twice),
            "5:5: events[1]: the rule of line 3 emits the same for the same frames",
            "remove one of the two",
        ),
        (
            file(&narrower),
            "5:5: events[1]: the rule of line 3 emits the same for the same frames",
            "remove one of the two",
        ),
        (
            file("  - has: t\n    fail: {}\n  - when: {t: a}\n    set: {b: x}\n"),
            "5:5: events[1]: this is never used, because the rule of line 3 ends the run before it",
            "move it before",
        ),
        (file(&open), "5:5: warning: events[1]: the rule has no condition", "add `when:`"),
        (
            elements("{as: x}, {when: {\"@item.role\": user}, as: y}, {as: z}"),
            "5:46: request.body.m.rules[0]: this is for every element, so that request.body.m.rules[1] is never used",
            "move it to the end",
        ),
        (
            elements("{when: {\"@item.role\": [user, tool]}, as: x}, {when: {\"@item.role\": tool}, as: y}"),
            "5:91: request.body.m.rules[1]: this is never used, because request.body.m.rules[0] is for the same elements",
            hint,
        ),
        (
            file("") + "request: [{has: tools, body: {a: 1}}, {has: tools, body: {a: 2}}, {body: {}}]\n",
            "5:39: request[1]: this is never used, because request[0] is for the same requests",
            hint,
        ),
    ]);
    // Other values, other elements, and values that a rule between the two may set.
    let kept = format!(
        "  - when: {{\"@run.b\": a}}\n    {0}\n  - has: s\n    set: {{b: x}}\n  - when: {{\"@run.b\": a}}\n    {0}\n",
        text("x")
    );
    let emitted = format!(
        "  - when: {{t: a}}\n    {0}\n  - when: {{t: a}}\n    set: {{n: x}}\n  - when: {{t: a}}\n    {0}\n",
        text("@run.n")
    );
    for accepted in [
        file(&format!("  - when: {{t: a}}\n    {}\n  - when: {{t: a}}\n    {}\n", text("x"), text("y"))),
        file(&format!("  - when: {{t: a}}\n    {0}\n  - when: {{t: [a, b]}}\n    {0}\n", text("x"))),
        file(&format!("  - each: a\n    {0}\n  - each: b\n    {0}\n", text("@item.x"))),
        file(&kept),
        file(&emitted),
        elements(
            "{when: {\"@item.role\": tool}, has: \"@item.content\", as: x}, {when: {\"@item.role\": tool}, as: y}, {as: z}",
        ),
    ] {
        assert_no_warning(&accepted);
    }
}

#[test]
fn quotes_and_braces_that_are_not_closed_are_found_above() {
    let text = |value: &str| {
        file(&format!(
            "  - has: a\n    emit: {{type: TEXT_MESSAGE_CHUNK, delta: {value}\n  - when: {{\"@event\": b}}\n    ignore: true\n"
        ))
    };
    let quote = "this quote is not closed on its line";
    assert_one_each(&[
        (text("\"{a}}"), &format!("4:45: {quote}"), "close it on this line"),
        (text("\"{a}\"\"}"), "4:50: a second quote behind a text that has ended", "remove it"),
        (file("  - when: {\"@event\"\": b}\n    ignore: true\n"), "3:20: a second quote behind", "remove it"),
        (
            file("  - when: {\"@event: b}\n    ignore: true\n  - when: {\"@event\": c}\n    ignore: true\n"),
            &format!("3:12: {quote}"),
            "close it on this line",
        ),
        (text("\"{a}\""), "4:11: this `{` is not closed, or a comma is missing", "close it with `}`"),
        (text("\"{a}\" #}"), "4:11: this `{` is not closed, because `#` begins a comment", "close it before the `#`"),
    ]);
}

#[test]
fn frames_of_examples_that_are_broken_are_warnings() {
    let stream = |lines: &[&str]| {
        let lines: String = lines.iter().map(|line| format!("      {line}\n")).collect();
        example(&format!("    stream: |\n{lines}\n    events: []\n"))
    };
    let path = "warning: tests[0].stream: ";
    let together = format!("{path}two frames run together, because no empty line stands between them");
    let empty = "put an empty line above this one";
    assert_one_each(&[
        (
            stream(&["event: a", "data: {\"x\":{\"y\":1}"]),
            &format!("9:24: {path}this frame is no JSON: EOF while parsing an object"),
            "correct it: rules find no values",
        ),
        (
            stream(&["data: {\"x\":\"°\",", "data: \"y\" 1}"]),
            &format!("9:17: {path}this frame is no JSON: expected `:`"),
            "correct it: rules find no values",
        ),
        (stream(&["event: a", "data: {}", "event: b", "data: {}"]), &format!("10:7: {together}"), empty),
        (stream(&["", "data: {}", "data: {}"]), &format!("10:7: {together}"), empty),
        (
            stream(&["event: a", "{\"x\":1}"]),
            &format!("9:7: {path}this line has no `data:`"),
            "write `data: ` before it",
        ),
        // Its lines are not those of the file.
        (
            example("    stream: \"data: {}\\n\\ndata: {x}\\n\\n\"\n    events: []\n"),
            &format!("7:5: {path}this frame is no JSON: key must be a string"),
            "correct it",
        ),
    ]);
    for accepted in
        [["data: [DONE]", ""], ["data: {\"a\":", "data: 1}"], ["event: a", "data: ping"], [": {", "data: {}"]]
    {
        let accepted = stream(&accepted);
        let compiled = DialectFile::compile("f", accepted.as_bytes(), &|_| None).expect("no mistakes");
        assert!(compiled.warnings.is_empty() && !compiled.has_broken_frames, "{accepted}{:?}", compiled.warnings);
    }
}

#[test]
fn examples_have_one_input() {
    let outdented = "`data` is a line of the stream, but stands beside the key `stream`";
    assert_one_each(&[
        (
            example("    stream: |\n      data: {}\n\n    request: {}\n    body: {}\n"),
            "7:5: tests[0].stream: `request` and `stream` are of two examples",
            "keep one of them; write `stream:` and `events:`",
        ),
        (
            example("    stream: |\n      data: {}\n\n    request: {}\n    events: []\n"),
            "10:5: tests[0].request: `stream` and `request` are of two examples",
            "keep one of them",
        ),
        (
            example("    stream: |\n      event: a\n    data: {\"x\":1}\n\n    events: []\n"),
            &format!("9:5: tests[0].data: {outdented}"),
            "indent all lines of the stream",
        ),
    ]);
}

#[test]
fn marks_of_other_programs_are_named() {
    assert_one_each(&[
        (
            file("  - has: a\n\u{a0} \u{a0} fail: {message: b}\n"),
            "4:1: a no-break space stands here",
            "write plain spaces",
        ),
        (file("  - has: a\n    fail: {message: “{m}”}\n"), "4:21: a typographic quote", "write `\"` or `'`"),
        (
            file("  - has: a\n    fail: {message: b}\n  – has: c\n    fail: {message: d}\n"),
            "5:3: a dash of another kind",
            "write `-`, the hyphen of the keyboard",
        ),
        (format!("```yaml\n{}", file("")), "1:1: this line is Markdown", "remove the lines that begin with ```"),
        (
            file("<<<<<<< HEAD\n  - has: a\n    fail: {message: b}\n"),
            "3:1: a merge is not finished here",
            "keep one of the two versions",
        ),
        (
            file("  - when: {a: 1e400}\n    fail: {message: b}\n"),
            "3:15: this cannot be read: value `1e400`",
            "write numbers below 1e308",
        ),
    ]);
}

#[test]
fn a_colon_that_is_missing_is_named() {
    let tagged = "{each: messages, as: {words: text_of \"{@item.content}\"}}";
    assert_one_each(&[
        (
            request(tagged),
            "5:50: there is no `: ` after `text_of`",
            "write `{text_of: …}`: braces, a colon and a space",
        ),
        (
            file("  - when {\"@event\": utter}\n    fail: {message: b}\n"),
            "3:5: events[0].when {\"@event\": there is no `: ` after `when`",
            "write `when: …`: a colon and a space",
        ),
        (
            request("\"${ACME_TENANT:main}\""),
            "5:21: request.body.m: `${ACME_TENANT:main}` is not a valid variable name",
            "a default stands behind `:-`: write `${ACME_TENANT:-main}`",
        ),
        (
            file("  - has: {\"@event\": utter}\n    fail: {message: b}\n"),
            "3:10: events[0].has: must be a path, not a mapping",
            "write the path alone, `\"@event\"`, or `when: {\"@event\": utter}` for this value",
        ),
    ]);
}

#[test]
fn values_that_would_be_ignored_or_sent_as_they_are_written() {
    assert_one_each(&[
        (
            request("{each: messages, as: {a: 1}, rules: [{as: {b: 1}}]}"),
            "5:21: request.body.m: `each` has both `as` and `rules`",
            "keep `as:` for one form of all elements, or `rules:` for several",
        ),
        (
            request("{textof: \"{@user_text}\"}"),
            "5:21: warning: request.body.m: `textof` is a member of an object here",
            "did you mean `text_of`?",
        ),
        (
            request("\"{{@user_text}}\""),
            "5:21: request.body.m: `{{@user_text}}` is the text `{@user_text}`, not a value",
            "write `{@user_text}` for the value",
        ),
        (
            file("") + "request: {path: /steps/@run_id/x, body: {m: 1}}\n",
            "5:17: request.path: `@run_id` without braces is this text itself",
            "write `{@run_id}`",
        ),
        (
            file(
                "  - has: a\n    emit: {type: TOOL_CALL_CHUNK, toolCallId: call, toolCallName: \"{n}\", delta: \"{d}\"}\n",
            ),
            "4:47: warning: events[0].emit.toolCallId: all calls of a run have this id",
            "write the path of the agent's id",
        ),
    ]);
    // Members of the agent's own.
    for member in ["{is_text: true}", "{has_text: \"{@user_text}\"}", "{test_of: a}"] {
        assert_no_warning(&request(member));
    }
}

#[test]
fn lines_of_a_stream_that_are_no_fields() {
    let stream = |line: &str| {
        example(&format!(
            "    stream: |\n      {line}\n      data: {{\"end\": 1}}\n\n    events: [{{type: RUN_STARTED}}]\n"
        ))
    };
    let hint = "write `data: `, `event: `, `id: ` or `retry: `, in small letters, or remove the line";
    let rows = ["dat: {\"a\": 1}", "evnt: a", "Event: a", "data : {\"a\": 1}", "< HTTP/1.1 200 OK"];
    let message = "8:7: warning: tests[0].stream: this line is no field of a stream, so it is ignored";
    assert_one_each(&rows.map(|line| (stream(line), message, hint)));
    let fields = [": a comment", "id: 1", "retry: 5", "event: a"].map(stream);
    for text in fields {
        let warnings = DialectFile::compile("f", text.as_bytes(), &|_| None).map(|file| file.warnings.len());
        assert_eq!(warnings.ok(), Some(0), "{text}");
    }
}

#[test]
fn one_mistake_is_one_problem() {
    let emit = |event: &str| file(&format!("  - has: a\n    {event}\n"));
    let finish = |members: &str| emit(&format!("finish: {{{members}}}"));
    let wrong_keep = file("  - has: a\n    set: {c: \"{a}\"}\n  - when: {\"@run.c\": x}\n    ignore: true\n");
    assert_one_each(&[
        (
            wrong_keep
                + "request: {body: {m: \"{@thread.c}\", n: \"{@thread.c}\"}}\ntests:\n  - name: a\n    thread: {c: 1}\n    request: {threadId: t}\n    body: {m: 1}\n",
            "9:21: request.body.m: no rule sets `@thread.c`",
            "a rule has it under `set`: write `keep`, which is for later runs of the thread",
        ),
        (
            file("") + "request:\n  path: /a\n  ask: \"{@user_text}\"\n  ops: 1\n  log: 2\n",
            "7:3: request.ask: `ask`, `ops` and what follows are members of the body",
            "write `body:` above them",
        ),
        (file("") + "request:\n  bdy: {ask: 1}\n", "6:3: request.bdy: there is no such key", "did you mean `body`?"),
        (
            request("{each: messages, rules: [{when: {\"@item.role\": user}, emit: {by: me}}]}"),
            "5:75: request.body.m.rules[0].emit: there is no such key",
            "use one of: `when`, `has`, `lacks`, `as`",
        ),
        (
            request("{for: tools, as: {op: \"{@item.name}\", of: \"{@item.description}\"}}"),
            "5:21: request.body.m: `for` names no list here",
            "write `each: PATH`",
        ),
        (
            emit("emit:\n    type: TEXT_MESSAGE_CHUNK\n    delta: \"{a}\""),
            "5:5: events[0].type: `type` stands beside `emit`, which is empty",
            "indent `type` and what belongs to it",
        ),
        (
            finish("inputTokens: \"{i}\", outputTokens: \"{o}\""),
            "4:14: events[0].finish.inputTokens: `inputTokens` is a member of `usage`, and stands beside it",
            "write `usage: [{inputTokens: …}]`",
        ),
        (
            emit("fail: {code: {from: \"{a}\", map: {x: y}, otherwise: z}}"),
            "4:18: events[0].fail.code: `map` is no key of a table",
            "write `table:`",
        ),
        (
            emit("fail: {message: \"{@data.why}\"}"),
            "4:21: events[0].fail.message: `@data.why` leads into a text",
            "write `why` for a member of the frame, or `@data` for all of its text",
        ),
    ]);
}
