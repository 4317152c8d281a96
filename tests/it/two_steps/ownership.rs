//! A run that waits for its reader belongs to the caller that started it, whatever `threads` says.

use super::super::support::client::post;
use super::super::support::sha256;
use super::super::support::sse::{HEAD, assert_refused, complete_run};
use super::*;

const PATH: &str = "/two";

async fn start_gateway_with_keys(agent: &Agent, more: &str) -> Gateway {
    let key =
        |id: &str, subject: &str| format!("{{id: {id}, subject: {subject}, sha256: {}}}", sha256(&format!("{id}-key")));
    // The same subject in another list is another caller.
    let lists = [key("ada", "ada"), key("bob", "bob"), key("partner", "ada")];
    let top = format!(
        "auth: {{api_keys: [{{name: web, keys: [{}, {}]}}, {{name: partners, keys: [{}]}}]}}",
        lists[0], lists[1], lists[2]
    );
    let routes = format!(
        "routes:\n  - {{name: two, path: {PATH}, events_path: \"{PATH}/{{thread_id}}/events\", client: social-app, agent: ag-ui, upstream: {}, auth: [web, partners]{more}}}\n",
        agent.url()
    );
    Gateway::start(Setup { routes: &routes, top: &top, ..Setup::default() }).await
}

async fn start_run(gateway: &Gateway, caller: &str, thread: &str) -> Answer {
    let request = post(PATH, &format!("X-Api-Key: {caller}-key\r\nConnection: close\r\n"), &input(thread));
    send_request(gateway.data, request).await
}

async fn read_run(gateway: &Gateway, caller: &str, thread: &str) -> Answer {
    let key = format!("X-Api-Key: {caller}-key\r\nConnection: close\r\n");
    send_request(gateway.data, get_request(&format!("{PATH}/{thread}/events"), &key)).await
}

#[tokio::test]
async fn hides_a_waiting_run_from_other_callers() {
    for threads in ["", ", threads: shared"] {
        let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
        let gateway = start_gateway_with_keys(&agent, threads).await;
        assert_eq!(start_run(&gateway, "ada", "t1").await.status, 202);
        let other = assert_refused(&read_run(&gateway, "bob", "t1").await, 404, "events_not_found");
        assert_refused(&read_run(&gateway, "partner", "t1").await, 404, "events_not_found");
        let unknown = assert_refused(&read_run(&gateway, "bob", "t9").await, 404, "events_not_found");
        assert_eq!((&other["detail"], &other["hint"]), (&unknown["detail"], &unknown["hint"]));
        // The other caller's run of the same thread waits beside it; each reads its own.
        assert_eq!(start_run(&gateway, "bob", "t1").await.status, 202);
        for caller in ["ada", "bob"] {
            let answer = read_run(&gateway, caller, "t1").await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(answer.text().contains("RUN_FINISHED"), "{}", answer.text());
            assert_refused(&read_run(&gateway, caller, "t1").await, 404, "events_not_found");
        }
        assert_eq!(agent.connection_count(), 2);
    }
}

#[tokio::test]
async fn limits_the_waiting_runs_of_one_caller() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let gateway = start_gateway_with_keys(&agent, "").await;
    for number in 0..64 {
        assert_eq!(start_run(&gateway, "ada", &format!("t{number}")).await.status, 202);
    }
    let refused = start_run(&gateway, "ada", "more").await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_refused(&refused, 503, "too_many_waiting");
    assert_eq!(start_run(&gateway, "bob", "more").await.status, 202);
    assert_eq!(read_run(&gateway, "ada", "t0").await.status, 200);
    assert_eq!(start_run(&gateway, "ada", "more").await.status, 202);
}
