//! Output and exit codes of the commands: a mistake names the argument to change, and nothing is skipped silently.

use super::support::gateway::{Process, TempFile, diglot};
use std::fs::OpenOptions;
use std::net::TcpListener;
use std::process::{Output, Stdio};

const RUN: &str = "{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\
                   {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n";

/// Runs `diglot translate` and returns exit code, stdout and stderr.
fn run_translate(input: &str) -> (Option<i32>, String, String) {
    let file = TempFile::new(input);
    let mut command = diglot();
    command.args(["translate", "--from", "ag-ui", "--to", "hai", "--format", "ndjson"]).arg(file.path());
    let Output { status, stdout, stderr } = command.output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn reports_events_after_the_first_run() {
    let (code, alone, stderr) = run_translate(RUN);
    assert_eq!((code, alone.lines().count(), stderr.as_str()), (Some(0), 2, ""));
    let (code, stdout, stderr) = run_translate(&RUN.repeat(3));
    assert_eq!((code, stdout), (Some(1), alone), "{stderr}");
    let expected = "4 events after the end of the run left out; translate one run at a time\n";
    assert!(stderr.ends_with(expected), "{stderr}");
}

#[test]
fn distinguishes_input_without_events_from_truncated_input() {
    let array = format!("[{}]", RUN.lines().collect::<Vec<_>>().join(","));
    for input in [array.as_str(), "hello\n", "", "\u{feff}"] {
        let (code, _, stderr) = run_translate(input);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("no event found: the input is neither an event stream nor NDJSON"), "{stderr}");
    }
    for input in ["data: hello\n\n", "{\"kind\":1}\n"] {
        let (_, _, stderr) = run_translate(input);
        assert!(stderr.contains("the only event is not known to the dialect `ag-ui`; `diglot detect`"), "{stderr}");
    }
    let (_, _, stderr) = run_translate(RUN.lines().next().expect("an event"));
    assert!(stderr.contains("the stream ended without a terminal event"), "{stderr}");
    let (code, stdout, stderr) = run_translate(&format!("\u{feff}{RUN}"));
    assert_eq!((code, stdout, stderr), run_translate(RUN));
    assert_eq!(code, Some(0));
}

/// Runs `diglot translate` with arguments on a file; returns exit code, stdout, and stderr with `FILE` for its name.
fn run_translate_with(arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let file = TempFile::new(input);
    let Output { status, stdout, stderr } =
        diglot().arg("translate").args(arguments).arg(file.path()).output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let stderr = text(stderr).replace("diglot: ", "").replace(&file.path().display().to_string(), "FILE");
    (status.code(), text(stdout), stderr)
}

/// A HAI run with everything to explain: its own members, a deferred start, a stray end, an open step.
const HAI_RUN: &str = r#"data: {"type":"RUN_STARTED","messageId":"m","role":"assistant"}

data: {"type":"BUSINESS_DATA_START","messageId":"m","role":"assistant"}

: nothing yet
data: {"type":"BUSINESS_DATA_CONTENT","messageId":"m","delta":"好","blockId":"b"}

data: {"type":"BUSINESS_DATA_END","messageId":"m"}

data: {"type":"BUSINESS_DATA_END","messageId":"m"}

data: {"type":"STEP_STARTED","stepName":"s"}

data: [DONE]

data: {"type":"RUN_FINISHED","messageId":"m","role":"assistant"}

"#;

