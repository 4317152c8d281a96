//! Agents that stop on real sockets, with the real gateway.

use super::super::golden::{Case, cases};
use super::super::network_faults::connect_h2;
use super::super::support::client::{Answer, Client, End, INPUT};
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::{eventually, within, within_deadline};
use super::agent::{ALL_CUTS, AgentAction, AgentScripts, CutKind, start_agent};
use super::{TruncatedRun, frame_data, run_truncated};
use bytes::Bytes;
use diglot::codec::Framing;
use diglot::dialect::{self, PeerDialect};
use diglot::event::run::RunEnding;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Clients at once, each with one connection, half of them of HTTP/2.
const CLIENTS: usize = 16;

/// Time limit of the whole test. An idle machine needs a tenth.
const TOTAL_TIME_LIMIT: Duration = Duration::from_secs(600);

/// One run: the position and the kind of its cut, and its expected output.
#[derive(Clone)]
struct Trial {
    case: usize,
    at: usize,
    cut: CutKind,
    /// whether it is kept for clients that come back
    kept: bool,
}

/// The name of a side's folder as `client` or `agent` of a route: `hai.string` is `{dialect: hai, content: string}`.
fn side_yaml(name: &str) -> String {
    let (dialect, words) = name.split_once('.').unwrap_or((name, ""));
    let option = |word: &str| match word.split_once('=') {
        Some(("tool", tool)) => format!(", interrupt_tool: {tool}"),
        Some((option, choice)) => format!(", {option}: \"{}\"", choice.replace('-', ".")),
        None => {
            let (option, ..) = dialect::OPTION_CHOICES.iter().find(|(_, choice, _)| *choice == word).expect(word);
            format!(", {option}: {word}")
        }
    };
    let options: String = words.split('.').filter(|word| !word.is_empty()).map(option).collect();
    format!("{{dialect: {dialect}{options}}}")
}

/// Returns the pair of a case, from its folder.
fn pair_name(case: &Case) -> String {
    let folder = case.folder.parent().expect("a pair");
    folder.file_name().expect("a name").to_string_lossy().into_owned()
}

/// Starts a gateway with two routes for each pair of the corpus, at paths of their names: `p0`, `p1` and so on, whose
/// runs end with their clients, and `k0`, `k1`, whose runs are kept.
async fn start_gateway(pairs: &[String], upstream: &str) -> Gateway {
    let route = |(number, pair): (usize, &String)| {
        let (agent, client) = pair.split_once("-to-").expect("<agent>-to-<client>");
        let (agent, client) = (side_yaml(agent), side_yaml(client));
        let route = |kind: &str, more: &str| {
            format!(
                "  - {{name: {kind}{number}, path: /{kind}{number}, client: {client}, agent: {agent}, upstream: [{upstream}]{more}}}\n"
            )
        };
        route("p", "") + &route("k", ", on_disconnect: continue for 1m")
    };
    let routes: String = pairs.iter().enumerate().map(route).collect();
    Gateway::start(Setup { routes: &format!("routes:\n{routes}"), ..Setup::default() }).await
}

/// Returns the cuts at each event of a stream: before its last byte, after it, and in the next event.
fn event_boundaries(input: &[u8]) -> Vec<usize> {
    let ends = (0..input.len()).filter(|at| input[..*at].ends_with(b"\n\n") || input[..*at].ends_with(b"\r\r"));
    let mut edges: Vec<_> = ends.flat_map(|end| [end - 2, end - 1, end, end + 1]).collect();
    edges.extend([0, 1, input.len()]);
    edges.retain(|at| *at <= input.len());
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Returns the events without the timestamps of the gateway's clock.
fn without_timestamps(body: &str) -> Vec<String> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.remove("timestamp");
                members.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let event = |event: String| match serde_json::from_str::<Value>(&event) {
        Ok(mut value) => {
            strip(&mut value);
            value.to_string()
        }
        // Half a surrogate pair is JSON, and no text.
        Err(_) => event,
    };
    frame_data(body).into_iter().map(event).collect()
}

/// A client of either HTTP version, whose connection serves several runs.
enum RunClient {
    Http1(Client),
    Http2(SendRequest<Full<Bytes>>),
}

/// The unread rest of one response.
enum RunBody<'e> {
    Http1(&'e mut Client),
    Http2(Incoming),
}

