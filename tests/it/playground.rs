//! The playground of the inspector's page: a client of the data plane behind the token of the inspector.

use super::inspect::{RunDir, request_page};
use super::support::agent::{Agent, Step, write};
use super::support::client::{Answer, Client, INPUT, post, send_request};
use super::support::eventually;
use super::support::gateway::{Gateway, Setup};
use super::support::sse::{HEAD, STARTED, complete_run};
use serde_json::{Value, json};
use std::net::SocketAddr;

const KEY: &str = "sk-alice";

const SEND: &str = "/playground/v1/send";

/// The digest is that of [`KEY`].
const KEYED: &str = "auth: {api_keys: [{name: partners, keys: [{id: alice, sha256: \
                     \"099295a3784e1bd368dc348843a7398c1931b6b8ec2504c73e91ed2040bdc46c\"}]}]}";

/// The inspector of a gateway: its address, and the fields that its page sends.
struct PlaygroundPage {
    address: SocketAddr,
    fields: String,
}

impl PlaygroundPage {
    fn new(run_dir: &RunDir) -> PlaygroundPage {
        let (_, url) = run_dir.request("GET /inspect/v1/url", "");
        let (address, token) =
            url.trim().strip_prefix("http://").and_then(|url| url.split_once("/#token=")).expect("a URL");
        let fields = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n");
        PlaygroundPage { address: address.parse().expect("an address"), fields }
    }

    fn post_text(&self, path: &str, body: &Value, more: &str) -> String {
        let body = body.to_string();
        let length = body.len();
        let fields = format!("{}{more}Content-Type: application/json\r\nContent-Length: {length}\r\n", self.fields);
        format!("POST {path} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n{body}")
    }

    async fn post(&self, path: &str, body: &Value, more: &str) -> Answer {
        send_request(self.address, self.post_text(path, body, more)).await
    }