#[test]
fn explains_each_event_on_stderr() {
    let sides = ["--from", "hai", "--to", "ag-ui"];
    let (code, plain, _) = run_translate_with(&sides, HAI_RUN);
    let (explained, stdout, stderr) = run_translate_with(&[&sides[..], &["--explain"]].concat(), HAI_RUN);
    assert_eq!((explained, &stdout), (code, &plain), "stdout is the translation alone");
    let start = "§3.3.1, §4.2 build_business_data_start";
    let end = "§3.3.1, §4.2 build_business_data_end";
    let content = "§3.3.1 (string), §4.2 build_business_data_content (block)";
    let expected = format!(
        "FILE:1: event 1 RUN_STARTED (hai, §4.2 build_run_started): written as RUN_STARTED; carried messageId, role in metadata.hai\n\
         FILE:3: event 2 BUSINESS_DATA_START (hai, {start}): buffered until later events\n\
         FILE:6: event 3 BUSINESS_DATA_CONTENT (hai, {content}): written as TEXT_MESSAGE_START, TEXT_MESSAGE_CONTENT; carried blockId in metadata.hai\n\
         FILE:8: event 4 BUSINESS_DATA_END (hai, {end}): written as TEXT_MESSAGE_END\n\
         FILE:10: event 5 BUSINESS_DATA_END (hai, {end}): read as TEXT_MESSAGE_END, nothing written; lost: stray_boundary\n\
         FILE:12: event 6 STEP_STARTED (hai, §4.2 build_step_started): written as STEP_STARTED\n\
         FILE:14: event 7 without a type: nothing written; lost: done_marker\n\
         FILE:16: event 8 RUN_FINISHED (hai, §4.2 build_run_finished): read as RUN_FINISHED, written as STEP_FINISHED, RUN_FINISHED; carried messageId, role in metadata.hai; repaired: closer_supplied\n\
         FILE: 7 events in, 7 out; carried: blockId 1, messageId 2, role 2; repaired: closer_supplied 1; lost: stray_boundary 1, done_marker 1\n"
    );
    assert_eq!(stderr, expected);
    let (_, _, stderr) = run_translate_with(&["--from", "ag-ui", "--to", "ag-ui", "--explain"], RUN);
    assert!(stderr.ends_with("2 events in, 2 out; carried: nothing; repaired: nothing; lost: nothing\n"), "{stderr}");
}

/// A line that begins with a byte order mark is no field [HTML §9.2.5], so its event is lost.
#[test]
fn counts_lines_that_cannot_be_read() {
    let (start, end) = RUN.trim_end().split_once('\n').expect("two events");
    let marked = format!("data: {start}\n\n\u{feff}data: {end}\n\n");
    let (_, _, stderr) = run_translate_with(&["--from", "ag-ui", "--to", "ag-ui", "--explain"], &marked);
    assert!(stderr.contains("lost: marked_line 1"), "{stderr}");
}

/// Content that the client gets and does not show breaks no rule, but its user misses it.
#[test]
fn explains_what_the_client_does_not_show() {
    let events = [
        r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#,
        r#"{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"PLAN","content":{"n":1}}"#,
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r"}"#,
    ];
    let run: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let (code, _, stderr) =
        run_translate_with(&["--from", "ag-ui", "--to", "cloudbase", "--explain", "--strict"], &run);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains(": written as ACTIVITY_SNAPSHOT; lost: activity_not_shown\n"), "{stderr}");
    assert!(stderr.ends_with("; repaired: nothing; lost: activity_not_shown 1\n"), "{stderr}");
}

#[test]
fn strict_translation_stops_at_the_first_violation() {
    let (code, stdout, stderr) = run_translate_with(&["--from", "hai", "--to", "ag-ui", "--strict"], HAI_RUN);
    let rule = "BUSINESS_DATA_END breaks the rule that an item is started only while closed, and ended only while open (stray_boundary).";
    assert_eq!((code, stderr), (Some(1), format!("FILE:10: event 5: {rule}\n")));
    let last = stdout.lines().rfind(|line| !line.is_empty()).expect("an event").replace("data: ", "");
    let error: serde_json::Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!((&error["code"], &error["message"]), (&"protocol_violation".into(), &rule.into()));
    let ndjson = format!("{RUN}{RUN}");
    let (code, stdout, stderr) =
        run_translate_with(&["--from", "ag-ui", "--to", "ag-ui", "--strict", "--format", "ndjson"], &ndjson);
    assert_eq!((code, stdout.lines().count()), (Some(1), 2), "{stderr}");
    assert!(stderr.starts_with("FILE:3: event 3: RUN_STARTED breaks the rule that nothing follows"), "{stderr}");
    assert_eq!(run_translate_with(&["--from", "ag-ui", "--to", "hai", "--strict"], RUN).0, Some(0));
}

/// Returns a run whose second event has `size` bytes, one event per line.
fn run_with_event_of(size: usize) -> String {
    let (head, tail) = ("{\"type\":\"CUSTOM\",\"name\":\"a.b\",\"value\":\"", "\"}");
    let (start, finish) = RUN.split_once('\n').expect("two lines");
    format!("{start}\n{head}{}{tail}\n{finish}", "x".repeat(size - head.len() - tail.len()))
}

