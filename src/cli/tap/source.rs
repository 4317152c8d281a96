//! The lines of the gateway's tap, across its restarts and upgrades.
//!
//! ```text
//!   open ──▶ lines ──▶ closed ──▶ wait, longer each time ──▶ open: runs of the new process from its first on
//!                 ╰──▶ another process took over ──▶ open;  meanwhile the lines of the old process, to its end
//! ```

use super::super::metrics_text::{MetricsText, parse_metrics};
use crate::admin::{self, LineStream};
use bytes::Bytes;
use http::Method;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{interval, sleep};

/// Lines that wait for stdout; the gateway keeps the rest.
const WAITING_LINES: usize = 256;

const FIRST_RETRY: Duration = Duration::from_millis(100);

const LAST_RETRY: Duration = Duration::from_secs(5);

/// Interval at which the socket is checked for a new process.
const TAKEOVER_INTERVAL: Duration = Duration::from_millis(250);

/// Interval at which refused requests are counted.
const REFUSALS_INTERVAL: Duration = Duration::from_secs(1);

const REFUSALS: &str = "diglot_refusals_total";

#[derive(Debug)]
pub(super) enum TapEvent {
    /// a line of the process with this number, from 1
    Line { process: u32, line: Bytes },
    /// the process with this number is read
    Connected { process: u32 },
    /// no process answers; it is tried again
    Lost,
    /// requests that no route takes
    Refused { code: String, count: u64 },
    /// there is nothing more to read
    Ended,
    /// the process whose run has the requested number has ended
    NumberEnded,
    /// the first connection failed, or the gateway refused the request
    Failed(io::Error),
}

/// The runs to read.
#[derive(Clone, Debug)]
pub(super) struct TapRequest {
    pub(super) run_dir: PathBuf,
    /// pattern of the routes
    pub(super) routes: String,
    /// number or run id of the only run
    pub(super) run: Option<String>,
    /// reads the runs that are kept, instead of those to come
    pub(super) kept: bool,
}

impl TapRequest {
    /// Returns whether the run is one of a certain process: the next one begins its numbers again.
    fn names_number(&self) -> bool {
        self.run.as_ref().is_some_and(|id| id.strip_prefix('#').unwrap_or(id).parse::<u64>().is_ok())
    }

    fn path(&self, process: u32) -> String {
        let routes = encode_query(&self.routes);
        let run = self.run.as_ref().map(|id| format!("&run={}", encode_query(id))).unwrap_or_default();
        let follow = match (self.kept, process) {
            (true, _) => "",
            (false, 1) if self.run.is_none() => "&follow=1",
            // All that the new process has done so far, or the run if it has begun already.
            (false, _) => "&follow=1&after=0",
        };
        format!("/inspect/v1/tap?route={routes}{run}{follow}")
    }
}

/// Begins to read. Reading ends when the receiver is dropped.
pub(super) fn open_tap(request: TapRequest, with_refusals: bool) -> Receiver<TapEvent> {
    let (events, receiver) = channel(WAITING_LINES);
    if with_refusals && !request.kept {
        tokio::spawn(watch_refusals(request.clone(), events.clone()));
    }
    tokio::spawn(async move {
        // Fails only if the receiver is gone.
        let _ = follow(request, &events).await;
    });
    receiver
}

/// The receiver is gone.
struct TapClosed;

async fn send(events: &Sender<TapEvent>, event: TapEvent) -> Result<(), TapClosed> {
    events.send(event).await.map_err(|_| TapClosed)
}

async fn follow(request: TapRequest, events: &Sender<TapEvent>) -> Result<(), TapClosed> {
    let (mut process, mut retry) = (1, FIRST_RETRY);
    loop {
        match admin::open_stream(&request.run_dir, &request.path(process)).await {
            Ok(stream) => {
                send(events, TapEvent::Connected { process }).await?;
                retry = FIRST_RETRY;
                if request.names_number() && !request.kept {
                    read_to_end(stream, process, events).await?;
                    return send(events, TapEvent::NumberEnded).await;
                }
                let end = read_until_takeover(stream, process, events).await?;
                process += 1;
                match end {
                    StreamEnd::Complete if request.kept => return send(events, TapEvent::Ended).await,
                    StreamEnd::Complete => send(events, TapEvent::Lost).await?,
                    StreamEnd::TakenOver => continue,
                }
            }
            Err(error) if process == 1 || error.kind() == ErrorKind::InvalidInput => {
                return send(events, TapEvent::Failed(error)).await;
            }
            Err(_) => {}
        }
        sleep(retry).await;
        retry = (retry * 2).min(LAST_RETRY);
    }
}

