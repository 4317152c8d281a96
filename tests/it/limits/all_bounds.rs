//! All bounds at once, in a process with the bounds of 256 MiB: eight callers fill request bodies, kept runs, the buffers of slow
//! clients over both versions of HTTP, unfinished events, heads of agents and of clients, the inspector's ring and what is
//! translated at once. Others are answered meanwhile, and the memory comes back.

use super::super::support::agent::{Agent, Step, write};
use super::super::support::client::{Client, INPUT, post, send_request};
use super::super::support::eventually;
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::http2::{beginning, request, streams};
use super::super::support::sse::{COMPLETE_RUN, HEAD, assert_succeeded, complete_run, run_beginning};
use super::small_process::{MEMORY, SmallGateway, start_flooding_agent, start_limited_gateway};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

/// Memory that the process may keep when all is over: the inspector's ring, and what the allocator has not returned.
const KEPT_MEMORY: usize = 64 << 20;

/// Time for which all bounds stay full. Slow bodies are refused after five seconds.
const HELD: Duration = Duration::from_secs(3);

/// Longest time until somebody else's run is answered, with all its attempts, on a machine with other work.
const ANSWERED: Duration = Duration::from_secs(10);

/// The fields of one of the callers that attack.
fn attacker(number: usize) -> String {
    format!("X-Forwarded-For: 192.0.2.{}\r\n", number % 8 + 1)
}

fn input(run: usize) -> String {
    INPUT.replace("\"t1\"", &format!("\"t{run}\"")).replace("\"r1\"", &format!("\"r{run}\""))
}

/// The agents, by the route that leads to them.
struct Agents {
    healthy: Agent,
    flooding: Agent,
    unfinished: Agent,
    endless_head: Agent,
}

impl Agents {
    fn start() -> Agents {
        let event = format!("data: {{\"type\":\"CUSTOM\",\"name\":\"{}", "x".repeat(8 << 20));
        let fields: String = (0..15).map(|number| format!("x{number}: {}\r\n", "y".repeat(1000))).collect();
        let head = format!("HTTP/1.1 200 OK\r\n{fields}");
        Agents {
            healthy: Agent::with_response(HEAD.to_owned() + &complete_run()),
            flooding: start_flooding_agent(),
            unfinished: Agent::with_script(vec![
                Step::Read,
                write(HEAD.to_owned() + &run_beginning() + &event),
                Step::Pause,
            ]),
            endless_head: Agent::with_script(vec![Step::Read, write(head), Step::Pause]),
        }
    }

    async fn start_gateway(&self) -> SmallGateway {
        let route = |name: &str, agent: &Agent, more: &str| {
            let url = agent.url();
            format!("  - {{name: {name}, path: /{name}, client: ag-ui, agent: ag-ui, upstream: \"{url}\"{more}}}\n")
        };
        let routes = [
            route("run", &self.healthy, ""),
            route("kept", &self.healthy, ", on_disconnect: continue for 1m, inspect: full"),
            route("flood", &self.flooding, ", inspect: events"),
            route("half", &self.unfinished, ""),
            route("head", &self.endless_head, ""),
        ];
        let routes = format!("routes:\n{}", routes.concat());
        let setup =
            Setup { top: "trusted_proxies: [127.0.0.1]\nreplay: {age: 10s}", routes: &routes, ..Setup::default() };
        // The bounds follow from the soft limit at the start. It counts twice what is resident, so it is raised then, and the test
        // compares what is resident.
        let gateway = start_limited_gateway(&format!("-S -d {}", MEMORY >> 10), setup).await;
        let raised =
            Command::new("prlimit").args(["--pid", &gateway.process.id().to_string(), "--data=unlimited"]).status();
        assert!(raised.expect("prlimit is installed").success());
        gateway
    }
}

/// Clients that fill the bounds until they are dropped.
#[derive(Default)]
struct Attack {
    clients: Vec<Client>,
    connections: Vec<TcpStream>,
    tasks: JoinSet<()>,
}

impl Attack {
    /// Ended runs of many tiny messages: 16 MiB and more, kept and in the inspector's ring.
    async fn fill_kept_runs(&mut self, to: SocketAddr) {
        let messages: Vec<_> =
            (0..900).map(|id| format!("{{\"id\":\"u{id}\",\"role\":\"user\",\"content\":\"\"}}")).collect();
        let messages = format!("\"messages\":[{}]", messages.join(","));
        let plain = r#""messages":[{"id":"m1","role":"user","content":"hi"}]"#;
        for run in 0..90 {
            let body = input(run).replace(plain, &messages);
            let answer = send_request(to, post("/kept", &(attacker(run) + "Connection: close\r\n"), &body)).await;
            assert!(answer.text().contains("RUN_FINISHED"), "{:.1000}", answer.text());
        }
    }

    async fn start_runs(&mut self, to: SocketAddr, path: &str, count: usize) {
        for run in 0..count {
            let mut client = Client::connect_with_small_buffer(to).await;
            client.send(post(path, &attacker(run), &input(run))).await;
            self.clients.push(client);
        }
    }

    async fn send(&mut self, to: SocketAddr, bytes: &[u8], count: usize) {
        for _ in 0..count {
            let mut stream = TcpStream::connect(to).await.expect("the gateway listens");
            stream.write_all(bytes).await.expect("it reads");
            self.connections.push(stream);
        }
    }