/// Resets a run when its client has received so many events.
type ResetTrigger = Option<(oneshot::Sender<()>, usize)>;

fn count_frames(body: &[u8]) -> usize {
    body.windows(2).filter(|two| two == b"\n\n").count()
}

impl RunClient {
    /// Starts a run and reads it to its end.
    async fn run_to_end(&mut self, path: &str, id: &str, input: &str, mut reset: ResetTrigger) -> Answer {
        let (mut answer, mut sound) = self.start(path, id, input).await;
        loop {
            if let Some((reset, _)) = reset.take_if(|(_, events)| count_frames(&answer.body) >= *events) {
                // After its terminal event a run may be over, and the agent's connection closed.
                let _ = reset.send(());
            }
            match sound.next_chunk().await {
                Ok(piece) => answer.body.extend(piece),
                Err(end) => return Answer { end, ..answer },
            }
        }
    }

    async fn start(&mut self, path: &str, id: &str, input: &str) -> (Answer, RunBody<'_>) {
        match self {
            RunClient::Http1(client) => {
                let length = input.len();
                let head = format!(
                    "POST {path} HTTP/1.1\r\nHost: gateway\r\nX-Request-Id: {id}\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\nContent-Length: {length}\r\n\r\n"
                );
                client.send(head + input).await;
                (client.read_head().await, RunBody::Http1(client))
            }
            RunClient::Http2(sender) => {
                let request = http::Request::post(format!("http://gateway{path}")).header("x-request-id", id);
                let request = request.body(Full::new(Bytes::copy_from_slice(input.as_bytes()))).expect("a request");
                let response = within_deadline("an answer", sender.send_request(request)).await.expect("an answer");
                let status = response.status().as_u16();
                let answer = Answer { status, headers: Vec::new(), body: Vec::new(), end: End::Cut };
                (answer, RunBody::Http2(response.into_body()))
            }
        }
    }
}

impl RunBody<'_> {
    /// The next piece, or how it ended.
    async fn next_chunk(&mut self) -> Result<Vec<u8>, End> {
        match self {
            RunBody::Http1(client) => client.next_chunk().await,
            RunBody::Http2(body) => match within_deadline("a frame", body.frame()).await {
                None => Err(End::Clean),
                Some(Err(_)) => Err(End::Cut),
                Some(Ok(frame)) => Ok(frame.into_data().unwrap_or_default().to_vec()),
            },
        }
    }
}

/// Returns the expected outcome label of a trial.
fn outcome_label(ending: Option<RunEnding>) -> &'static str {
    match ending {
        Some(RunEnding::Finished) => "finished",
        Some(RunEnding::Failed) => "agent_error",
        Some(RunEnding::Cancelled) => "cancelled",
        None => "upstream_error",
    }
}

struct TrialRunner {
    cases: Vec<Case>,
    inputs: Vec<Vec<u8>>,
    pairs: Vec<String>,
    orders: Arc<AgentScripts>,
}

impl TrialRunner {
    /// Plays one trial. Gives how it has to be counted, and what was wrong.
    async fn play(&self, ear: &mut RunClient, trial: &Trial) -> (&'static str, Option<String>) {
        let Trial { case, at, cut: way, kept } = *trial;
        let (own, sent) = (&self.cases[case], &self.inputs[case][..at]);
        let (from, to): (PeerDialect, PeerDialect) = (own.from, own.to);
        let (id, number) = (format!("{case}-{at}-{way:?}"), self.pair_number(own));
        let (path, run) = if kept { (format!("/k{number}"), id.as_str()) } else { (format!("/p{number}"), "r1") };
        let input = INPUT.replace("\"r1\"", &format!("\"{run}\"")).replace("\"m1\"", "\"u1\"");
        let TruncatedRun { output, before, agent_ending: ending } =
            run_truncated(from, to, run, Framing::Sse, sent, way.body_end(), way.expected_error());
        let (answer_tx, answered) = oneshot::channel();
        let (order, reset) = match way {
            CutKind::Reset => {
                (AgentAction::Reset(way.response(sent), answered), Some((answer_tx, count_frames(&output[..before]))))
            }
            _ => (AgentAction::Send(way.response(sent)), None),
        };
        self.orders.add(&id, [order]);
        let answer = ear.run_to_end(&path, &id, &input, reset).await;
        let expected = without_timestamps(std::str::from_utf8(&output).expect("UTF-8"));
        let actual =
            if answer.status == 200 { without_timestamps(answer.text()) } else { vec![answer.text().to_owned()] };
        let wrong = (answer.end != End::Clean || actual != expected).then(|| {
            let name = own.folder.display();
            let at = (0..expected.len()).find(|at| actual.get(*at) != expected.get(*at)).unwrap_or(expected.len());
            let (due, came) = (expected.get(at), actual.get(at));
            format!(
                "{name}, {way:?} at byte {}: {} {:?}, entry {at}\n  due  {due:?}\n  came {came:?}\n",
                sent.len(),
                answer.status,
                answer.end
            )
        });
        (outcome_label(ending), wrong)
    }

