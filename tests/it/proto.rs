//! The protobuf transport through the gateway: negotiation, responses of agents, and the end of such a run.

use super::support::agent::{Agent, Step, write};
use super::support::client::{Answer, End, INPUT, post, post_run, send_request};
use super::support::gateway::{Gateway, Setup, TempFile, diglot};
use super::support::sse::{
    COMPLETE_RUN, HEAD, RUN_BEGINNING, assert_refused, assert_succeeded, complete_run, events, run_beginning, types,
};
use diglot::codec::sse::SseLimits;
use diglot::codec::{Framing, proto};
use diglot::dialect::{AG_UI, PeerDialect};
use diglot::translate::Stream;
use serde_json::Value;
use std::process::Output;

/// The head of a response in protobuf. Content types are compared without parameters and case; the gateway never
/// requests it.
const PROTO_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: Application/vnd.ag-ui.event+proto; v=1\r\nConnection: close\r\n\r\n";

/// A run that names protobuf and nothing else.
fn proto_request(path: &str) -> String {
    post(path, "", INPUT).replace("Accept: text/event-stream", "Accept: application/vnd.ag-ui.event+proto")
}

/// A body of SSE in protobuf.
fn to_proto(body: &str) -> Vec<u8> {
    let mut stream = Stream::new(PeerDialect::new(&AG_UI), PeerDialect::new(&AG_UI), None, SseLimits::default());
    stream.write_as(Framing::Proto);
    let mut out = Vec::new();
    stream.push(body.as_bytes(), 0, &mut out).expect("no limit is near");
    out
}

/// The events of a body in protobuf, which has nothing but whole frames.
fn proto_events(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.status, answer.end), (200, End::Clean), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/vnd.ag-ui.event+proto"));
    let (mut decoder, mut rest, mut all) = (proto::ProtoDecoder::default(), answer.body.as_slice(), Vec::new());
    loop {
        match decoder.next(&mut rest) {
            proto::ProtoStep::More => break,
            proto::ProtoStep::Event { text, dropped: 0 } => all.push(serde_json::from_str(&text).expect("JSON")),
            other => panic!("{other:?}"),
        }
    }
    assert!(!decoder.has_partial_frame(), "{all:?}");
    all
}

#[tokio::test]
async fn writes_protobuf_for_clients_that_accept_only_it() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = Gateway::start_for(&agent).await;
    let answer = send_request(gateway.data, proto_request("/run")).await;
    assert_eq!(answer.header("cache-control"), Some("no-store, no-transform"));
    assert_eq!(proto_events(&answer), events(&complete_run()));
    let hai = complete_run().replace("TEXT_MESSAGE", "BUSINESS_DATA");
    let agent = Agent::with_response(HEAD.to_owned() + &hai);
    let gateway = Gateway::start_for(&agent).await;
    assert_eq!(types(&proto_events(&send_request(gateway.data, proto_request("/from-hai")).await)), COMPLETE_RUN);
    assert_succeeded(&post_run(gateway.data, "/from-hai").await, COMPLETE_RUN);
}

#[tokio::test]
async fn answers_406_to_protobuf_requests_of_other_dialects() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = Gateway::start_for(&agent).await;
    assert_refused(&send_request(gateway.data, proto_request("/to-hai")).await, 406, "not_acceptable");
    assert_eq!(agent.connection_count(), 0);
}

#[tokio::test]
async fn reads_protobuf_answers_of_agents() {
    let body = to_proto(&complete_run());
    let mut agent = Agent::with_script(vec![Step::Read, write(PROTO_HEAD), Step::Dribble(body.clone())]);
    let gateway = Gateway::start_for(&agent).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
    assert_eq!(agent.next_request().await.header("accept"), Some("text/event-stream"));
    // And the bytes pass through: what was read is what is written.
    assert_eq!(send_request(gateway.data, proto_request("/run")).await.body, body);
    assert!(!post_run(gateway.data, "/to-hai").await.text().is_empty());
    // No other dialect is defined in it.
    assert_refused(&post_run(gateway.data, "/from-hai").await, 502, "upstream_content_type");
}

