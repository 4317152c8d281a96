//! Agents that stop on real sockets, before the real gateway.

use super::super::golden::{Case, cases};
use super::super::support::client::{Answer, Client, End, INPUT};
use super::super::support::gateway::{Gateway, Setup};
use super::super::support::sse::chunk;
use super::super::support::within;
use super::{Left, RESET, Reason, Stop, TRUNCATED, cut, data};
use diglot::codec::Framing;
use diglot::dialect::{self, Side};
use diglot::event::run::Ending;
use serde_json::Value;
use socket2::SockRef;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Clients at once, each with one connection.
const CLIENTS: usize = 16;

/// How long the whole may take. A machine that does nothing else needs a tenth.
const ALL_OF_IT: Duration = Duration::from_secs(600);

/// The ways in which a body stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// the connection closes, and that is the end of the body
    Close,
    /// as many bytes as were announced
    Length,
    /// fewer
    ShortOfLength,
    /// the last chunk comes
    LastChunk,
    /// it does not
    NoLastChunk,
    /// the connection closes inside a chunk
    InsideChunk,
    /// the connection is reset, when everything before has arrived
    Reset,
}

const WAYS: [Way; 7] =
    [Way::Close, Way::Length, Way::ShortOfLength, Way::LastChunk, Way::NoLastChunk, Way::InsideChunk, Way::Reset];

impl Way {
    fn stop(self) -> Stop {
        match self {
            Way::Close | Way::Length | Way::LastChunk => Stop::Ended,
            Way::ShortOfLength | Way::NoLastChunk | Way::InsideChunk | Way::Reset => Stop::Broke,
        }
    }

    fn reason(self) -> Reason {
        if self == Way::Reset { RESET } else { TRUNCATED }
    }

    /// The response up to where it stops.
    fn response(self, said: &[u8]) -> Vec<u8> {
        let head = |field: String| {
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{field}\r\n\r\n").into_bytes()
        };
        let chunked = || head("Transfer-Encoding: chunked".to_owned());
        // A chunk of nothing would be the last one.
        let all = || if said.is_empty() { Vec::new() } else { chunk(said) };
        match self {
            Way::Close => [&head("Connection: close".to_owned()), said].concat(),
            Way::Length => [&head(format!("Content-Length: {}", said.len())), said].concat(),
            Way::ShortOfLength | Way::Reset => [&head(format!("Content-Length: {}", said.len() + 9)), said].concat(),
            Way::LastChunk => [chunked(), all(), b"0\r\n\r\n".to_vec()].concat(),
            Way::NoLastChunk => [chunked(), all()].concat(),
            Way::InsideChunk => [chunked(), format!("{:x}\r\n", said.len() + 9).into_bytes(), said.to_vec()].concat(),
        }
    }
}

/// One run: where its agent stops, how, and what its client has to hear.
#[derive(Clone)]
struct Trial {
    case: usize,
    at: usize,
    way: Way,
}

/// What the agent is to say for each request, by the id of the request; and for one that is reset, when.
#[derive(Default)]
struct Orders(Mutex<HashMap<String, (Vec<u8>, Option<oneshot::Receiver<()>>)>>);

/// Ports of the agent: each connection to it leaves one of ours unusable for a while, and there are 28,000.
const PORTS: usize = 8;

/// An agent that says what was ordered and stops. Gives its URLs.
async fn agent(orders: Arc<Orders>) -> String {
    let mut urls = Vec::new();
    for _ in 0..PORTS {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        urls.push(format!("\"http://{}/\"", listener.local_addr().expect("bound")));
        let orders = Arc::clone(&orders);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let orders = Arc::clone(&orders);
                // A connection that breaks is seen at the other end.
                tokio::spawn(async move { serve(stream, &orders).await.ok() });
            }
        });
    }
    urls.join(", ")
}

async fn serve(mut stream: TcpStream, orders: &Orders) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::new();
    let id = loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let field = |name: &str| {
            let fields = head.lines().filter_map(|line| line.split_once(": "));
            fields.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
        };
        let length: usize = field("content-length").and_then(|length| length.parse().ok()).expect("a length");
        if body.len() >= length {
            break field("x-request-id").expect("an id");
        }
    };
    let (response, reset) = orders.0.lock().expect("whole").remove(&id).expect("an order");
    stream.write_all(&response).await?;
    if let Some(reset) = reset {
        // What has not been read yet may be lost with a reset.
        let _ = reset.await;
        return SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    }
    stream.shutdown().await?;
    // The gateway may have more to send; to close before it has would be a reset.
    while stream.read(&mut [0; 64]).await? > 0 {}
    Ok(())
}