    fn pair_number(&self, case: &Case) -> usize {
        self.pairs.iter().position(|own| *own == pair_name(case)).expect("a pair")
    }
}

fn trials(inputs: &[Vec<u8>]) -> Vec<Trial> {
    let all = std::env::var_os("DIGLOT_CUTS").is_some();
    let places = inputs.iter().enumerate().flat_map(|(case, input)| {
        let places = if all { (0..=input.len()).collect() } else { event_boundaries(input) };
        places.into_iter().map(move |at| (case, at))
    });
    places
        .enumerate()
        .map(|(turn, (case, at))| Trial {
            case,
            at,
            cut: ALL_CUTS[turn % ALL_CUTS.len()],
            kept: turn / ALL_CUTS.len() % 2 == 1,
        })
        .collect()
}

/// Every client gets the output of `core`, in a body that ends cleanly, and every run is counted once by its outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_every_truncated_run_once_and_counts_it_once() {
    let cases = cases("stream");
    let inputs: Vec<_> = cases.iter().map(|case| case.read("input.sse").into_bytes()).collect();
    let mut pairs: Vec<_> = cases.iter().map(pair_name).collect();
    pairs.dedup();
    let orders = Arc::<AgentScripts>::default();
    let upstream = start_agent(&orders).await;
    let gateway = start_gateway(&pairs, &upstream).await;
    let trials = trials(&inputs);
    let (count, bench) = (trials.len(), Arc::new(TrialRunner { cases, inputs, pairs, orders }));
    let trials = Arc::new(Mutex::new(trials));

    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (bench, trials, data) = (Arc::clone(&bench), Arc::clone(&trials), gateway.data);
        clients.spawn(async move {
            let (mut counted, mut wrong) = (BTreeMap::<&str, usize>::new(), Vec::new());
            let mut ear = match client % 2 {
                0 => RunClient::Http1(Client::connect(data).await),
                _ => RunClient::Http2(connect_h2(data, (1 << 16) - 1).await),
            };
            loop {
                let Some(trial) = trials.lock().expect("whole").pop() else { return (counted, wrong) };
                let (outcome, failed) = bench.play(&mut ear, &trial).await;
                *counted.entry(outcome).or_default() += 1;
                wrong.extend(failed);
            }
        });
    }
    let (mut counted, mut wrong) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for (own, failed) in within(TOTAL_TIME_LIMIT, "every cut", clients.join_all()).await {
        own.into_iter().for_each(|(outcome, count)| *counted.entry(outcome).or_default() += count);
        wrong.extend(failed);
    }
    wrong.truncate(10);
    assert!(wrong.is_empty(), "of {count}:\n{}", wrong.join("\n"));
    assert_eq!(counted.len(), 3, "{counted:?}");

    // The counters of all routes agree, and no run is open.
    let total = async |name: &str| {
        let text = gateway.get_status("/metrics").await;
        let series = text.text().lines().filter(|line| line.starts_with(name));
        series.map(|line| line.rsplit(' ').next().expect("a value").parse::<usize>().expect("a count")).sum::<usize>()
    };
    eventually("that nothing is open", async || (total("diglot_streams_active{").await == 0).then_some(())).await;
    assert_eq!(total("diglot_streams_total{").await, count);
    assert_eq!(total("diglot_requests_total{").await, count);
    for (outcome, own) in counted {
        assert_eq!(total(&format!("diglot_streams_total{{outcome=\"{outcome}\"")).await, own, "{outcome}");
    }
}
