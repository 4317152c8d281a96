//! What a route lets a run do: its tools, its size and time, and what becomes of it when its caller's credential expires.
//!
//! - `expiry`: credentials that expire while their run goes on.
//! - `tools`: every form in which a tool is offered or called.

mod expiry;
mod tools;

use super::support::agent::{Agent, Step, write};
use super::support::client::{Client, End, INPUT, ask, post, run};
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{
    BEGUN, CLOSED, FINISHED, HEAD, SAID, WHOLE, begun, events, failed, refused, succeeded, whole,
};

/// A gateway before this agent: `/run` with AG-UI on both sides, `/to-hai` for a client and `/from-hai` for an agent that
/// speaks HAI. `more` is the rest of each route, as lines of a YAML flow mapping.
async fn before(agent: &Agent, more: &str) -> Gateway {
    with(agent, "", more).await
}

async fn with(agent: &Agent, top: &str, more: &str) -> Gateway {
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

fn playing(events: &str) -> Agent {
    Agent::playing(vec![Step::Read, write(HEAD.to_owned() + events), Step::Stay])
}

fn outcome(route: &str, outcome: &str) -> String {
    format!("diglot_streams_total{{outcome=\"{outcome}\",route=\"{route}\"}}")
}

const STARTED: &str = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t1\",\"runId\":\"r1\"}\n\n";

#[tokio::test]
async fn a_request_that_offers_another_tool_is_refused() {
    let agent = Agent::answering(HEAD.to_owned() + &whole());
    let mut gateway = before(&agent, "tools: [search]").await;
    for path in ["/run", "/to-hai"] {
        let body = INPUT.replace(r#""tools":[]"#, r#""tools":[{"name":"search","description":"","parameters":{}},{"name":"delete_all","description":"","parameters":{}}]"#);
        let problem = refused(&ask(gateway.data, post(path, "", &body)).await, 403, "tool_not_allowed");
        assert_eq!(problem["detail"], "/tools/1/name: the tool `delete_all` is not allowed on this route");
        let series =
            format!("diglot_auth_total{{method=\"none\",reason=\"tool\",result=\"refused\",route=\"{}\"}}", &path[1..]);
        assert_eq!(gateway.metric(&series).await, 1.0);
        let line = gateway.logged("request refused").await;
        assert_eq!(
            (&line["code"], &line["auth"], &line["client"]),
            (&"tool_not_allowed".into(), &"none".into(), &"127.0.0.1".into())
        );
        let body = body.replace(r#","parameters":{}},{"name":"delete_all","description":"""#, "");
        assert_eq!(ask(gateway.data, post(path, "", &body)).await.status, 200);
    }
    assert_eq!(agent.connections(), 2, "the refused requests did not reach the agent");
}

#[tokio::test]
async fn an_agent_that_calls_another_tool_ends_its_run() {
    let call = "data: {\"type\":\"TOOL_CALL_START\",\"toolCallId\":\"c\",\"toolCallName\":\"delete_all\"}\n\ndata: {\"type\":\"TOOL_CALL_ARGS\",\"toolCallId\":\"c\",\"delta\":\"{}\"}\n\n";
    for guard in ["repair", "report"] {
        let mut agent = playing(&(begun() + call));
        let mut gateway = before(&agent, &format!("tools: [search], guard: {guard}")).await;
        for (path, heard) in [("/run", BEGUN), ("/to-hai", HAI_BEGUN)] {
            let error = failed(&run(gateway.data, path).await, "tool_not_allowed", heard);
            assert!(error["message"].as_str().is_some_and(|text| text.contains("`delete_all`")), "{error}");
            agent.request().await;
            agent.left().await;
            assert_eq!(gateway.logged("run ended").await["code"], "tool_not_allowed");
            gateway.reaches(&outcome(&path[1..], "upstream_error"), 1.0).await;
        }
    }
}

/// [`BEGUN`] as a client of HAI hears it.
const HAI_BEGUN: &[&str] = &["RUN_STARTED", "BUSINESS_DATA_START", "BUSINESS_DATA_CONTENT"];

#[tokio::test]
async fn an_agent_of_hai_that_calls_another_tool_ends_its_run() {
    let call = "data: {\"type\":\"TOOL_CALL_START\",\"toolCallId\":\"c\",\"toolCallName\":\"delete_all\",\"parentMessageId\":\"m\"}\n\n";
    let agent = playing(&(STARTED.to_owned() + call));
    let gateway = before(&agent, "tools: [search]").await;
    failed(&run(gateway.data, "/from-hai").await, "tool_not_allowed", &["RUN_STARTED"]);
}

/// Bounds on what a client gets are exact, however many events come at once.
#[tokio::test]
async fn a_run_has_as_many_events_as_it_may_and_no_more() {
    let many = STARTED.to_owned() + &[begun()[STARTED.len()..].to_owned(), SAID.repeat(5_000)].concat();
    let agent = playing(&many);
    let mut gateway = before(&agent, "run_limits: {events: 1000}").await;
    for path in ["/run", "/to-hai"] {
        let answer = run(gateway.data, path).await;
        let events = events(answer.text());
        assert_eq!((events.len(), answer.end), (1001, End::Clean));
        let error = events.last().expect("an error");
        assert_eq!((&error["type"], &error["code"]), (&"RUN_ERROR".into(), &"run_limit_reached".into()));
        assert_eq!(error["message"], "The run has more than 1000 events (`run_limits.events` of the route).");
        let line = gateway.logged("run ended").await;
        assert_eq!((&line["outcome"], &line["events_out"]), (&"limited".into(), &1001.into()));
        gateway.reaches(&outcome(&path[1..], "limited"), 1.0).await;
    }
    // As many as it may have are no more than that.
    let agent = Agent::answering(HEAD.to_owned() + &whole());
    let gateway = before(&agent, &format!("run_limits: {{events: {}}}", WHOLE.len())).await;
    succeeded(&run(gateway.data, "/run").await, WHOLE);
}

#[tokio::test]
async fn a_run_has_as_many_bytes_as_it_may_and_no_more() {
    let agent = playing(&(begun() + &SAID.repeat(1000)));
    for (path, open) in [("/run", "run"), ("/to-hai", "to-hai")] {
        let gateway = before(&agent, "run_limits: {bytes: 4000B}").await;
        let answer = run(gateway.data, path).await;
        let text = answer.text();
        let (last, before) =
            text.trim_end().rsplit_once("\n\n").map(|(before, last)| (last, before.len() + 2)).expect("frames");
        let said = text[..before].trim_end().rsplit_once("\n\n").map(|(_, said)| said.len() + 2).expect("frames");
        assert!(before <= 4000 && before + said > 4000, "{before} and {said}");
        assert!(last.contains("run_limit_reached") && last.contains("more than 4000 bytes"), "{last}");
        assert_eq!(answer.end, End::Clean);
        gateway.reaches(&outcome(open, "limited"), 1.0).await;
    }
    let agent = Agent::answering(HEAD.to_owned() + &whole());
    let gateway = before(&agent, &format!("run_limits: {{bytes: {}B}}", whole().len())).await;
    succeeded(&run(gateway.data, "/run").await, WHOLE);
}

#[tokio::test]
async fn a_run_takes_as_long_as_it_may_and_no_longer() {
    let agent = playing(&begun());
    let mut gateway = before(&agent, "run_limits: {duration: 300ms}").await;
    for (path, heard) in [("/run", BEGUN), ("/to-hai", HAI_BEGUN)] {
        let error = failed(&run(gateway.data, path).await, "run_limit_reached", heard);
        assert_eq!(error["message"], "The run took longer than 300ms (`run_limits.duration` of the route).");
        assert_eq!(gateway.logged("run ended").await["outcome"], "limited");
    }
    // An agent that never answers is no run that may go on, either.
    let agent = Agent::playing(vec![Step::Read, Step::Stay]);
    let gateway = before(&agent, "run_limits: {duration: 300ms}").await;
    refused(&run(gateway.data, "/run").await, 502, "run_limit_reached");
}

/// Neither a client that does not read nor an agent that floods outruns the clock.
#[tokio::test]
async fn a_flood_does_not_outrun_the_clock() {
    let flood = vec![Step::Read, write(HEAD.to_owned() + &begun()), Step::Flood(SAID.as_bytes().to_vec(), usize::MAX)];
    let agent = Agent::playing(flood);
    let mut gateway = before(&agent, "run_limits: {duration: 500ms}").await;
    let answer = run(gateway.data, "/run").await;
    let events = events(answer.text());
    assert_eq!(
        (events.last().expect("an event")["code"].clone(), answer.end),
        ("run_limit_reached".into(), End::Clean)
    );
    gateway.logged("run ended").await;
    let mut client = Client::narrow(gateway.data).await;
    client.send(post("/run", "", INPUT)).await;
    assert_eq!(gateway.logged("run ended").await["outcome"], "limited", "while the client reads nothing");
    assert_eq!(client.answer().await.end, End::Clean);
}

#[tokio::test]
async fn the_first_event_has_its_own_time() {
    let mut gateway = None;
    // Neither the head nor comments are events.
    let head = HEAD.to_owned() + ": working\n\n";
    for steps in [vec![Step::Read, Step::Stay], vec![Step::Read, write(head), Step::Stay]] {
        let agent = Agent::playing(steps);
        let gateway = gateway.insert(before(&agent, "timeouts: {first_event: 300ms}").await);
        for path in ["/run", "/to-hai"] {
            let answer = run(gateway.data, path).await;
            let message = match answer.status {
                504 => refused(&answer, 504, "upstream_timeout")["detail"].clone(),
                _ => failed(&answer, "upstream_timeout", &[])["message"].clone(),
            };
            assert_eq!(message, "The agent sent no event within 300ms (`timeouts.first_event` of the route).");
            assert_eq!(gateway.logged("run ended").await["outcome"], "upstream_error");
        }
    }
    // A flood of comments is no event either.
    let flood = vec![Step::Read, write(HEAD), Step::Flood(b": working\n\n".repeat(500), usize::MAX)];
    let agent = Agent::playing(flood);
    let gateway = before(&agent, "timeouts: {first_event: 300ms}").await;
    failed(&run(gateway.data, "/run").await, "upstream_timeout", &[]);
    // Who has said one may take its time.
    let steps = vec![Step::Read, write(HEAD.to_owned() + &begun()), Step::Pause, write(CLOSED.to_owned() + FINISHED)];
    let agent = Agent::playing(steps);
    let gateway = before(&agent, "timeouts: {first_event: 300ms}, run_limits: {duration: 600ms}").await;
    failed(&run(gateway.data, "/run").await, "run_limit_reached", BEGUN);
}