#[tokio::test]
async fn writes_invalid_frames_as_raw_and_rejects_oversized_ones() {
    let started = to_proto(&run_beginning());
    let odd = [&started[..], b"\0\0\0\x05hello"].concat();
    let agent =
        Agent::with_response([PROTO_HEAD.as_bytes(), &odd, &to_proto(&complete_run())[started.len()..]].concat());
    let gateway = Gateway::start_for(&agent).await;
    let all = events(post_run(gateway.data, "/run").await.text());
    let raw = all.iter().find(|event| event["type"] == "RAW").expect("the frame that is none");
    assert_eq!(raw["event"], "data:application/vnd.ag-ui.event+proto;base64,aGVsbG8=");
    assert_eq!(types(&all).last(), Some(&"RUN_FINISHED"));

    let agent = Agent::with_response([PROTO_HEAD.as_bytes(), &started, b"data: {}\n\n"].concat());
    let gateway = Gateway::start_for(&agent).await;
    let all = proto_events(&send_request(gateway.data, proto_request("/run")).await);
    assert_eq!((types(&all).last(), &all[all.len() - 1]["code"]), (Some(&"RUN_ERROR"), &"frame_too_large".into()));
}

/// Frequent keep-alives, which this wire format does not have.
#[tokio::test]
async fn sends_no_keep_alives_in_protobuf() {
    let agent = Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::WaitForClose]);
    let setup =
        Setup { upstreams: &[agent.url()], top: "keep_alive: 50ms", timeouts: "{idle: 300ms}", ..Setup::default() };
    let gateway = Gateway::start(setup).await;
    let all = proto_events(&send_request(gateway.data, proto_request("/run")).await);
    assert_eq!(types(&all), [RUN_BEGINNING, &["RUN_ERROR"]].concat());
    assert_eq!(all[3]["code"], "upstream_idle");
}

#[tokio::test]
async fn reports_a_cut_frame_as_truncated() {
    let body = to_proto(&complete_run());
    let agent = Agent::with_response([PROTO_HEAD.as_bytes(), &body[..body.len() - 1]].concat());
    let gateway = Gateway::start_for(&agent).await;
    let all = proto_events(&send_request(gateway.data, proto_request("/run")).await);
    assert_eq!((types(&all).last(), &all[all.len() - 1]["code"]), (Some(&"RUN_ERROR"), &"upstream_truncated".into()));
}

/// An event for which a frame has no room ends the run, even where it is the last one.
#[test]
fn ends_the_run_at_an_event_too_large_for_a_frame() {
    let zeros = format!("[{}0]", "0,".repeat(1_000_000));
    for (kind, member) in
        [("CUSTOM", "\"name\":\"n\",\"value\""), ("RUN_FINISHED", "\"threadId\":\"t1\",\"runId\":\"r1\",\"result\"")]
    {
        let mut stream = Stream::new(PeerDialect::new(&AG_UI), PeerDialect::new(&AG_UI), None, SseLimits::default());
        stream.write_as(Framing::Proto);
        let mut out = Vec::new();
        stream.push(run_beginning().as_bytes(), 0, &mut out).expect("no limit is near");
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
        let all = proto_events(&answer);
        assert_eq!(types(&all), [RUN_BEGINNING, &["TEXT_MESSAGE_END", "RUN_ERROR"]].concat(), "{kind}");
    }
}

#[test]
fn translate_accepts_protobuf_for_ag_ui_only() {
    let file = TempFile::new(&complete_run());
    let run = |options: &[&str]| {
        let mut command = diglot();
        let Output { status, stdout, stderr } =
            command.arg("translate").args(options).arg(file.path()).output().expect("the binary starts");
        (status.code(), stdout, String::from_utf8_lossy(&stderr).into_owned())
    };
    let (code, stdout, stderr) = run(&["--from", "ag-ui", "--to", "ag-ui", "--format", "proto"]);
    assert_eq!((code, stdout, stderr.as_str()), (Some(0), to_proto(&complete_run()), ""));
    for options in [
        &["--from", "ag-ui", "--to", "hai", "--format", "proto"][..],
        &["--from", "hai", "--to", "ag-ui", "--input", "proto"],
        &["--from", "ag-ui", "--to", "ag-ui", "--format", "proto", "--request"],
    ] {
        let (code, stdout, stderr) = run(options);
        assert_eq!((code, stdout.len()), (Some(2), 0), "{stderr}");
        assert!(stderr.contains("only for event streams of ag-ui"), "{stderr}");
    }
}
