//! A scripted agent on a bare TCP socket: every fault of a connection is a sequence of steps.

use super::within_deadline;
use serde_json::Value;
use socket2::{Domain, SockRef, Socket, Type};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Bytes of a response that the system may hold for the agent, so that a flood is felt early.
const SEND_BUFFER: usize = 64 << 10;

/// One step of a script.
#[derive(Clone, Debug)]
pub enum Step {
    /// Read a whole request; the test gets it from [`Agent::next_request`].
    Read,
    /// Write these bytes.
    Write(Vec<u8>),
    /// Write these bytes one at a time, each in a packet of its own.
    Dribble(Vec<u8>),
    /// Write these bytes so many times, counting in [`Agent::bytes_sent`].
    Flood(Vec<u8>, usize),
    /// Wait for [`Agent::resume`].
    Pause,
    /// Wait until the gateway has closed the connection, and notify [`Agent::wait_until_closed`].
    WaitForClose,
    /// Break the connection with a RST.
    Reset,
    /// Begin the script again.
    Restart,
}

/// Bytes to write.
pub fn write(bytes: impl AsRef<[u8]>) -> Step {
    Step::Write(bytes.as_ref().to_vec())
}

/// A request as the agent got it.
#[derive(Debug)]
pub struct Request {
    /// request line and fields, without the blank line
    pub head: String,
    pub body: Vec<u8>,
}

impl Request {
    /// The fields in order, names as they came.
    pub fn headers(&self) -> Vec<(&str, &str)> {
        self.head.lines().skip(1).map(|line| line.split_once(": ").expect("a field")).collect()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the agent gets JSON")
    }
}

#[derive(Debug)]
enum AgentEvent {
    Request(Request),
    Left,
}

struct Shared {
    /// what the first connection, the second and so on play
    scripts: Vec<Vec<Step>>,
    /// what the first GET, the second and so on play from their request on
    gets: Vec<Vec<Step>>,
    got: AtomicUsize,
    go: Semaphore,
    sent: AtomicUsize,
    connections: AtomicUsize,
    events: UnboundedSender<AgentEvent>,
}

/// A listening agent. Every connection plays the script from its beginning and is closed at its end.
pub struct Agent {
    address: SocketAddr,
    shared: Arc<Shared>,
    events: UnboundedReceiver<AgentEvent>,
}

impl Agent {
    pub fn with_script(steps: Vec<Step>) -> Agent {
        Agent::with_two_steps(steps, Vec::new())
    }

    /// An agent that answers a GET with a script of its own: the first with the first, the last with all that come later.
    /// Those begin behind the request.
    pub fn with_two_steps(steps: Vec<Step>, gets: Vec<Vec<Step>>) -> Agent {
        Agent::start(vec![steps], gets)
    }

