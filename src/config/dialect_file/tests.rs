//! Mistakes in dialect files, each with its place, its cause and a way out.

mod first_attempts;
mod request_places;
mod typos;
mod member_values;
mod misread_lines;
mod yaml_marks;

use super::DialectFile;

/// A file without mistakes, to which rows add some.
const HEAD: &str = "name: acme\n";

fn problems(text: &str) -> String {
    let lookup = |name: &str| (name == "SET").then(|| "value".to_owned());
    match DialectFile::compile("f", text.as_bytes(), &lookup) {
        Ok(_) => "ok".to_owned(),
        Err(problems) => {
            let lines = problems.as_slice().iter().map(|problem| {
                let place = problem.line.zip(problem.column).map(|(line, column)| format!("{line}:{column}: "));
                let hint = problem.hint.as_deref().unwrap_or_default();
                format!("{}{}: {} ({hint})", place.unwrap_or_default(), problem.path, problem.message)
            });
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

#[test]
fn every_mistake_has_a_place_a_cause_and_a_way_out() {
    // Part of the message, of the place, and of the hint.
    let rows: &[(&str, &str, &str)] = &[
        ("", "the key `events` is missing", "add the rules"),
        ("events: {}", "2:9: events: must be a list of rules", "- when: {type: message}"),
        ("events: [1]", "2:10: events[0]: must be a mapping, not a number", "`when:` or `has:`"),
        ("events: [{has: a}]", "2:10: events[0]: the rule does nothing", "ignore: true"),
        ("events: [{has: a, emits: {}}]", "2:19: events[0].emits: there is no such key here", "did you mean `emit`?"),
        ("events: [{has: a, ignore: true}]", "no rule says that a run has succeeded", "finish: {}"),
        ("events: [{has: a, fail: {message: x}}]", "no rule says that a run has succeeded", "done: true"),
        ("events: [{has: a, done: yes}]", "2:25: events[0].done: must be true", "write `done: true`"),
        ("events: [{has: a..b, done: true}]", "2:16: events[0].has: `a..b` is not a path", "separated by dots"),
        ("events: [{has: 'a[x]', done: true}]", "`a[x]` is not a path", "`[-1]` for the last one"),
        ("events: [{has: [a, [b]], done: true}]", "2:20: events[0].has[1]: must be a text, not a list", "one value"),
        ("events: [{has: '@evnt', done: true}]", "`@evnt` does not exist here", "did you mean `@event`?"),
        ("events: [{has: '@event.x', done: true}]", "`@event.x` leads into a text", "write `@event` alone"),
        ("events: [{has: '@user_text', done: true}]", "`@user_text` does not exist here", "`@event`"),
        ("events: [{has: '@item.x', done: true}]", "`@item` exists only where `each` names a list", "add `each: PATH`"),
        ("events: [{has: '@run.x', done: true}]", "no rule sets `@run.x`", "add a rule with `set: {x: "),
        ("events: [{has: '@thread.x', done: true}]", "no rule sets `@thread.x`", "add a rule with `keep: {x: "),
        ("events: [{has: a, lacks: a, done: true}]", "these conditions exclude each other", "remove one"),
        ("events: [{when: {a: 1}, lacks: a, done: true}]", "these conditions exclude each other", "remove one"),
        ("events: [{when: {a: ''}, has: a, done: true}]", "these conditions exclude each other", "remove one"),
        ("events: [{when: {a: []}, done: true}]", "2:21: events[0].when.a: an empty list never holds", "values"),
        ("events: [{when: {a: {b: 1}}, done: true}]", "must be a value to compare with", "`has` asks for any value"),
        (
            "events: [{when: x, done: true}]",
            "events[0].when: must be a mapping, not a text",
            "with paths and the values",
        ),
        (
            "events: [{emit: {delta: x}, done: true}]",
            "events[0].emit: the key `type` is missing",
            "type: TEXT_MESSAGE_CHUNK",
        ),
        ("events: [{emit: {type: TEXT}, done: true}]", "AG-UI has no event `TEXT`", "use one of"),
        ("events: [{emit: {type: RUN_STARTED}, done: true}]", "`RUN_STARTED` is not emitted by rules", "first frame"),
        ("events: [{emit: {type: RUN_FINISHED}, done: true}]", "`RUN_FINISHED` is not emitted by rules", "finish: {}"),
        ("events: [{emit: {type: RUN_ERROR}, done: true}]", "`RUN_ERROR` is not emitted by rules", "fail: {message"),
        (
            "events: [{emit: {type: TEXT_MESSAGE_CHUNK, text: x}, done: true}]",
            "2:44: events[0].emit.text: TEXT_MESSAGE_CHUNK has no member `text`",
            "use one of",
        ),
        (
            "events: [{emit: {type: TEXT_MESSAGE_CHUNK}, done: true}]",
            "TEXT_MESSAGE_CHUNK has neither `delta` nor `content`",
            "`content:` with the whole so far",
        ),
        (
            "events: [{emit: {type: TEXT_MESSAGE_CHUNK, delta: a, content: b}, done: true}]",
            "TEXT_MESSAGE_CHUNK has both `delta` and `content`",
            "keep `delta`",
        ),
        (
            "events: [{emit: {type: TEXT_MESSAGE_CHUNK, key: a, delta: b}, done: true}]",
            "TEXT_MESSAGE_CHUNK has no member `key`",
            "use one of",
        ),
        (
            "events: [{emit: {type: STEP_STARTED}, done: true}]",
            "STEP_STARTED lacks its member `stepName`",
            "add `stepName:`",
        ),
        ("events: [{emit: {type: CUSTOM, name: x}, done: true}]", "CUSTOM lacks its member `value`", "add `value:`"),
        (
            "events: [{emit: {type: TOOL_CALL_RESULT, content: x}, done: true}]",
            "TOOL_CALL_RESULT does not say which call it is for",
            "add `toolCallId:` or `key:`",
        ),
        (
            "events: [{emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{a\"}, done: true}]",
            "`{a` has a brace without a partner",
            "write `{{` and `}}`",
        ),
        (
            "events: [{emit: {type: TEXT_MESSAGE_CHUNK, delta: \"a}\"}, done: true}]",
            "has a brace without a partner",
            "{{",
        ),
        (
            "events: [{emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{}\"}, done: true}]",
            "`{}` names no place",
            "write a path",
        ),
        (
            "events: [{emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{a|}\"}, done: true}]",
            "`{}` names no place",
            "write a path",
        ),
        (
            "events: [{emit: {type: TEXT_MESSAGE_CHUNK, delta: \"${NONE}\"}, done: true}]",
            "the environment variable `NONE` is not set",
            "${NONE:-default}",
        ),
        (
            "events: [{emit: {type: TEXT_MESSAGE_CHUNK, delta: \"${NONE\"}, done: true}]",
            "`${` has no closing `}`",
            "${NAME}",
        ),
        ("events: [{finish: {useage: 1}}]", "RUN_FINISHED has no member `useage`", "did you mean `usage`?"),
        (
            "events: [{fail: {mesage: x}, done: true}]",
            "events[0].fail.mesage: there is no such key here",
            "did you mean `message`?",
        ),
        ("events: [{set: {a b: x}, done: true}]", "`a b` is not a name", "letters, digits and underscores"),
        ("events: [{set: x, done: true}]", "events[0].set: must be a mapping, not a text", "`set: {name: "),
        (
            "events: [{done: true}]\nrequest: {bdy: 1}",
            "3:11: request.bdy: there is no such key here",
            "did you mean `body`?",
        ),
        ("events: [{done: true}]\nrequest: []", "3:10: request: an empty list has no request", "remove the key"),
        ("events: [{done: true}]\nrequest: [1]", "3:11: request[0]: must be a mapping, not a number", "`body:`"),
        (
            "events: [{done: true}]\nrequest: [{bdy: 1}]",
            "3:12: request[0].bdy: there is no such key here",
            "did you mean `body`?",
        ),
        (
            "events: [{done: true}]\nrequest: [{body: {a: 1}}, {has: tools, body: {a: 2}}]",
            "3:11: request[0]: this is for every request, so that request[1] is never used",
            "move it to the end",
        ),
        (
            "events: [{done: true}]\nrequest: {path: tools}",
            "3:17: request.path: does not begin with `/`",
            "such as `/tools",
        ),
        ("events: [{done: true}]\nrequest: {path: '{threadId}'}", "request.path: does not begin with `/`", "such as"),
        ("events: [{done: true}]\nrequest: {path: 'http://a/b'}", "does not begin with `/`", "behind the path"),
        ("events: [{done: true}]\nrequest: {path: /a?b=c}", "a path cannot have '?'", "`query:`"),
        ("events: [{done: true}]\nrequest: {path: '/a#b'}", "a path cannot have '#'", "`query:`"),
        ("events: [{done: true}]\nrequest: {path: /a%2Fb}", "a path cannot have '%'", "values in braces"),
        ("events: [{done: true}]\nrequest: {path: '/a\\b'}", "a path cannot have '\\\\'", "values in braces"),
        ("events: [{done: true}]\nrequest: {path: /a/../b}", "cannot have the segment", "names between the slashes"),
        ("events: [{done: true}]\nrequest: {path: '/a//b'}", "cannot have the segment", "names between the slashes"),
        (
            "events: [{done: true}]\nrequest: {path: '/{thread_id}'}",
            "a request has no member `thread_id`",
            "did you mean `threadId`?",
        ),
        ("events: [{done: true}]\nrequest: {path: '/{@thread.x}'}", "no rule sets `@thread.x`", "keep: {x:"),
        (
            "events: [{done: true}]\nrequest: {path: '/{@item.x}'}",
            "`@item` exists only where `each`",
            "add `each: PATH`",
        ),
        ("events: [{done: true}]\nrequest: {query: a=b}", "3:18: request.query: must be a mapping", "`query: {name:"),
        ("events: [{done: true}]\nrequest: {query: {a: '{b}'}}", "a request has no member `b`", "use one of"),
        (
            "events: [{done: true}]\nrequest: {headers: {Host: a}}",
            "`Host` is not in lower case",
            "did you mean `host`?",
        ),
        (
            "events: [{done: true}]\nrequest: {headers: {host: a}}",
            "3:21: request.headers.host: `host` is set by the gateway itself",
            "remove it",
        ),
        ("events: [{done: true}]\nrequest: {headers: {te: a}}", "`te` belongs to a connection", "remove it"),
        (
            "events: [{done: true}]\nrequest: {headers: {x-diglot-subject: a}}",
            "is set by the gateway itself",
            "remove it",
        ),
        (
            "events: [{done: true}]\nrequest: {headers: {x-forwarded-for: '{threadId}'}}",
            "`x-forwarded-for` claims where a request comes from",
            "remove it",
        ),
        ("events: [{done: true}]\nrequest: {headers: {'a b': a}}", "`a b` is not a valid header name", "x-tenant"),
        (
            "events: [{done: true}]\nrequest: {headers: {authorization: a}}",
            "`authorization` carries a credential",
            "`upstream_headers`",
        ),
        (
            "events: [{done: true}]\nrequest: {headers: {x-a: \"a\\r\\nb: c\"}}",
            "3:26: request.headers.x-a: a header cannot have these characters",
            "visible ASCII",
        ),
        (
            "events: [{done: true}]\nrequest: {body: {a: '{@new_messages[0].id}'}}",
            "leads into a list, which only `each` enters",
            "write `@new_messages` alone",
        ),
        ("events: [{has: '@new_messages', done: true}]", "`@new_messages` does not exist here", "use one of"),
        (
            "events: [{done: true}]\nerror: {mesage: a}",
            "3:9: error.mesage: there is no such key here",
            "did you mean `message`?",
        ),
        ("events: [{done: true}]\nerror: {message: '{a}'}", "3:18: error.message: `{a}` is not a path", "write `a`"),
        ("events: [{done: true}]\nerror: a.b", "3:8: error: must be a mapping, not a text", "message: PATH"),
        (
            "events: [{done: true}]\nrequest: {body: {a: '{message}'}}",
            "a request has no member `message`",
            "did you mean `messages`?",
        ),
        (
            "events: [{done: true}]\nrequest: {body: {a: {each: messages, as: '{role}'}}}",
            "a request has no member `role`",
            "write `@item.role` for a member of the element",
        ),
        ("events: [{done: true}]\nrequest: {body: {a: '{@event}'}}", "`@event` does not exist here", "`@user_text`"),
        (
            "events: [{done: true}]\nrequest: {body: {a: {each: messages, rules: [{when: {role: user}}]}}}",
            "request.body.a.rules[0]: the key `as` is missing",
            "add `as:`",
        ),
        (
            "events: [{done: true}]\nrequest: {body: {a: {from: '{state}', table: {x: [1]}}}}",
            "must be one value",
            "write a text",
        ),
        (
            "events: [{done: true}]\ntests: [{stream: x}]",
            "tests[0]: an example needs what goes in and what comes out",
            "`stream:` and `events:`",
        ),
        ("events: [{done: true}]\ntests: [{stream: [], events: []}]", "tests[0].stream: must be a text", "stream: |"),
        ("events: [{done: true}]\npayload: a..b", "3:10: payload: `a..b` is not a path", "separated by dots"),
        ("events: [{done: true}]\nevents: []", "3:1: events: the key is already on line 2", "keep one"),
        ("events: [{done: true}]\nevent: []", "3:1: event: there is no such key here", "did you mean `events`?"),
        (
            "events: [{emit: {type: TEXT_MESSAGE_CHUNK, delta: {text}}, done: true}]",
            "`{text}` without quotes is an object in YAML",
            "write \"{text}\"",
        ),
        (
            "events: [{done: true}]\nrequest: {body: {a: {from: '{state}', tabel: {x: y}}}}",
            "`tabel` is no key of a table",
            "did you mean `table`?",
        ),
        (
            "events: [{done: true}]\nrequest: {body: {a: {from: '{state}', table: {x: y}, else: z}}}",
            "`else` is no key of a table",
            "otherwise",
        ),
        (
            "events: [{done: true}]\nrequest: {body: {a: {each: tools, os: x}}}",
            "`os` is no key beside `each`",
            "did you mean `as`?",
        ),
        (
            "events: [{fail: {message: x, code: {table: {a: b}}}}, {done: true}]",
            "a table without the value that it maps",
            "add `from:",
        ),
        ("events: [{done: true, fail: {message: x}}]", "the rule has both `done` and `fail`", "keep the one"),
        (
            "events: [{done: true}]\ntests: [{stream: x, events: {a: 1}}]",
            "tests[0].events: must be a list",
            "for each event",
        ),
        (
            "events: [{keep: {session: '{a}'}, done: true}]\ntests: [{stream: x, events: [], thread: {sesion: y}}]",
            "no rule keeps `sesion`",
            "did you mean `session`?",
        ),
        ("events: [{}, {done: true}]", "2:10: events[0]: the rule does nothing", "ignore: true"),
        ("events: [{emit: [], done: true}]", "2:17: events[0].emit: an empty list has no event", "add one"),
        (
            "events: [{has: a, ignore: true, set: {b: x}, done: true}]",
            "the rule has `ignore` and does something",
            "remove",
        ),
        (
            "events: [{fail: {}}, {has: a, done: true}]",
            "2:22: events[1]: this is never used, because events[0] ends the run with any frame",
            "move it to the front",
        ),
        ("events: [{when: {a: 1, $.a: 2}, done: true}]", "these conditions exclude each other", "remove one"),
        (
            "events: [{when: {a: '${NONE}'}, done: true}]",
            "2:21: events[0].when.a: the environment variable `NONE`",
            "default}",
        ),
        (
            "events: [{each: '@event', done: true}]",
            "2:17: events[0].each: this is a text, and never a list",
            "name a list",
        ),
        ("events: [{has: '', done: true}]", "2:16: events[0].has: a path is missing", "`$` is the whole frame"),
        ("events: [{has: $..x, done: true}]", "`$..x` is not a path", "separated by dots"),
        ("events: [{has: $., done: true}]", "`$.` is not a path", "separated by dots"),
        ("events: [{has: 'a[*].b', done: true}]", "`a[*].b` is not a path", "`[-1]` for the last one"),
        ("events: [{has: a.*, done: true}]", "`a.*` is not a path", "`[\"a.b\"]`"),
        ("events: [{has: /a/0, done: true}]", "`/a/0` is not a path", "separated by dots"),
        ("events: [{has: '@run', done: true}]", "`@run` names no value", "write `@run.NAME`"),
        ("events: [{each: a, has: '@item.', done: true}]", "`@item.` is not a path", "separated by dots"),
        (
            "events: [{emit: {type: TEXT_MESSAGE_CHUNK, delta: '{a | upper()}'}, done: true}]",
            "`upper()` is not a path",
            "separated by dots",
        ),
        ("events: [{finish: true}]", "2:19: events[0].finish: must be a mapping, not true or false", "`finish: {}`"),
        (
            "events: [{done: true}]\nrequest: {body: {a: {from: state, table: {x: y}}}}",
            "3:21: request.body.a: `from: state` is always the same",
            "write `from: \"{state}\"`",
        ),
        (
            "events: [{done: true}]\nrequest: {body: {a: {from: '{state}', table: {}}}}",
            "an empty table has no words",
            "remove `table`",
        ),
        (
            "events: [{done: true}]\nrequest: {body: {a: {as_text: '{state}', as_json: '{tools}'}}}",
            "`as_text` has another key beside it",
            "{as_text: VALUE}",
        ),
        (
            "events: [{done: true}]\nrequest: {body: {a: {each: messages, rules: []}}}",
            "an empty list of `rules` makes no element",
            "add one",
        ),
        (
            "events: [{done: true}]\nrequest: {body: {a: {each: messages, rules: }}}",
            "request.body.a.rules: must be a mapping, not empty",
            "when: {role: user}",
        ),
        ("events: [{done: true}]\ntests: [{stream: x, events: [{type: NO}]}]", "AG-UI has no event `NO`", "use one of"),
        (
            "events: [{done: true}]\ntests: [{stream: x, events: [], keep: {a: 1}}]",
            "no rule keeps `a`",
            "add a rule with `keep: {a: ",
        ),
        ("events: [{when: {a: .nan}, done: true}]", "2:21: : this cannot be read", "text in quotes"),
        ("events: [{when: {a: \"\u{1}\"}, done: true}]", "2:22: : this is not YAML", "remove the control character"),
        ("events: &a [*a]", "2:13: : an alias (`*name`) inside its own anchor", "in place of the alias"),
        ("events: [{done: true}]\n  x: [", "", ""),
    ];
    let mut failures = Vec::new();
    for (text, message, hint) in rows {
        let found = problems(&format!("{HEAD}{text}\n"));
        if found == "ok" || !found.contains(message) || !found.contains(hint) {
            failures.push(format!("{text}\n  expected {message} ({hint})\n  found {found}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    for (text, message) in [
        ("events: [{done: true}]", "the key `name` is missing"),
        ("name: hai\nevents: [{done: true}]", "the dialect `hai` is built in"),
        ("name: auto\nevents: [{done: true}]", "the dialect `auto` is built in"),
        ("name: A B\nevents: [{done: true}]", "`A B` is not a valid dialect name"),
        ("name: [a]\nevents: [{done: true}]", "name: must be a text, not a list"),
        ("- 1", "a dialect file is a mapping"),
        ("name: &a [*a]", "cannot be read"),
    ] {
        let found = problems(text);
        assert!(found.contains(message) || message == "cannot be read" && found != "ok", "{text}\n  {found}");
    }
}

/// A file must not take minutes to read, nor a frame much memory or more stack than there is.
#[test]
fn large_files_are_refused() {
    let rule = |path: &str| format!("{HEAD}events: [{{has: '{path}', done: true}}]\n");
    let text = |count: usize| {
        let places = (0..count).map(|at| format!("{{a{at}}}")).collect::<String>();
        format!("{HEAD}events: [{{emit: {{type: CUSTOM, name: x, value: '{places}'}}, done: true}}]\n")
    };
    assert_eq!(problems(&rule(&["a"; 64].join("."))), "ok");
    assert_eq!(problems(&rule(&"a".repeat(256))), "ok");
    assert_eq!(problems(&text(1_000)), "ok");
    for (file, message, hint) in [
        (rule(&["a"; 65].join(".")), "2:16: events[0].has: a path of 65 steps", "less deep"),
        (rule(&["a"; 400_000].join(".")), "a path of 400000 steps", "less deep"),
        (rule(&"名".repeat(86)), "2:16: events[0].has: a name of 258 bytes; at most 256 are read", "the object"),
        (text(1_001), "2:48: events[0].emit.value: the rules read more than 1000 different places", "fewer members"),
        (text(100_000), "the rules read more than 1000 different places", "fewer members"),
        (format!("{HEAD}events: {}", "[".repeat(100_000)), "recursion limit", "fewer levels"),
        (format!("{HEAD}events: [{}]", "1, ".repeat(30_000)), "too many values", "leave out"),
    ] {
        let found = problems(&file);
        assert!(found.contains(message) && found.contains(hint), "{message}: {}", &found[..found.len().min(400)]);
    }
}

#[test]
fn accepts_every_form() {
    let text = r#"
name: acme
payload: data
request:
  body:
    query: "{@user_text}"
    conversation: "{@thread.conversation}"
    key: ${SET}
    empty: "${NONE:-}"
    braces: "{{not a place}}"
    list: [{each: messages, rules: [{when: {"@item.role": [user, tool]}, has: "@item.content", as: {text_of: "{@item.content}"}}]}, x]
    tools: {each: tools, as: "{@item.name}"}
    mode: {from: "{state.mode}", table: {a: 1, b: true}, otherwise: null}
    only: {has: "${SET}", as: 1}
    never: {has: "${NONE:-}", as: 1}
events:
  - when: {"@event": [a, b], $.type: 1, 'odd["x.y"][0].z[-1]': true}
    has: [text]
    lacks: "@run.seen"
    set: {seen: true}
    append: {all: "{text}"}
    keep: {conversation: "{$.id|id}"}
    emit:
      - {type: TEXT_MESSAGE_CHUNK, delta: "{text}"}
      - {type: CUSTOM, name: x, value: {as_json: "{@run.all}"}}
  - each: calls
    has: "@item.index"
    emit: {type: TOOL_CALL_CHUNK, key: "{@item.index}", toolCallName: "{@item.name}", content: "{@item.input}"}
  - when: {"@data": "[DONE]"}
    done: true
error: {message: [error.message, 'odd["x.y"]'], code: error.code}
"#;
    assert_eq!(problems(text), "ok");
    let several = r#"
name: acme
request:
  - when: {"messages[-1].role": tool}
    has: "@thread.id"
    path: /${NONE:-}runs/{@thread.id}/{runId|threadId}:submit/
    query: {a b: "{@user_text}", fixed: 1, list: {each: "@new_messages", as: "{@item.content}"}}
    headers: {x-run: "{runId}", x-fixed: "${SET}"}
    body: {each: "@new_messages", rules: [{when: {"@item.role": tool}, as: "{@item.content}"}]}
  - has: "${NONE:-}"
    path: ${NONE:-}
  - path: /chat
events:
  - keep: {id: "{id}"}
    done: true
"#;
    assert_eq!(problems(several), "ok");
}

/// A file is an operator's, but a mistake in it must not stop the process.
#[test]
fn survives_mutilated_files() {
    let accepted = include_str!("../../../config/dialects/openai-chat.yaml");
    let lines: Vec<&str> = accepted.lines().collect();
    for skipped in (0..lines.len()).step_by(5) {
        let less: Vec<&str> =
            lines.iter().enumerate().filter(|(at, _)| *at != skipped).map(|(_, line)| *line).collect();
        problems(&less.join("\n"));
        problems(&lines[..skipped].join("\n"));
        let doubled = [&lines[..=skipped], &lines[skipped..]].concat();
        problems(&doubled.join("\n"));
    }
    for (at, _) in accepted.char_indices().step_by(199) {
        for wrong in ["{", "}", "\"", ":", "[", "@", "|"] {
            problems(&[&accepted[..at], wrong, &accepted[at..]].concat());
        }
    }
}

/// Streams take their shortcut for texts that rules only copy, and most frames of these APIs have one.
#[test]
fn files_that_ship_only_copy_the_texts_of_answers() {
    for (file, member) in [("openai-chat", "content"), ("dify-chat", "answer"), ("coze-chat", "content")] {
        let path = format!("{}/config/dialects/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read(&path).expect("a file");
        let compiled = DialectFile::compile(&path, &text, &|_| Some("value".to_owned())).expect("no mistakes");
        let copied = &compiled.dialect.mapping.copied_members;
        assert!(copied.iter().any(|copied| copied == member), "{file}: {copied:?}");
    }
}
