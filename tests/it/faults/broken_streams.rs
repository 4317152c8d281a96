//! Streams that break, and streams that are whole but oddly written.

use super::{heard, played};
use crate::support::agent::{Agent, Step, write};
use crate::support::client::{Client, End, INPUT, post, run};
use crate::support::gateway::{Gateway, Setup};
use crate::support::sse::{
    BEGUN, CHUNKED, CLOSED, FINISHED, HEAD, LAST, OPENED, SAID, STARTED, WHOLE, begun, chunk, events, failed,
    succeeded, types, whole,
};

/// An event that is not there in full.
const HALF: &str = "data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"BROKEN";

#[tokio::test]
async fn a_clean_end_without_a_terminal_event_is_no_success() {
    failed(&heard([HEAD, &begun()].concat()).await, "upstream_truncated", BEGUN);
    failed(&heard([CHUNKED.as_bytes(), &chunk(begun()), LAST.as_bytes()].concat()).await, "upstream_truncated", BEGUN);
}

#[tokio::test]
async fn a_client_that_speaks_hai_hears_of_it_in_hai() {
    let agent = Agent::answering([HEAD, &begun()].concat());
    let gateway = Gateway::before(&agent).await;
    let answer = run(gateway.data, "/to-hai").await;
    assert_eq!((answer.status, answer.end), (200, End::Clean));
    let events = events(answer.text());
    assert_eq!(types(&events).iter().filter(|kind| **kind == "RUN_ERROR").count(), 1, "{}", answer.text());
    assert_eq!(events.last().expect("events")["type"], "RUN_ERROR");
    assert!(answer.text().contains("upstream_truncated"), "{}", answer.text());
}

#[tokio::test]
async fn an_agent_that_speaks_hai_breaks_off() {
    let said = "data: {\"type\":\"RUN_STARTED\",\"messageId\":\"a1\"}\n\ndata: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"a1\",\"delta\":\"你好\"}\n\n";
    let agent = Agent::answering([HEAD, said].concat());
    let gateway = Gateway::before(&agent).await;
    let answer = run(gateway.data, "/from-hai").await;
    let events = events(answer.text());
    assert_eq!(events.last().expect("events")["code"], "upstream_truncated", "{}", answer.text());
    assert!(answer.text().contains("你好"));
}

/// What the route says about an agent that breaks a rule: here its message is still open at the end.
#[tokio::test]
async fn a_route_chooses_what_becomes_of_an_agent_that_breaks_a_rule() {
    let agent = Agent::answering([HEAD, &begun(), FINISHED].concat());
    for (guard, last) in [("strict", "RUN_ERROR"), ("report", "RUN_FINISHED"), ("repair", "RUN_FINISHED")] {
        let gateway = Gateway::start(Setup { upstreams: &[agent.url()], guard, ..Setup::default() }).await;
        let answer = run(gateway.data, "/run").await;
        if guard == "strict" {
            let error = failed(&answer, "protocol_violation", BEGUN);
            let said = "RUN_FINISHED breaks the rule that nothing is open when a run finishes (closer_supplied).";
            assert_eq!(error["message"], said);
        }
        let (events, closed) = (events(answer.text()), usize::from(guard == "repair"));
        assert_eq!((types(&events).last(), events.len()), (Some(&last), BEGUN.len() + 1 + closed), "{guard}");
        gateway.reaches(r#"diglot_repairs_total{repair="closer_supplied",route="run"}"#, 1.0).await;
    }
}

/// Half an event at a clean end may be an event whose blank line was forgotten, so it is looked at; if it is none, it is
/// nothing at all, and no fault of the agent but that it stopped.
#[tokio::test]
async fn half_an_event_is_none() {
    for half in
        [HALF.as_bytes(), &HALF.as_bytes()[..4], b"data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"delta\":\"\xe4\xbd"]
    {
        let agent = Agent::answering([HEAD.as_bytes(), begun().as_bytes(), half].concat());
        for guard in ["repair", "strict", "report"] {
            let gateway = Gateway::start(Setup { upstreams: &[agent.url()], guard, ..Setup::default() }).await;
            failed(&run(gateway.data, "/run").await, "upstream_truncated", BEGUN);
        }
    }
}

#[tokio::test]
async fn the_last_blank_line_may_be_missing() {
    for stream in [whole().trim_end().to_owned(), whole().trim_end().to_owned() + "\n"] {
        succeeded(&heard([HEAD, &stream].concat()).await, WHOLE);
    }
}

/// Where the body broke off, what is pending is no event.
#[tokio::test]
async fn a_body_that_is_shorter_than_its_length_is_truncated() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9000\r\n\r\n";
    failed(&heard([head, &begun(), HALF].concat()).await, "upstream_truncated", BEGUN);
}

