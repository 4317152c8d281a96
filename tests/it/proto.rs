//! The protobuf transport through the gateway: who is answered in it, what an agent may answer, how such a run ends.

use super::support::agent::{Agent, Step, write};
use super::support::client::{Answer, End, INPUT, ask, post, run};
use super::support::gateway::{File, Gateway, Setup, diglot};
use super::support::sse::{BEGUN, HEAD, WHOLE, begun, events, refused, succeeded, types, whole};
use diglot::codec::sse::Limits;
use diglot::codec::{Framing, proto};
use diglot::dialect::{AG_UI, Side};
use diglot::translate::Stream;
use serde_json::Value;
use std::process::Output;

/// The head of a response in protobuf. Content types are compared without parameters and case; nobody asks an agent for it.
const PROTO_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: Application/vnd.ag-ui.event+proto; v=1\r\nConnection: close\r\n\r\n";

/// A run that names protobuf and nothing else.
fn asking(path: &str) -> String {
    post(path, "", INPUT).replace("Accept: text/event-stream", "Accept: application/vnd.ag-ui.event+proto")
}

/// A body of SSE in protobuf.
fn framed(body: &str) -> Vec<u8> {
    let mut stream = Stream::new(Side::new(&AG_UI), Side::new(&AG_UI), None, Limits::default());
    stream.write_as(Framing::Proto);
    let mut out = Vec::new();
    stream.push(body.as_bytes(), 0, &mut out).expect("no limit is near");
    out
}

/// The events of a body in protobuf, which has nothing but whole frames.
fn heard(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.status, answer.end), (200, End::Clean), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/vnd.ag-ui.event+proto"));
    let (mut decoder, mut rest, mut all) = (proto::Decoder::default(), answer.body.as_slice(), Vec::new());
    loop {
        match decoder.next(&mut rest) {
            proto::Step::More => break,
            proto::Step::Event { text, dropped: 0 } => all.push(serde_json::from_str(&text).expect("JSON")),
            other => panic!("{other:?}"),
        }
    }
    assert!(!decoder.is_cut(), "{all:?}");
    all
}

#[tokio::test]
async fn who_names_protobuf_gets_it_from_every_agent() {
    let agent = Agent::answering(HEAD.to_owned() + &whole());
    let gateway = Gateway::before(&agent).await;
    let answer = ask(gateway.data, asking("/run")).await;
    assert_eq!(answer.header("cache-control"), Some("no-store, no-transform"));
    assert_eq!(heard(&answer), events(&whole()));
    let hai = whole().replace("TEXT_MESSAGE", "BUSINESS_DATA");
    let agent = Agent::answering(HEAD.to_owned() + &hai);
    let gateway = Gateway::before(&agent).await;
    assert_eq!(types(&heard(&ask(gateway.data, asking("/from-hai")).await)), WHOLE);
    succeeded(&run(gateway.data, "/from-hai").await, WHOLE);
}

#[tokio::test]
async fn a_client_of_another_dialect_cannot_have_it() {
    let agent = Agent::answering(HEAD.to_owned() + &whole());
    let gateway = Gateway::before(&agent).await;
    refused(&ask(gateway.data, asking("/to-hai")).await, 406, "not_acceptable");
    assert_eq!(agent.connections(), 0);
}

#[tokio::test]
async fn an_agent_may_answer_in_it() {
    let body = framed(&whole());
    let mut agent = Agent::playing(vec![Step::Read, write(PROTO_HEAD), Step::Dribble(body.clone())]);
    let gateway = Gateway::before(&agent).await;
    succeeded(&run(gateway.data, "/run").await, WHOLE);
    assert_eq!(agent.request().await.header("accept"), Some("text/event-stream"));
    // And the bytes pass through: what was read is what is written.
    assert_eq!(ask(gateway.data, asking("/run")).await.body, body);
    assert!(!run(gateway.data, "/to-hai").await.text().is_empty());
    // No other dialect is defined in it.
    refused(&run(gateway.data, "/from-hai").await, 502, "upstream_content_type");
}

#[tokio::test]
async fn what_is_no_frame_leaves_as_raw_and_what_is_too_large_ends_the_run() {
    let started = framed(&begun());
    let odd = [&started[..], b"\0\0\0\x05hello"].concat();
    let agent = Agent::answering([PROTO_HEAD.as_bytes(), &odd, &framed(&whole())[started.len()..]].concat());
    let gateway = Gateway::before(&agent).await;
    let all = events(run(gateway.data, "/run").await.text());
    let raw = all.iter().find(|event| event["type"] == "RAW").expect("the frame that is none");
    assert_eq!(raw["event"], "data:application/vnd.ag-ui.event+proto;base64,aGVsbG8=");
    assert_eq!(types(&all).last(), Some(&"RUN_FINISHED"));

    let agent = Agent::answering([PROTO_HEAD.as_bytes(), &started, b"data: {}\n\n"].concat());
    let gateway = Gateway::before(&agent).await;
    let all = heard(&ask(gateway.data, asking("/run")).await);
    assert_eq!((types(&all).last(), &all[all.len() - 1]["code"]), (Some(&"RUN_ERROR"), &"frame_too_large".into()));
}

