//! The cause of a broken run is named by the gateway where it knows it.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Client, INPUT, post, post_run};
use super::super::support::eventually;
use super::super::support::sse::{FINISHED, HEAD, STARTED, complete_run};
use super::timelines::last_timeline;
use super::{RunDir, start};
use serde_json::json;

#[tokio::test]
async fn names_the_dialect_that_an_agent_of_another_dialect_speaks() {
    // AG-UI's names on a route for HAI, which are read as what they mean.
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    for (dialect, looks_like) in [("hai", Some("ag-ui")), ("ag-ui", None)] {
        let run_dir = RunDir::new();
        let gateway = start(&agent, &run_dir, "", &format!("client: ag-ui, agent: {dialect}, inspect: events")).await;
        post_run(gateway.data, "/chat").await;
        let run = run_dir.last_run().await;
        assert_eq!(run["looks_like"].as_str(), looks_like, "{run}");
    }
}

/// The words are those of the log: without what looks like a secret, and without a page of HTML.
#[tokio::test]
async fn has_the_words_with_which_an_agent_refused() {
    let refusal = |status: &str, fields: &str, kind: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\n{fields}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
    };
    let expired =
        r#"{"error":{"message":"The access token expired, key sk-proj-0123456789abcdef","code":"token_expired"}}"#;
    let challenge = "WWW-Authenticate: Bearer realm=\"a\", error=\"invalid_token\"\r\n";
    for (response, redact, expected) in [
        (
            refusal("401 Unauthorized", challenge, "application/json", expired),
            "",
            Some(
                "401 Unauthorized (WWW-Authenticate: Bearer realm=\"a\", error=\"invalid_token\"): \
                 The access token expired, key ***",
            ),
        ),
        (
            refusal("429 Too Many Requests", "Retry-After: 20\r\n", "text/plain", "quota \u{1b}[2J exhausted"),
            "",
            Some("429 Too Many Requests (Retry-After: 20): quota ␛[2J exhausted"),
        ),
        (refusal("502 Bad Gateway", "", "text/html", "<h1>no</h1>"), "", Some("502 Bad Gateway")),
        // The gateway follows no redirect; a query could have a token.
        (
            refusal("302 Found", "Location: https://login.test/sso?state=s3cret\r\n", "text/html", ""),
            "",
            Some("302 Found (Location: https://login.test/sso?***)"),
        ),
        (
            refusal("302 Found", "Location: https://u:hunter2@login.test/sso#code=s3cret\r\n", "text/html", ""),
            "",
            Some("302 Found (Location: https://***@login.test/sso?***)"),
        ),
        // A token in place of parameters is not shown.
        (
            refusal(
                "401 Unauthorized",
                "WWW-Authenticate: Negotiate YIIGhgYGKwYBBQUCoIIGejCCBnag\r\n",
                "text/html",
                "",
            ),
            "",
            Some("401 Unauthorized (WWW-Authenticate: Negotiate)"),
        ),
        (
            refusal("401 Unauthorized", challenge, "application/json", expired),
            ", agent_errors: pass, redact: [\"/expired/\", \"/in(valid)?_token/\"]",
            Some(
                "401 Unauthorized (WWW-Authenticate: Bearer realm=\"a\", error=\"***\"): The access token ***, key ***",
            ),
        ),
        (
            refusal("401 Unauthorized", "", "application/json", expired),
            ", redact: [error.message]",
            Some("401 Unauthorized: ***"),
        ),
        (
            refusal("200 OK", "", "text/html", "<title>Sign in - SSO</title>"),
            "",
            Some("content type \"text/html\", status 200 OK: page \"Sign in - SSO\""),
        ),
        (
            refusal("503 Service Unavailable", "", "application/json", r#"{"weird":{"reason":"quota"}}"#),
            "",
            Some(r#"503 Service Unavailable: {"weird":{"reason":"quota"}}"#),
        ),
    ] {
        let agent = Agent::with_response(response);
        let run_dir = RunDir::new();
        let gateway =
            start(&agent, &run_dir, "", &format!("client: ag-ui, agent: ag-ui, inspect: events{redact}")).await;
        post_run(gateway.data, "/chat").await;
        let run = run_dir.last_run().await;
        assert_eq!(run["refusal"].as_str(), expected, "{run}");
        assert!(redact.is_empty() || !run.to_string().contains("expired"), "{run}");
        let follows_none =
            run["message"].as_str().is_some_and(|text| text.contains("the gateway follows no redirects"));
        assert_eq!(follows_none, expected.is_some_and(|text| text.starts_with("302")), "{run}");
        if !redact.is_empty() {
            // Only a text that was passed could be what the route redacts.
            let is_passed = redact.contains("pass");
            let message = run["message"].as_str().expect("a message");
            assert_eq!(message.contains("answered with status 401. Reference: "), !is_passed, "{message}");
        }
        let timeline = last_timeline(&run_dir).await;
        let answered = timeline.iter().find(|moment| moment["name"] == "responded").map(|moment| &moment["detail"]);
        let shown = answered.and_then(|detail| detail.as_str()).map(|detail| detail.trim_end_matches('…'));
        assert!(
            shown.zip(expected).map_or(shown == expected, |(shown, whole)| whole.starts_with(shown)),
            "{timeline:?}"
        );
    }
}

/// A call that hangs has no end, or, if the agent runs the tool itself, no result.
#[tokio::test]
async fn names_the_call_and_the_silence_in_which_a_client_left() {
    let start_call = "data: {\"type\":\"TOOL_CALL_START\",\"toolCallId\":\"c1\",\"toolCallName\":\"weather\"}\n\n";
    let end_call = "data: {\"type\":\"TOOL_CALL_END\",\"toolCallId\":\"c1\"}\n\n";
    let result =
        "data: {\"type\":\"TOOL_CALL_RESULT\",\"messageId\":\"m1\",\"toolCallId\":\"c1\",\"content\":\"sun\"}\n\n";
    let chunk = "data: {\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m2\",\"delta\":\"It\"}\n\n";
    let text = "data: {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"m2\",\"role\":\"assistant\"}\n\n";
    for (events, expected) in [
        (start_call.to_owned(), json!([{"item": "call", "id": "c1", "name": "weather", "lacks": "end", "n": 2}])),
        (
            start_call.to_owned() + end_call,
            json!([{"item": "call", "id": "c1", "name": "weather", "lacks": "result", "n": 2}]),
        ),
        (start_call.to_owned() + end_call + result, json!(null)),
        (
            start_call.to_owned() + "data: {\"type\":\"TOOL_CALL_END\"",
            json!([{"item": "call", "id": "c1", "name": "weather", "lacks": "end", "n": 2}]),
        ),
        // The agent goes on without one.
        (start_call.to_owned() + end_call + chunk, json!(null)),
        (
            start_call.to_owned() + end_call + text,
            json!([{"item": "message", "id": "m2", "name": null, "lacks": "end", "n": 4}]),
        ),
    ] {
        let agent =
            Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + STARTED + &events), Step::WaitForClose]);
        let run_dir = RunDir::new();
        let gateway = start(&agent, &run_dir, "", "client: ag-ui, agent: ag-ui, inspect: events").await;
        let mut client = Client::connect(gateway.data).await;
        client.send(post("/chat", "", INPUT)).await;
        client.read_until("TOOL_CALL_START").await;
        // A silence that is long enough to show, by the clock of the gateway.
        let age = || run_dir.lines("/inspect/v1/runs").pop().and_then(|run| run["duration_ms"].as_u64());
        let silent_from = age().expect("a run");
        eventually("a silence of a second", async || age().filter(|age| *age > silent_from + 1_000)).await;
        client.reset();
        let run = run_dir.last_run().await;
        assert_eq!(run["outcome"], "client_gone", "{run}");
        let silence = &run["silence"];
        let length = silence["until_ms"].as_u64().zip(silence["from_ms"].as_u64()).map(|(until, from)| until - from);
        assert!(length.is_some_and(|length| length >= 1_000), "{run}");
        let timeline = last_timeline(&run_dir).await;
        assert!(timeline.iter().any(|moment| moment["name"] == "silence"), "{timeline:?}");
        let rows = run_dir.lines(&format!("/inspect/v1/runs/{}/rows", run["id"]));
        let (last, before) = rows.split_last().expect("rows");
        assert!(before.iter().all(|row| row["at_ms"].as_u64() <= silence["from_ms"].as_u64()), "{before:?}");
        assert_eq!(
            (&last["cause"], &last["left_open"], &last["agent"]),
            (&json!("disconnect"), &expected, &json!(null)),
            "{last}"
        );
        assert!(last["at_ms"].as_u64() >= silence["until_ms"].as_u64(), "{last}");
    }
}