/// The name of a side's folder as `client` or `agent` of a route: `hai.blocks` is `{dialect: hai, content: blocks}`.
fn mapping(name: &str) -> String {
    let (dialect, words) = name.split_once('.').unwrap_or((name, ""));
    let option = |word: &str| match word.split_once('=') {
        Some(("tool", tool)) => format!(", interrupt_tool: {tool}"),
        Some((option, choice)) => format!(", {option}: \"{}\"", choice.replace('-', ".")),
        None => {
            let (option, ..) = dialect::CHOICES.iter().find(|(_, choice, _)| *choice == word).expect(word);
            format!(", {option}: {word}")
        }
    };
    let options: String = words.split('.').filter(|word| !word.is_empty()).map(option).collect();
    format!("{{dialect: {dialect}{options}}}")
}

/// The pair that a case belongs to, as its folder says it.
fn pair(case: &Case) -> String {
    let folder = case.folder.parent().expect("a pair");
    folder.file_name().expect("a name").to_string_lossy().into_owned()
}

/// A gateway with a route for each pair of the corpus: `p0`, `p1` and so on, at paths of these names.
async fn gateway(pairs: &[String], upstream: &str) -> Gateway {
    let route = |(number, pair): (usize, &String)| {
        let (agent, client) = pair.split_once("-to-").expect("<agent>-to-<client>");
        let (agent, client) = (mapping(agent), mapping(client));
        format!("  - {{name: p{number}, path: /p{number}, client: {client}, agent: {agent}, upstream: [{upstream}]}}\n")
    };
    let routes: String = pairs.iter().enumerate().map(route).collect();
    Gateway::start(Setup { routes: &format!("routes:\n{routes}"), ..Setup::default() }).await
}

/// Where each event of a stream begins, ends, and is about to.
fn edges(input: &[u8]) -> Vec<usize> {
    let ends = (0..input.len()).filter(|at| input[..*at].ends_with(b"\n\n") || input[..*at].ends_with(b"\r\r"));
    let mut edges: Vec<_> = ends.flat_map(|end| [end - 2, end - 1, end, end + 1]).collect();
    edges.extend([0, 1, input.len()]);
    edges.retain(|at| *at <= input.len());
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Events as values, without the times that the gateway's clock said.
fn timeless(body: &str) -> Vec<String> {
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
    data(body).into_iter().map(event).collect()
}

/// Starts the run of a trial and hears it to its end; one that is reset is reset when this much has been heard.
async fn hear(client: &mut Client, path: &str, id: &str, reset: Option<(oneshot::Sender<()>, usize)>) -> Answer {
    let length = INPUT.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: gateway\r\nX-Request-Id: {id}\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\nContent-Length: {length}\r\n\r\n"
    );
    client.send(head + INPUT).await;
    let mut answer = client.head().await;
    let mut body = Vec::new();
    if let Some((reset, events)) = reset {
        while body.windows(2).filter(|two| two == b"\n\n").count() < events {
            match client.piece().await {
                Ok(piece) => body.extend(piece),
                Err(end) => return Answer { body, end, ..answer },
            }
        }
        // A run whose terminal event has come may be over, and its agent left alone.
        let _ = reset.send(());
    }
    let (rest, end) = client.rest().await;
    body.extend(rest);
    (answer.body, answer.end) = (body, end);
    answer
}

/// What a trial has to end with, for the counters.
fn outcome(said: Option<Ending>) -> &'static str {
    match said {
        Some(Ending::Finished) => "finished",
        Some(Ending::Failed) => "agent_error",
        None => "upstream_error",
    }
}

struct Bench {
    cases: Vec<Case>,
    inputs: Vec<Vec<u8>>,
    pairs: Vec<String>,
    orders: Arc<Orders>,
}