#[test]
fn translates_events_up_to_the_given_size() {
    let options = ["--from", "ag-ui", "--to", "hai", "--format", "ndjson"];
    let limit = 10 << 20;
    let (code, stdout, stderr) = run_translate_with(&options, &run_with_event_of(limit));
    assert_eq!((code, stdout.lines().count(), stderr.as_str()), (Some(0), 3, ""));
    let large = run_with_event_of(limit + 1);
    let (code, stdout, stderr) = run_translate_with(&options, &large);
    let expected = "FILE: an event of the stream is larger than 10485760 bytes; use --max-frame to allow larger events; \
                    the output ends with an error event\n";
    assert_eq!((code, stdout.lines().count(), stderr.as_str()), (Some(1), 2, expected));
    assert!(stdout.ends_with("\"code\":\"frame_too_large\"}\n"), "{}", &stdout[stdout.len() - 200..]);
    let (code, stdout, stderr) = run_translate_with(&[&options[..], &["--max-frame", "11MiB"]].concat(), &large);
    assert_eq!((code, stdout.lines().count(), stderr.as_str()), (Some(0), 3, ""));
    let (code, _, stderr) = run_translate_with(&["--from", "ag-ui", "--to", "hai", "--roundtrip"], &large);
    assert_eq!(code, Some(1), "{stderr}");
    let (code, _, stderr) =
        run_translate_with(&["--from", "ag-ui", "--to", "hai", "--roundtrip", "--max-frame", "11MiB"], &large);
    assert_eq!(code, Some(0), "{stderr}");
    let (code, stdout, _) = run_verify(&["--dialect", "ag-ui"], &large);
    assert_eq!((code, stdout.lines().last().map(|last| last.contains("(frame-too-large)"))), (Some(1), Some(true)));
}

#[test]
fn reports_protobuf_that_ends_within_a_frame() {
    let file = TempFile::new(RUN);
    let translate = |format: &str, path: &std::path::Path| {
        let arguments = ["translate", "--from", "ag-ui", "--to", "ag-ui", "--format", format];
        diglot().args(arguments).arg(path).output().expect("the binary starts")
    };
    let whole = translate("proto", file.path()).stdout;
    let cut = TempFile::new("");
    std::fs::write(cut.path(), &whole[..whole.len() - 1]).expect("a file in the temporary folder");
    let Output { status, stdout, .. } =
        diglot().args(["verify", "--dialect", "ag-ui"]).arg(cut.path()).output().expect("the binary starts");
    let stdout = String::from_utf8(stdout).expect("UTF-8");
    assert!(stdout.contains(": violation partial-frame: the recording was cut off"), "{stdout}");
    assert!(status.code() == Some(1) && stdout.contains(": rejected at line 2 (partial-frame)"), "{stdout}");
    let Output { status, stderr, .. } = translate("sse", cut.path());
    let stderr = String::from_utf8(stderr).expect("UTF-8");
    assert!(status.code() == Some(1) && stderr.contains(": the input ends within a protobuf frame"), "{stderr}");
}