#[tokio::test]
async fn lists_the_kinds_of_losses_wherever_in_the_stream_they_are() {
    let text = |delta: &str| {
        format!("data: {{\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"{delta}\"}}\n\n")
    };
    let body = HEAD.to_owned() + STARTED + &text("a") + "\u{feff}" + &text("b") + FINISHED;
    let agent = Agent::with_response(body);
    let run_dir = RunDir::new();
    let gateway = start(&agent, &run_dir, "", "client: ag-ui, agent: ag-ui, inspect: events").await;
    post_run(gateway.data, "/chat").await;
    let run = run_dir.last_run().await;
    assert_eq!((&run["loss_names"], &run["body_form"]), (&json!(["marked_line"]), &json!(null)), "{run}");
    assert_eq!(run["silence"], json!(null), "{run}");
}

/// An agent that goes on is not waited for, but seen: in one read with its end, and in later ones.
#[tokio::test]
async fn has_what_the_agent_sends_after_the_end_of_its_run() {
    let late = "data: {\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m9\",\"delta\":\"late\"}\n\n";
    let one_read = vec![Step::Read, write(HEAD.to_owned() + &complete_run() + late + late)];
    let two_reads = vec![Step::Read, write(HEAD.to_owned() + &complete_run()), Step::Pause, write(late), write(late)];
    for script in [one_read, two_reads] {
        let agent = Agent::with_script(script);
        let run_dir = RunDir::new();
        let gateway = start(&agent, &run_dir, "", "client: ag-ui, agent: ag-ui, inspect: events").await;
        let answer = post_run(gateway.data, "/chat").await;
        assert!(!answer.text().contains("late"), "{}", answer.text());
        agent.resume();
        let run = eventually("the late events", async || {
            run_dir.lines("/inspect/v1/runs").pop().filter(|run| run["losses"] == 2 && run["state"] == "ended")
        })
        .await;
        let rows = run_dir.lines("/inspect/v1/runs/1/rows");
        let lost = rows.iter().filter(|row| row["losses"][0]["label"] == "after_terminal");
        let lost: Vec<_> = lost.map(|row| (row["agent"]["type"].clone(), row["client"].clone())).collect();
        assert_eq!(lost, vec![(json!("TEXT_MESSAGE_CHUNK"), json!([])); 2], "{rows:?}");
        assert_eq!((&run["outcome"], &run["loss_names"]), (&json!("finished"), &json!(["after_terminal"])), "{run}");
        assert_eq!(run["events_in"], 7, "{run}");
    }
}

