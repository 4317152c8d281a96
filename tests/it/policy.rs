//! Policies of a route during a run: allowed tools, and credentials that expire.
//!
//! - `expiry`: credentials that expire during their run.
//! - `tools`: every form in which a tool is offered or called.

mod expiry;
mod tools;

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, End, INPUT, post, post_run, send_request};
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{
    CLOSED, COMPLETE_RUN, CONTENT, FINISHED, HEAD, RUN_BEGINNING, assert_failed, assert_refused, assert_succeeded,
    complete_run, events, run_beginning,
};

/// Starts a gateway with this agent: `/run` with AG-UI on both sides, `/to-hai` for a HAI client and `/from-hai` for a
/// HAI agent. `more` is the rest of each route, as lines of a YAML flow mapping.
async fn start_gateway(agent: &Agent, more: &str) -> Gateway {
    start_gateway_with(agent, "", more).await
}

async fn start_gateway_with(agent: &Agent, top: &str, more: &str) -> Gateway {
    let route = |name: &str, client: &str, speaks: &str| {
        format!(
            "  - {{name: {name}, path: /{name}, client: {client}, agent: {speaks}, upstream: \"{}\", {more}}}\n",
            agent.url()
        )
    };
    let routes = [route("run", "ag-ui", "ag-ui"), route("to-hai", "hai", "ag-ui"), route("from-hai", "ag-ui", "hai")];
    let routes = format!("routes:\n{}", routes.concat());
    Gateway::start(Setup { routes: &routes, top, ..Setup::default() }).await
}

fn start_agent(events: &str) -> Agent {
    Agent::with_script(vec![Step::Read, write(HEAD.to_owned() + events), Step::WaitForClose])
}

fn outcome_series(route: &str, outcome: &str) -> String {
    format!("diglot_streams_total{{outcome=\"{outcome}\",route=\"{route}\"}}")
}

const STARTED: &str = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n";