#[tokio::test]
async fn a_chunked_body_that_stops_is_truncated() {
    let rows = [
        chunk(begun()),
        [chunk(begun()), b"ff\r\ndata: {".to_vec()].concat(),
        [chunk(begun()), b"f".to_vec()].concat(),
    ];
    for row in rows {
        failed(&heard([CHUNKED.as_bytes(), &row].concat()).await, "upstream_truncated", BEGUN);
    }
}

#[tokio::test]
async fn a_chunk_without_a_size_is_no_http() {
    let steps = vec![Step::Read, write(CHUNKED), write(chunk(begun())), write("not a size\r\n"), Step::Stay];
    failed(&played(steps).await, "upstream_protocol", BEGUN);
}

#[tokio::test]
async fn a_reset_inside_an_event_is_told_apart() {
    let agent =
        Agent::playing(vec![Step::Read, write(CHUNKED), write(chunk(begun() + HALF)), Step::Pause, Step::Reset]);
    let gateway = Gateway::before(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    let mut answer = client.head().await;
    // A reset takes what the gateway has not read yet with it, so it comes after that was heard.
    let before = client.until("你好\"}\n\n").await;
    agent.go();
    (answer.body, answer.end) = client.rest().await;
    answer.body = [before.as_bytes(), &answer.body].concat();
    failed(&answer, "upstream_reset", BEGUN);
}

const SMALL: &str = "limits: {frame: 1KiB}";

#[tokio::test]
async fn an_event_over_the_limit_ends_the_run_and_the_agent() {
    let text = "x".repeat(700);
    let rows = [
        format!("data: {{\"type\":\"CUSTOM\",\"name\":\"big\",\"value\":\"{}\"}}\n\n", "x".repeat(2000)),
        // A line without end, and an event of many lines without end.
        format!("data: {}", "x".repeat(4000)),
        format!("data: {text}\ndata: {text}\ndata: {text}\n"),
        format!(":{}", "x".repeat(4000)),
    ];
    for row in rows {
        let steps = vec![Step::Read, write([HEAD, &begun(), &row].concat()), Step::Stay];
        let mut agent = Agent::playing(steps);
        let setup = Setup { upstreams: &[agent.url()], top: SMALL, ..Setup::default() };
        let gateway = Gateway::start(setup).await;
        failed(&run(gateway.data, "/run").await, "frame_too_large", BEGUN);
        agent.request().await;
        agent.left().await;
    }
}

#[tokio::test]
async fn comments_and_small_events_pass_under_a_small_limit() {
    let comments = ": ping\n\n".repeat(2000);
    let agent = Agent::answering([HEAD, STARTED, &comments, OPENED, SAID, &comments, CLOSED, FINISHED].concat());
    let setup = Setup { upstreams: &[agent.url()], top: SMALL, ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    succeeded(&run(gateway.data, "/run").await, WHOLE);
}

/// The run is over with its terminal event, whatever the agent does with the connection then.
#[tokio::test]
async fn what_comes_after_the_terminal_event_is_dropped_and_holds_nobody() {
    let after = [SAID, FINISHED, STARTED, "data: half"].concat();
    let steps = vec![Step::Read, write(CHUNKED), write(chunk(whole() + &after)), Step::Stay];
    let mut agent = Agent::playing(steps);
    let gateway = Gateway::before(&agent).await;
    succeeded(&run(gateway.data, "/run").await, WHOLE);
    gateway.reaches(r#"diglot_streams_total{outcome="finished",route="run"}"#, 1.0).await;
    assert_eq!(gateway.metric(r#"diglot_losses_total{reason="after_terminal",route="run"}"#).await, 3.0);
    // The connection does not stay open for an agent that has nothing to say any more.
    agent.request().await;
    agent.left().await;
}

/// What nobody can read is no fault of a run that its client has heard to the end.
#[tokio::test]
async fn a_line_over_the_limit_behind_the_terminal_event_is_no_failure() {
    let agent = Agent::playing(vec![Step::Read, write(CHUNKED), write(chunk(whole() + ":" + &"x".repeat(4000)))]);
    let setup = Setup { upstreams: &[agent.url()], top: SMALL, ..Setup::default() };
    let mut gateway = Gateway::start(setup).await;
    succeeded(&run(gateway.data, "/run").await, WHOLE);
    assert_eq!(gateway.logged("run ended").await["outcome"], "finished");
}

/// Bytes that came are counted, although the read that brought them ended in a failure.
#[tokio::test]
async fn what_came_before_a_break_is_counted() {
    let body = begun() + HALF;
    let agent = Agent::answering([CHUNKED.as_bytes(), &chunk(&body), b"not a size\r\n"].concat());
    let gateway = Gateway::before(&agent).await;
    failed(&run(gateway.data, "/run").await, "upstream_protocol", BEGUN);
    let bytes = gateway.metric(r#"diglot_event_bytes_total{direction="from_agent",route="run"}"#).await;
    assert_eq!(bytes, body.len() as f64);
}

#[tokio::test]
async fn an_error_of_the_agent_passes_unchanged() {
    let error = "data: {\"type\":\"RUN_ERROR\",\"message\":\"out of tokens\",\"code\":\"quota\"}\n\n";
    let answer = heard([HEAD, &begun(), error].concat()).await;
    assert_eq!(failed(&answer, "quota", BEGUN)["message"], "out of tokens");
}

#[tokio::test]
async fn every_way_to_write_an_event_stream_is_read() {
    let whole = whole();
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
        let answer = heard([HEAD, &row].concat()).await;
        succeeded(&answer, WHOLE);
        assert!(answer.text().contains("\"delta\":\"你好\""), "{}", answer.text());
    }
}

/// Every byte on its own: characters, line ends and chunk sizes are cut everywhere.
#[tokio::test]
async fn packets_of_one_byte_change_nothing() {
    let chunked = [CHUNKED.as_bytes(), &chunk(begun()), &chunk(CLOSED), &chunk(FINISHED), LAST.as_bytes()].concat();
    for stream in [chunked, [HEAD, &whole()].concat().into_bytes()] {
        let answer = played(vec![Step::Read, Step::Dribble(stream)]).await;
        succeeded(&answer, WHOLE);
        assert!(answer.text().contains("\"delta\":\"你好\""), "{}", answer.text());
    }
}

/// An event leaves when it is whole, not when the next one comes.
#[tokio::test]
async fn an_event_does_not_wait_for_the_next() {
    let mut steps = vec![Step::Read, write(CHUNKED)];
    for event in [STARTED, OPENED, SAID, CLOSED, FINISHED] {
        steps.extend([write(chunk(event)), Step::Pause]);
    }
    let agent = Agent::playing(steps);
    let gateway = Gateway::before(&agent).await;
    let mut client = Client::connect(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    client.head().await;
    for kind in &WHOLE[..4] {
        client.until(&format!("{kind}\"")).await;
        agent.go();
    }
    let (rest, end) = client.rest().await;
    assert!(String::from_utf8_lossy(&rest).contains("RUN_FINISHED"));
    assert_eq!(end, End::Clean);
}