#[tokio::test]
async fn names_a_byte_order_mark_before_the_json_of_an_event() {
    let text = "data: \u{feff}{\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"a\"}\n\n";
    let agent = Agent::with_response([HEAD, STARTED, text, "data: no JSON\n\n", FINISHED].concat());
    let run_dir = RunDir::new();
    let gateway = start(&agent, &run_dir, "", "client: ag-ui, agent: ag-ui, inspect: events").await;
    post_run(gateway.data, "/chat").await;
    run_dir.last_run().await;
    let rows = run_dir.lines("/inspect/v1/runs/1/rows");
    let notes: Vec<_> = rows.iter().map(|row| row["note"].as_str().unwrap_or_default()).collect();
    let [_, marked, other, _] = notes.as_slice() else { panic!("{rows:?}") };
    assert!(marked.starts_with("a byte order mark (U+FEFF) stands before the JSON"), "{marked}");
    assert_eq!(rows[1]["agent"]["type"], "TEXT_MESSAGE_CHUNK", "{rows:?}");
    assert_eq!(*other, "");
}

/// "failure ⇒ console.warn, state unchanged; baseline = input.state" (`specs/ag-ui-1.0.md` §3.4): the client's user sees
/// an old state, and nothing else.
#[tokio::test]
async fn names_a_patch_that_does_not_fit_what_the_client_holds() {
    let snapshot = "data: {\"type\":\"STATE_SNAPSHOT\",\"snapshot\":{\"a\":1}}\n\n";
    let patch = "data: {\"type\":\"STATE_DELTA\",\"delta\":[{\"op\":\"replace\",\"path\":\"/b/c\",\"value\":2}]}\n\n";
    let unfit = "the client cannot apply this patch, and leaves it out: `replace` of `/b/c` does not fit the state that the client holds";
    for (before, route, expected) in [
        // The request has the state `{}`.
        ("", "inspect: full", Some(unfit)),
        // Without it, nothing is known of the state.
        ("", "inspect: events", None),
        (snapshot, "inspect: events", Some(unfit)),
        // The client holds no such member to replace.
        (snapshot, "inspect: full, redact: [snapshot.a]", None),
        ("", "inspect: full, client: ag-ui-0", None),
    ] {
        let client = if route.contains("client:") { "" } else { "client: ag-ui, " };
        let agent = Agent::with_response([HEAD, STARTED, before, patch, FINISHED].concat());
        let run_dir = RunDir::new();
        let gateway = start(&agent, &run_dir, "", &format!("{client}agent: ag-ui, {route}")).await;
        post_run(gateway.data, "/chat").await;
        let id = run_dir.last_run().await["id"].clone();
        let rows = run_dir.lines(&format!("/inspect/v1/runs/{id}/rows"));
        let row = rows.iter().find(|row| row["agent"]["type"] == "STATE_DELTA").expect("the patch");
        assert_eq!((row["note"].as_str(), &row["losses"]), (expected, &json!([])), "{route}: {row}");
        // The list has it, too.
        let run = run_dir.lines("/inspect/v1/runs").pop().expect("a run");
        let cause = (run["cause"]["type"].as_str(), run["cause"]["note"].as_str());
        assert_eq!(cause, (expected.and(Some("STATE_DELTA")), expected), "{route}: {run}");
    }
}

