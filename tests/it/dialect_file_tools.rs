//! The commands with dialect files: they recognise them, name the way out where a file stands in the wrong place, and
//! take them wherever they take a dialect.

use super::support::client::{INPUT, post, send_request};
use super::support::gateway::{Gateway, Process, TempFile, diglot};
use super::support::sse;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// An agent that names its events in the `event:` line.
const ACME: &str = r#"
name: acme
events:
  - when: {"@event": token}
    emit: {type: TEXT_MESSAGE_CHUNK, delta: "{txt}"}
  - when: {"@event": beat}
    ignore: true
  - when: {"@event": bye}
    done: true
tests:
  - name: hello
    stream: |
      event: token
      data: {"txt":"Hi"}

      event: bye
      data: {}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: TEXT_MESSAGE_START, messageId: r1-m1, role: assistant}
      - {type: TEXT_MESSAGE_CONTENT, messageId: r1-m1, delta: Hi}
      - {type: TEXT_MESSAGE_END, messageId: r1-m1}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
"#;

const HELLO: &str = "event: token\ndata: {\"txt\":\"Hi\"}\n\nevent: beat\ndata: 1\n\n";

pub(super) const BYE: &str = "event: bye\ndata: {}\n\n";

fn shipped(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config/dialects").join(name)
}

pub(super) fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