/// Keep-alives that come often, of which this wire has none.
#[tokio::test]
async fn a_silent_agent_leaves_the_wire_silent_and_ends_in_an_event() {
    let agent = Agent::playing(vec![Step::Read, write(HEAD.to_owned() + &begun()), Step::Stay]);
    let setup =
        Setup { upstreams: &[agent.url()], top: "keep_alive: 50ms", timeouts: "{idle: 300ms}", ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    let all = heard(&ask(gateway.data, asking("/run")).await);
    assert_eq!(types(&all), [BEGUN, &["RUN_ERROR"]].concat());
    assert_eq!(all[3]["code"], "upstream_idle");
}

#[tokio::test]
async fn a_frame_that_is_cut_is_a_truncated_run() {
    let body = framed(&whole());
    let agent = Agent::answering([PROTO_HEAD.as_bytes(), &body[..body.len() - 1]].concat());
    let gateway = Gateway::before(&agent).await;
    let all = heard(&ask(gateway.data, asking("/run")).await);
    assert_eq!((types(&all).last(), &all[all.len() - 1]["code"]), (Some(&"RUN_ERROR"), &"upstream_truncated".into()));
}

/// An event for which a frame has no room ends the run, even where it is the last one.
#[test]
fn an_event_too_large_for_a_frame_ends_the_run() {
    let zeros = format!("[{}0]", "0,".repeat(1_000_000));
    for (kind, member) in
        [("CUSTOM", "\"name\":\"n\",\"value\""), ("RUN_FINISHED", "\"threadId\":\"t1\",\"runId\":\"r1\",\"result\"")]
    {
        let mut stream = Stream::new(Side::new(&AG_UI), Side::new(&AG_UI), None, Limits::default());
        stream.write_as(Framing::Proto);
        let mut out = Vec::new();
        stream.push(begun().as_bytes(), 0, &mut out).expect("no limit is near");
        let large = format!(
            "data: {{\"type\":\"TEXT_MESSAGE_END\",\"messageId\":\"a1\"}}\n\ndata: {{\"type\":\"{kind}\",{member}:{zeros}}}\n\ndata: {{\"type\":\"RUN_FINISHED\",\"threadId\":\"t1\",\"runId\":\"r1\"}}\n\n"
        );
        let fault = stream.push(large.as_bytes(), 0, &mut out).expect_err("no room");
        assert_eq!(fault.to_string(), "an event of the stream is larger than 10485760 bytes");
        assert_eq!(stream.ending(), None);
        stream.fail("frame_too_large", "an event was too large", 0, &mut out);
        assert!(stream.ending().is_some());
        stream.fail("frame_too_large", "said once", 0, &mut out);
        let answer = Answer {
            status: 200,
            headers: vec![("content-type".to_owned(), proto::MEDIA_TYPE.to_owned())],
            body: out,
            end: End::Clean,
        };
        let all = heard(&answer);
        assert_eq!(types(&all), [BEGUN, &["TEXT_MESSAGE_END", "RUN_ERROR"]].concat(), "{kind}");
    }
}

#[test]
fn the_command_line_takes_protobuf_for_ag_ui_alone() {
    let file = File::new(&whole());
    let told = |options: &[&str]| {
        let mut command = diglot();
        let Output { status, stdout, stderr } =
            command.arg("translate").args(options).arg(file.path()).output().expect("the binary starts");
        (status.code(), stdout, String::from_utf8_lossy(&stderr).into_owned())
    };
    let (code, stdout, stderr) = told(&["--from", "ag-ui", "--to", "ag-ui", "--format", "proto"]);
    assert_eq!((code, stdout, stderr.as_str()), (Some(0), framed(&whole()), ""));
    for options in [
        &["--from", "ag-ui", "--to", "hai", "--format", "proto"][..],
        &["--from", "hai", "--to", "ag-ui", "--input", "proto"],
        &["--from", "ag-ui", "--to", "ag-ui", "--format", "proto", "--request"],
    ] {
        let (code, stdout, stderr) = told(options);
        assert_eq!((code, stdout.len()), (Some(2), 0), "{stderr}");
        assert!(stderr.contains("protobuf is a form of event streams of ag-ui"), "{stderr}");
    }
}
