//! A client's request over HTTP/1.1 or HTTP/2, and what it has received of the answer.

use super::super::support::client::{Client, End};
use super::super::support::within_deadline;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// A request of the load.
#[derive(Clone, Debug, Default)]
pub struct LoadRequest {
    pub method: &'static str,
    pub path: String,
    pub fields: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub over_h2: bool,
    /// whether the client reads into a small buffer
    pub small_buffer: bool,
}

impl LoadRequest {
    pub fn post(path: &str, body: &str) -> LoadRequest {
        let fields = vec![("content-type", "application/json".to_owned())];
        LoadRequest { method: "POST", path: path.to_owned(), fields, body: body.into(), ..LoadRequest::default() }
    }

    pub fn get(path: &str) -> LoadRequest {
        LoadRequest { method: "GET", path: path.to_owned(), ..LoadRequest::default() }
    }

    pub fn with_field(mut self, name: &'static str, value: impl Into<String>) -> LoadRequest {
        self.fields.push((name, value.into()));
        self
    }

    fn h1_bytes(&self) -> Vec<u8> {
        let fields: String = self.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length =
            if self.method == "POST" { format!("content-length: {}\r\n", self.body.len()) } else { String::new() };
        let head = format!("{} {} HTTP/1.1\r\nhost: gateway\r\n{fields}{length}\r\n", self.method, self.path);
        [head.as_bytes(), &self.body].concat()
    }
}

enum BodyReader {
    H1(Client),
    /// with the connection, which ends with its last handle
    H2(Incoming, #[allow(dead_code, reason = "keeps the connection open")] SendRequest<Full<Bytes>>),
}

/// An answer that is being read.
pub struct Transcript {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub end: Option<End>,
    reader: BodyReader,
}

impl Transcript {
    /// Sends a request over a connection of its own and reads the head of the answer; `None` if the connection ends
    /// before it.
    pub async fn open(to: SocketAddr, request: &LoadRequest) -> Option<Transcript> {
        if request.over_h2 {
            return Transcript::open_h2(to, request).await;
        }
        let mut client = match request.small_buffer {
            true => Client::connect_with_small_buffer(to).await,
            false => Client::connect(to).await,
        };
        client.send_what_is_read(&request.h1_bytes()).await;
        let head = client.try_head().await?;
        let reader = BodyReader::H1(client);
        // "A 204 response is terminated by the end of the header section" [RFC 9110 §15.3.5].
        let end = (head.status == 204).then_some(End::Clean);
        Some(Transcript { status: head.status, headers: head.headers, body: Vec::new(), end, reader })
    }

    async fn open_h2(to: SocketAddr, request: &LoadRequest) -> Option<Transcript> {
        let stream = within_deadline("a connection", TcpStream::connect(to)).await.expect("the gateway listens");
        let (mut sender, connection) =
            within_deadline("a handshake", handshake(TokioExecutor::new(), TokioIo::new(stream))).await.ok()?;
        tokio::spawn(connection);
        let mut own = http::Request::builder().method(request.method).uri(format!("http://gateway{}", request.path));
        for (name, value) in &request.fields {
            own = own.header(*name, value);
        }
        let own = own.body(Full::new(Bytes::from(request.body.clone()))).expect("a request");
        let response = within_deadline("an answer", sender.send_request(own)).await.ok()?;
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let status = response.status().as_u16();
        let reader = BodyReader::H2(response.into_body(), sender);
        Some(Transcript { status, headers, body: Vec::new(), end: None, reader })
    }

    /// Reads another piece; false at the end.
    pub async fn read_piece(&mut self) -> bool {
        if self.end.is_some() {
            return false;
        }
        let piece = match &mut self.reader {
            BodyReader::H1(client) => client.next_chunk().await,
            BodyReader::H2(body, _) => match within_deadline("bytes of the answer", body.frame()).await {
                None => Err(End::Clean),
                Some(Err(_)) => Err(End::Cut),
                Some(Ok(frame)) => Ok(frame.into_data().unwrap_or_default().to_vec()),
            },
        };
        match piece {
            Ok(piece) => self.body.extend(piece),
            Err(end) => self.end = Some(end),
        }
        self.end.is_none()
    }

    pub async fn read_to_end(&mut self) {
        while self.read_piece().await {}
    }

    /// Reads until the body has so many frames with an event, or ends.
    pub async fn read_frames(&mut self, count: usize) {
        while frames(&self.body).len() < count && self.read_piece().await {}
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the gateway's code of a problem document, which `code` has in the words of the client.
    pub fn code(&self) -> String {
        let problem: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let kind = problem["type"].as_str().unwrap_or_default();
        kind.strip_prefix("urn:diglot:problem:").unwrap_or_default().to_owned()
    }

    pub fn show(&self) -> String {
        let (status, end) = (self.status, self.end);
        format!("status {status}, end {end:?}, {:?}\n{}", self.headers, String::from_utf8_lossy(&self.body))
    }
}

/// A complete frame with an event: its id, and its text without the id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFrame {
    pub id: Option<String>,
    pub text: String,
}

/// Returns the complete frames of a body, without comments.
pub fn frames(body: &[u8]) -> Vec<EventFrame> {
    let text = String::from_utf8_lossy(body);
    let whole = text.rfind("\n\n").map_or("", |at| &text[..at]);
    let read = |frame: &str| {
        let id = frame.lines().find_map(|line| line.strip_prefix("id: ").map(str::to_owned));
        let kept: Vec<_> = frame.lines().filter(|line| !line.starts_with("id: ") && !line.starts_with(':')).collect();
        EventFrame { id, text: kept.join("\n") }
    };
    whole.split("\n\n").filter(|frame| frame.contains("data: ")).map(read).collect()
}