#[test]
fn reports_differences_after_a_round_trip() {
    let sides = ["--from", "hai", "--to", "ag-ui", "--roundtrip"];
    let whole = "FILE: 8 events came back, except for what is left out, from hai to ag-ui and back; \
                 added: STEP_FINISHED 1; left out: stray_boundary 1, done_marker 1\n";
    assert_eq!(run_translate_with(&sides, HAI_RUN), (Some(0), String::new(), whole.to_owned()));
    let changed = HAI_RUN.replace(r#""stepName":"s""#, r#""stepName":"s","timestamp":9007199254740993"#);
    let expected = "FILE:12: event 6: /timestamp (repaired: value_carried)\n  before  9007199254740993\n  after   gone\n\
                    FILE: 1 difference after hai to ag-ui and back, in 8 events; \
                    added: STEP_FINISHED 1; left out: stray_boundary 1, done_marker 1\n";
    assert_eq!(run_translate_with(&sides, &changed), (Some(1), String::new(), expected.to_owned()));
    let blocks = HAI_RUN.replace(r#""delta":"好""#, r#""delta":{"output":{"type":"text","content":"好"}}"#);
    // The way back has the form of the recording, whatever the arguments.
    assert_eq!(run_translate_with(&sides, &blocks).0, Some(0));
    assert_eq!(run_translate_with(&["--from", "hai:blocks", "--to", "ag-ui", "--roundtrip"], &blocks).0, Some(0));
    // An input that is no recording fails the round trip.
    assert_eq!(run_translate_with(&sides, "hello\n").0, Some(1));
}

#[test]
fn compares_a_request_after_a_round_trip() {
    let sides = ["--request", "--from", "ag-ui", "--to", "hai", "--roundtrip"];
    let body = r#"{"threadId":"t","runId":"r","state":{"n":1.10},"messages":[{"id":"1","role":"user","content":[{"type":"text","text":"看"}]},
        {"id":"2","role":"reasoning","content":"想"}],"resume":[{"interruptId":"i","status":"resolved"}],"future":[9007199254740993]}"#;
    let whole = "FILE: the request came back unchanged from ag-ui to hai and back; added: nothing; left out: nothing\n";
    assert_eq!(run_translate_with(&sides, body), (Some(0), String::new(), whole.to_owned()));
    let (code, _, stderr) = run_translate_with(&sides, r#"{"threadId":5,"runId":"r","messages":[]}"#);
    let expected = "FILE: /threadId\n  before  5\n  after   \"5\"\nFILE: 1 difference after ag-ui to hai and back, \
                    in the request; added: nothing; left out: nothing\n";
    assert_eq!((code, stderr.as_str()), (Some(1), expected));
    assert_eq!(
        run_translate_with(&sides, "{}"),
        (Some(1), String::new(), "FILE: /messages: is missing; it must be an array of messages\n".to_owned())
    );
}

#[cfg(target_os = "linux")]
#[test]
fn blames_stdout_when_output_cannot_be_written() {
    let file = TempFile::new(RUN);
    let full = OpenOptions::new().write(true).open("/dev/full").expect("a device that is always full");
    let mut command = diglot();
    command.args(["translate", "--from", "ag-ui", "--to", "hai"]).arg(file.path()).stdout(Stdio::from(full));
    let Output { status, stderr, .. } = command.stderr(Stdio::piped()).output().expect("the binary starts");
    let stderr = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(69), "{stderr}");
    assert!(stderr.starts_with("diglot: stdout: ") && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn demo_names_the_option_of_the_occupied_address() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    const OPTIONS: [&str; 3] = ["--listen", "--status", "--inspector"];
    for option in OPTIONS {
        let mut command = diglot();
        command.args(["demo", option, &address]);
        OPTIONS.iter().filter(|other| **other != option).for_each(|other| {
            command.args([other, "127.0.0.1:0"]);
        });
        let Output { status, stderr, .. } = command.output().expect("the binary starts");
        let stderr = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(69), "{stderr}");
        assert!(stderr.contains(&format!("cannot listen on {address} ({option})")), "{stderr}");
        // A command that works where it is printed, from `make demo` as well.
        let program = diglot().get_program().to_string_lossy().into_owned();
        let command = format!("\n  {program} demo --listen 127.0.0.1:9090 --status 127.0.0.1:9091 ");
        assert!(stderr.contains(&command) && !stderr.contains("listeners."), "{stderr}");
    }
}

#[tokio::test]
async fn ignores_an_invalid_log_filter() {
    let mut command = diglot();
    command.env("DIGLOT_LOG", "warning").arg("demo");
    ["--listen", "--status", "--inspector"].iter().for_each(|option| {
        command.args([option, "127.0.0.1:0"]);
    });
    let mut process = Process::start(command.stdout(Stdio::null()), false);
    let line = process.line().await.expect("a complaint");
    assert!(line.contains("DIGLOT_LOG is not used: `warning` is not a log level"), "{line}");
    let line = process.line().await.expect("a line of the log");
    assert!(line.contains("listening"), "{line}");
}

/// Runs `diglot verify` and returns exit code, stdout and stderr.
fn run_verify(options: &[&str], input: &str) -> (Option<i32>, String, String) {
    let file = TempFile::new(input);
    let mut command = diglot();
    command.arg("verify").args(options).arg(file.path());
    let Output { status, stdout, stderr } = command.output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8").replace(&file.path().display().to_string(), "FILE");
    (status.code(), text(stdout), text(stderr))
}

const ACCEPTED: &str = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n\
                        data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n";
const WARNED: &str = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n\
                      data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"s\"}\n\n";
const REJECTED: &str = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n\
                        data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\\u0007\",\"delta\":\"x\"}\n\n\
                        data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n";

