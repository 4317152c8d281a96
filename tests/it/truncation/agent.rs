//! The agent that stops, on real sockets.

use super::super::support::sse::chunk;
use super::{BodyEnd, RESET, Reason, TRUNCATED};
use socket2::SockRef;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// The ways in which a body stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutKind {
    /// the connection closes, and that is the end of the body
    Close,
    /// a body shorter than its announced length
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

pub const ALL_CUTS: [CutKind; 7] = [
    CutKind::Close,
    CutKind::Length,
    CutKind::ShortOfLength,
    CutKind::LastChunk,
    CutKind::NoLastChunk,
    CutKind::InsideChunk,
    CutKind::Reset,
];

impl CutKind {
    /// Returns the end of the body for its reader.
    pub fn body_end(self) -> BodyEnd {
        match self {
            CutKind::Close | CutKind::Length | CutKind::LastChunk => BodyEnd::Ended,
            CutKind::ShortOfLength | CutKind::NoLastChunk | CutKind::InsideChunk | CutKind::Reset => BodyEnd::Broke,
        }
    }

    /// Returns the gateway's error.
    pub fn expected_error(self) -> Reason {
        if self == CutKind::Reset { RESET } else { TRUNCATED }
    }

    /// The response up to where it stops.
    pub fn response(self, body: &[u8]) -> Vec<u8> {
        // It announces that it closes each connection: a kept one might get the next request while it closes.
        let head = |field: &str| {
            let always = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n";
            format!("{always}{field}\r\n").into_bytes()
        };
        let chunked = || head("Transfer-Encoding: chunked\r\n");
        // A chunk of nothing would be the last one.
        let all = || if body.is_empty() { Vec::new() } else { chunk(body) };
        match self {
            CutKind::Close => [&head(""), body].concat(),
            CutKind::Length => [&head(&format!("Content-Length: {}\r\n", body.len())), body].concat(),
            CutKind::ShortOfLength | CutKind::Reset => {
                [&head(&format!("Content-Length: {}\r\n", body.len() + 9)), body].concat()
            }
            CutKind::LastChunk => [chunked(), all(), b"0\r\n\r\n".to_vec()].concat(),
            CutKind::NoLastChunk => [chunked(), all()].concat(),
            CutKind::InsideChunk => {
                [chunked(), format!("{:x}\r\n", body.len() + 9).into_bytes(), body.to_vec()].concat()
            }
        }
    }
}

/// The agent's reaction to one request.
pub enum AgentAction {
    /// sends these bytes and closes
    Send(Vec<u8>),
    /// sends these bytes, waits for the signal, and resets the connection
    Reset(Vec<u8>, oneshot::Receiver<()>),
    /// sends the frames after the id in the request, or all without one, as a complete response
    ResumeAfter(Vec<String>),
}

/// The orders for each run, by the id of its request; each of its requests takes one.
#[derive(Default)]
pub struct AgentScripts(Mutex<HashMap<String, VecDeque<AgentAction>>>);

impl AgentScripts {
    pub fn add(&self, id: &str, orders: impl IntoIterator<Item = AgentAction>) {
        self.0.lock().expect("whole").insert(id.to_owned(), orders.into_iter().collect());
    }

    fn next(&self, id: &str) -> AgentAction {
        let mut all = self.0.lock().expect("whole");
        let mine = all.get_mut(id).expect("orders");
        let order = mine.pop_front().expect("another order");
        if mine.is_empty() {
            all.remove(id);
        }
        order
    }
}

/// Ports of the agent: each connection to it leaves one of ours unusable for a while, and there are 28,000.
const PORTS: usize = 8;

/// An agent that follows these orders. Gives its URLs.
pub async fn start_agent(orders: &Arc<AgentScripts>) -> String {
    let mut urls = Vec::new();
    for _ in 0..PORTS {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        urls.push(format!("\"http://{}/\"", listener.local_addr().expect("bound")));
        let orders = Arc::clone(orders);
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

async fn serve(mut stream: TcpStream, orders: &AgentScripts) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::new();
    let (id, behind) = loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let field = |name: &str| {
            let fields = head.lines().filter_map(|line| line.split_once(": "));
            fields.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
        };
        // A GET has none.
        let length: usize = field("content-length").map_or(0, |length| length.parse().expect("a number"));
        if body.len() >= length {
            break (field("x-request-id").expect("an id"), field("last-event-id"));
        }
    };
    match orders.next(&id) {
        AgentAction::Send(response) => stream.write_all(&response).await?,
        AgentAction::Reset(response, when) => {
            stream.write_all(&response).await?;
            // A reset may discard unread data.
            let _ = when.await;
            return SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
        AgentAction::ResumeAfter(frames) => {
            let is_last = |frame: &String| behind.as_ref().is_some_and(|id| frame.starts_with(&format!("id: {id}\n")));
            let from = frames.iter().position(is_last).map_or(0, |at| at + 1);
            stream.write_all(&CutKind::LastChunk.response(frames[from..].concat().as_bytes())).await?;
        }
    }
    stream.shutdown().await?;
    // The gateway may have more to send; to close before it has would be a reset.
    while stream.read(&mut [0; 64]).await? > 0 {}
    Ok(())
}
