//! Mistakes of people who describe their first agent: paths, quotes, braces, tags and texts that YAML joins.

use super::problems;
use crate::config::dialect_file::{DialectFile, FileKind};

/// Behind a name: rules, of which the last ends the run.
fn file(rules: &str) -> String {
    format!("name: acme\nevents:\n{rules}  - has: end\n    done: true\n")
}

/// Each row has a file, and a part of the message and of the hint that it gets.
fn assert_problems(rows: &[(String, &str, &str)]) {
    let mut failures = Vec::new();
    for (text, message, hint) in rows {
        let found = problems(text);
        if !found.contains(message) || !found.contains(hint) {
            failures.push(format!("{text}\n  expected {message} ({hint})\n  found {found}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn paths_that_cannot_be_meant_name_the_one_that_is() {
    let rows = [
        (
            file("  - has: $fault\n    fail: {}\n"),
            "3:10: events[0].has: `$fault` has no `.`",
            "did you mean `$.fault`?",
        ),
        (
            file("  - has: $fault[0].x\n    fail: {}\n"),
            "3:10: events[0].has: `$fault[0].x`",
            "did you mean `$.fault[0].x`?",
        ),
        (
            file("  - has: x\n    fail: {message: \"{text|$fault.message}\"}\n"),
            "4:21: events[0].fail.message: `$fault.message` has no `.`",
            "`[\"$fault.message\"]`",
        ),
        (
            "name: a\npayload: $.body\nevents: [{done: true}]".to_owned(),
            "2:10: payload: `$.body` begins with `$`",
            "`body`",
        ),
        (
            "name: a\nevents: [{done: true}]\nerror: {message: $.problem.why}".to_owned(),
            "3:18: error.message: `$.problem.why` begins with `$`",
            "did you mean `problem.why`?",
        ),
        (
            "name: a\nevents: [{done: true}]\nrequest: {body: {q: '{user_text}'}}".to_owned(),
            "3:21: request.body.q: a request has no member `user_text`",
            "did you mean `@user_text`?",
        ),
        (
            file("  - when:\n      type..x:\n        - a\n        - b\n    done: true\n"),
            "4:7: events[0].when.type..x: `type..x` is not a path",
            "separated by dots",
        ),
        (
            file(
                "  - has: n\n    emit: {type: TOOL_CALL_CHUNK, toolCallName: \"{n}\", delta: x}\n  - has: r\n    emit: {type: \
                 TOOL_CALL_RESULT, key: \"{i}\", content: \"{r}\"}\n",
            ),
            "5:5: events[1]: this `key` names no call: no TOOL_CALL_CHUNK has a `key`",
            "add the same `key:` there, or write `toolCallId:` here",
        ),
        (file("  - has: \"{text}\"\n    ignore: true\n"), "`{text}` is not a path", "write `text`"),
        (file("  - when: {\"{a.kind}\": x}\n    ignore: true\n"), "3:12: events[0].when.{a.kind}", "write `a.kind`"),
        (file("  - has: t\n    fail: {message: \"${why}\"}\n"), "variable `why` is not set", "is `{why}`, without `$`"),
        (
            file("  - has: t\n    fail: {message: \"${a.why}\"}\n"),
            "not a valid variable name",
            "is `{a.why}`, without `$`",
        ),
        (
            file("  - each: items\n    emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{item.text}\"}\n"),
            "4:45: events[0].emit.delta: the element of `each` is `@item`",
            "write `@item.text`; a member of the frame is `[\"item\"].text`",
        ),
        (
            file("  - has: t\n    emit: {type: TEXT_MESSAGE_CHUNK, delta: {path: text}}\n"),
            "4:11: events[0].emit: the text of TEXT_MESSAGE_CHUNK is not a text",
            "{as_text: VALUE}",
        ),
        (
            file("  - has: t\n    emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{{txt}}\"}\n"),
            "4:45: events[0].emit.delta: `{{txt}}` is the text `{txt}`, not a value",
            "write `{txt}` for the value, or `{{ txt }}` for a text in braces",
        ),
        (
            file("  - has: t\n    keep: {id: \"a {{@messge}}\"}\n"),
            "4:16: events[0].keep.id: `{{@messge}}`",
            "`{@messge}`",
        ),
        (
            file("  - has: t\n    fail: {message: \"{{why[0].x}} b\"}\n"),
            "4:21: events[0].fail.message: `{{why[0].x}}` is the text `{why[0].x}`",
            "write `{why[0].x}`",
        ),
        (
            file("  - has: t\n    fail: {message: \"{@messge}\", code: \"{why\"}\n"),
            "4:21: events[0].fail.message: `@messge` does not exist here",
            "use one of: `@event`",
        ),
        (
            file("  - has: t\n    fail: {code: \"{why\"}\n"),
            "4:18: events[0].fail.code: `{why` has a brace without a partner",
            "close it",
        ),
        (
            file("  - has: t\n    keep: {id: \"{id\"}\n"),
            "4:16: events[0].keep.id: `{id` has a brace without a partner",
            "close it",
        ),
        (
            file("  - has: t\n    emit: {type: TEXT_MESSAGE_CHUNK, delta: $.txt}\n"),
            "4:45: events[0].emit.delta: `$.txt` without braces is this text itself",
            "write `\"{$.txt}\"`",
        ),
        (
            "name: a\nevents: [{done: true}]\nrequest: {body: {q: '@user_text'}}".to_owned(),
            "3:21: request.body.q: `@user_text` without braces is this text itself",
            "write `\"{@user_text}\"`",
        ),
        (
            file("  - has: t\n    status: 500\n    fail: {}\n"),
            "4:5: events[0].status: there is no such",
            "`error:` at the top",
        ),
        (file("  - if: t\n    fail: {}\n"), "3:5: events[0].if: there is no such", "`when: {PATH: value}`"),
        (
            "name: a\nevents: [{done: true}]\nrequest: {url: 'http://x/', method: GET}".to_owned(),
            "3:11: request.url: there is no such",
            "the `upstream` of the route",
        ),
        (
            "name: a\nevents: [{done: true}]\ntests: [{stream: acme.sse, events: []}]".to_owned(),
            "3:18: tests[0].stream: is no stream",
            "below `stream: |`",
        ),
        (
            file("  - has: t\n    emit: {type: TEXT_MESSAGE_CONTENT, delta: x}\n"),
            "TEXT_MESSAGE_CONTENT lacks its member `messageId`",
            "write TEXT_MESSAGE_CHUNK, which begins and ends by itself",
        ),
    ];
    assert_problems(&rows);
    // As a quoted name, and below a payload, it is what the file says.
    let quoted = "name: a\npayload: '[\"$body\"]'\nevents: [{has: '[\"$x\"]', done: true}]";
    assert_eq!(problems(quoted), "ok");
    for text in [r#"{{"a":1}}"#, "{{ txt }}", "{{{txt}}}", "$.50", "@you", "a@item.b"] {
        let found = problems(&file(&format!("  - has: t\n    emit: {{type: TEXT_MESSAGE_CHUNK, delta: '{text}'}}\n")));
        assert_eq!(found, "ok", "{text}");
    }
}

#[test]
fn forms_that_can_never_work_are_refused() {
    let emit = |event: &str| file(&format!("  - has: t\n    emit: {{{event}}}\n"));
    let call = |first: &str, piece: &str| {
        let (first, piece) =
            (format!("{{type: TOOL_CALL_CHUNK, {first}}}"), format!("{{type: TOOL_CALL_CHUNK, {piece}}}"));
        file(&format!("  - has: t\n    emit: {first}\n  - has: u\n    emit: {piece}\n"))
    };
    let nameless = "this call never begins: no TOOL_CALL_CHUNK of it has a `toolCallName`";
    let rows = [
        (
            emit("type: TOOL_CALL_CHUNK, delta: \"{x}\""),
            "3:5: events[0]: this call never begins",
            "add `toolCallName:`",
        ),
        (
            call("key: \"{i}\", toolCallName: \"{n}\"", "toolCallId: \"{i}\", delta: \"{x}\""),
            "5:5: events[1]: this call never begins",
            "with the same `key:` or `toolCallId:`",
        ),
        (call("toolCallId: \"{i}\", toolCallName: \"{n}\"", "key: \"{i}\", delta: \"{x}\""), nameless, "`key:`"),
        (
            file("  - has: choices.0.delta\n    ignore: true\n"),
            "3:10: events[0].has: `choices.0.delta` is not a path",
            "did you mean `choices[0].delta`? A member with such a name is `[\"0\"]`",
        ),
        (
            emit("type: TEXT_MESSAGE_CHUNK, delta: \"{0.a[1].2[3]}\""),
            "`0.a[1].2[3]` is not a path",
            "did you mean `[0].a[1][2][3]`?",
        ),
        (
            file("  - has: e\n    finish: {}\n    fail: {message: x}\n"),
            "3:5: events[0]: the rule has both `finish` and `fail`",
            "remove `finish`, which says that the run has succeeded",
        ),
        (
            emit("type: TEXT_MESSAGE_CHUNK, role: bot, delta: \"{x}\""),
            "4:44: events[0].emit.role: TEXT_MESSAGE_CHUNK cannot have `bot` here",
            "use one of: `developer`, `system`, `assistant`, `user`",
        ),
        (
            file("  - has: e\n    finish: {usage: {inputTokens: \"{x}\"}}\n"),
            "4:21: events[0].finish.usage: must be a list",
            "`usage: [{inputTokens: \"{PATH}\"}]`",
        ),
        (
            emit("type: TEXT_MESSAGE_CHUNK, delta: null"),
            "4:45: events[0].emit.delta: TEXT_MESSAGE_CHUNK never gets a value here",
            "write `\"{PATH}\"`",
        ),
        (
            emit("type: TOOL_CALL_END, key: null"),
            "events[0].emit.key: TOOL_CALL_END never gets a value",
            "remove the key",
        ),
        ("events: [{done: true}]\n".to_owned(), "1:1: : the key `name` is missing", "name: acme-llm"),
        ("# about\nname: acme\n".to_owned(), "2:1: : the key `events` is missing", "add the rules"),
    ];
    assert_problems(&rows);
    for accepted in [
        call("key: \"{i}\", toolCallId: \"{c}\", toolCallName: \"{n}\"", "toolCallId: \"{c}\", delta: \"{x}\""),
        call("toolCallName: \"{n}\"", "delta: \"{x}\""),
        emit("type: TEXT_MESSAGE_CHUNK, role: user, delta: \"{x}\""),
        emit("type: CUSTOM, name: x, value: null"),
        file("  - has: e\n    finish: {usage: \"{usage}\"}\n"),
        file("  - has: e\n    finish: {usage: {each: models, as: {model: \"{@item}\"}}}\n    done: true\n"),
        file("  - has: a[\"0\"].b\n    ignore: true\n"),
    ] {
        assert_eq!(problems(&accepted), "ok", "{accepted}");
    }
}

#[test]
fn errors_that_forget_nothing_are_refused() {
    let keeps = |error: &str| file("  - has: c\n    keep: {c: '{c}'}\n") + &format!("error: {error}\n");
    let rows = [
        (file("") + "error: {code: c, forget: {code: gone}}\n", "no rule keeps anything", "add a rule with `keep:`"),
        (
            keeps("{forget: {code: gone}}"),
            "error.forget.code: nothing says where an error has its code",
            "to the `fail`",
        ),
        (keeps("{code: c, forget: {}}"), "error.forget: names no error", "write the `status`"),
        (keeps("{code: c, forget: []}"), "error.forget: an empty list names no error", "write `forget: {status"),
        (keeps("{code: c, forget: {code: []}}"), "error.forget: names no error", "its `code`, or both"),
        (keeps("{code: c, forget: 404}"), "must be a mapping, not a number", "write `forget: {status: 404"),
        (keeps("{code: c, forget: {status: 99}}"), "7:35: error.forget.status: must be an HTTP status", "200 to 599"),
        (keeps("{code: c, forget: [{status: [404, 4xx]}]}"), "error.forget[0].status[1]: must be", "200 to 599"),
        (keeps("{code: c, forget: {message: gone}}"), "error.forget.message: there is no such key", "`status`, `code`"),
        (keeps("{code: c, forgets: {code: gone}}"), "error.forgets: there is no such key", "did you mean `forget`?"),
    ];
    assert_problems(&rows);
}

#[test]
fn reasoning_belongs_to_a_message() {
    let request = |body: &str| file("") + &format!("request: {{body: {{m: {body}}}}}\n");
    let rows = [
        (request("'{@reasoning}'"), "`@reasoning` exists only where `each` names messages", "`each: messages`"),
        (request("{each: messages, as: '{@reasoning.x}'}"), "`@reasoning.x` leads into a text", "`@reasoning` alone"),
        (
            request("{each: messages, as: {each: '@reasoning', as: x}}"),
            "this is a text, and never a list",
            "name a list",
        ),
        (file("  - has: x\n    fail: {message: '{@reasoning}'}\n"), "`@reasoning` does not exist here", "`@event`"),
    ];
    assert_problems(&rows);
}

/// Files that are valid, each with the warning that it gets, if any.
#[test]
fn what_is_probably_not_meant_is_a_warning() {
    let example = "tests:\n  - stream: |\n      data: {\"a\":{\"txt\":\"Hi\"}}\n    events: []\n";
    let constant = |effect: &str| file(&format!("  - has: a\n    {effect}\n")) + example;
    let when = |word: &str| file(&format!("  - when: {{type: {word}}}\n    ignore: true\n"));
    for (text, expected) in [
        (
            constant("emit: {type: TEXT_MESSAGE_CHUNK, delta: txt}"),
            "4:45: warning: events[0].emit.delta: `txt` is always this text",
        ),
        (constant("emit: {type: TEXT_MESSAGE_CHUNK, content: a.txt}"), "events[0].emit.content: `a.txt` is always"),
        (constant("fail: {message: txt}"), "4:21: warning: events[0].fail.message: `txt` is always this text"),
        (constant("fail: {message: x, code: txt}"), ""),
        (
            constant("fail: {message: x, code: a.txt}"),
            "4:30: warning: events[0].fail.code: `a.txt` is always this text",
        ),
        (constant("keep: {id: txt}"), "4:16: warning: events[0].keep.id: `txt` is always this text, although frames"),
        (constant("emit: {type: TEXT_MESSAGE_CHUNK, delta: Hi}"), ""),
        (constant("emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{a.txt}\"}"), ""),
        (constant("emit: {type: CUSTOM, name: txt, value: 1}"), ""),
        (
            when("/tok.*/"),
            "3:18: warning: events[0].when.type: `/tok.*/` is compared as it is written: there are no patterns",
        ),
        (when("[end, tok*]"), "3:24: warning: events[0].when.type[1]: `tok*` is compared"),
        (when("^tok$"), "`^tok$` is compared"),
        (when("a.*b"), "`a.*b` is compared"),
        (when("/tok"), ""),
        (when("\"*\""), ""),
    ] {
        let compiled = DialectFile::compile("f", text.as_bytes(), &|_| None).expect("no mistakes");
        let found: Vec<String> = compiled.warnings.iter().map(ToString::to_string).collect();
        let is_expected = found.len() == usize::from(!expected.is_empty()) && found.join("").contains(expected);
        assert!(is_expected, "{text}\n  expected {expected}\n  found {found:?}");
    }
}

#[test]
fn yaml_that_is_not_what_it_seems_has_a_way_out() {
    let rows = [
        (file("  - when: {@event: hello}\n    ignore: true\n"), "3:12: : YAML does not allow", "quote it: \"@event\""),
        (
            file("  - when:\n      @event: hello\n    ignore: true\n"),
            "4:7: : YAML does not allow",
            "quote it: \"@event\"",
        ),
        (file("  - has: @item.id\n    ignore: true\n"), "3:10: : YAML does not allow", "quote it: \"@item.id\""),
        (file("  - when: @event: hello\n    ignore: true\n"), "3:11: : YAML does not allow", "quotes: {\"@event\": …}"),
        (
            file("  - when: {type: [a, b}\n    ignore: true\n"),
            "3:18: : this is not YAML: mismatched bracket",
            "close it",
        ),
        (file("  - has text\n    done: true\n"), "3:5: : there is no `: ` after `has`", "a colon and a space"),
        (file("  - has:text\n    done: true\n"), "3:5: : there is no `: ` after `has`", "a colon and a space"),
        (file("  -has: text\n   done: true\n"), "3:3: : this is not a list entry", "a space after the dash"),
        (file("  - when: {type: !x b}\n    done: true\n"), "3:21: : a word that begins with `!`", "in quotes"),
        (file("  - !rule\n    has: b\n    done: true\n"), "a word that begins with `!` is a YAML tag", "remove it"),
        (
            file("  - has: t\n    emit:\n      type: TEXT_MESSAGE_CHUNK\n      delta: {a[0].b}\n"),
            "6:14: : a text that begins with `{` is not in quotes",
            "\"{…}\"",
        ),
        (
            file("  - has: t\n    emit:\n      type: TEXT_MESSAGE_CHUNK\n      delta: {a} and more\n"),
            "6:14: : a text that begins with `{` is not in quotes",
            "\"{…}\"",
        ),
        (file("  - when: {kind: end\n    done: true\n"), "3:11: : this `{` is not closed", "close it with `}`"),
        (file("  - has: x\n    fail: {message: Error: it failed}\n"), "4:21: : this value has a `: `", "in quotes"),
        (
            file("  - has: t\n    emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{t}}\n"),
            "4:45: : this is not YAML: unclosed quote",
            "close it, on the same line",
        ),
    ];
    assert_problems(&rows);
}

/// Line ends are what a stream consists of.
#[test]
fn a_stream_with_lines_that_yaml_joins_is_refused() {
    let frame = "data: {\"end\":1}";
    let joined = [
        format!("stream: >\n      {frame}\n\n      {frame}\n"),
        format!("stream: >-\n      {frame}\n"),
        format!("stream: '{frame}\n\n      {frame}'\n"),
        "stream: \"event: x\n      data: 1\"\n".to_owned(),
        "stream: \"data: {\\\"end\\\":1}\n      data: 1\"\n".to_owned(),
        "stream:\n      data:1\n\n      data:2\n".to_owned(),
    ];
    for stream in joined {
        let found = problems(&format!("{}tests:\n  - {stream}    events: []\n", file("")));
        assert!(found.starts_with("6:5: tests[0].stream: YAML joins the lines of this text"), "{stream}{found}");
        assert!(found.contains("write `stream: |`"), "{stream}{found}");
    }
    let kept = [
        format!("stream: |\n      {frame}\n\n      {frame}\n"),
        format!("stream: |-\n      {frame}\n"),
        "stream: \"data: {\\\"end\\\":1}\\n\\n\"\n".to_owned(),
        "stream: 'data: it''s'\n".to_owned(),
        "stream:\n      \"data: {\\\"end\\\":1}\\n\\n\"\n".to_owned(),
    ];
    for stream in kept {
        assert_eq!(problems(&format!("{}tests:\n  - {stream}    events: []\n", file(""))), "ok", "{stream}");
    }
}

#[test]
fn an_empty_file_is_no_dialect() {
    for text in ["", "\n\n", "# rules follow\n"] {
        let found = problems(text);
        assert!(found.starts_with("1:1: : the file is empty; a dialect file has"), "{found}");
        assert!(found.contains("begin with `name: my-agent`"), "{found}");
    }
}

#[test]
fn files_are_told_apart_by_their_keys() {
    for (text, kind) in [
        ("routes: []\nevents: []", FileKind::Configuration),
        ("{\"routes\": []}", FileKind::Configuration),
        ("name: acme\n", FileKind::Dialect),
        ("name: acme\nevent: []", FileKind::Dialect),
        ("{\"name\":\"acme\",\"events\":[]}", FileKind::Dialect),
        (" {\"nam\":\"acme\",\"events\":[]}", FileKind::Dialect),
        // A route that stands at the top of the file.
        ("name: chat\npath: /a\nclient: ag-ui", FileKind::Other),
        ("listeners: {data: 127.0.0.1:1}", FileKind::Other),
        ("", FileKind::Empty),
        ("# only\n\n  \n", FileKind::Empty),
    ] {
        assert_eq!(FileKind::classify(text), kind, "{text}");
    }
}

#[test]
fn a_mistake_is_reported_once_and_with_what_is_written() {
    let rows = [
        (
            file("  - has: {w: 1}\n    done: true\n"),
            "3:10: events[0].has: must be a path, not a mapping",
            "`when: {w: 1}`",
        ),
        (file("  - has: {w: }\n    done: true\n"), "must be a path, not a mapping", "write the path alone, `w`"),
        (file("  - has: .w\n    done: true\n"), "`.w` is not a path", "(did you mean `w`?)"),
        (
            file("  - has: x\n    fail: \"{why.text}\"\n"),
            "must be a mapping, not a text",
            "`fail: {message: \"{why.text}\"}`",
        ),
        (
            file("  - has: over\n    done: true\n  - {has: [over, x], set: {a: 1}}\n"),
            "5:5: events[1]: this is never used, because the rule of line 3 ends the run before it",
            "move it before that rule",
        ),
        (
            file("  - when: {a: [x, y]}\n    fail: {}\n  - {when: {a: y}, each: b, set: {a: 1}}\n"),
            "5:5: events[1]: this is never used, because the rule of line 3",
            "further conditions",
        ),
        (
            "name: a\nevent:\n  - {has: x, keep: {session: \"{s}\"}, set: {y: 1}}\n  - {has: \"@run.y\", done: true}\n\
             request: {body: {s: \"{@thread.session}\"}}\n"
                .to_owned(),
            "2:1: event: there is no such key here",
            "did you mean `events`?",
        ),
    ];
    assert_problems(&rows);
    for (text, ..) in &rows {
        assert_eq!(problems(text).lines().count(), 1, "{}", problems(text));
    }
    // Its values may change in between, and it may have another word.
    for rules in [
        "  - {has: \"@run.a\", done: true}\n  - {has: x, set: {a: 1}}\n  - {has: [\"@run.a\", x], set: {a: 2}}\n",
        "  - {when: {a: x}, done: true}\n  - {when: {a: [x, y]}, set: {a: 1}}\n",
        "  - {has: a, each: b, done: true}\n  - {has: a, set: {a: 1}}\n",
    ] {
        assert_eq!(problems(&file(rules)), "ok", "{rules}");
    }
}

#[test]
fn two_examples_have_two_names() {
    let example = "  - name: same\n    stream: 'data: {\"end\":1}'\n    events: []\n";
    let found = problems(&format!("{}tests:\n{example}{example}", file("")));
    assert!(found.starts_with("9:5: tests[1].name: another example has the name `same`"), "{found}");
    let other = example.replace("same", "other");
    assert_eq!(problems(&format!("{}tests:\n{example}{other}", file(""))), "ok");
}
