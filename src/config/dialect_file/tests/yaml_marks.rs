//! Marks of YAML that are missing, are of another kind or stand in the wrong place: the line where the mistake is, also
//! if YAML stops at another one.

use super::super::DialectFile;
use super::typos::{assert_no_warning, assert_one_each, example, file, request};

/// A rule, and another one in the next line, at whose `@` YAML would stop.
fn rule(line: &str) -> String {
    file(&format!("  - has: a\n    {line}\n  - when: {{\"@event\": b}}\n    ignore: true\n"))
}

const SPACE: &str = "a colon and a space";

#[test]
fn a_colon_between_braces_needs_a_space() {
    let delta = |rest: &str| rule(&format!("emit: {{type: TEXT_MESSAGE_CHUNK, {rest}}}"));
    let missing = "4:38: there is no `: ` after `delta`";
    let write = &format!("write `delta: …`: {SPACE}");
    assert_one_each(&[
        (delta("delta:\"{a}\""), missing, write),
        (delta("delta： \"{a}\""), missing, write),
        (delta("delta：\"{a}\""), missing, write),
        (delta("delta = \"{a}\""), missing, write),
        (
            rule("emit: {type:TEXT_MESSAGE_CHUNK, delta: \"{a}\"}"),
            "4:12: events[0].emit: there is no `: ` after `type`",
            &format!("write `type: …`: {SPACE}"),
        ),
        (
            rule("emit:{type: TEXT_MESSAGE_CHUNK, delta: \"{a}\"}"),
            "4:5: there is no `: ` after `emit`",
            "write `emit: …`",
        ),
        (
            rule("emit {type: TEXT_MESSAGE_CHUNK, delta: \"{a}\"}"),
            "4:5: there is no `: ` after `emit`",
            "write `emit: …`",
        ),
        (
            file("  - when:{\"@event\": b}\n    fail: {message: b}\n"),
            "3:5: events[0].when:{\"@event\": there is no `: ` after `when`",
            "write `when: …`",
        ),
        (
            file("  - when: {\"@event\" b}\n    fail: {message: b}\n"),
            "3:12: there is no `: ` between this key and its value",
            "write a colon and a space",
        ),
        (
            request("{each: tools, as: {op:\"{@item.name}\", about: \"{@item.description}\"}}"),
            "5:40: there is no `: ` between this key and its value",
            "write a colon and a space",
        ),
    ]);
    // Both rows of a table.
    let arrows = file("  - has: a\n    fail: {message: {from: \"{k}\", table: {K1=x, K2=y}}}\n");
    let found = super::problems(&arrows);
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 2, "{found}");
    assert!(lines[0].starts_with("4:43: ") && lines[1].starts_with("4:49: "), "{found}");
    assert!(lines.iter().all(|line| line.contains("there is no `: ` between this key and its value")), "{found}");
}

#[test]
fn marks_of_another_kind_between_braces() {
    let marks = |comma: &str| rule(&format!("emit: {{type: TEXT_MESSAGE_CHUNK{comma} delta: \"{{a}}\"}}"));
    let comma = "write `, ` between the keys";
    assert_one_each(&[
        (marks(";"), "4:36: `;` stands where a comma is meant", comma),
        (marks("，"), "4:36: `，` stands where a comma is meant", comma),
        (
            rule("emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{a}\" role: assistant}"),
            "4:51: a comma is missing before `role`",
            comma,
        ),
        (rule("emit: (type: TEXT_MESSAGE_CHUNK, delta: \"{a}\")"), "4:11: a mapping is in parentheses", "write braces"),
        (
            rule("emit:\u{a0}{type: TEXT_MESSAGE_CHUNK, delta: \"{a}\"}"),
            "4:5: a no-break space stands behind this key",
            "write a plain space",
        ),
        (
            rule("emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{a}\"}}"),
            "4:51: nothing is open that this closes",
            "remove it",
        ),
        (rule("fail: {message: a};"), "4:23: `;` stands behind the value", "remove it"),
        (
            rule("fail: {message: Error: it failed}"),
            "4:21: this value has a `: `, so that YAML takes it for a key",
            "put the value in quotes",
        ),
        (
            rule("emit: {\n      type: TEXT_MESSAGE_CHUNK\n      delta: \"{a}\"\n    }"),
            "5:31: a comma is missing at the end of this line",
            "write `,` behind it",
        ),
        (
            "{\n  \"name\": \"acme\"\n  \"events\": [{\"has\": \"a\", \"done\": true}]\n}\n".to_owned(),
            "2:17: a comma is missing at the end of this line",
            "write `,` behind it",
        ),
        (
            rule("emit: - {type: TEXT_MESSAGE_CHUNK, delta: \"{a}\"}"),
            "4:11: this is not YAML: block sequence entries",
            "write the `-` in the line below the key",
        ),
    ]);
}

