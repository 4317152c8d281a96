//! An agent on hyper's server: HTTP/1.1 or HTTP/2, on a port, over TLS or on a Unix socket. Its response can change
//! while it serves, and it can be killed and restarted at the same address.

use crate::support::sse::{CLOSED, FINISHED, run_beginning};
use bytes::Bytes;
use http::{Method, Request, Response, Version};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// The response to a run.
#[derive(Clone, Copy, Debug)]
pub enum AnswerMode {
    /// a whole run
    Whole,
    /// the beginning of one, and the rest after [`TestAgent::finish_runs`]
    Hold,
    /// this status and nothing else
    Status(u16),
    /// nothing, for ever
    Silent,
}

/// The listener and its protocol.
#[derive(Clone, Default)]
pub struct AgentConfig {
    pub tls: Option<Arc<ServerConfig>>,
    /// HTTP/2 without TLS
    pub h2: bool,
    pub socket: Option<PathBuf>,
    /// how many runs it takes on one HTTP/2 connection
    pub streams: Option<u32>,
}

/// Counters of past events.
#[derive(Default)]
struct AgentCounts {
    connections: AtomicUsize,
    runs: AtomicUsize,
    over_h2: AtomicUsize,
    open: AtomicUsize,
    cancelled: AtomicUsize,
    checks: AtomicUsize,
}

struct Shared {
    answer_mode: Mutex<AnswerMode>,
    health: Mutex<u16>,
    finish: watch::Sender<bool>,
    counts: AgentCounts,
    /// the last request of a run: its line and its fields
    last: Mutex<Option<Request<()>>>,
}

pub struct TestAgent {
    pub kind: AgentConfig,
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: JoinSet<()>,
    serving: Connections,
}

/// The tasks of its connections.
type Connections = Arc<Mutex<JoinSet<()>>>;

/// Returns true while a socket is connected to this port of the machine.
fn has_peers(port: u16) -> bool {
    const ESTABLISHED: &str = "01";
    let address = format!(":{port:04X}");
    let sockets = std::fs::read_to_string("/proc/net/tcp").expect("Linux lists its sockets");
    // The columns: a number, the local address, the remote one, and the state.
    sockets.lines().any(|line| {
        let mut columns = line.split_whitespace().skip(2);
        columns.next().is_some_and(|remote| remote.ends_with(&address)) && columns.next() == Some(ESTABLISHED)
    })
}

impl TestAgent {
    pub async fn start(kind: AgentConfig) -> TestAgent {
        let shared = Shared {
            answer_mode: Mutex::new(AnswerMode::Whole),
            health: Mutex::new(200),
            finish: watch::Sender::new(false),
            counts: AgentCounts::default(),
            last: Mutex::default(),
        };
        let any = "127.0.0.1:0".parse().expect("an address");
        let (listening, serving) = (JoinSet::new(), Connections::default());
        let mut served = TestAgent { kind, address: any, shared: Arc::new(shared), listening, serving };
        served.listen().await;
        served
    }

    /// One on a port, in cleartext HTTP/1.1.
    pub async fn start_plain() -> TestAgent {
        TestAgent::start(AgentConfig::default()).await
    }

    async fn listen(&mut self) {
        let (shared, kind, serving) = (Arc::clone(&self.shared), self.kind.clone(), Arc::clone(&self.serving));
        let serve = move |stream: Box<dyn ByteStream>| {
            let served = serve_connection(Arc::clone(&shared), kind.clone(), stream);
            serving.lock().expect("not poisoned").spawn(served);
        };
        if let Some(path) = &self.kind.socket {
            let listener = UnixListener::bind(path).expect("a free name");
            self.listening.spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    serve(Box::new(stream));
                }
            });
            return;
        }
        let listener = TcpListener::bind(self.address).await.expect("a free port");
        self.address = listener.local_addr().expect("bound");
        self.listening.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serve(Box::new(stream));
            }
        });
    }

    /// Closes everything, without a word.
    pub async fn kill(&mut self) {
        self.listening.shutdown().await;
        let mut serving = std::mem::take(&mut *self.serving.lock().expect("not poisoned"));
        serving.shutdown().await;
        // A busy kernel delivers the ends of the connections later, and until then the gateway cannot know them.
        super::wait_until("the ends of the connections are delivered", || !has_peers(self.address.port())).await;
        if let Some(path) = &self.kind.socket {
            std::fs::remove_file(path).expect("it is there");
        }
    }

    /// Starts it again at the same place.
    pub async fn restart(&mut self) {
        self.listen().await;
    }

    pub fn url(&self) -> String {
        match &self.kind {
            AgentConfig { socket: Some(path), .. } => format!("unix:{}:/agent", path.display()),
            AgentConfig { tls: Some(_), .. } => format!("https://localhost:{}/agent", self.address.port()),
            _ => format!("http://{}/agent", self.address),
        }
    }

    /// Returns its label in metrics.
    pub fn label(&self) -> String {
        self.url().trim_end_matches("/agent").trim_end_matches(':').to_owned()
    }

    pub fn set_answer(&self, way: AnswerMode) {
        *self.shared.answer_mode.lock().expect("not poisoned") = way;
    }

    /// Sets the status for health checks.
    pub fn set_health_status(&self, status: u16) {
        *self.shared.health.lock().expect("not poisoned") = status;
    }

    /// Ends every open run, and all later ones.
    pub fn finish_runs(&self) {
        self.shared.finish.send_replace(true);
    }

    pub fn connection_count(&self) -> usize {
        self.shared.counts.connections.load(SeqCst)
    }

    /// Returns the number of requested runs.
    pub fn run_count(&self) -> usize {
        self.shared.counts.runs.load(SeqCst)
    }

    /// Those of them over HTTP/2.
    pub fn h2_run_count(&self) -> usize {
        self.shared.counts.over_h2.load(SeqCst)
    }

    /// Returns the number of open runs.
    pub fn open_run_count(&self) -> usize {
        self.shared.counts.open.load(SeqCst)
    }

    /// Runs that the gateway broke off.
    pub fn cancelled_count(&self) -> usize {
        self.shared.counts.cancelled.load(SeqCst)
    }

    /// Health checks so far.
    pub fn health_check_count(&self) -> usize {
        self.shared.counts.checks.load(SeqCst)
    }

    /// The last request of a run.
    pub fn last_request(&self) -> Request<()> {
        self.shared.last.lock().expect("not poisoned").clone().expect("there was one")
    }
}

