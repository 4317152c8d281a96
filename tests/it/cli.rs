//! What the commands say to a person: mistakes named by what has to be changed, and nothing left out in silence.

use super::support::gateway::{File, Process, diglot};
use std::fs::OpenOptions;
use std::net::TcpListener;
use std::process::{Output, Stdio};

const RUN: &str = "{\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\
                   {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n";

/// What `diglot translate` says to an input: exit code, stdout, stderr.
fn translated(input: &str) -> (Option<i32>, String, String) {
    let file = File::new(input);
    let mut command = diglot();
    command.args(["translate", "--from", "ag-ui", "--to", "hai", "--format", "ndjson"]).arg(file.path());
    let Output { status, stdout, stderr } = command.output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn runs_behind_the_first_are_not_left_out_in_silence() {
    let (code, alone, stderr) = translated(RUN);
    assert_eq!((code, alone.lines().count(), stderr.as_str()), (Some(0), 2, ""));
    let (code, stdout, stderr) = translated(&RUN.repeat(3));
    assert_eq!((code, stdout), (Some(1), alone), "{stderr}");
    let expected = "4 event(s) after the end of the run were left out; translate one run at a time\n";
    assert!(stderr.ends_with(expected), "{stderr}");
}

#[test]
fn an_input_without_events_is_told_from_one_that_broke_off() {
    let array = format!("[{}]", RUN.lines().collect::<Vec<_>>().join(","));
    for input in [array.as_str(), "hello\n", "", "\u{feff}"] {
        let (code, _, stderr) = translated(input);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("no event found: the input is neither an event stream nor NDJSON"), "{stderr}");
    }
    for input in ["data: hello\n\n", "{\"kind\":1}\n"] {
        let (_, _, stderr) = translated(input);
        assert!(stderr.contains("no event found: of 1 frame(s) or line(s) none is an event of ag-ui"), "{stderr}");
    }
    let (_, _, stderr) = translated(RUN.lines().next().expect("an event"));
    assert!(stderr.contains("the stream ended without a terminal event"), "{stderr}");
    let (code, stdout, stderr) = translated(&format!("\u{feff}{RUN}"));
    assert_eq!((code, stdout, stderr), translated(RUN));
    assert_eq!(code, Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_cannot_be_written_is_not_blamed_on_the_input() {
    let file = File::new(RUN);
    let full = OpenOptions::new().write(true).open("/dev/full").expect("a device that is always full");
    let mut command = diglot();
    command.args(["translate", "--from", "ag-ui", "--to", "hai"]).arg(file.path()).stdout(Stdio::from(full));
    let Output { status, stderr, .. } = command.stderr(Stdio::piped()).output().expect("the binary starts");
    let stderr = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(69), "{stderr}");
    assert!(stderr.starts_with("diglot: stdout: ") && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn the_demo_names_the_option_that_moves_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    for (option, other) in [("--listen", "--status"), ("--status", "--listen")] {
        let mut command = diglot();
        command.args(["demo", option, &address, other, "127.0.0.1:0"]);
        let Output { status, stderr, .. } = command.output().expect("the binary starts");
        let stderr = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(69), "{stderr}");
        assert!(stderr.contains(&format!("cannot listen on {address} ({option})")), "{stderr}");
        assert!(stderr.contains("make demo ARGS=") && !stderr.contains("listeners."), "{stderr}");
    }
}

#[tokio::test]
async fn a_filter_that_cannot_be_meant_does_not_silence_the_log() {
    let mut command = diglot();
    command.env("DIGLOT_LOG", "warning").args(["demo", "--listen", "127.0.0.1:0", "--status", "127.0.0.1:0"]);
    let mut process = Process::start(command.stdout(Stdio::null()), false);
    let line = process.line().await.expect("a complaint");
    assert!(line.contains("DIGLOT_LOG is not used: `warning` names no level"), "{line}");
    let line = process.line().await.expect("a line of the log");
    assert!(line.contains("listening"), "{line}");
}

/// What `diglot verify` says to an input: exit code, stdout, stderr.
fn verified(options: &[&str], input: &str) -> (Option<i32>, String, String) {
    let file = File::new(input);
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
fn a_verdict_is_an_exit_code_and_a_last_line() {
    let rows: &[(&[&str], &str, i32, &str)] = &[
        (&[], ACCEPTED, 0, "FILE: accepted: 2 events, 0 violations, 0 warnings"),
        (&[], RUN, 0, "FILE: accepted: 2 events, 0 violations, 0 warnings"),
        (&["--strict"], ACCEPTED, 0, "FILE: accepted: 2 events, 0 violations, 0 warnings"),
        (&[], WARNED, 0, "FILE: accepted: 2 events, 0 violations, 1 warning"),
        (&["--strict"], WARNED, 1, "FILE: accepted: 2 events, 0 violations, 1 warning"),
        (&[], REJECTED, 1, "FILE: rejected at line 3 (not-open): 3 events, 1 violation, 0 warnings"),
        (&[], "", 0, "FILE: accepted: 0 events, 0 violations, 1 warning"),
    ];
    for (options, input, code, last) in rows {
        let said = verified(&[&["--dialect", "ag-ui"], *options].concat(), input);
        assert_eq!((said.0, said.1.lines().last(), said.2.as_str()), (Some(*code), Some(*last), ""), "{input}");
    }
    let (_, stdout, _) = verified(&["--dialect", "ag-ui"], REJECTED);
    let expected = "FILE:3: violation not-open: TEXT_MESSAGE_CONTENT: the text message \"m\\u{7}\" is not open; \
                    what is continued or ended must be open (§3.2 Verify)";
    assert_eq!(stdout.lines().next(), Some(expected));
}

#[test]
fn a_report_is_one_json_document() {
    let (code, stdout, _) = verified(&["--dialect", "ag-ui", "--format", "json"], REJECTED);
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("one document");
    assert_eq!(code, Some(1));
    assert_eq!(
        (&report["verdict"], &report["rejected_at"], &report["events"]),
        (&"rejected".into(), &3.into(), &3.into())
    );
    let finding = &report["findings"][0];
    assert_eq!((&finding["rule"], &finding["severity"]), (&"not-open".into(), &"violation".into()));
    assert_eq!((&finding["line"], &finding["event"], &finding["path"]), (&3.into(), &2.into(), &"".into()));
    let (code, stdout, _) = verified(&["--dialect", "hai", "--format", "json"], "");
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("one document");
    assert_eq!((code, &report["findings"][0]["rule"]), (Some(0), &"no-events".into()));
}

#[test]
fn what_cannot_be_verified_has_an_exit_code_of_its_own() {
    let rows: &[(&[&str], i32, &str)] = &[
        (&["verify", "--dialect", "ag-ui", "/nowhere/at-all.sse"], 69, "diglot: /nowhere/at-all.sse: "),
        (&["verify", "--dialect", "ag-ui", "/"], 69, "diglot: /: "),
        (&["verify", "--dialect", "klingon", "-"], 2, "error: "),
        (&["verify"], 2, "error: "),
    ];
    for (arguments, code, says) in rows {
        let Output { status, stderr, .. } = diglot().args(*arguments).output().expect("the binary starts");
        let stderr = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(*code), "{stderr}");
        assert!(stderr.starts_with(says), "{stderr}");
    }
}