#[tokio::test]
async fn refuses_requests_that_offer_a_forbidden_tool() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let mut gateway = start_gateway(&agent, "tools: [search]").await;
    for path in ["/run", "/to-hai"] {
        let body = INPUT.replace(r#""tools":[]"#, r#""tools":[{"name":"search","description":"","parameters":{}},{"name":"delete_all","description":"","parameters":{}}]"#);
        let problem = assert_refused(&send_request(gateway.data, post(path, "", &body)).await, 403, "tool_not_allowed");
        assert_eq!(problem["detail"], "/tools/1/name: the tool `delete_all` is not allowed on this route");
        let series =
            format!("diglot_auth_total{{method=\"none\",reason=\"tool\",result=\"refused\",route=\"{}\"}}", &path[1..]);
        assert_eq!(gateway.metric(&series).await, 1.0);
        let line = gateway.next_log("request refused").await;
        assert_eq!(
            (&line["code"], &line["auth"], &line["client"]),
            (&"tool_not_allowed".into(), &"none".into(), &"127.0.0.1".into())
        );
        let body = body.replace(r#","parameters":{}},{"name":"delete_all","description":"""#, "");
        assert_eq!(send_request(gateway.data, post(path, "", &body)).await.status, 200);
    }
    assert_eq!(agent.connection_count(), 2, "the refused requests did not reach the agent");
}

#[tokio::test]
async fn ends_the_run_when_an_agent_calls_a_forbidden_tool() {
    let call = "data: {\"type\":\"TOOL_CALL_START\",\"toolCallId\":\"c\",\"toolCallName\":\"delete_all\"}\n\ndata: {\"type\":\"TOOL_CALL_ARGS\",\"toolCallId\":\"c\",\"delta\":\"{}\"}\n\n";
    for guard in ["repair", "report"] {
        let mut agent = start_agent(&(run_beginning() + call));
        let mut gateway = start_gateway(&agent, &format!("tools: [search], guard: {guard}")).await;
        for (path, expected) in [("/run", RUN_BEGINNING), ("/to-hai", HAI_ENDED_BEGINNING)] {
            let error = assert_failed(&post_run(gateway.data, path).await, "tool_not_allowed", expected);
            assert!(error["message"].as_str().is_some_and(|text| text.contains("`delete_all`")), "{error}");
            agent.next_request().await;
            agent.wait_until_closed().await;
            assert_eq!(gateway.next_log("run ended").await["code"], "tool_not_allowed");
            gateway.wait_for_metric(&outcome_series(&path[1..], "upstream_error"), 1.0).await;
        }
    }
}

/// [`RUN_BEGINNING`] as a HAI client receives it.
const HAI_RUN_BEGINNING: &[&str] = &["RUN_STARTED", "BUSINESS_DATA_START", "BUSINESS_DATA_CONTENT"];

/// The same before an error, which ends the open message first ("最后以 BusinessDataEnd 事件结束", seed §3.3.1).
const HAI_ENDED_BEGINNING: &[&str] =
    &["RUN_STARTED", "BUSINESS_DATA_START", "BUSINESS_DATA_CONTENT", "BUSINESS_DATA_END"];

#[tokio::test]
async fn ends_the_run_when_a_hai_agent_calls_a_forbidden_tool() {
    let call = "data: {\"type\":\"TOOL_CALL_START\",\"toolCallId\":\"c\",\"toolCallName\":\"delete_all\",\"parentMessageId\":\"m\"}\n\n";
    let agent = start_agent(&(STARTED.to_owned() + call));
    let gateway = start_gateway(&agent, "tools: [search]").await;
    assert_failed(&post_run(gateway.data, "/from-hai").await, "tool_not_allowed", &["RUN_STARTED"]);
}

/// Bounds on what a client gets are exact, however many events come at once.
#[tokio::test]
async fn limits_the_events_of_a_run() {
    let many = STARTED.to_owned() + &[run_beginning()[STARTED.len()..].to_owned(), CONTENT.repeat(5_000)].concat();
    let agent = start_agent(&many);
    let mut gateway = start_gateway(&agent, "run_limits: {events: 1000}").await;
    for path in ["/run", "/to-hai"] {
        let answer = post_run(gateway.data, path).await;
        let events = events(answer.text());
        assert_eq!((events.len(), answer.end), (1001, End::Clean));
        let error = events.last().expect("an error");
        assert_eq!((&error["type"], &error["code"]), (&"RUN_ERROR".into(), &"run_limit_reached".into()));
        assert_eq!(error["message"], "The run has more than 1000 events (`run_limits.events` of the route).");
        let line = gateway.next_log("run ended").await;
        assert_eq!((&line["outcome"], &line["events_out"]), (&"limited".into(), &1001.into()));
        gateway.wait_for_metric(&outcome_series(&path[1..], "limited"), 1.0).await;
    }
    // A run of exactly the permitted size is accepted.
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent, &format!("run_limits: {{events: {}}}", COMPLETE_RUN.len())).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
}

#[tokio::test]
async fn limits_the_bytes_of_a_run() {
    let agent = start_agent(&(run_beginning() + &CONTENT.repeat(1000)));
    for (path, open) in [("/run", "run"), ("/to-hai", "to-hai")] {
        let gateway = start_gateway(&agent, "run_limits: {bytes: 4000B}").await;
        let answer = post_run(gateway.data, path).await;
        let text = answer.text();
        let (last, before) =
            text.trim_end().rsplit_once("\n\n").map(|(before, last)| (last, before.len() + 2)).expect("frames");
        let last_frame =
            text[..before].trim_end().rsplit_once("\n\n").map(|(_, last_frame)| last_frame.len() + 2).expect("frames");
        assert!(before <= 4000 && before + last_frame > 4000, "{before} and {last_frame}");
        assert!(last.contains("run_limit_reached") && last.contains("more than 4000 bytes"), "{last}");
        assert_eq!(answer.end, End::Clean);
        gateway.wait_for_metric(&outcome_series(open, "limited"), 1.0).await;
    }
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway(&agent, &format!("run_limits: {{bytes: {}B}}", complete_run().len())).await;
    assert_succeeded(&post_run(gateway.data, "/run").await, COMPLETE_RUN);
}

