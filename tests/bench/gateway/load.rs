//! The load client: opens streams, one after another or many at once, and checks every one of them.

use super::reader::{EventTypes, ResponseReader};
use super::script::{FRAME_EVENTS, StreamPlan};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, timeout};

/// Between the beginnings of two streams, so that they do not all connect at once.
const RAMP: Duration = Duration::from_micros(500);

/// Longest time that a load may take beyond what it plans.
const GRACE: Duration = Duration::from_secs(60);

/// How often each connection runs its plan.
#[derive(Clone, Copy)]
pub enum RunCount {
    Times(u64),
    For(Duration),
}

/// A load on one proxy.
#[derive(Clone)]
pub struct LoadSpec {
    pub port: u16,
    pub types: &'static EventTypes,
    /// The value of `Authorization`, if the proxy wants one.
    pub authorization: Option<String>,
    pub connections: usize,
    pub plan: StreamPlan,
    pub runs: RunCount,
}

/// The counts of a load.
#[derive(Default)]
pub struct LoadResult {
    pub runs: u64,
    /// Events that the agent sent, all of which arrived.
    pub events: u64,
    /// Microseconds, if the plan has a rate.
    pub latencies: Vec<u32>,
}

thread_local! {
    /// One buffer for all connections: only the one that is being read needs it.
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 << 10]);
}

/// Runs a load to its end. Any stream that is not complete is an error.
pub async fn run_load(spec: &LoadSpec) -> Result<LoadResult, String> {
    let spec = Arc::new(spec.clone());
    let mut connections = JoinSet::new();
    for number in 0..spec.connections {
        let spec = Arc::clone(&spec);
        connections.spawn(async move {
            sleep(RAMP * u32::try_from(number).unwrap_or(0)).await;
            run_connection(&spec, number).await.map_err(|problem| format!("stream {number}: {problem}"))
        });
    }
    let mut total = LoadResult::default();
    let all = async {
        while let Some(result) = connections.join_next().await {
            let result = result.map_err(|error| error.to_string())??;
            total.runs += result.runs;
            total.events += result.events;
            total.latencies.extend(result.latencies);
        }
        Ok::<(), String>(())
    };
    timeout(planned_time(&spec) + GRACE, all).await.map_err(|_| "the load did not end in time".to_owned())??;
    Ok(total)
}

/// Opens the streams, waits for the first delta of each, and returns their sockets.
pub async fn open_streams(spec: &LoadSpec) -> Result<Vec<TcpStream>, String> {
    let mut opening = JoinSet::new();
    for number in 0..spec.connections {
        let spec = spec.clone();
        opening.spawn(async move {
            sleep(RAMP * u32::try_from(number).unwrap_or(0)).await;
            let mut socket = connect(&spec).await?;
            send_request(&mut socket, &spec, number as u64).await?;
            let mut reader = ResponseReader::new(spec.types, false);
            while reader.deltas == 0 {
                if receive(&mut socket, &mut reader).await? {
                    return Err("the stream ended".to_owned());
                }
            }
            Ok(socket)
        });
    }
    let mut sockets = Vec::new();
    let all = async {
        while let Some(socket) = opening.join_next().await {
            sockets.push(socket.map_err(|error| error.to_string())??);
        }
        Ok::<(), String>(())
    };
    timeout(GRACE, all).await.map_err(|_| "the streams did not open in time".to_owned())??;
    Ok(sockets)
}

fn planned_time(spec: &LoadSpec) -> Duration {
    let stream = match spec.plan.rate {
        0 => spec.plan.limit,
        rate => Duration::from_secs(spec.plan.deltas / rate),
    };
    match spec.runs {
        RunCount::Times(_) => stream,
        RunCount::For(time) => time,
    }
}

async fn run_connection(spec: &LoadSpec, number: usize) -> Result<LoadResult, String> {
    let mut result = LoadResult::default();
    let mut socket = connect(spec).await?;
    let start = Instant::now();
    let is_due = |runs| match spec.runs {
        RunCount::Times(times) => runs < times,
        RunCount::For(time) => start.elapsed() < time,
    };
    while is_due(result.runs) {
        send_request(&mut socket, spec, number as u64 * 1_000_000 + result.runs).await?;
        let mut reader = ResponseReader::new(spec.types, spec.plan.rate > 0);
        while !receive(&mut socket, &mut reader).await? {}
        reader.check_run()?;
        result.runs += 1;
        result.events += reader.deltas + FRAME_EVENTS;
        result.latencies.append(&mut reader.latencies);
    }
    Ok(result)
}

async fn connect(spec: &LoadSpec) -> Result<TcpStream, String> {
    let socket = TcpStream::connect(("127.0.0.1", spec.port)).await.map_err(|error| format!("connect: {error}"))?;
    socket.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(socket)
}

async fn send_request(socket: &mut TcpStream, spec: &LoadSpec, run: u64) -> Result<(), String> {
    let body = format!(
        r#"{{"threadId":"thread-{run}","runId":"run-{run}","state":{{}},"messages":[{{"id":"u1","role":"user","content":"帮我查一下北京的天气"}}],"tools":[],"context":[],"forwardedProps":{{"bench":"{}"}}}}"#,
        spec.plan.text()
    );
    let authorization =
        spec.authorization.as_ref().map_or(String::new(), |value| format!("authorization: {value}\r\n"));
    let request = format!(
        "POST /chat HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\ncontent-type: application/json\r\n\
         {authorization}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.map_err(|error| format!("write: {error}"))
}

/// Waits for bytes and reads them once. Returns true at the end of the response.
async fn receive(socket: &mut TcpStream, reader: &mut ResponseReader) -> Result<bool, String> {
    // Unlike `TcpStream::try_read`, this waits after a short read without another system call.
    poll_fn(|context| {
        READ_BUFFER.with_borrow_mut(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            let read = ready!(Pin::new(&mut *socket).poll_read(context, &mut buffer));
            Poll::Ready(match (read, buffer.filled()) {
                (Err(error), _) => Err(format!("read: {error}")),
                (Ok(()), []) => Err("the connection closed within a stream".to_owned()),
                (Ok(()), bytes) => reader.push(bytes),
            })
        })
    })
    .await
}