/// Of several causes, the one from which the others follow.
#[tokio::test]
async fn lists_the_cause_that_rows_have() {
    let text = "data: {\"type\":\"TEXT_MESSAGE_START\",\"messageId\":\"m\",\"role\":\"assistant\"}\n\n";
    let cut = "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"\u{4f60}";
    let other = "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"n\",\"delta\":\"a\"}\n\n";
    let clean = "data: {\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"m\"}\n\n";
    for (events, expected) in [
        (text.to_owned() + cut, json!(["event", null, null])),
        (text.to_owned() + other + FINISHED, json!([null, {"before": "m", "after": "n"}, null])),
        (
            text.to_owned() + FINISHED,
            json!([null, null, [{"item": "message", "id": "m", "name": null, "lacks": "end", "n": 2}]]),
        ),
        (text.to_owned() + clean + FINISHED, json!([null, null, null])),
    ] {
        let agent = Agent::with_response([HEAD, STARTED, &events].concat());
        let run_dir = RunDir::new();
        let gateway = start(&agent, &run_dir, "", "client: ag-ui, agent: ag-ui, inspect: events").await;
        post_run(gateway.data, "/chat").await;
        run_dir.last_run().await;
        let run = run_dir.lines("/inspect/v1/runs").pop().expect("a run");
        let cause = &run["cause"];
        assert_eq!(json!([cause["cut_within"], cause["id_change"], cause["left_open"]]), expected, "{run}");
    }
}