    /// Streams of HTTP/2 clients that open their windows and read nothing.
    async fn fill_http2(&mut self, to: SocketAddr) {
        for connection in 0..8 {
            let runs = streams(40)
                .flat_map(|stream| request(stream, "/flood", input(1000 * connection + stream as usize).as_bytes()));
            let bytes = [beginning(i32::MAX as u32), runs.collect()].concat();
            self.send(to, &bytes, 1).await;
        }
    }

    /// Bodies of 8 MiB that stop after 2 MiB.
    async fn fill_bodies(&mut self, to: SocketAddr) {
        for number in 0..16 {
            let fields = format!("{}Content-Type: application/json\r\nContent-Length: 8000000\r\n", attacker(number));
            let bytes = format!("POST /run HTTP/1.1\r\nHost: a\r\n{fields}\r\n{}", " ".repeat(2 << 20));
            let mut stream = TcpStream::connect(to).await.expect("the gateway listens");
            // One that is refused is closed.
            let _ = stream.write_all(bytes.as_bytes()).await;
            self.connections.push(stream);
        }
    }

    /// The largest ordinary requests, one after another.
    fn repeat_large_requests(&mut self, to: SocketAddr) {
        let part = format!(r#"{{"type":"text","text":"{}"}}"#, "x".repeat(400));
        let content = vec![part.as_str(); 17_000].join(",");
        let body = INPUT.replace(r#""content":"hi""#, &format!("\"content\":[{content}]"));
        for number in 0..2 {
            let large = post("/run", &(attacker(number) + "Connection: close\r\n"), &body);
            self.tasks.spawn(async move {
                loop {
                    // It may be refused, since bodies have a common bound.
                    send_request(to, &large).await;
                }
            });
        }
    }
}

async fn assert_answers_others(gateway: &Gateway) {
    let began = Instant::now();
    let fields = "X-Forwarded-For: 192.0.2.200\r\nConnection: close\r\n";
    // While the bodies of all fill their common bound, the answer is to try again.
    let answer = loop {
        let answer = send_request(gateway.data, post("/run", fields, INPUT)).await;
        if answer.status != 503 || began.elapsed() > ANSWERED {
            break answer;
        }
        assert!(answer.text().contains("bodies_full"), "{}", answer.text());
        sleep(Duration::from_millis(200)).await;
    };
    assert_succeeded(&answer, COMPLETE_RUN);
    assert_eq!(gateway.get_status("/livez").await.status, 200);
    assert!(began.elapsed() < ANSWERED, "{:?}", began.elapsed());
    let memory = gateway.process.anonymous_memory();
    assert!(memory < MEMORY, "{} MiB", memory >> 20);
}

/// The metrics of what is bounded in bytes.
const BOUNDED: [&str; 6] = ["request_body", "run_memory", "replay", "inspect", "slow_client", "http2_unsent"];

/// Notes the most that each of them was.
async fn watch_bounds(gateway: &Gateway, most: &mut [f64; BOUNDED.len()]) -> Infallible {
    let mut again = interval(Duration::from_millis(100));
    loop {
        again.tick().await;
        for (most, name) in most.iter_mut().zip(BOUNDED) {
            *most = gateway.metric(&format!("diglot_{name}_bytes")).await.max(*most);
        }
    }
}

/// Fills all bounds, and looks for a while whether others are answered.
async fn attack_for_a_while(gateway: &Gateway) -> Attack {
    let mut attack = Attack::default();
    attack.fill_kept_runs(gateway.data).await;
    let head = format!("POST /run HTTP/1.1\r\nHost: a\r\nX: {}", "y".repeat(15 << 10));
    attack.send(gateway.data, head.as_bytes(), 300).await;
    attack.start_runs(gateway.data, "/head", 400).await;
    attack.start_runs(gateway.data, "/flood", 120).await;
    attack.fill_http2(gateway.data).await;
    attack.start_runs(gateway.data, "/half", 24).await;
    attack.repeat_large_requests(gateway.data);
    attack.fill_bodies(gateway.data).await;
    let until = Instant::now() + HELD;
    while Instant::now() < until {
        assert_answers_others(gateway).await;
    }
    attack
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: `make stress`"]
async fn survives_all_bounds_at_once() {
    let agents = Agents::start();
    let gateway = agents.start_gateway().await;
    assert_answers_others(&gateway).await;
    let before = gateway.process.anonymous_memory();

    let mut most = BOUNDED.map(|_| 0.0);
    let attack = tokio::select! {
        never = watch_bounds(&gateway, &mut most) => match never {},
        attack = attack_for_a_while(&gateway) => attack,
    };
    // The bounds are 32, 32, 16, 16, 16 and 16 MiB. Unsent bytes of HTTP/2 stay far below theirs: the bound of slow
    // clients, which all of these share, disconnects most of the streams first; how early depends on the machine. By
    // themselves they reach 14 MiB.
    let least = [28.0, 28.0, 14.0, 14.0, 12.0, 0.25].map(|mebibytes| mebibytes * f64::from(1 << 20));
    assert!(most.iter().zip(least).all(|(most, least)| *most >= least), "{BOUNDED:?}: {most:?}");

    drop(attack);
    for name in ["request_body", "run_memory", "replay", "slow_client", "http2_unsent"] {
        gateway.wait_for_metric(&format!("diglot_{name}_bytes"), 0.0).await;
    }
    eventually("little memory", async || (gateway.process.anonymous_memory() < before + KEPT_MEMORY).then_some(()))
        .await;
    assert_answers_others(&gateway).await;
}