#[test]
fn verify_returns_a_verdict_as_exit_code_and_last_line() {
    let rows: &[(&[&str], &str, i32, &str)] = &[
        (&[], ACCEPTED, 0, "FILE: accepted: 2 events, 0 violations, 0 warnings"),
        (&[], RUN, 0, "FILE: accepted: 2 events, 0 violations, 0 warnings"),
        (&["--strict"], ACCEPTED, 0, "FILE: accepted: 2 events, 0 violations, 0 warnings"),
        (&[], WARNED, 0, "FILE: accepted: 2 events, 0 violations, 1 warning"),
        (&["--strict"], WARNED, 1, "FILE: accepted: 2 events, 0 violations, 1 warning"),
        (&[], REJECTED, 1, "FILE: rejected at line 3 (not-open): 3 events, 1 violation, 0 warnings"),
        // The client ends such a run without an error, although there was no run.
        (&[], "", 1, "FILE: nothing to verify: 0 events, 0 violations, 1 warning"),
        (&[], "<html>\n", 1, "FILE: nothing to verify: 0 events, 0 violations, 1 warning"),
        (&[], &RUN.replace('\n', "\r"), 0, "FILE: accepted: 2 events, 0 violations, 0 warnings"),
        (&[], &RUN.replace('\n', "\r\n"), 0, "FILE: accepted: 2 events, 0 violations, 0 warnings"),
    ];
    for (options, input, code, last) in rows {
        let verified = run_verify(&[&["--dialect", "ag-ui"], *options].concat(), input);
        assert_eq!(
            (verified.0, verified.1.lines().last(), verified.2.as_str()),
            (Some(*code), Some(*last), ""),
            "{input}"
        );
    }
    let (code, stdout, _) = run_verify(&["--dialect", "ag-ui"], HAI_RUN);
    assert!(stdout.lines().last().is_some_and(|last| last.contains(", but it looks like hai: ")), "{code:?} {stdout}");
    let (_, stdout, _) = run_verify(&["--dialect", "hai"], REJECTED);
    let warning = "FILE: 1 event of another dialect; if the recording is in ag-ui, verify it with --dialect ag-ui\n";
    assert!(stdout.contains(warning), "{stdout}");
    let (_, stdout, _) = run_verify(&["--dialect", "ag-ui"], REJECTED);
    let expected = "FILE:3: violation not-open: TEXT_MESSAGE_CONTENT: the text message \"m\\u{7}\" is not open; \
                    an item must be open when it is continued or ended (§3.2 Verify)";
    assert_eq!(stdout.lines().next(), Some(expected));
}

#[test]
fn verify_prints_one_json_document() {
    let (code, stdout, _) = run_verify(&["--dialect", "ag-ui", "--format", "json"], REJECTED);
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("one document");
    assert_eq!(code, Some(1));
    assert_eq!(
        (&report["verdict"], &report["rejected_at"], &report["events"]),
        (&"rejected".into(), &3.into(), &3.into())
    );
    let finding = &report["findings"][0];
    assert_eq!((&finding["rule"], &finding["severity"]), (&"not-open".into(), &"violation".into()));
    assert_eq!((&finding["line"], &finding["event"], &finding["path"]), (&3.into(), &2.into(), &"".into()));
    let (code, stdout, _) = run_verify(&["--dialect", "hai", "--format", "json"], "");
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("one document");
    assert_eq!((code, &report["findings"][0]["rule"]), (Some(1), &"no-events".into()));
}

#[test]
fn verify_returns_another_exit_code_for_unreadable_input() {
    let rows: &[(&[&str], i32, &str)] = &[
        (&["verify", "--dialect", "ag-ui", "/nowhere/at-all.sse"], 69, "diglot: /nowhere/at-all.sse: "),
        (&["verify", "--dialect", "ag-ui", "/"], 69, "diglot: /: "),
        (&["verify", "--dialect", "klingon", "-"], 2, "error: "),
        (&["verify"], 2, "error: "),
    ];
    for (arguments, code, expected) in rows {
        let Output { status, stderr, .. } = diglot().args(*arguments).output().expect("the binary starts");
        let stderr = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(*code), "{stderr}");
        assert!(stderr.starts_with(expected), "{stderr}");
    }
}

/// Runs a command on a configuration and returns exit code, stdout and stderr.
fn run_config_command(command: &str, file: &std::path::Path) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        diglot().arg(command).arg(file).env("KEY", "hunter2").output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

