//! A trace collector: a small HTTP server that accepts OTLP as protobuf and returns the spans.

use super::within_deadline;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span as Message;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The collector's reaction to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectorMode {
    /// it takes it
    Accept,
    /// it answers with that status
    Reject(u16),
    /// it never answers
    Silent,
}

/// A received span, with the attributes of its sender.
#[derive(Clone, Debug)]
pub struct Span {
    pub sender: BTreeMap<String, String>,
    pub attributes: BTreeMap<String, String>,
    pub message: Message,
}

impl Span {
    pub fn id(&self) -> String {
        hex(&self.message.span_id)
    }

    pub fn trace_id(&self) -> String {
        hex(&self.message.trace_id)
    }

    /// Its parent; empty where it has none.
    pub fn parent(&self) -> String {
        hex(&self.message.parent_span_id)
    }

    pub fn is_server(&self) -> bool {
        self.message.kind() == SpanKind::Server
    }

    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// Its events: their names and times.
    pub fn events(&self) -> Vec<(&str, u64)> {
        self.message.events.iter().map(|event| (event.name.as_str(), event.time_unix_nano)).collect()
    }

    /// 0 unset, 1 ok, 2 error.
    pub fn status(&self) -> i32 {
        self.message.status.as_ref().map_or(0, |status| status.code)
    }
}

/// A listening collector.
pub struct Collector {
    address: SocketAddr,
    heads: UnboundedReceiver<String>,
    spans: UnboundedReceiver<Span>,
}

impl Collector {
    pub fn start(mood: CollectorMode) -> Collector {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        socket.set_nonblocking(true).expect("a socket");
        let listener = TcpListener::from_std(socket).expect("a runtime");
        let address = listener.local_addr().expect("bound");
        let ((head, heads), (span, spans)) = (unbounded_channel(), unbounded_channel());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (head, span) = (head.clone(), span.clone());
                // A broken connection has sent no complete request.
                tokio::spawn(async move { serve(stream, mood, &head, &span).await.ok() });
            }
        });
        Collector { address, heads, spans }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next span.
    pub async fn next_span(&mut self) -> Span {
        within_deadline("a span at the collector", self.spans.recv()).await.expect("the collector listens")
    }

    /// The next so many spans, by the ends of their lives: those of agents come first.
    pub async fn spans(&mut self, count: usize) -> Vec<Span> {
        let mut all = Vec::new();
        while all.len() < count {
            all.push(self.next_span().await);
        }
        all
    }

    /// The next request's line and fields.
    pub async fn next_head(&mut self) -> String {
        within_deadline("a batch at the collector", self.heads.recv()).await.expect("the collector listens")
    }

    /// Returns the number of received spans that no test has read.
    pub fn unread_spans(&self) -> usize {
        self.spans.len()
    }
}

async fn serve(
    mut stream: TcpStream,
    mood: CollectorMode,
    heads: &UnboundedSender<String>,
    spans: &UnboundedSender<Span>,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).expect("a head in ASCII").to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let length: usize = length.parse().expect("a number");
        if bytes.len() >= end + 4 + length {
            break (head, bytes[end + 4..end + 4 + length].to_vec());
        }
    };
    let _ = heads.send(head);
    let status = match mood {
        CollectorMode::Accept => 200,
        CollectorMode::Reject(status) => status,
        CollectorMode::Silent => {
            while stream.read(&mut [0; 64]).await? > 0 {}
            return Ok(());
        }
    };
    if mood == CollectorMode::Accept {
        let request = ExportTraceServiceRequest::decode(&*body).expect("a batch in protobuf");
        for of_resource in request.resource_spans {
            let sender = attribute_map(&of_resource.resource.expect("a sender").attributes);
            for message in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let attributes = attribute_map(&message.attributes);
                let _ = spans.send(Span { sender: sender.clone(), attributes, message });
            }
        }
    }
    let answer = format!("HTTP/1.1 {status} x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

fn attribute_map(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|one| (one.key.clone(), text(&one.value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