impl Bench {
    /// Plays one trial. Gives how it has to be counted, and what was wrong.
    async fn play(&self, client: &mut Client, trial: &Trial) -> (&'static str, Option<String>) {
        let Trial { case, at, way } = *trial;
        let (own, said) = (&self.cases[case], &self.inputs[case][..at]);
        let (from, to): (Side, Side) = (own.from, own.to);
        let Left { heard, before, said: ending } = cut(from, to, Framing::Sse, said, way.stop(), way.reason());
        let (path, id) = (format!("/p{}", self.number(own)), format!("{case}-{at}-{way:?}"));
        let (reset, when) = oneshot::channel();
        let when = Some(when).filter(|_| way == Way::Reset);
        self.orders.0.lock().expect("whole").insert(id.clone(), (way.response(said), when));
        let events = String::from_utf8_lossy(&heard[..before]).matches("\n\n").count();
        let answer = hear(client, &path, &id, Some((reset, events)).filter(|_| way == Way::Reset)).await;
        let expected = timeless(std::str::from_utf8(&heard).expect("UTF-8"));
        let actual = if answer.status == 200 { timeless(answer.text()) } else { vec![answer.text().to_owned()] };
        let wrong = (answer.end != End::Clean || actual != expected).then(|| {
            let name = own.folder.display();
            let at = (0..expected.len()).find(|at| actual.get(*at) != expected.get(*at)).unwrap_or(expected.len());
            let (due, came) = (expected.get(at), actual.get(at));
            format!(
                "{name}, {way:?} at byte {}: {} {:?}, entry {at}\n  due  {due:?}\n  came {came:?}\n",
                said.len(),
                answer.status,
                answer.end
            )
        });
        (outcome(ending), wrong)
    }

    fn number(&self, case: &Case) -> usize {
        self.pairs.iter().position(|own| *own == pair(case)).expect("a pair")
    }
}

fn trials(inputs: &[Vec<u8>]) -> Vec<Trial> {
    let all = std::env::var_os("DIGLOT_CUTS").is_some();
    let places = inputs.iter().enumerate().flat_map(|(case, input)| {
        let places = if all { (0..=input.len()).collect() } else { edges(input) };
        places.into_iter().map(move |at| (case, at))
    });
    places.enumerate().map(|(turn, (case, at))| Trial { case, at, way: WAYS[turn % WAYS.len()] }).collect()
}

/// Every client hears what `core` says, in a body that ends cleanly, and every run is counted once by how it ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_stops_anywhere_in_any_way_has_one_end() {
    let cases = cases("stream");
    let inputs: Vec<_> = cases.iter().map(|case| case.read("input.sse").into_bytes()).collect();
    let mut pairs: Vec<_> = cases.iter().map(pair).collect();
    pairs.dedup();
    let orders = Arc::<Orders>::default();
    let upstream = agent(Arc::clone(&orders)).await;
    let gateway = gateway(&pairs, &upstream).await;
    let trials = trials(&inputs);
    let (count, bench) = (trials.len(), Arc::new(Bench { cases, inputs, pairs, orders }));
    let trials = Arc::new(Mutex::new(trials));

    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (bench, trials, data) = (Arc::clone(&bench), Arc::clone(&trials), gateway.data);
        clients.spawn(async move {
            let (mut counted, mut wrong) = (BTreeMap::<&str, usize>::new(), Vec::new());
            let mut client = Client::connect(data).await;
            loop {
                let Some(trial) = trials.lock().expect("whole").pop() else { return (counted, wrong) };
                let (outcome, failed) = bench.play(&mut client, &trial).await;
                *counted.entry(outcome).or_default() += 1;
                wrong.extend(failed);
            }
        });
    }
    let (mut counted, mut wrong) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for (own, failed) in within(ALL_OF_IT, "every cut", clients.join_all()).await {
        own.into_iter().for_each(|(outcome, count)| *counted.entry(outcome).or_default() += count);
        wrong.extend(failed);
    }
    wrong.truncate(10);
    assert!(wrong.is_empty(), "of {count}:\n{}", wrong.join("\n"));
    assert_eq!(counted.len(), 3, "{counted:?}");

    // The counters of all routes say the same, and nothing is left.
    let total = async |name: &str| {
        let text = gateway.ask("/metrics").await;
        let series = text.text().lines().filter(|line| line.starts_with(name));
        series.map(|line| line.rsplit(' ').next().expect("a value").parse::<usize>().expect("a count")).sum::<usize>()
    };
    assert_eq!(total("diglot_streams_active{").await, 0);
    assert_eq!(total("diglot_streams_total{").await, count);
    assert_eq!(total("diglot_requests_total{").await, count);
    for (outcome, own) in counted {
        assert_eq!(total(&format!("diglot_streams_total{{outcome=\"{outcome}\"")).await, own, "{outcome}");
    }
}
