//! A client on a bare TCP socket. It distinguishes a body that ended from a connection that was cut, which common
//! clients hide.

use super::{WHOLE_BODY, within, within_deadline};
use socket2::SockRef;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// The body of a plain run.
pub const INPUT: &str = r#"{"threadId":"t1","runId":"r1","state":{},"messages":[{"id":"m1","role":"user","content":"hi"}],"tools":[],"context":[],"forwardedProps":{}}"#;

/// A request that starts a run, with more fields (each line with its CRLF).
pub fn post(path: &str, more: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n{more}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends one request and reads the whole response.
pub async fn send_request(to: SocketAddr, request: impl AsRef<[u8]>) -> Answer {
    let mut client = Client::connect(to).await;
    client.send(request).await;
    client.read_answer().await
}

/// Sends one request over a connection that may break, and reads the response; `None` without a complete head.
pub async fn try_request(to: SocketAddr, request: impl AsRef<[u8]>) -> Option<Answer> {
    let mut client = Client::connect(to).await;
    // A server that closes early does not read everything.
    let _ = within_deadline("sending", client.stream.write_all(request.as_ref())).await;
    let mut answer = client.try_head().await?;
    (answer.body, answer.end) = client.read_rest().await;
    Some(answer)
}

/// Starts a plain run at a path and reads it to its end.
pub async fn post_run(to: SocketAddr, path: &str) -> Answer {
    send_request(to, post(path, "", INPUT)).await
}

/// The end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// the announced length, or the last chunk
    Clean,
    /// with the connection
    Cut,
}

/// A response, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub end: End,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body in UTF-8")
    }
}

/// The length of a body.
#[derive(Debug)]
enum Framing {
    Length(usize),
    /// bytes left of the current chunk
    Chunked(usize),
    Close,
}

/// A connection, and how far the answer on it was read.
pub struct Client<S = TcpStream> {
    stream: S,
    unread: Vec<u8>,
    framing: Framing,
}

impl Client {
    pub async fn connect(to: SocketAddr) -> Client {
        Client::connect_with(to, TcpSocket::new_v4().expect("a socket")).await
    }

    /// A client for which the system holds few bytes.
    pub async fn connect_with_small_buffer(to: SocketAddr) -> Client {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(16 << 10).expect("a socket");
        Client::connect_with(to, socket).await
    }

    async fn connect_with(to: SocketAddr, socket: TcpSocket) -> Client {
        let stream = within_deadline("a connection", socket.connect(to)).await.expect("the gateway listens");
        stream.set_nodelay(true).expect("a socket");
        Client::over(stream)
    }

    /// Breaks the connection with a RST.
    pub fn reset(self) {
        SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO)).expect("a socket");
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// A client on a connection that is there.
    pub fn over(stream: S) -> Client<S> {
        Client { stream, unread: Vec::new(), framing: Framing::Close }
    }

    /// Waits for the end of the connection, and gives what came before it.
    pub async fn read_until_closed(&mut self) -> Vec<u8> {
        while self.fill().await {}
        std::mem::take(&mut self.unread)
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        within_deadline("sending", self.stream.write_all(bytes.as_ref())).await.expect("the gateway reads");
    }

    /// Sends as much as the server reads; one that answers early does not read everything.
    pub async fn send_what_is_read(&mut self, bytes: &[u8]) {
        let _ = within_deadline("sending", self.stream.write_all(bytes)).await;
    }

    async fn fill(&mut self) -> bool {
        self.unread.reserve(32 << 10);
        // A reset ends what can be read, as an end of the connection does.
        within_deadline("bytes of the answer", self.stream.read_buf(&mut self.unread)).await.unwrap_or(0) > 0
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.unread.drain(..end + 2).collect();
                return Some(String::from_utf8(line[..end].to_vec()).expect("a line in UTF-8"));
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    /// Reads the head of an answer; the body is still to come.
    pub async fn read_head(&mut self) -> Answer {
        self.try_head().await.expect("an answer")
    }

    /// The same; `None` where the connection ended inside the head or before it.
    pub async fn try_head(&mut self) -> Option<Answer> {
        let status = self.line().await?;
        let status = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok()).expect("a status");
        let mut answer = Answer { status, headers: Vec::new(), body: Vec::new(), end: End::Cut };
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').expect("a field");
            answer.headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let length = answer.header("content-length").map(|length| length.parse().expect("a number"));
        self.framing = match (length, answer.header("transfer-encoding")) {
            (Some(length), _) => Framing::Length(length),
            (None, Some("chunked")) => Framing::Chunked(0),
            (None, _) if status < 200 => Framing::Length(0),
            (None, _) => Framing::Close,
        };
        Some(answer)
    }

    /// The next piece of the body, or how it ended.
    pub async fn next_chunk(&mut self) -> Result<Vec<u8>, End> {
        if let Framing::Chunked(0) = self.framing {
            let size = self.line().await.ok_or(End::Cut)?;
            let size = usize::from_str_radix(&size, 16).expect("the size of a chunk");
            if size == 0 {
                let last = self.line().await;
                return Err(if last.is_some_and(|line| line.is_empty()) { End::Clean } else { End::Cut });
            }
            self.framing = Framing::Chunked(size);
        }
        if let Framing::Length(0) = self.framing {
            return Err(End::Clean);
        }
        if self.unread.is_empty() && !self.fill().await {
            return Err(End::Cut);
        }
        let known = self.unread.len();
        let take = match &mut self.framing {
            Framing::Length(left) | Framing::Chunked(left) => {
                let take = known.min(*left);
                *left -= take;
                take
            }
            Framing::Close => known,
        };
        let piece = self.unread.drain(..take).collect();
        if let Framing::Chunked(0) = self.framing {
            self.line().await.filter(String::is_empty).ok_or(End::Cut)?;
        }
        Ok(piece)
    }

    /// Reads the body until it holds `text`, and gives what was read.
    pub async fn read_until(&mut self, text: &str) -> String {
        let mut read = Vec::new();
        let reading = async {
            loop {
                let read_text = String::from_utf8_lossy(&read);
                if read_text.contains(text) {
                    return read_text.into_owned();
                }
                let piece = self.next_chunk().await;
                read.extend(piece.unwrap_or_else(|end| panic!("{end:?} before {text:?} in {read:?}")));
            }
        };
        within(WHOLE_BODY, text, reading).await
    }

    /// Reads what is left of the body.
    pub async fn read_rest(&mut self) -> (Vec<u8>, End) {
        let mut body = Vec::new();
        let reading = async {
            loop {
                match self.next_chunk().await {
                    Ok(piece) => body.extend(piece),
                    Err(end) => return end,
                }
            }
        };
        let end = within(WHOLE_BODY, "the end of the body", reading).await;
        (body, end)
    }

    /// Reads a whole answer.
    pub async fn read_answer(&mut self) -> Answer {
        let mut answer = self.read_head().await;
        (answer.body, answer.end) = self.read_rest().await;
        answer
    }
}