    /// Returns the lines of what the data plane answered to a run on `/chat`.
    async fn send(&self, headers: Value) -> Vec<Value> {
        let answer = self.post(SEND, &run_on_chat(headers), "").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

fn run_on_chat(headers: Value) -> Value {
    json!({"route": "chat", "client": "hai", "method": "POST", "path": "/chat", "headers": headers, "body": INPUT})
}

async fn start_playground(agent: &Agent, run_dir: &RunDir) -> Gateway {
    let top = format!("run_dir: {}\n{KEYED}\n", run_dir.0.path().display());
    let routes = format!(
        "routes:\n  - {{name: chat, path: /chat, client: hai, agent: ag-ui, inspect: full, upstream: \"{}\"}}\n",
        agent.url()
    );
    let listeners = "{data: 127.0.0.1:0, status: 127.0.0.1:0, inspector: 127.0.0.1:0}";
    Gateway::start(Setup { listeners, top: &top, routes: &routes, ..Setup::default() }).await
}

#[tokio::test]
async fn playground_is_a_client_like_any_other() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let run_dir = RunDir::new();
    let mut gateway = start_playground(&agent, &run_dir).await;
    let page = PlaygroundPage::new(&run_dir);

    let refused = page.send(json!([["content-type", "application/json"]])).await;
    assert_eq!(refused[0]["status"], 401, "{refused:?}");
    let problem: Value = serde_json::from_str(refused[1]["text"].as_str().expect("a text")).expect("a problem");
    assert_eq!(problem["code"], "authentication_required");
    assert_eq!(agent.connection_count(), 0);

    let headers = json!([["x-api-key", KEY], ["accept", "text/event-stream"], ["x-request-id", "from-page"]]);
    let lines = page.send(headers).await;
    assert_eq!(lines[0]["status"], 200, "{lines:?}");
    let last = lines.last().expect("an end");
    assert_eq!((&last["end"], &last["failure"]), (&json!(true), &Value::Null));
    let rows: Vec<&Value> = lines.iter().filter_map(|line| line.get("row")).collect();
    // HAI §4.2: the client's side is HAI, and beside it the same as AG-UI.
    let finished = rows.iter().find(|row| row["agent"]["type"] == "RUN_FINISHED").expect("an end of the run");
    assert!(finished["agent"]["data"].as_str().expect("data").contains("messageId"), "{finished}");
    assert!(finished["client"][0]["data"].as_str().expect("data").contains("threadId"), "{finished}");

    // The run is that of the key, its line in the audit log says which request it was, and the key is nowhere.
    let run = run_dir.last_run().await;
    assert_eq!((&run["request_id"], &run["client"]), (&json!("from-page"), &json!("hai")));
    assert!(run["caller"].as_str().expect("a caller").contains("alice"), "{run}");
    gateway.next_log("playground request sent").await;
    let audit = gateway.next_log("playground request sent").await;
    assert_eq!((&audit["path"], &audit["request_id"]), (&json!("/chat"), &json!("from-page")), "{audit}");
    assert!(audit["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{audit}");
    let log = gateway.terminate().await;
    assert!(!log.contains(KEY), "{log}");
}

#[tokio::test]
async fn playground_needs_the_token_and_changes_nothing_by_get() {
    let agent = Agent::with_response(HEAD.to_owned() + &complete_run());
    let run_dir = RunDir::new();
    let gateway = start_playground(&agent, &run_dir).await;
    let page = PlaygroundPage::new(&run_dir);
    let request = run_on_chat(json!([["x-api-key", KEY]]));
    assert_eq!(page.post(SEND, &request, "Origin: http://evil.example\r\n").await.status, 403);
    let stranger = PlaygroundPage { fields: format!("Host: {}\r\n", page.address), address: page.address };
    assert_eq!(stranger.post(SEND, &request, "").await.status, 401);
    for path in [SEND, "/playground/v1/compose"] {
        assert_eq!(request_page(page.address, &format!("GET {path}"), &page.fields).await.status, 405, "{path}");
    }
    // Fields of the connection are the gateway's, and a body has a bound.
    for (name, value) in [("transfer-encoding", "chunked"), ("content-length", "1"), ("a\r\nb", "c")] {
        let mut request = request.clone();
        request["headers"] = json!([[name, value]]);
        assert_eq!(page.post(SEND, &request, "").await.status, 422, "{name}");
    }
    let mut large = request.clone();
    large["body"] = json!("x".repeat(4 << 20));
    assert_eq!(page.post(SEND, &large, "").await.status, 413);
    // Neither the Unix socket nor the data plane has it.
    assert_eq!(run_dir.request(&format!("POST {SEND}"), "{}").0, 404);
    assert_eq!(send_request(gateway.data, post(SEND, "", "{}")).await.status, 404);
    assert_eq!(agent.connection_count(), 0);
}

#[tokio::test]
async fn few_requests_of_playgrounds_are_open_at_once() {
    const MOST: usize = 8;
    let head = format!("{HEAD}{STARTED}");
    let mut agent = Agent::with_script(vec![Step::Read, write(head), Step::WaitForClose]);
    let run_dir = RunDir::new();
    let _gateway = start_playground(&agent, &run_dir).await;
    let page = PlaygroundPage::new(&run_dir);
    let request = page.post_text(SEND, &run_on_chat(json!([["x-api-key", KEY]])), "");
    let mut open = Vec::new();
    for _ in 0..MOST {
        let mut client = Client::connect(page.address).await;
        client.send(&request).await;
        agent.next_request().await;
        open.push(client);
    }
    let refused = send_request(page.address, &request).await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    // A page that leaves ends its run, and makes room.
    drop(open.pop());
    agent.wait_until_closed().await;
    eventually("room", async || {
        let mut client = Client::connect(page.address).await;
        client.send(&request).await;
        (client.read_head().await.status == 200).then_some(())
    })
    .await;
}
