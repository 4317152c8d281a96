//! Lines that YAML or a stream reads as something else, and what is written as in another language.

use super::typos::{assert_no_warning, assert_one_each, example, file, request};

#[test]
fn lines_at_the_wrong_depth_are_found_where_they_stand() {
    let no_element = "is a list, and this is no element of one";
    assert_one_each(&[
        (
            "name: a\nevents:\n  opened:\n    keep: {a: b}\n  - has: end\n    done: true\n".to_owned(),
            &format!("3:3: `events` {no_element}"),
            "begin it with `- `",
        ),
        (
            file("") + "tests:\n  plain:\n    stream: |\n      data: {}\n\n  - name: b\n",
            &format!("6:3: `tests` {no_element}"),
            "begin it with `- `",
        ),
        (
            example("    stream: |\n      event: a\n      data: {}\n\n    event: b\n    data: {}\n\n      event: c\n"),
            "11:5: this line is indented less than the stream above",
            "indent it by 6 spaces",
        ),
        (
            example("    stream: |\n      data: {\"end\": 1}\n\n      events:\n        - {type: RUN_STARTED}\n"),
            "10:7: tests[0].stream: `events:` is a line of the stream here",
            "indent it and what belongs to it as far as `stream`",
        ),
        (
            file(
                "  - has: a\n    emit:\n      type: ACTIVITY_SNAPSHOT\n      messageId: m\n      activityType: t\n      content: {x: 1}\n      rawEvent:\n      label: \"{b}\"\n",
            ),
            "10:7: events[0].emit.label: `label` stands beside `rawEvent`, which is empty",
            "indent `label` and what belongs to it further than `rawEvent`",
        ),
        (
            request("{answers: {each: messages}, rules: [{as: {a: 1}}]}"),
            "5:49: request.body.m.rules: `rules` stands beside `answers`, whose `each` lacks it",
            "indent `rules` as far as `each`",
        ),
    ]);
}

#[test]
fn texts_behind_a_closed_quote_are_named() {
    let fail = |message: &str| file(&format!("  - has: a\n    fail: {{message: {message}}}\n"));
    assert_one_each(&[
        (fail("\"{m}\" code: x"), "4:27: a comma is missing before `code`", "write `, ` between the keys"),
        (fail("'{m}' + ''"), "4:27: text stands behind the closing quote", "put all of the value in the quotes"),
        (fail("'It's broken: {m}'"), "4:25: this quote ends the text", "write `''` for a `'` in single quotes"),
        (
            file("  - when: \"@event\": utter\n    fail: {message: b}\n"),
            "3:11: `when` is a mapping, which has no braces here",
            "write `when: {…}`: braces around the keys and values",
        ),
    ]);
}

#[test]
fn one_mistake_is_reported_without_those_that_follow() {
    let reads =
        "request: {body: {m: \"{@thread.a}\"}}\ntests:\n  - {name: a, thread: {a: 1}, request: {}, body: {m: 1}}\n";
    assert_one_each(&[
        (
            file("  - has: a\n    keeps: {a: \"{a}\"}\n    done: true\n") + reads,
            "4:5: events[0].keeps: there is no such key here",
            "did you mean `keep`?",
        ),
        (
            format!("name: acme\nevents: []\n{reads}"),
            "2:1: events: no rule says that a run has succeeded",
            "add `finish: {}`",
        ),
        (format!("name: acme\nevents:\n{reads}"), "2:7: events: must be a list of rules", "write a list"),
    ]);
}

#[test]
fn values_of_another_language_are_named() {
    let delta = |text: &str| file(&format!("  - has: a\n    emit: {{type: TEXT_MESSAGE_CHUNK, delta: \"{text}\"}}\n"));
    assert_one_each(&[
        (delta("{a || b}"), "4:45: events[0].emit.delta: `{}` names no place", "write one `|` between places"),
        (
            delta("{a:-none}"),
            "4:45: events[0].emit.delta: braces have no defaults",
            "write `{from: \"{a}\", otherwise: none}`",
        ),
        (
            file("  - has: \"@event: tick\"\n    ignore: true\n"),
            "3:10: events[0].has: must be a path, without a value",
            "write `when: {\"@event\": tick}`",
        ),
        (
            request("{each: tools, as: {title: item.name}}"),
            "5:47: warning: request.body.m.as.title: `item.name` without braces is this text itself",
            "write `\"{@item.name}\"`",
        ),
        (
            file("  - when: {a: [OK, OK]}\n    ignore: true\n"),
            "3:20: warning: events[0].when.a[1]: `OK` stands twice in this list",
            "remove it, or write the other value",
        ),
    ]);
}