#[test]
fn a_quote_without_its_other_one_is_found_in_its_line() {
    let opens = "the `\"` that opens this text is missing";
    assert_one_each(&[
        (rule("emit: {type: TEXT_MESSAGE_CHUNK, delta: {a}\"}"), &format!("4:45: {opens}"), "write `\"` before it"),
        (file("  - when: {@event\": b}\n    fail: {message: b}\n"), &format!("3:12: {opens}"), "write `\"` before it"),
        (request("{@user_text}\""), &format!("5:21: {opens}"), "write `\"` before it"),
        (request("{@user_text}"), "5:21: a text that begins with `{` is not in quotes", "write quotes around"),
        (
            request("\"C:\\Users {@user_text}\""),
            "5:24: in double quotes, `\\` begins an escape, and this is none",
            "write `\\\\` for a backslash",
        ),
    ]);
}

#[test]
fn lines_name_how_far_they_are_indented() {
    let same = "indent the keys of one mapping by the same number of spaces";
    let at = |text: &str| format!("{}{text}", file(""));
    assert_one_each(&[
        (
            file("  - has: a\n      fail: {message: b}\n"),
            "4:7: this key is indented by 6 spaces, and the one above by 4",
            same,
        ),
        (
            file("  - has: a\n   fail: {message: b}\n"),
            "4:4: this line is indented by 3 spaces, as none of the keys above",
            "indent it by 4 spaces, as the keys above",
        ),
        (
            file("  - has: a\n    fail: {message: b}\n   - has: c\n     ignore: true\n"),
            "5:4: this line is indented by 3 spaces, as none of the elements above",
            "indent it by 2 spaces, as the elements above",
        ),
        (
            file("  - has: a\n    - fail: {message: b}\n"),
            "4:5: an element of a list begins here, among the keys",
            "remove the `-`",
        ),
        (
            at("request:\n  body:\n    a: x\n     b: y\n    c: z\n"),
            "8:6: this key is indented by 5 spaces, and the one above by 4",
            same,
        ),
        (
            at("request:\n  body:\n    a:\n    each: tools\n      as: x\n    c: z\n"),
            "8:5: this key is indented by 4 spaces, and the next by 6",
            same,
        ),
        (
            at("request:\n  body:\n    a: x\n   b: y\n    c: z\n"),
            "8:4: this line is indented by 3 spaces, as none of the keys above",
            "indent it by 4 spaces, as the keys above",
        ),
        (
            at("request:\n  body:\n    a:\n     b: y\n      c: z\n      d: z\n"),
            "8:6: this key is indented by 5 spaces, and the next by 6",
            same,
        ),
        (
            at("error: {message: why}\n  request:\n  - body: x\n"),
            "6:3: this key is indented by 2 spaces, and the one above by 0",
            same,
        ),
        (
            at("request:\n  body:\n    a b\n    c: z\n"),
            "7:5: this line has no `: `, which ends a key",
            "write a colon and a space behind the key",
        ),
        (
            "name: acme\nevents\n  - has: end\n    done: true\n".to_owned(),
            "2:1: there is no `:` after `events`",
            "write `events:`",
        ),
        (
            file("  - has: a\n    fail: {message: b: c}\n").replace("{message: b: c}", "b: c"),
            "4:12: this value has a `: `, so that YAML takes it for a key",
            "put the value in quotes",
        ),
        (
            example("    stream: |\nevent: a\ndata: {}\n\n    events: []\n"),
            "8:1: this line of a stream is not indented",
            "indent all lines of the stream",
        ),
        (
            file("") + "tests:\n    name: a\n    request: {}\n    body: {}\n  - name: b\n",
            "6:5: `tests` is a list, and this is no element of one",
            "begin it with `- `",
        ),
    ]);
}

