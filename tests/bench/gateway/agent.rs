//! The mock agent: answers each POST with the HAI run that the request plans. One thread; HTTP by hand, because the benchmark
//! decides what one write contains.

use super::script::{AgentScript, StreamPlan};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Duration, Instant, sleep_until};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n\
    transfer-encoding: chunked\r\n\r\n";

/// Serves until the process is killed. The first line of stdout is the port.
pub async fn serve() -> io::Result<()> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let listener: TcpListener = socket.listen(4096)?;
    println!("{}", listener.local_addr()?.port());
    let script = Arc::new(AgentScript::new());
    for number in 0_u32.. {
        let (socket, _) = listener.accept().await?;
        let script = Arc::clone(&script);
        // The golden ratio spreads the streams over the interval between two events.
        let phase = (f64::from(number) * 0.618_033_988_749).fract();
        tokio::spawn(async move { serve_connection(socket, &script, phase).await });
    }
    Ok(())
}

/// Serves one run after another. An error is that of a proxy that disconnected.
async fn serve_connection(mut socket: TcpStream, script: &AgentScript, phase: f64) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut received = Vec::new();
    loop {
        received.clear();
        while !is_whole_request(&received) {
            if socket.read_buf(&mut received).await? == 0 {
                return Ok(());
            }
        }
        let Some(plan) = StreamPlan::find(&received) else {
            return socket.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        };
        send_run(&mut socket, script, plan, phase).await?;
    }
}

/// Returns true if `received` has a head and all of its body. Nothing is pipelined here.
fn is_whole_request(received: &[u8]) -> bool {
    let Some(end) = memchr::memmem::find(received, b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    match length {
        Some(length) => received.len() >= end + 4 + length,
        None => !head.contains("transfer-encoding:") || received.ends_with(b"0\r\n\r\n"),
    }
}

async fn send_run(socket: &mut TcpStream, script: &AgentScript, plan: StreamPlan, phase: f64) -> io::Result<()> {
    let mut out = HEAD.to_vec();
    script.write_opening(&mut out);
    if plan.deltas == 0 {
        script.write_deltas(0, 1, &mut out);
        socket.write_all(&out).await?;
        // Returns when the proxy closes the connection.
        return socket.read_u8().await.map(|_| ());
    }
    if plan.is_one_write() {
        script.write_deltas(0, plan.deltas as usize, &mut out);
        script.write_ending(plan.deltas, &mut out);
        return socket.write_all(&out).await;
    }
    socket.write_all(&out).await?;
    let start = Instant::now();
    let interval =
        if plan.rate == 0 { Duration::ZERO } else { Duration::from_secs(plan.batch as u64) / plan.rate as u32 };
    let mut due = start + interval.mul_f64(phase);
    let mut sent = 0;
    while sent < plan.deltas && (plan.limit.is_zero() || start.elapsed() < plan.limit) {
        if plan.rate > 0 {
            sleep_until(due).await;
            due += interval;
        }
        let count = plan.batch.min(usize::try_from(plan.deltas - sent).unwrap_or(usize::MAX));
        out.clear();
        script.write_deltas(sent, count, &mut out);
        socket.write_all(&out).await?;
        sent += count as u64;
    }
    out.clear();
    script.write_ending(sent, &mut out);
    socket.write_all(&out).await
}
