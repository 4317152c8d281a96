//! Streams that break, and valid streams in unusual forms.

use super::{answer_to_response, answer_to_steps};
use crate::support::agent::{Agent, Step, write};
use crate::support::client::{Client, End, INPUT, post, post_run};
use crate::support::gateway::{Gateway, Setup};
use crate::support::sse::{
    CHUNKED, CLOSED, COMPLETE_RUN, CONTENT, FINISHED, HEAD, LAST_CHUNK, OPENED, RUN_BEGINNING, STARTED, assert_failed,
    assert_succeeded, chunk, complete_run, events, run_beginning, types,
};

/// An event that is not there in full.
const HALF_EVENT: &str = "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"BROKEN";

#[tokio::test]
async fn reports_truncation_without_a_terminal_event() {
    assert_failed(&answer_to_response([HEAD, &run_beginning()].concat()).await, "upstream_truncated", RUN_BEGINNING);
    assert_failed(
        &answer_to_response([CHUNKED.as_bytes(), &chunk(run_beginning()), LAST_CHUNK.as_bytes()].concat()).await,
        "upstream_truncated",
        RUN_BEGINNING,
    );
}

#[tokio::test]
async fn reports_truncation_to_hai_clients_in_hai() {
    let agent = Agent::with_response([HEAD, &run_beginning()].concat());
    let gateway = Gateway::start_for(&agent).await;
    let answer = post_run(gateway.data, "/to-hai").await;
    assert_eq!((answer.status, answer.end), (200, End::Clean));
    let events = events(answer.text());
    assert_eq!(types(&events).iter().filter(|kind| **kind == "RUN_ERROR").count(), 1, "{}", answer.text());
    assert_eq!(events.last().expect("events")["type"], "RUN_ERROR");
    assert!(answer.text().contains("upstream_truncated"), "{}", answer.text());
}

#[tokio::test]
async fn reports_truncation_of_hai_agents() {
    let stream = "data: {\"type\":\"RUN_STARTED\",\"messageId\":\"a1\"}\n\ndata: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"你好\"}\n\n";
    let agent = Agent::with_response([HEAD, stream].concat());
    let gateway = Gateway::start_for(&agent).await;
    let answer = post_run(gateway.data, "/from-hai").await;
    let events = events(answer.text());
    assert_eq!(events.last().expect("events")["code"], "upstream_truncated", "{}", answer.text());
    assert!(answer.text().contains("你好"));
}

/// The agent breaks a rule of the run guard: its message is still open at the end.
#[tokio::test]
async fn applies_the_guard_mode_to_protocol_violations() {
    let agent = Agent::with_response([HEAD, &run_beginning(), FINISHED].concat());
    for (guard, last) in [("strict", "RUN_ERROR"), ("report", "RUN_FINISHED"), ("repair", "RUN_FINISHED")] {
        let gateway = Gateway::start(Setup { upstreams: &[agent.url()], guard, ..Setup::default() }).await;
        let answer = post_run(gateway.data, "/run").await;
        if guard == "strict" {
            let error = assert_failed(&answer, "protocol_violation", RUN_BEGINNING);
            let expected =
                "RUN_FINISHED breaks the rule that every item is ended before the run finishes (closer_supplied).";
            assert_eq!(error["message"], expected);
        }
        let (events, closed) = (events(answer.text()), usize::from(guard == "repair"));
        assert_eq!((types(&events).last(), events.len()), (Some(&last), RUN_BEGINNING.len() + 1 + closed), "{guard}");
        gateway.wait_for_metric(r#"diglot_repairs_total{repair="closer_supplied",route="run"}"#, 1.0).await;
    }
}

/// Half an event at a clean end may be an event without its blank line, so it is parsed; if it is incomplete, it is dropped,
/// and the only fault of the agent is that it stopped.
#[tokio::test]
async fn drops_half_an_event_at_the_end() {
    for half in [
        HALF_EVENT.as_bytes(),
        &HALF_EVENT.as_bytes()[..4],
        b"data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"delta\":\"\xe4\xbd",
    ] {
        let agent = Agent::with_response([HEAD.as_bytes(), run_beginning().as_bytes(), half].concat());
        for guard in ["repair", "strict", "report"] {
            let gateway = Gateway::start(Setup { upstreams: &[agent.url()], guard, ..Setup::default() }).await;
            assert_failed(&post_run(gateway.data, "/run").await, "upstream_truncated", RUN_BEGINNING);
        }
    }
}

#[tokio::test]
async fn accepts_a_missing_last_blank_line() {
    for stream in [complete_run().trim_end().to_owned(), complete_run().trim_end().to_owned() + "\n"] {
        assert_succeeded(&answer_to_response([HEAD, &stream].concat()).await, COMPLETE_RUN);
    }
}

/// After a broken body, pending data is no event.
#[tokio::test]
async fn reports_a_body_shorter_than_its_length_as_truncated() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9000\r\n\r\n";
    assert_failed(
        &answer_to_response([head, &run_beginning(), HALF_EVENT].concat()).await,
        "upstream_truncated",
        RUN_BEGINNING,
    );
}