#[test]
fn files_of_other_formats_are_named() {
    let yaml = "write the same keys and values in YAML";
    assert_one_each(&[
        (
            "# Acme\nname = \"acme\"\n[[events]]\nhas = \"a\"\n".to_owned(),
            "2:1: this is not YAML, but looks like TOML",
            yaml,
        ),
        ("[dialect]\nname=acme\n".to_owned(), "1:1: this is not YAML, but looks like TOML", yaml),
        ("<dialect><name>acme</name></dialect>\n".to_owned(), "1:1: this is not YAML, but looks like XML", yaml),
        ("export default {\n  name: 'acme',\n};\n".to_owned(), "1:1: this is not YAML, but looks like a program", yaml),
        ("---\n".to_owned(), "1:1: the file is empty", "begin with `name: my-agent`"),
        (
            "{\n  // ours\n  \"name\": \"acme\",\n  \"events\": []\n}\n".to_owned(),
            "2:3: `//` and `/*` begin no comment",
            "write `#` before it",
        ),
    ]);
}

#[test]
fn values_that_yaml_reads_otherwise_are_warnings() {
    let body = "5:21: warning: request.body.m: ";
    let named = |text: &str| format!("{body}{text}");
    assert_one_each(&[
        (request("yes"), &named("`yes` is a text here, and not true"), "write `true`, or `\"yes\"` for the text"),
        (request("Off"), &named("`Off` is a text here, and not false"), "write `false`, or `\"Off\"` for the text"),
        (
            request("01234"),
            &named("YAML reads `01234` as the number 1234"),
            "write `\"01234\"` for the text, or `1234`",
        ),
        (request("0x1F"), &named("YAML reads `0x1F` as the number 31"), "write `\"0x1F\"` for the text, or `31`"),
        (request("1_000"), &named("YAML reads `1_000` as the number 1000"), "write `\"1_000\"`"),
        (
            request("1.10"),
            &named("`1.10` is the number 1.1, without the last `0`"),
            "write `\"1.10\"` for the text, or `1.1`",
        ),
        (
            file("") + "request:\n  body:\n    m: #general\n",
            "7:8: warning: request.body.m: the value is missing",
            "`#` begins",
        ),
        (
            file("") + "request:\n  body:\n    m:\n    n: 1\n",
            "7:6: warning: request.body.m: there is no value, so that this is null",
            "write the value, `null` if that is meant",
        ),
        (request("'{@user_text}\\n'"), &named("`\\n` is these two characters here"), "write the text in double quotes"),
        (
            request("\"｛@user_text｝\""),
            &named("`｛@user_text｝` is this text itself"),
            "write `{@user_text}` for the value",
        ),
        (
            file("  - when: {n: 007}\n    fail: {message: b}\n"),
            "3:15: warning: events[0].when.n: YAML reads `007` as the number 7",
            "write `\"007\"`",
        ),
    ]);
    for accepted in [
        "\"yes\"",
        "'off'",
        "true",
        "null",
        "~",
        "1.0",
        "0.70",
        "-0.50",
        "1e3",
        "10",
        "2024-01-01",
        "\"a\\nb\"",
        "'C:\\new'",
        "on time",
    ] {
        assert_no_warning(&request(accepted));
    }
    assert_no_warning(&file("  - when: {alive: yes, n: null}\n    fail: {message: b}\n"));
    // A mistake of an anchor is one.
    assert_one_each(&[(
        file("") + "request: {body: {m: &flag [yes], n: *flag}}\n",
        "5:28: warning: request.body.m[0]: `yes` is a text here",
        "write `true`",
    )]);
}

#[test]
fn a_key_joined_with_its_value_is_not_printed() {
    let wrong = file("") + "request: {headers: {Authorization:Bearer-s3cret}, body: {m: 1}}\n";
    let problems = DialectFile::compile("f", wrong.as_bytes(), &|_| None).expect_err("a key has no colon");
    let printed = problems.to_string();
    assert!(printed.contains("5:21: request.headers: there is no `: ` between this key and its value"), "{printed}");
    assert!(!printed.contains("s3cret"), "{printed}");
    // A key in quotes may have a colon.
    assert_one_each(&[(
        file("") + "request: {body: {\"a:b\": , m: 1}}\n",
        "5:23: warning: request.body.a:b: there is no value",
        "write the value",
    )]);
}