    fn start(scripts: Vec<Vec<Step>>, gets: Vec<Vec<Step>>) -> Agent {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        socket.set_nonblocking(true).expect("a socket");
        SockRef::from(&socket).set_send_buffer_size(SEND_BUFFER).expect("a socket");
        let listener = TcpListener::from_std(socket).expect("a runtime");
        let address = listener.local_addr().expect("bound");
        let (sender, events) = unbounded_channel();
        let shared = Arc::new(Shared {
            scripts,
            gets,
            got: AtomicUsize::new(0),
            go: Semaphore::new(0),
            sent: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            events: sender,
        });
        tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let number = shared.connections.fetch_add(1, Ordering::Relaxed);
                    let shared = Arc::clone(&shared);
                    // A connection that breaks ends its script; the test sees it at the other end.
                    tokio::spawn(async move { shared.play(stream, number).await.ok() });
                }
            }
        });
        Agent { address, shared, events }
    }

    /// Reads the request, writes `response` and closes.
    pub fn with_response(response: impl AsRef<[u8]>) -> Agent {
        Agent::with_script(vec![Step::Read, write(response)])
    }

    /// Writes the first response to the first connection, and so on; the last one to all that come later.
    pub fn with_responses(responses: &[String]) -> Agent {
        Agent::with_scripts(responses.iter().map(|response| vec![Step::Read, write(response)]).collect())
    }

    /// Plays the first script to the first connection, and so on; the last one to all that come later.
    pub fn with_scripts(scripts: Vec<Vec<Step>>) -> Agent {
        Agent::start(scripts, Vec::new())
    }

    pub fn url(&self) -> String {
        format!("http://{}/agent?kept=1", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends one [`Step::Pause`], or the next one if none is active.
    pub fn resume(&self) {
        self.shared.go.add_permits(1);
    }

    /// Returns how many bytes of a flood the gateway and the operating system have accepted.
    pub fn bytes_sent(&self) -> usize {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Connections so far.
    pub fn connection_count(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// The next request.
    pub async fn next_request(&mut self) -> Request {
        match within_deadline("a request at the agent", self.events.recv()).await {
            Some(AgentEvent::Request(request)) => request,
            other => panic!("a request was due, not {other:?}"),
        }
    }

    /// Waits until the gateway has closed a connection that stayed.
    pub async fn wait_until_closed(&mut self) {
        match within_deadline("the gateway's leaving", self.events.recv()).await {
            Some(AgentEvent::Left) => {}
            other => panic!("the gateway was to leave, not {other:?}"),
        }
    }
}

impl Shared {
    async fn play(&self, mut stream: TcpStream, number: usize) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut steps = &self.scripts[number.min(self.scripts.len() - 1)];
        let mut at = 0;
        while let Some(step) = steps.get(at) {
            at += 1;
            match step {
                Step::Read => match read(&mut stream).await? {
                    Some(request) => {
                        if request.head.starts_with("GET ") {
                            let number = self.got.fetch_add(1, Ordering::Relaxed).min(self.gets.len() - 1);
                            (steps, at) = (&self.gets[number], 0);
                        }
                        self.notify(AgentEvent::Request(request));
                    }
                    None => return Ok(()),
                },
                Step::Write(bytes) => stream.write_all(bytes).await?,
                Step::Dribble(bytes) => {
                    for byte in bytes {
                        stream.write_all(&[*byte]).await?;
                        tokio::task::yield_now().await;
                    }
                }
                Step::Flood(bytes, times) => {
                    for _ in 0..*times {
                        let mut rest = &bytes[..];
                        while !rest.is_empty() {
                            let taken = stream.write(rest).await?;
                            self.sent.fetch_add(taken, Ordering::Relaxed);
                            rest = &rest[taken..];
                        }
                    }
                }
                Step::Pause => self.go.acquire().await.expect("never closed").forget(),
                Step::WaitForClose => {
                    // A reset is a way to leave as well.
                    while stream.read(&mut [0; 64]).await.unwrap_or(0) > 0 {}
                    self.notify(AgentEvent::Left);
                }
                Step::Reset => {
                    SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO))?;
                    return Ok(());
                }
                Step::Restart => at = 0,
            }
        }
        stream.shutdown().await
    }

    fn notify(&self, happened: AgentEvent) {
        // A test that does not ask has dropped nothing it needs.
        let _ = self.events.send(happened);
    }
}

/// Reads one request, with a Content-Length unless it is a GET; `None` when the connection is closed instead.
async fn read(stream: &mut TcpStream) -> std::io::Result<Option<Request>> {
    let mut bytes = Vec::with_capacity(4 << 10);
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).expect("a head in ASCII");
            let request = Request { head, body: bytes[end + 4..].to_vec() };
            let length = request.header("content-length").map(|length| length.parse().expect("a number"));
            // A GET has no body; a POST always has a length.
            let length: usize = if request.head.starts_with("GET ") { 0 } else { length.expect("a length") };
            if request.body.len() >= length {
                return Ok(Some(request));
            }
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
}

/// An address at which connections are refused for as long as the socket lives: bound, never listening.
pub fn refusing_address() -> (Socket, String) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    socket.bind(&any.into()).expect("a free port");
    let address = socket.local_addr().expect("bound").as_socket().expect("IPv4");
    (socket, format!("http://{address}/"))
}