/// A connection.
trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

async fn serve_connection(shared: Arc<Shared>, kind: AgentConfig, stream: Box<dyn ByteStream>) {
    shared.counts.connections.fetch_add(1, SeqCst);
    let Some(tls) = &kind.tls else { return serve_http(shared, &kind, kind.h2, stream).await };
    // A gateway that does not like our certificate is what some tests are about.
    let Ok(stream) = TlsAcceptor::from(Arc::clone(tls)).accept(stream).await else { return };
    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    serve_http(shared, &kind, h2, stream).await;
}

async fn serve_http(shared: Arc<Shared>, kind: &AgentConfig, h2: bool, stream: impl ByteStream + 'static) {
    let service = service_fn(move |request| answer_request(Arc::clone(&shared), request));
    // However a connection ends, the test sees it at the other side.
    if h2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.max_concurrent_streams(kind.streams);
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    } else {
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }
}

async fn answer_request(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<AnswerBody>, Infallible> {
    let whole = |status: u16| {
        let answer = AnswerBody { pieces: Vec::new(), rest: None };
        Ok(Response::builder().status(status).body(answer).expect("an answer"))
    };
    if request.method() == Method::GET {
        shared.counts.checks.fetch_add(1, SeqCst);
        let status = *shared.health.lock().expect("not poisoned");
        return whole(status);
    }
    let (head, body) = request.into_parts();
    shared.counts.runs.fetch_add(1, SeqCst);
    shared.counts.over_h2.fetch_add(usize::from(head.version == Version::HTTP_2), SeqCst);
    *shared.last.lock().expect("not poisoned") = Some(Request::from_parts(head, ()));
    let _ = http_body_util::BodyExt::collect(body).await;
    let way = *shared.answer_mode.lock().expect("not poisoned");
    let answer = match way {
        AnswerMode::Whole => AnswerBody { pieces: vec![run_beginning() + CLOSED + FINISHED], rest: None },
        AnswerMode::Hold => {
            shared.counts.open.fetch_add(1, SeqCst);
            let (mut finish, held) = (shared.finish.subscribe(), OpenRun(Arc::clone(&shared)));
            let rest = async move {
                let _ = finish.wait_for(|finish| *finish).await;
                held
            };
            AnswerBody { pieces: vec![run_beginning()], rest: Some(Box::pin(rest)) }
        }
        AnswerMode::Status(status) => return whole(status),
        AnswerMode::Silent => std::future::pending().await,
    };
    Ok(Response::builder().header("content-type", "text/event-stream").body(answer).expect("an answer"))
}

/// An open run. If it is dropped before its end, the run counts as cancelled.
struct OpenRun(Arc<Shared>);

impl Drop for OpenRun {
    fn drop(&mut self) {
        self.0.counts.open.fetch_sub(1, SeqCst);
        if !*self.0.finish.borrow() {
            self.0.counts.cancelled.fetch_add(1, SeqCst);
        }
    }
}

/// The body of an answer.
struct AnswerBody {
    pieces: Vec<String>,
    rest: Option<Pin<Box<dyn Future<Output = OpenRun> + Send>>>,
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(piece) = self.pieces.pop() {
            return Poll::Ready(Some(Ok(Frame::data(piece.into()))));
        }
        let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
        let held = std::task::ready!(rest.as_mut().poll(cx));
        drop(held);
        self.rest = None;
        Poll::Ready(Some(Ok(Frame::data((CLOSED.to_owned() + FINISHED).into()))))
    }
}