#[test]
fn places_in_the_marks_of_another_language() {
    let delta = |text: &str| file(&format!("  - has: a\n    emit: {{type: TEXT_MESSAGE_CHUNK, delta: \"{text}\"}}\n"));
    assert_one_each(&[
        (delta("{a or b}"), "4:45: events[0].emit.delta: `a or b` is not a path", "write `{a|b}`, of which the first"),
        (delta("{a ?? b}"), "4:45: events[0].emit.delta: `a ?? b` is not a path", "write `{a|b}`, of which the first"),
        (
            delta("{@a}"),
            "4:45: events[0].emit.delta: `@a` does not exist here",
            "write `a` for a member, or use one of",
        ),
        (request("\"{@run.a}\""), "5:21: request.body.m: `@run` does not exist here", "use one of: `@item`"),
        (request("\"{@thread_id}\""), "5:21: request.body.m: `@thread_id` does not exist here", "write `threadId`"),
        (
            request("$user_text"),
            "5:21: request.body.m: `$user_text` without braces is this text itself",
            "write `\"{@user_text}\"`",
        ),
        (
            request("\"{{ @user_text }}\""),
            "5:21: request.body.m: `{{ @user_text }}` is the text `{ @user_text }`, not a value",
            "write `{@user_text}` for the value",
        ),
    ]);
    let stream = "tests:\n  - name: a\n    stream: |\n      data: {\"a\":\"x\"}\n\n    events: []\n";
    for marked in ["<a>", "$a", "%a%"] {
        assert_one_each(&[(
            delta(marked) + stream,
            "4:45: warning: events[0].emit.delta: `a` is always this text, although frames of the examples have `a`",
            "write `\"{a}\"` for its value",
        )]);
    }
}

#[test]
fn keys_of_another_place_name_it() {
    let rule = |line: &str| file(&format!("  - has: a\n    {line}\n"));
    assert_one_each(&[
        (rule("code: x"), "4:5: events[0].code: there is no such key here", "write it in `fail: {code: \"{PATH}\"}`"),
        (rule("usage: []"), "4:5: events[0].usage: there is no such key here", "write it in `finish: {usage: …}`"),
        (rule("delta: x"), "4:5: events[0].delta: there is no such key here", "write it in `emit: {delta: …}`"),
        (
            rule("\"@event\": x"),
            "4:5: events[0].@event: there is no such",
            "a condition stands in `when: {\"@event\": …}`",
        ),
        (rule("error: {}"), "4:5: events[0].error: there is no such", "`error` stands at the top of the file"),
        (
            rule("emit: {type: TEXT_MESSAGE_CHUNK, delta: \"{a}\", keep: {b: \"{a}\"}}"),
            "4:52: events[0].emit.keep: TEXT_MESSAGE_CHUNK has no member `keep`",
            "`keep` is a key of the rule: write it as far left as `emit`",
        ),
        (
            rule("emit: {keep: {b: \"{a}\"}}") + "request: {body: \"{@thread.b}\"}\n",
            "4:12: events[0].emit.keep: `keep` is a key of the rule, and no member of an event",
            "write it as far left as `emit`",
        ),
        (file("") + "emit: {type: RAW}\n", "5:1: emit: there is no such key", "`emit` is a key of a rule"),
        (file("") + "body: {m: 1}\n", "5:1: body: there is no such key", "`body` is a key of the request"),
        (file("") + "message: m\n", "5:1: message: there is no such key", "write it in `error: {message: PATH}`"),
        (file("") + "stream: m\n", "5:1: stream: there is no such key", "`stream` is a key of an example"),
        (
            file("") + "request: {question: x}\n",
            "5:11: request.question: there is no such",
            "what the agent gets stands below `body:`",
        ),
        (
            file("") + "request: {error: {}, body: {}}\n",
            "5:11: request.error: there is no such",
            "`error` stands at the top",
        ),
        (
            request("{each: tools, rule: [{as: x}]}"),
            "5:21: request.body.m: `rule` is no key beside `each`",
            "did you mean `rules`?",
        ),
    ]);
}

#[test]
fn many_mistakes_of_one_file_are_bounded() {
    let keys = |value: &str| (0..300).map(|at| format!("  k{at}: {value}\n")).collect::<String>();
    let wrong = super::problems(&(file("") + &keys("1").replace("  k", "k")));
    assert_eq!(wrong.lines().count(), 100);
    let text = file("") + "request:\n  body:\n" + &keys("yes").replace("  k", "    k");
    let compiled = DialectFile::compile("f", text.as_bytes(), &|_| None);
    assert_eq!(compiled.map(|file| file.warnings.len()).ok(), Some(100));
}