#[tokio::test]
async fn reports_an_unfinished_chunked_body_as_truncated() {
    let rows = [
        chunk(run_beginning()),
        [chunk(run_beginning()), b"ff\r\ndata: {".to_vec()].concat(),
        [chunk(run_beginning()), b"f".to_vec()].concat(),
    ];
    for row in rows {
        assert_failed(
            &answer_to_response([CHUNKED.as_bytes(), &row].concat()).await,
            "upstream_truncated",
            RUN_BEGINNING,
        );
    }
}

#[tokio::test]
async fn rejects_chunks_without_a_size() {
    let steps =
        vec![Step::Read, write(CHUNKED), write(chunk(run_beginning())), write("not a size\r\n"), Step::WaitForClose];
    assert_failed(&answer_to_steps(steps).await, "upstream_protocol", RUN_BEGINNING);
}

#[tokio::test]
async fn distinguishes_a_reset_from_truncation() {
    let agent = Agent::with_script(vec![
        Step::Read,
        write(CHUNKED),
        write(chunk(run_beginning() + HALF_EVENT)),
        Step::Pause,
        Step::Reset,
    ]);
    let gateway = Gateway::start_for(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    let mut answer = client.read_head().await;
    // A reset takes what the gateway has not read yet with it, so it is sent after those bytes were read.
    let before = client.read_until("你好\"}\n\n").await;
    agent.resume();
    (answer.body, answer.end) = client.read_rest().await;
    answer.body = [before.as_bytes(), &answer.body].concat();
    assert_failed(&answer, "upstream_reset", RUN_BEGINNING);
}

const SMALL: &str = "limits: {frame: 1KiB}";

#[tokio::test]
async fn ends_the_run_at_an_event_over_the_limit() {
    let text = "x".repeat(700);
    let rows = [
        format!("data: {{\"type\":\"CUSTOM\",\"name\":\"big\",\"value\":\"{}\"}}\n\n", "x".repeat(2000)),
        // A line without end, and an event of many lines without end.
        format!("data: {}", "x".repeat(4000)),
        format!("data: {text}\ndata: {text}\ndata: {text}\n"),
        format!(":{}", "x".repeat(4000)),
    ];
    for row in rows {
        let steps = vec![Step::Read, write([HEAD, &run_beginning(), &row].concat()), Step::WaitForClose];
        let mut agent = Agent::with_script(steps);
        let setup = Setup { upstreams: &[agent.url()], top: SMALL, ..Setup::default() };
        let gateway = Gateway::start(setup).await;
        assert_failed(&post_run(gateway.data, "/run").await, "frame_too_large", RUN_BEGINNING);
        agent.next_request().await;
        agent.wait_until_closed().await;
    }
}

#[tokio::test]
async fn passes_comments_and_small_events_under_a_small_limit() {
    let comments = ": ping\n\n".repeat(2000);
    let agent = Agent::with_response([HEAD, STARTED, &comments, OPENED, CONTENT, &comments, CLOSED, FINISHED].concat());
    let setup = Setup { upstreams: &[agent.url()], top: SMALL, ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
}

/// The run is over with its terminal event, whatever the agent does with the connection then.
#[tokio::test]
async fn drops_events_after_the_terminal_one() {
    let after = [CONTENT, FINISHED, STARTED, "data: half"].concat();
    let steps = vec![Step::Read, write(CHUNKED), write(chunk(complete_run() + &after)), Step::WaitForClose];
    let mut agent = Agent::with_script(steps);
    let gateway = Gateway::start_for(&agent).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    gateway.wait_for_metric(r#"diglot_streams_total{outcome="finished",route="run"}"#, 1.0).await;
    assert_eq!(gateway.metric(r#"diglot_losses_total{reason="after_terminal",route="run"}"#).await, 3.0);
    // The connection is closed when the run has ended.
    agent.next_request().await;
    agent.wait_until_closed().await;
}

/// Unreadable bytes after the end do not fail a run that its client received completely.
#[tokio::test]
async fn ignores_oversized_lines_after_the_terminal_event() {
    let agent =
        Agent::with_script(vec![Step::Read, write(CHUNKED), write(chunk(complete_run() + ":" + &"x".repeat(4000)))]);
    let setup = Setup { upstreams: &[agent.url()], top: SMALL, ..Setup::default() };
    let mut gateway = Gateway::start(setup).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    assert_eq!(gateway.next_log("run ended").await["outcome"], "finished");
}

/// Bytes that came are counted, although the read that brought them ended in a failure.
#[tokio::test]
async fn counts_bytes_received_before_a_failure() {
    let body = run_beginning() + HALF_EVENT;
    let agent = Agent::with_response([CHUNKED.as_bytes(), &chunk(&body), b"not a size\r\n"].concat());
    let gateway = Gateway::start_for(&agent).await;
    assert_failed(&post_run(gateway.data, "/run").await, "upstream_protocol", RUN_BEGINNING);
    let bytes = gateway.metric(r#"diglot_event_bytes_total{direction="from_agent",route="run"}"#).await;
    assert_eq!(bytes, body.len() as f64);
}

#[tokio::test]
async fn passes_on_an_agents_error_unchanged() {
    let error = "data: {\"type\":\"RUN_ERROR\",\"message\":\"out of tokens\",\"code\":\"quota\"}\n\n";
    let answer = answer_to_response([HEAD, &run_beginning(), error].concat()).await;
    assert_eq!(assert_failed(&answer, "quota", RUN_BEGINNING)["message"], "out of tokens");
}

#[tokio::test]
async fn reads_every_form_of_event_stream() {
    let whole = complete_run();
    let rows = [
        whole.replace('\n', "\r\n"),
        whole.replace('\n', "\r"),
        "\u{feff}".to_owned() + &whole,
        whole.replace("data: ", "data:"),
        whole.replace("data: ", "event: message\nid: 7\nretry: 10\n: comment\ndata: "),
        whole.replace(",\"", ",\ndata: \""),
        whole.clone() + "data: [DONE]\n\n",
        whole.replace(FINISHED, &("data: [DONE]\n\n".to_owned() + FINISHED)),
    ];
    for row in rows {
        let answer = answer_to_response([HEAD, &row].concat()).await;
        assert_succeeded(&answer, COMPLETE_RUN);
        assert!(answer.text().contains("\"delta\":\"你好\""), "{}", answer.text());
    }
}

/// Every byte on its own: characters, line ends and chunk sizes are cut everywhere.
#[tokio::test]
async fn reads_streams_byte_by_byte() {
    let chunked =
        [CHUNKED.as_bytes(), &chunk(run_beginning()), &chunk(CLOSED), &chunk(FINISHED), LAST_CHUNK.as_bytes()].concat();
    for stream in [chunked, [HEAD, &complete_run()].concat().into_bytes()] {
        let answer = answer_to_steps(vec![Step::Read, Step::Dribble(stream)]).await;
        assert_succeeded(&answer, COMPLETE_RUN);
        assert!(answer.text().contains("\"delta\":\"你好\""), "{}", answer.text());
    }
}

/// An event leaves when it is whole, not when the next one comes.
#[tokio::test]
async fn delivers_each_event_before_the_next_arrives() {
    let mut steps = vec![Step::Read, write(CHUNKED)];
    for event in [STARTED, OPENED, CONTENT, CLOSED, FINISHED] {
        steps.extend([write(chunk(event)), Step::Pause]);
    }
    let agent = Agent::with_script(steps);
    let gateway = Gateway::start_for(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.read_head().await;
    for kind in &COMPLETE_RUN[..4] {
        client.read_until(&format!("{kind}\"")).await;
        agent.resume();
    }
    let (rest, end) = client.read_rest().await;
    assert!(String::from_utf8_lossy(&rest).contains("RUN_FINISHED"));
    assert_eq!(end, End::Clean);
}