enum StreamEnd {
    /// or broken, which a process that is killed cannot announce
    Complete,
    TakenOver,
}

async fn read_until_takeover(
    mut stream: LineStream,
    process: u32,
    events: &Sender<TapEvent>,
) -> Result<StreamEnd, TapClosed> {
    let mut check = interval(TAKEOVER_INTERVAL);
    loop {
        tokio::select! {
            line = stream.next_line() => match line {
                Ok(Some(line)) => send(events, TapEvent::Line { process, line }).await?,
                Ok(None) | Err(_) => return Ok(StreamEnd::Complete),
            },
            _ = check.tick() => if stream.is_superseded() {
                // Its open runs continue in the process that started them.
                let events = events.clone();
                tokio::spawn(async move { read_to_end(stream, process, &events).await.is_ok() });
                return Ok(StreamEnd::TakenOver);
            },
        }
    }
}

async fn read_to_end(mut stream: LineStream, process: u32, events: &Sender<TapEvent>) -> Result<(), TapClosed> {
    while let Ok(Some(line)) = stream.next_line().await {
        send(events, TapEvent::Line { process, line }).await?;
    }
    Ok(())
}

/// Counts requests that no route takes. Others that are refused are captured, as runs that ended before they began.
async fn watch_refusals(request: TapRequest, events: Sender<TapEvent>) {
    let mut ticks = interval(REFUSALS_INTERVAL);
    let mut before = None;
    while !events.is_closed() {
        ticks.tick().await;
        let answer = admin::request(&request.run_dir, Method::GET, "/metrics", String::new()).await;
        let Ok(answer) = answer else { continue };
        let now = count_refusals(&parse_metrics(&answer.body));
        for (code, count) in new_refusals(before.as_ref(), &now) {
            if send(&events, TapEvent::Refused { code, count }).await.is_err() {
                return;
            }
        }
        before = Some(now);
    }
}

/// Refused requests by code.
type RefusalCounts = BTreeMap<String, u64>;

fn count_refusals(metrics: &MetricsText) -> RefusalCounts {
    let unmatched = metrics.series(REFUSALS).filter(|series| series.label("route").is_empty());
    unmatched.map(|series| (series.label("reason").to_owned(), series.count())).collect()
}

/// Returns what is new. Nothing is before the first count, and everything after a restart.
fn new_refusals(before: Option<&RefusalCounts>, now: &RefusalCounts) -> RefusalCounts {
    let Some(before) = before else { return RefusalCounts::new() };
    let earlier = |code| before.get(code).copied().unwrap_or(0);
    let is_restarted = before.iter().any(|(code, count)| now.get(code).is_none_or(|now| now < count));
    let added =
        now.iter().map(|(code, count)| (code.clone(), if is_restarted { *count } else { count - earlier(code) }));
    added.filter(|(_, count)| *count > 0).collect()
}

/// Encodes a value for the query of a URL.
fn encode_query(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stay_one_value_of_the_query() {
        assert_eq!(encode_query("chat-*"), "chat-*");
        assert_eq!(encode_query("a b&follow=0%"), "a%20b%26follow%3D0%25");
    }

    #[test]
    fn refusals_are_those_since_the_last_count() {
        let counts = |rows: &[(&str, u64)]| -> RefusalCounts {
            rows.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect()
        };
        let before = counts(&[("a", 2), ("b", 1)]);
        assert_eq!(new_refusals(None, &before), counts(&[]));
        assert_eq!(
            new_refusals(Some(&before), &counts(&[("a", 5), ("b", 1), ("c", 1)])),
            counts(&[("a", 3), ("c", 1)])
        );
        // A new process counts from 0.
        assert_eq!(new_refusals(Some(&before), &counts(&[("b", 1)])), counts(&[("b", 1)]));
    }
}