#[tokio::test]
async fn limits_the_duration_of_a_run() {
    let agent = start_agent(&run_beginning());
    let mut gateway = start_gateway(&agent, "run_limits: {duration: 300ms}").await;
    for (path, expected) in [("/run", RUN_BEGINNING), ("/to-hai", HAI_ENDED_BEGINNING)] {
        let error = assert_failed(&post_run(gateway.data, path).await, "run_limit_reached", expected);
        assert_eq!(error["message"], "The run took longer than 300ms (`run_limits.duration` of the route).");
        assert_eq!(gateway.next_log("run ended").await["outcome"], "limited");
    }
    // An agent that never answers is no run that may go on, either.
    let agent = Agent::with_script(vec![Step::Read, Step::WaitForClose]);
    let gateway = start_gateway(&agent, "run_limits: {duration: 300ms}").await;
    assert_refused(&post_run(gateway.data, "/run").await, 502, "run_limit_reached");
}

/// Neither a client that does not read nor an agent that floods outruns the clock.
#[tokio::test]
async fn enforces_the_duration_limit_on_floods_and_stalled_clients() {
    let flood = vec![
        Step::Read,
        write(HEAD.to_owned() + &run_beginning()),
        Step::Flood(CONTENT.as_bytes().to_vec(), usize::MAX),
    ];
    let agent = Agent::with_script(flood);
    let mut gateway = start_gateway(&agent, "run_limits: {duration: 500ms}").await;
    let answer = post_run(gateway.data, "/run").await;
    let events = events(answer.text());
    assert_eq!(
        (events.last().expect("an event")["code"].clone(), answer.end),
        ("run_limit_reached".into(), End::Clean)
    );
    gateway.next_log("run ended").await;
    let mut client = Client::connect_with_small_buffer(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    assert_eq!(gateway.next_log("run ended").await["outcome"], "limited", "while the client reads nothing");
    assert_eq!(client.read_answer().await.end, End::Clean);
}

#[tokio::test]
async fn times_out_waiting_for_the_first_event() {
    let mut gateway = None;
    // Neither the head nor comments are events.
    let head = HEAD.to_owned() + ": working\n\n";
    for steps in [vec![Step::Read, Step::WaitForClose], vec![Step::Read, write(head), Step::WaitForClose]] {
        let agent = Agent::with_script(steps);
        let gateway = gateway.insert(start_gateway(&agent, "timeouts: {first_event: 300ms}").await);
        for path in ["/run", "/to-hai"] {
            let answer = post_run(gateway.data, path).await;
            let message = match answer.status {
                504 => assert_refused(&answer, 504, "upstream_timeout")["detail"].clone(),
                _ => assert_failed(&answer, "upstream_timeout", &[])["message"].clone(),
            };
            assert_eq!(message, "The agent sent no event within 300ms (`timeouts.first_event` of the route).");
            assert_eq!(gateway.next_log("run ended").await["outcome"], "upstream_error");
        }
    }
    // A flood of comments is no event either.
    let flood = vec![Step::Read, write(HEAD), Step::Flood(b": working\n\n".repeat(500), usize::MAX)];
    let agent = Agent::with_script(flood);
    let gateway = start_gateway(&agent, "timeouts: {first_event: 300ms}").await;
    assert_failed(&post_run(gateway.data, "/run").await, "upstream_timeout", &[]);
    // After the first event, the agent may be slow.
    let steps =
        vec![Step::Read, write(HEAD.to_owned() + &run_beginning()), Step::Pause, write(CLOSED.to_owned() + FINISHED)];
    let agent = Agent::with_script(steps);
    let gateway = start_gateway(&agent, "timeouts: {first_event: 300ms}, run_limits: {duration: 600ms}").await;
    assert_failed(&post_run(gateway.data, "/run").await, "run_limit_reached", RUN_BEGINNING);
}