#[test]
fn what_nothing_uses_is_a_warning() {
    let refused = "none of these is for a plain question of a user, which is then refused";
    let add = "add a request without `when:`, `has:` and `lacks:` at the end";
    let kept = || file("  - has: a\n    keep: {c: \"{a}\"}\n");
    assert_one_each(&[
        (
            file("  - has: a\n    append: {all: \"{a}\"}\n  - has: b\n    set: {all: \"{b}\"}\n"),
            "4:14: warning: events[0].append.all: nothing reads `@run.all`",
            "use `{@run.all}` in a rule",
        ),
        (
            file("  - has: a\n    keep: {c: \"{a}\", d: \"{a}\"}\n") + "request: {body: {m: \"{@thread.c}\"}}\n",
            "4:22: warning: events[0].keep.d: nothing reads `@thread.d`",
            "use `{@thread.d}` in `request`, or remove it",
        ),
        (
            file("") + "request: {when: {\"messages[-1].role\": tool}, body: {m: 1}}\n",
            &format!("5:10: warning: request: {refused}"),
            add,
        ),
        (
            kept() + "request:\n  - {has: \"@thread.c\", body: {m: 1}}\n  - {has: tools, body: {m: 1}}\n",
            &format!("8:3: warning: request: {refused}"),
            add,
        ),
        (
            kept() + "request: {path: \"/talk/{@thread.c}\", body: {m: 1}}\n",
            "7:10: warning: request: the first question of a thread is refused",
            "put `has: \"@thread.NAME\"`",
        ),
    ]);
    let talk = "request:\n  - {has: \"@thread.c\", path: \"/talk/{@thread.c}\", body: {m: 1}}\n  - body: {m: 1}\n";
    assert_no_warning(&(kept() + talk));
    for accepted in [
        "request:\n  - {when: {\"messages[-1].role\": tool}, body: {m: 1}}\n  - {when: {\"messages[-1].role\": user}, body: {m: 1}}\n",
        // The application decides.
        "request: {has: forwardedProps.mode, body: {m: 1}}\n",
    ] {
        assert_no_warning(&(file("") + accepted));
    }
    assert_no_warning(&file("  - has: a\n    set: {x: \"{a}\"}\n  - when: {\"@run.x\": b}\n    ignore: true\n"));
}

#[test]
fn examples_name_the_line_of_their_mistake() {
    let stream = |rest: &str| example(&format!("    stream: |\n      data: {{\"end\": 1}}\n\n{rest}"));
    let answer =
        |body: &str| example(&format!("    status: 500\n    answer: '{body}'\n    events: [{{type: RUN_ERROR}}]\n"));
    let named = |line: &str| {
        example(&format!(
            "    stream: |\n      {line}\n      data: {{\"end\": 1}}\n\n    events: [{{type: RUN_STARTED}}]\n"
        ))
    };
    assert_one_each(&[
        (
            stream("    events:\n      - {type: RUN_STARTED}\n      - {type: TEXT_MESSAGE_STOP}\n"),
            "12:9: tests[0].events[1]: AG-UI has no event `TEXT_MESSAGE_STOP`",
            "use one of: `RUN_STARTED`",
        ),
        (
            stream("    events:\n      - RUN_STARTED\n"),
            "11:9: tests[0].events[0]: is no event of AG-UI",
            "write `- {type: …}`",
        ),
        (stream("    events:\n"), "10:5: tests[0].events: must be a list", "write `- {type: …}`"),
        (answer("{\"a\": 1"), "8:5: warning: tests[0].answer: this answer is no JSON: EOF", "correct it"),
        (
            example("    request:\n      message: []\n    body: {}\n"),
            "8:7: warning: tests[0].request.message: AG-UI's request has no member `message`",
            "did you mean `messages`?",
        ),
        (named("event: end "), "8:17: warning: tests[0].stream: a blank stands behind `end`", "remove the blank"),
        (
            named("event: end   # the end"),
            "8:20: warning: tests[0].stream: `#` begins no comment in a stream",
            "remove it; a line that begins with `:` is a comment",
        ),
        (
            named("event: end data: {\"end\":1}"),
            "8:18: warning: tests[0].stream: `data:` stands on the line of `event:`",
            "begin a new line with it",
        ),
    ]);
    assert_no_warning(&answer("<html>"));
    assert_no_warning(&answer("{\"a\": 1}"));
    assert_no_warning(&named("event: c# end"));
}