pub(super) struct Printed {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

pub(super) fn run(arguments: &[&str], input: &str) -> Printed {
    let mut child = diglot()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    // A program that reads nothing has closed its end.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().expect("an end");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Printed { code: status.code(), out: text(stdout), err: text(stderr) }
}

/// A rule for each element of a list, which sends the whole frame again.
#[test]
fn a_frame_does_not_become_any_number_of_bytes() {
    let rules = "- {each: items, emit: {type: CUSTOM, name: x, value: \"{$}\"}}\n- {has: end, done: true}\n";
    let file = TempFile::new(&format!("name: acme\nevents:\n{rules}"));
    let frame = json!({"items": vec![1; 2_000], "pad": "x".repeat(50_000)});
    let end = json!({"end": 1});
    let from = utf8(file.path());
    let printed = run(&["translate", "--from", from, "--to", "ag-ui"], &format!("data: {frame}\n\ndata: {end}\n\n"));
    assert!((16_000_000..18_000_000).contains(&printed.out.len()), "not 100 MB: {}", printed.out.len());
    assert!(printed.err.contains("the lists of one event"), "{}", printed.err);
    assert!(printed.out.ends_with("\"code\":\"too_much_open\"}\n\n"));
}

/// Values that double with each rule, element or level, or that have many places for one long text.
#[test]
fn no_value_becomes_any_number_of_bytes() {
    let value = |value: &str| format!("- {{has: g, emit: {{type: CUSTOM, name: x, value: {value}}}}}\n");
    let words = "w".repeat(20_000);
    let rows = [
        "- {each: g, set: {a: \"{@run.a}{@run.a}x\"}}\n".to_owned(),
        "- {each: g, set: {a: [\"{@run.a}\", \"{@run.a}\", x]}}\n".to_owned(),
        format!("- {{each: g, append: {{a: \"{{@run.a}}x\"}}}}\n{}", value("{x: \"{@run.a}\"}")),
        "- {has: g, set: {a: \"{@run.a}{@run.a}{pad}\"}}\n".repeat(60),
        value(&format!("\"{} \"", "{pad}".repeat(400))),
        value(&format!("[{}]", "\"{pad}\", ".repeat(400))),
        value(&format!("{}\"{{$}}\"{}", "{as_text: {x: ".repeat(16), "}}".repeat(16))),
        value(&format!("{{each: g, as: {{each: g, as: {{from: \"{{@item}}\", table: {{1: {words}}}}}}}}}")),
        value(&format!("{{each: g, as: {{each: g, as: {words}}}}}")),
        value(&format!("{{each: g, as: {{each: g, as: \"{words} {{$.none}}\"}}}}")),
        value(&format!("{{each: g, as: {{each: g, as: {{{0}: 1, {0}2: 1}}}}}}", &words[..1_000])),
    ];
    let frame = json!({"g": vec![1; 130], "pad": "\"".repeat(1_000) + &"x".repeat(100_000)});
    for rules in rows {
        let file = TempFile::new(&format!("name: acme\nevents:\n{rules}- {{has: end, done: true}}\n"));
        let from = utf8(file.path());
        let printed =
            run(&["translate", "--from", from, "--to", "ag-ui"], &format!("data: {frame}\n\ndata: {{\"end\":1}}\n\n"));
        let start = rules.get(..200).unwrap_or(&rules);
        assert!(printed.err.contains("or become too long"), "{start}: {}", printed.err);
        assert_eq!(
            printed.out.matches("\"type\":").count(),
            2,
            "the start and the error of {start}: {}",
            printed.out.len()
        );
    }
}

/// Frames are small, and what the run keeps is not.
#[test]
fn a_long_value_is_not_used_with_any_number_of_frames() {
    let rules = "- {has: a, append: {all: \"{a}\"}}\n- {has: t, set: {copy: \"{@run.all}\"}}\n";
    let file = TempFile::new(&format!("name: acme\nevents:\n{rules}- {{has: end, done: true}}\n"));
    let long = format!("data: {}\n\n", json!({"a": "x".repeat(1 << 20)})).repeat(4);
    let translate = |frames: usize| {
        let stream = format!("{long}{}data: {{\"end\":1}}\n\n", "data: {\"t\":1}\n\n".repeat(frames));
        run(&["translate", "--from", utf8(file.path()), "--to", "ag-ui"], &stream)
    };
    let Printed { out, err, .. } = translate(20);
    assert!(out.contains("RUN_FINISHED"), "{err}");
    // 4 MiB of each frame.
    let Printed { out, err, .. } = translate(320);
    assert!(err.contains("or become too long") && out.contains("too_much_open"), "{err}");
}

#[test]
fn check_recognises_dialect_files() {
    let file = TempFile::new(ACME);
    let path = utf8(file.path());
    let Printed { code, out, .. } = run(&["check", path], "");
    assert_eq!((code, out), (Some(0), format!("{path}: ok, the dialect file of `acme`; --test runs its 1 example\n")));
    let wrong = TempFile::new(&ACME.replace("txt}\"}", "txt}\", text: x}"));
    let Printed { code, out, .. } = run(&["check", utf8(wrong.path())], "");
    assert!(code == Some(78) && out.contains(":5:") && out.contains("has no member `text`"), "{out}");
    // A misspelt key of an example is one mistake.
    let misspelt = TempFile::new(&ACME.replace("    events:", "    evnts:"));
    let Printed { err, .. } = run(&["check", utf8(misspelt.path())], "");
    assert!(err.ends_with(": 1 problem\n"), "{err}");
    // Where a configuration is due.
    let inspect = ["inspect", "url", "--config", path];
    for command in [["serve", "--config", path].as_slice(), &["config", path], &["reload", "--config", path], &inspect]
    {
        let Printed { code, err, .. } = run(command, "");
        assert!(code == Some(78) && err.contains("this is a dialect file") && err.contains("dialect_files:"), "{err}");
    }
    // A file without keys may be for either; JSON is YAML, too.
    let empty = TempFile::new("# rules follow\n");
    let Printed { code, out, .. } = run(&["check", utf8(empty.path())], "");
    assert!(
        code == Some(78) && out.contains("the file is empty") && out.contains("a dialect file with `name:`"),
        "{out}"
    );
    let json = TempFile::new(r#"{"name":"acme","events":[{"has":"over","done":true}]}"#);
    let Printed { code, out, .. } = run(&["check", utf8(json.path())], "");
    assert!(code == Some(0) && out.contains("ok, but it has no examples"), "{out}");
    // And a configuration where a dialect file is due.
    let config = TempFile::new("routes: [{path: /a, client: ag-ui, agent: hai, upstream: \"http://h/\"}]\n");
    let Printed { code, err, .. } = run(&["translate", "--from", utf8(config.path()), "--to", "ag-ui"], "");
    assert!(code == Some(2) && err.contains("this is a configuration, not a dialect file"), "{err}");
}

#[test]
fn examples_that_differ_are_printed_for_people_and_programs() {
    let file = TempFile::new(&ACME.replace("delta: Hi}", "delta: Ho}"));
    let path = utf8(file.path());
    let config = TempFile::new(&format!(
        "dialect_files: [{path}]\nroutes: [{{path: /a, client: ag-ui, agent: acme, upstream: \"http://h/\"}}]\n"
    ));
    // A configuration stands for the files that it names.
    for named in [path, utf8(config.path())] {
        let Printed { code, out, err } = run(&["check", "--test", named], "");
        assert_eq!(code, Some(1), "{err}");
        let expected = format!(
            "{path}:22: `hello` differs\n  event 3: expected {{\"delta\":\"Ho\",\"messageId\":\"r1-m1\",\"type\":\"TEXT_MESSAGE_CONTENT\"}}\n                got {{\"delta\":\"Hi\",\"messageId\":\"r1-m1\",\"type\":\"TEXT_MESSAGE_CONTENT\"}}\n  `delta` differs: expected \"Ho\", got \"Hi\"\n  the rule of line 4 made it of the frame of line 13, with `delta` on line 5\n"
        );
        assert_eq!(out, expected);
    }
    let Printed { out, .. } = run(&["check", "--test", "--format", "json", path], "");
    let problems: Value = serde_json::from_str(&out).expect("JSON");
    let [problem] = problems.as_array().expect("a list").as_slice() else { panic!("{problems}") };
    assert_eq!((&problem["file"], &problem["line"]), (&json!(path), &json!(22)));
    assert!(problem["message"].as_str().is_some_and(|message| message.contains("event 3")), "{problem}");
    let Printed { out, .. } = run(&["check", "--test", "--format", "github", path], "");
    assert!(out.starts_with(&format!("::error file={path},line=22,")) && out.lines().count() == 1, "{out}");
}

#[test]
fn a_file_in_the_place_of_a_dialect_has_a_way_out() {
    let route =
        |agent: &str| format!("routes: [{{path: /a, client: ag-ui, agent: {agent}, upstream: \"http://h/\"}}]\n");
    let twice = format!("dialect_files: [{0}, {0}]\n", shipped("openai-chat.yaml").display());
    let rows = [
        (route("bolt.yaml"), "add `dialect_files: [bolt.yaml]` at the top"),
        (route("{dialect: bolt.yml}"), "add `dialect_files: [bolt.yml]` at the top"),
        (route("openai-chat"), "`dialect_files: [/usr/share/diglot/dialects/openai-chat.yaml]`"),
        (route("hai").replace("ag-ui", "bolt.yaml"), "a dialect file is for the `agent` of a route"),
        (format!("dialects: [bolt.yaml]\n{}", route("hai")), "a dialect file is named in `dialect_files`"),
        (format!("dialects: bolt.yaml\n{}", route("hai")), "a dialect file is named in `dialect_files`"),
        (format!("dialect_files: [/none/bolt.yaml]\n{}", route("bolt")), "/none/bolt.yaml cannot be read"),
        (
            format!("dialect_files: [openai-chat]\n{}", route("openai-chat")),
            "write `/usr/share/diglot/dialects/openai-chat.yaml`, where the image has it",
        ),
        (format!("{twice}{}", route("openai-chat")), "openai-chat.yaml has the dialect `openai-chat`, which /"),
    ];
    for (config, hint) in rows {
        let Printed { code, out, .. } = run(&["check", "-"], &config);
        assert!(code == Some(78) && out.contains(hint), "{config}{out}");
        assert_eq!(out.matches("hint: ").count(), 1, "{out}");
    }
}

#[test]
fn names_of_dialects_are_those_that_ship_files_and_those_of_a_configuration() {
    let file = TempFile::new(ACME);
    let config = TempFile::new(&format!(
        "dialect_files: [{}]\nroutes:\n  - {{path: /a, client: ag-ui, agent: acme, upstream: \"http://h/\"}}\n  - {{path: /b, client: ag-ui, agent: acme, upstream: \"http://h/\"}}\n",
        file.path().display()
    ));
    let translate = |from: &str| run(&["translate", "--from", from, "--to", "ag-ui"], &format!("{HELLO}{BYE}"));
    for from in [utf8(file.path()).to_owned(), format!("{}#acme", config.path().display())] {
        let Printed { code, out, err } = translate(&from);
        assert!(code == Some(0) && out.contains(r#""delta":"Hi""#), "{err}");
    }
    let Printed { err, .. } = translate(&format!("{}#acne", config.path().display()));
    assert!(err.contains("uses the dialect `acne`; did you mean `acme`?"), "{err}");
    let Printed { err, .. } = translate(&format!("{}#x", config.path().display()));
    assert!(err.contains("use one of: `acme`, `ag-ui`"), "each once: {err}");
    assert!(translate("openai-cha").err.contains("did you mean `openai-chat`?"));
    let done = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    let Printed { out, .. } = run(&["translate", "--from", "openai-chat", "--to", "ag-ui"], done);
    assert!(out.contains(r#""delta":"Hi""#) && out.contains("RUN_FINISHED"), "{out}");
}

/// Without `--run`, the ids are those of the other dialects, also where the rules of a file use them.
#[test]
fn a_translated_stream_has_the_ids_of_its_run() {
    let stream =
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let translate = ["translate", "--from", "openai-chat", "--to", "ag-ui"];
    for (ids, run_id) in [(&[][..], "run"), (&["--run", "r7", "--thread", "t7"], "r7")] {
        let Printed { out, err, .. } = run(&[&translate, ids].concat(), stream);
        let events = sse::events(&out);
        assert_eq!(events[0]["runId"], run_id, "{out}{err}");
        assert_eq!(events[2]["messageId"], format!("{run_id}:answer"), "{out}{err}");
    }
}

#[test]
fn detect_finds_the_file_with_rules_for_the_stream() {
    let file = TempFile::new(ACME);
    let whole = format!("{HELLO}{BYE}");
    let Printed { code, out, .. } = run(&["detect", "--dialect-file", utf8(file.path())], &whole);
    assert_eq!((code, &*out), (Some(0), "acme: its rules apply to 3 of 3 frames\n"));
    // Without its file, the way out.
    let Printed { code, err, .. } = run(&["detect"], &whole);
    assert!(code == Some(1) && err.contains("--dialect-file"), "{err}");
    // With a file that has rules for a few.
    let mostly = format!("{HELLO}{}", "event: huh\ndata: {}\n\n".repeat(3));
    let Printed { code, err, .. } = run(&["detect", "--dialect-file", utf8(file.path())], &mostly);
    assert!(
        code == Some(1) && err.contains("acme: its rules apply to 2 of 5 frames; no dialect has such events"),
        "{err}"
    );
    // Only frames that mean nothing, as any agent may send them.
    let Printed { code, .. } = run(&["detect", "--dialect-file", utf8(file.path())], "event: beat\ndata: 1\n\n");
    assert_eq!(code, Some(1));
    let coze = "event: conversation.message.delta\ndata: {\"id\":\"1\",\"type\":\"answer\",\"content\":\"a\",\"content_type\":\"text\"}\n\n";
    assert!(run(&["detect"], coze).out.starts_with("coze-chat: "));
    let chunk =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\ndata: [DONE]\n\n";
    assert!(run(&["detect"], chunk).out.starts_with("openai-chat: "));
    // A stream of a built-in dialect stays one.
    let ag_ui = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n";
    assert!(run(&["detect", "--dialect-file", utf8(file.path())], ag_ui).out.starts_with("ag-ui"));
}

#[test]
fn verify_reads_by_the_rules_of_a_file() {
    let file = TempFile::new(ACME);
    let verify = |input: &str| run(&["verify", "--dialect", utf8(file.path())], input);
    let Printed { code, out, .. } = verify(&format!("{HELLO}{BYE}"));
    assert_eq!((code, &*out), (Some(0), "-: accepted: 3 events, 0 violations, 0 warnings\n"));
    let Printed { out, .. } = verify(HELLO);
    assert!(out.contains("warning truncated"), "{out}");
    let unknown = format!("{HELLO}event: huh\ndata: {{}}\n\n{BYE}");
    let Printed { out, .. } = verify(&unknown);
    assert!(out.contains("-:8: warning foreign-event: huh: no rule of the file applies to it"), "{out}");
    // Two steps of the same name are what the client refuses, and no rule can know.
    let twice = TempFile::new(&ACME.replace("ignore: true", "emit: {type: STEP_STARTED, stepName: a}"));
    let Printed { code, out, .. } = run(&["verify", "--dialect", utf8(twice.path())], &format!("{HELLO}{HELLO}{BYE}"));
    assert!(code == Some(1) && out.contains("violation"), "{out}");
}

/// A client would accept some of these streams, and see nothing.
#[test]
fn a_stream_of_another_dialect_names_its_own() {
    let file = TempFile::new(ACME);
    let ag_ui = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\ndata: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n";
    let coze = "event: conversation.message.delta\ndata: {\"id\":\"1\",\"type\":\"answer\",\"content\":\"a\",\"content_type\":\"text\"}\n\n".repeat(2);
    let openai =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\n".repeat(2);
    for (dialect, name, stream, actual) in [
        (utf8(file.path()), "acme", ag_ui, "ag-ui"),
        ("ag-ui", "ag-ui", &*coze, "coze-chat"),
        ("hai", "hai", &*coze, "coze-chat"),
        ("hai", "hai", &*openai, "openai-chat"),
    ] {
        let cause = format!("none of 2 events is known to the dialect `{name}`; they look like `{actual}`: write");
        let Printed { code, out, .. } = run(&["verify", "--dialect", dialect], stream);
        assert_eq!(code, Some(1), "{out}");
        assert!(out.contains(&format!("-: {cause} `--dialect {actual}`\n")), "{out}");
        assert!(out.contains("rejected at line") && out.contains(&format!(", but it looks like {actual}: ")), "{out}");
        // Events that no dialect has, or without a start, are rejected anyway.
        let is_accepted = !out.contains(" violation no-type: ") && !out.contains(" violation not-started: ");
        assert_eq!(out.contains(" violation wrong-dialect: "), is_accepted, "{out}");
        let Printed { out, .. } = run(&["verify", "--format", "json", "--dialect", dialect], stream);
        let report: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!((&report["verdict"], &report["looks_like"]), (&json!("rejected"), &json!(actual)));
        let Printed { code, out, err } = run(&["translate", "--from", dialect, "--to", "ag-ui"], stream);
        assert!(code == Some(1) && err.contains(&format!("{cause} `--from {actual}`;")), "{err}");
        assert!(out.contains(r#""code":"upstream_dialect""#), "{out}");
    }
    // A rule that finds nothing is not the same as no rule.
    let empty = format!("event: token\ndata: {{}}\n\n{BYE}");
    let Printed { out, .. } = run(&["verify", "--dialect", utf8(file.path())], &empty);
    assert!(out.contains("foreign-event: token: the rule of line 4 finds no value in it"), "{out}");
    let Printed { err, .. } = run(&["translate", "--explain", "--from", utf8(file.path()), "--to", "ag-ui"], &empty);
    assert!(err.contains("event 1 token (acme, rule of line 4, without a value): "), "{err}");
    let example = TempFile::new(&ACME.replace(r#"{"txt":"Hi"}"#, r#"{"text":"Hi"}"#));
    let Printed { out, .. } = run(&["check", "--test", utf8(example.path())], "");
    let reasons =
        "\n  the rule of line 4 finds no value in the frame of line 13\n  `txt` of line 5 has no value in that frame\n";
    assert!(out.ends_with(reasons), "{out}");
}

#[test]
fn check_takes_names_and_prints_warnings_of_configurations() {
    let Printed { code, out, .. } = run(&["check", "openai-chat"], "");
    assert!(code == Some(0) && out.starts_with("openai-chat: ok, the dialect file of `openai-chat`"), "{out}");
    let Printed { code, out, .. } = run(&["check", "--test", "coze-chat"], "");
    assert!(code == Some(0) && out.starts_with("coze-chat: ") && out.ends_with("examples passed\n"), "{out}");
    let file = TempFile::new(ACME);
    let with_agent = |agent: &str| {
        let route = format!("{{path: /a, client: ag-ui, agent: {agent}, upstream: \"http://h/\"}}");
        TempFile::new(&format!("dialect_files: [{}]\nroutes: [{route}]\n", file.path().display()))
    };
    for (agent, hint) in [
        ("hai", "hint: write `agent: acme` in a route, or remove the file"),
        ("auto", "hint: write `agent: acme` in its route: `auto` detects only built-in dialects; or remove the file"),
    ] {
        let config = with_agent(agent);
        let Printed { code, out, err } = run(&["check", "--test", utf8(config.path())], "");
        let warning = ":1:17: warning: dialect_files[0]: no route uses the dialect `acme` of this file\n";
        assert!(code == Some(0) && out.contains(warning) && out.contains(hint), "{out}{err}");
        assert!(out.ends_with("1 example passed\n") && err.contains(": 1 warning\n"), "{out}{err}");
        assert_eq!(run(&["check", "--test", "--strict", utf8(config.path())], "").code, Some(1));
    }
    let Printed { code, err, .. } = run(&["check", "--test", "--strict", utf8(with_agent("acme").path())], "");
    assert_eq!((code, &*err), (Some(0), ""));
}

#[test]
fn mistakes_are_reported_once_with_their_line() {
    let check = |text: &str| {
        let file = TempFile::new(text);
        run(&["check", "--test", utf8(file.path())], "")
    };
    // Words of the agent such as `key` are no secrets.
    let call = "emit: {type: TOOL_CALL_CHUNK, key: \"{no}\", toolCallNme: \"{fn}\"}";
    let Printed { out, .. } = check(&ACME.replace("ignore: true", call));
    assert!(out.contains(&format!("\n  7 |     {call}\n    |")) && out.contains("^\n"), "{out}");
    let Printed { out, .. } = check(&ACME.replace("ignore: true", "ignore: \"yes"));
    assert!(out.contains(" | ") && out.contains("^\n"), "a syntax error: {out}");
    let secret = ACME.replace("events:\n  - when", "request: {headers: {authorization: hunter2}}\nevents:\n  - when");
    let Printed { out, .. } = check(&secret);
    assert!(out.contains("carries a credential") && !out.contains("hunter2"), "{out}");
    let request =
        "request:\n  - when: {\"mesages[-1].role\": tool}\n    body: {a: 1}\n  - body: {a: 2}\nevents:\n  - when";
    let Printed { out, err, .. } = check(&ACME.replace("events:\n  - when", request));
    assert!(out.contains("a request has no member `mesages`") && err.ends_with(": 1 problem\n"), "{out}{err}");
    for recording in [HELLO, "{\"type\":\"RUN_STARTED\"}\n", "data: {\"choices\":[]}\n\n"] {
        let Printed { code, out, .. } = check(recording);
        assert!(code == Some(78) && out.contains("this is a recorded stream, not a dialect file"), "{out}");
        let plain = run(&["check", "-"], recording).out;
        assert!(plain.contains("this is a recorded stream, not a dialect file"), "{plain}");
    }
    let config =
        "dialect_files: acme.yaml\nroutes: [{path: /a, client: ag-ui, agent: acme, upstream: \"http://h/\"}]\n";
    let Printed { out, err, .. } = run(&["check", "-"], config);
    assert!(out.contains("dialect_files") && err.ends_with(": 1 problem\n"), "{out}{err}");
    let Printed { code, err, .. } = run(&["verify", "--dialect", "nimbus", "-"], HELLO);
    let hint = "a dialect file, as in nimbus.yaml, or a dialect of a configuration, as in diglot.yaml#nimbus";
    assert!(code == Some(2) && err.contains(hint), "{err}");
}

/// The configuration that ships for an API, in front of a mock of it.
async fn start_example(name: &str, mock: &str) -> Gateway {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("config/examples").join(name)).expect("an example");
    let text = text.replace("../dialects", utf8(&root.join("config/dialects")));
    let start = text.find("upstream: ${").expect("an address from the environment");
    let end = start + text[start..].find('\n').expect("a line");
    let text = format!(
        "listeners: {{data: 127.0.0.1:0, status: 127.0.0.1:0}}\n{}upstream: {mock}{}",
        &text[..start],
        &text[end..]
    );
    let config = TempFile::new(&text);
    Gateway::start_with_config(config.path(), &[]).await
}

fn request_with(text: &str) -> String {
    INPUT.replace("\"hi\"", &json!(text).to_string())
}

#[tokio::test]
async fn each_shipped_example_works_in_front_of_its_mock() {
    // The answers that the documents of the three APIs print.
    let rows = [
        ("openai", "openai-chat", "Hello there", "Rate limit reached for requests (rate_limit_exceeded)."),
        ("dify", "dify-chat", "I'm fine", "user is required (invalid_param)."),
        ("coze", "coze-chat", "2024 年", "authentication is invalid (4100)."),
    ];
    for (name, dialect, answer, refusal) in rows {
        let mut mock = Process::start(diglot().args(["mock-agent", "--dialect", dialect]), true);
        let line = mock.line().await.expect("its address");
        let url = line.strip_prefix(&format!("agent {dialect} ")).expect("its address").to_owned();
        let gateway = start_example(&format!("{name}.yaml"), &url).await;
        let run_with = async |text: &str| {
            let answer = send_request(gateway.data, post("/agents/chat", "", &request_with(text))).await;
            sse::events(answer.text())
        };
        let hello = run_with("hi").await;
        let texts: Vec<&str> = hello.iter().filter_map(|event| event["delta"].as_str()).collect();
        assert_eq!(sse::types(&hello).last(), Some(&"RUN_FINISHED"), "{name}");
        assert!(texts.concat().contains(answer) && texts.len() > 1, "{name}: {texts:?}");
        let tool = run_with("use a tool").await;
        assert!(sse::types(&tool).contains(&"TOOL_CALL_START"), "{name}: {tool:?}");
        assert_eq!(sse::types(&tool).last(), Some(&"RUN_FINISHED"), "{name}: {tool:?}");
        // Dify has no calls that a client may answer.
        let waits = sse::types(&tool).ends_with(&["TOOL_CALL_END", "RUN_FINISHED"]);
        assert_eq!(waits && !sse::types(&tool).contains(&"RAW"), name != "dify", "{name}: {tool:?}");
        let again = run_with("use a tool").await;
        let id = |events: &[Value]| events.iter().find_map(|event| event["toolCallId"].as_str().map(str::to_owned));
        assert_ne!(id(&tool), id(&again), "{name}: another call has another id");
        let error = run_with("an error, please").await;
        assert_eq!(sse::types(&error).last(), Some(&"RUN_ERROR"), "{name}: {error:?}");
        let cut = run_with("truncate").await;
        assert_eq!(cut.last().map(|event| &event["code"]), Some(&json!("upstream_truncated")), "{name}: {cut:?}");
        assert!(cut.iter().any(|event| event["delta"].is_string()), "{name}: {cut:?}");
        let refused = run_with("status").await;
        assert_eq!(sse::types(&refused), ["RUN_ERROR"], "{name}");
        assert!(refused[0]["message"].as_str().is_some_and(|message| message.starts_with(refusal)), "{refused:?}");
    }
}

#[tokio::test]
async fn the_mock_of_a_file_answers_by_name_and_after_a_result() {
    let mut mock = Process::start(diglot().args(["mock-agent", "--dialect", "openai-chat"]), true);
    let line = mock.line().await.expect("its address");
    let gateway = start_example("openai.yaml", line.rsplit(' ').next().expect("a URL")).await;
    let run_with =
        async |input: String| sse::events(send_request(gateway.data, post("/agents/chat", "", &input)).await.text());
    let refusal = run_with(request_with("Show me A refusal is the answer")).await;
    assert!(refusal.iter().any(|event| event["delta"] == " I can't."), "{refusal:?}");
    // Neither the words of a result nor those of earlier messages ask for anything.
    let result = json!([
        {"id": "u1", "role": "user", "content": "error"},
        {"id": "u2", "role": "user", "content": "use a tool"},
        {"id": "a1", "role": "assistant", "toolCalls": [{"id": "call_a", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]},
        {"id": "t1", "role": "tool", "toolCallId": "call_a", "content": "the tool had an error"},
    ]);
    let mut input: Value = serde_json::from_str(INPUT).expect("JSON");
    input["messages"] = result;
    let events = run_with(input.to_string()).await;
    assert!(events.iter().any(|event| event["delta"] == "Hello"), "{events:?}");
    // A request that another dialect made does not pass for one of this API.
    let url = line.rsplit(' ').next().expect("a URL").trim_start_matches("http://").trim_end_matches('/');
    let answer = send_request(url.parse().expect("an address"), post("/", "", r#"{"query":"hi"}"#)).await;
    assert!(answer.status == 400 && answer.text().contains("`messages[-1].content`"), "{}", answer.text());
}

/// A file whose only stream calls a tool: its result gets what the stream has behind the call, not the call again.
#[tokio::test]
async fn the_mock_answers_a_result_with_the_end_of_its_example() {
    const BOLT: &str = r#"
name: bolt
request:
  - when: {"messages[-1].role": tool}
    body: {results: {each: "@new_messages", rules: [{when: {"@item.role": tool}, as: {call: "{@item.toolCallId}"}}]}}
  - body: {question: "{@user_text}"}
events:
  - {has: call, emit: {type: TOOL_CALL_CHUNK, toolCallId: "{call}", toolCallName: "{fn}", delta: "{input}"}}
  - {has: over, done: true}
tests:
  - stream: |
      data: {"call":"c1","fn":"weather","input":"{"}

      data: {"call":"c1","input":"}"}

      data: {"note":1,"over":true}

    events:
      - {type: RUN_STARTED, threadId: t1, runId: r1}
      - {type: TOOL_CALL_START, toolCallId: c1, toolCallName: weather}
      - {type: TOOL_CALL_ARGS, toolCallId: c1, delta: "{"}
      - {type: TOOL_CALL_ARGS, toolCallId: c1, delta: "}"}
      - {type: TOOL_CALL_END, toolCallId: c1}
      - {type: RUN_FINISHED, threadId: t1, runId: r1}
"#;
    let file = TempFile::new(BOLT);
    let mut mock = Process::start(diglot().args(["mock-agent", "--dialect", utf8(file.path())]), true);
    let line = mock.line().await.expect("its address");
    let url = line.rsplit(' ').next().expect("a URL").trim_start_matches("http://").trim_end_matches('/').to_owned();
    let send = async |body: &str| send_request(url.parse().expect("an address"), post("/", "", body)).await;
    assert!(send(r#"{"question":"hi"}"#).await.text().contains(r#""call":"c1""#));
    let end = send(r#"{"results":[{"call":"c1"}]}"#).await;
    assert_eq!(end.text(), "data: {\"note\":1,\"over\":true}\n\n");
    assert_eq!(send(r#"{"results":[{"call":"c9"}]}"#).await.status, 400, "the result of no call");
}

#[test]
fn a_file_without_streams_has_no_mock() {
    let file = TempFile::new(ACME.split("tests:").next().expect("a file"));
    let Printed { code, err, .. } = run(&["mock-agent", "--dialect", utf8(file.path())], "");
    assert!(code == Some(69) && err.contains("has no example with a `stream:`"), "{err}");
}

#[test]
fn explanations_name_frames_and_rules() {
    let file = TempFile::new(ACME);
    let input = format!("{HELLO}event: huh\ndata: {{}}\n\n{BYE}");
    let Printed { out, err, .. } =
        run(&["translate", "--from", utf8(file.path()), "--to", "ag-ui", "--explain"], &input);
    let expected = [
        "-:1: event 1 token (acme, rule of line 4): written as RUN_STARTED, TEXT_MESSAGE_START, TEXT_MESSAGE_CONTENT",
        "-:4: event 2 beat (acme, rule of line 6): nothing written",
        "-:7: event 3 huh (acme, no rule): written as RAW; repaired: unknown_type; lost: event_not_shown",
        "-:10: event 4 bye (acme, rule of line 8): written as TEXT_MESSAGE_END, RUN_FINISHED",
    ];
    let printed: Vec<&str> = err.lines().filter_map(|line| line.strip_prefix("diglot: ")).collect();
    assert_eq!(printed[..4], expected, "{err}");
    // Without its name, the frame could not be told from others.
    assert!(out.contains(r#""event":{"event":"huh","data":{}},"source":"acme""#), "{out}");
}
