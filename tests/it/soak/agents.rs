//! The agents of the load: listeners that find the plan of a run by the number in its request, and that can be killed
//! and started again at their address.

use super::plan::{AgentFault, BodyEnd, RouteKind, RunPlan};
use super::situation::Outages;
use diglot::codec::Framing;
use socket2::{Domain, SockRef, Socket, Type};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The plans of the runs that are in progress, by number.
#[derive(Default)]
pub struct PlanBook(Mutex<HashMap<u64, Arc<RunPlan>>>);

impl PlanBook {
    pub fn add(&self, plan: &Arc<RunPlan>) {
        self.0.lock().expect("whole").insert(plan.number, Arc::clone(plan));
    }

    pub fn remove(&self, number: u64) {
        self.0.lock().expect("whole").remove(&number);
    }

    /// Returns the plan of the run whose thread a request names.
    fn find(&self, request: &[u8]) -> Option<Arc<RunPlan>> {
        let at = request.windows(5).position(|five| five == b"soak-")?;
        let digits: String =
            request[at + 5..].iter().map(|byte| char::from(*byte)).take_while(char::is_ascii_digit).collect();
        self.0.lock().expect("whole").get(&digits.parse().ok()?).cloned()
    }
}

/// One agent of every route.
pub struct LoadAgent {
    address: SocketAddr,
    /// keeps the port while it is down
    _held: Socket,
    plans: Arc<PlanBook>,
    listening: JoinSet<()>,
    serving: Arc<Mutex<JoinSet<()>>>,
}

impl LoadAgent {
    pub async fn start(plans: &Arc<PlanBook>) -> LoadAgent {
        let held = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        held.set_reuse_address(true).expect("a socket");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        held.bind(&any.into()).expect("a free port");
        let address = held.local_addr().expect("bound").as_socket().expect("IPv4");
        let (listening, serving) = (JoinSet::new(), Arc::default());
        let mut agent = LoadAgent { address, _held: held, plans: Arc::clone(plans), listening, serving };
        agent.restart().await;
        agent
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes everything, as the end of its process does.
    pub async fn kill(&mut self) {
        self.listening.shutdown().await;
        let mut serving = std::mem::take(&mut *self.serving.lock().expect("whole"));
        serving.shutdown().await;
    }

    pub async fn restart(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("its port");
        let (plans, serving) = (Arc::clone(&self.plans), Arc::clone(&self.serving));
        self.listening.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let mut serving = serving.lock().expect("whole");
                while serving.try_join_next().is_some() {}
                // A connection that breaks is the gateway's to report.
                let plans = Arc::clone(&plans);
                serving.spawn(async move { drop(serve_connection(&plans, stream).await) });
            }
        });
    }

    /// Is down for this long.
    pub async fn fail_for(&mut self, time: Duration, outages: &Outages) {
        outages.begin();
        self.kill().await;
        sleep(time).await;
        self.restart().await;
        outages.end();
    }
}

async fn serve_connection(plans: &PlanBook, mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut unread = Vec::new();
    while let Some((head, body)) = read_request(&mut stream, &mut unread).await? {
        let is_get = head.starts_with("GET ");
        let found = plans.find(if is_get { head.as_bytes() } else { &body });
        // A run whose client was gone before its request came here.
        let Some(plan) = found else { return Ok(()) };
        let two_steps = plan.kind == RouteKind::AgentTwoSteps;
        if !is_get {
            plan.starts.fetch_add(1, Ordering::SeqCst);
            if body != plan.expected_body.as_bytes() {
                *plan.problem.lock().expect("whole") =
                    Some(format!("the agent received {}", String::from_utf8_lossy(&body)));
            }
        }
        let go_on =
            if two_steps && !is_get { accept_run(&plan, &mut stream).await? } else { play(&plan, &mut stream).await? };
        if !go_on {
            return stream.shutdown().await;
        }
    }
    Ok(())
}

/// Answers the first of two requests.
async fn accept_run(plan: &RunPlan, stream: &mut TcpStream) -> std::io::Result<bool> {
    let body = format!(r#"{{"threadId":"{}"}}"#, plan.thread());
    let head =
        format!("HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).await?;
    Ok(true)
}

/// Answers with the stream of the plan, or with its fault. Returns whether the connection stays open.
async fn play(plan: &RunPlan, stream: &mut TcpStream) -> std::io::Result<bool> {
    let until = match plan.fault {
        AgentFault::None => plan.wire.len(),
        AgentFault::Cut(at) | AgentFault::Reset(at) | AgentFault::Stall(at) => at,
        AgentFault::HangUp => return Ok(false),
        AgentFault::Silent => return wait_for_close(stream).await,
        AgentFault::Status(status) => {
            let body = r#"{"error":{"message":"overloaded"}}"#;
            let head = format!(
                "HTTP/1.1 {status} Odd\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all((head + body).as_bytes()).await?;
            return Ok(true);
        }
        AgentFault::Page => {
            let page = "<h1>It works</h1>";
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", page.len());
            stream.write_all((head + page).as_bytes()).await?;
            return Ok(true);
        }
    };
    write_stream(plan, stream, until).await?;
    match plan.fault {
        AgentFault::Stall(_) => wait_for_close(stream).await,
        AgentFault::Reset(_) => {
            // What was written before has left, mostly.
            sleep(Duration::from_millis(5)).await;
            SockRef::from(&*stream).set_linger(Some(Duration::ZERO))?;
            Ok(false)
        }
        AgentFault::Cut(_) => Ok(false),
        _ if plan.body_end == BodyEnd::Close => Ok(false),
        _ if plan.body_end == BodyEnd::Chunked => stream.write_all(b"0\r\n\r\n").await.map(|()| true),
        _ => Ok(true),
    }
}

/// Writes the head and the first so many bytes of the body, at the pace of the plan.
async fn write_stream(plan: &RunPlan, stream: &mut TcpStream, until: usize) -> std::io::Result<()> {
    let kind = match plan.agent_framing {
        Framing::Proto => "application/vnd.ag-ui.event+proto",
        Framing::Sse => "text/event-stream",
    };
    let end = match plan.body_end {
        BodyEnd::Chunked => "Transfer-Encoding: chunked".to_owned(),
        BodyEnd::Length => format!("Content-Length: {}", plan.wire.len()),
        BodyEnd::Close => "Connection: close".to_owned(),
    };
    stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{end}\r\n\r\n").as_bytes()).await?;
    for piece in plan.wire[..until].chunks(plan.piece) {
        if plan.body_end == BodyEnd::Chunked {
            stream.write_all(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()).await?;
        } else {
            stream.write_all(piece).await?;
        }
        if plan.pause_ms > 0 {
            sleep(Duration::from_millis(plan.pause_ms)).await;
        }
    }
    Ok(())
}

async fn wait_for_close(stream: &mut TcpStream) -> std::io::Result<bool> {
    while stream.read(&mut [0; 64]).await? > 0 {}
    Ok(false)
}

/// Reads one request: its head, and its body of the announced length.
async fn read_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> std::io::Result<Option<(String, Vec<u8>)>> {
    loop {
        if let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&unread[..end]).into_owned();
            let field = |line: &str| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            };
            let length = head.lines().find_map(field).unwrap_or(0);
            if unread.len() >= end + 4 + length {
                let body = unread[end + 4..end + 4 + length].to_vec();
                unread.drain(..end + 4 + length);
                return Ok(Some((head, body)));
            }
        }
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    }
}