/// A configuration with a secret in every place that may hold one.
const CONFIG_WITH_SECRETS: &str = r#"
listeners: {data: ["0.0.0.0:0", "127.0.0.1:0"]}
auth:
  issuers: [{name: staff, issuer: staff, audience: x, secret: "hunter2-hunter2-hunter2-hunter2-hunter2"}]
  api_keys:
    - {name: keys, keys: [{id: a, sha256: c018c41c1afaf2c0b66c64f97d0ee135657b699ad260f299234cd40a5d625e0e}]}
rate_limits: [{name: tight, requests: 60, burst: 7, tiers: {gold: {requests: 600}}}, {name: loose, requests: 61}]
redis: {url: "redis://me:hunter2@127.0.0.1/1"}
keep_alive: ${MISSING:-1s}
routes:
  - path: /a
    client: ag-ui
    agent: {dialect: hai, content: blocks}
    upstream: ["http://h:1/?key=hunter2&k=${KEY}", "http://${MISSING:-i}/"]
    upstream_headers: {authorization: Bearer hunter2, x-a: "${KEY}", x-b: "${MISSING:-hunter2}"}
  - {path: /b, client: ag-ui, agent: hai, upstream: "http://h/", auth: none}
"#;

#[test]
fn prints_the_effective_configuration_without_secrets() {
    let file = TempFile::new(CONFIG_WITH_SECRETS);
    let (code, stdout, stderr) = run_config_command("config", file.path());
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    assert!(!stdout.contains("hunter2"), "{stdout}");
    for line in [
        "keep_alive: ${MISSING:-1s}",
        "drain_timeout: 30s",
        "    secret: \"***\"",
        "    - HS256",
        // The burst of the limit, of its tier, and of a limit without one.
        "  burst: 7",
        "      burst: 7",
        "  burst: 61",
        "      sha256: c018c41c…",
        "  url: redis://***@127.0.0.1/1",
        "  - http://h:1/?key=***&k=${KEY}",
        "    authorization: \"***\"",
        "    x-a: ${KEY}",
        "    x-b: \"***\"",
        "  - staff",
        "  auth: none",
    ] {
        assert!(stdout.lines().any(|printed| printed == line), "{line} is not in\n{stdout}");
    }
}

#[test]
fn printed_configuration_reads_back_the_same() {
    let complete = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/config/diglot.yaml"));
    let (code, stdout, stderr) = run_config_command("config", complete);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let again = TempFile::new(&stdout);
    assert_eq!(run_config_command("config", again.path()), (Some(0), stdout.clone(), String::new()));
    // Sections are in the order of the complete file.
    let sections = |text: &str| {
        let keys = text.lines().filter_map(|line| line.split_once(':').map(|(key, _)| key.to_owned()));
        keys.filter(|key| key.bytes().all(|each| each.is_ascii_lowercase() || each == b'_')).collect::<Vec<_>>()
    };
    assert_eq!(sections(&stdout), sections(&std::fs::read_to_string(complete).expect("the complete file")));
}

/// The printed file is valid in any folder: file names are absolute.
#[test]
fn prints_absolute_paths_and_json() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples");
    let file = examples.join("tls.yaml");
    let (code, yaml, stderr) = run_config_command("config", &file);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(yaml.contains(&format!("cert: {}\n", examples.join("tls/tls.crt").display())), "{yaml}");
    let elsewhere = TempFile::new(&yaml);
    assert_eq!(run_config_command("config", elsewhere.path()), (Some(0), yaml, String::new()));
    assert_eq!(run_config_command("check", elsewhere.path()).0, Some(0));
    let json = diglot().arg("config").arg(&file).args(["--format", "json"]).output().expect("the binary starts");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["listeners"]["data"][0]["tls"]["key"], examples.join("tls/tls.key").display().to_string());
    assert_eq!((&json["keep_alive"], &json["routes"][0]["guard"]), (&"15s".into(), &"repair".into()));
}

#[test]
fn does_not_print_an_invalid_configuration() {
    let file = TempFile::new("routes: [{path: /a, upstream_headers: {a: hunter2, b: [hunter2]}}]");
    let (code, stdout, stderr) = run_config_command("config", file.path());
    assert_eq!((code, stdout.as_str()), (Some(78), ""));
    assert!(stderr.contains("routes[0].upstream_headers.b") && !stderr.contains("hunter2"), "{stderr}");
}
