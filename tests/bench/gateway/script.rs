//! The run that the mock agent sends: HAI events in SSE frames, and the plan of a load, which travels in the request.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Events of a run besides its text deltas.
pub const FRAME_EVENTS: u64 = 10;

/// Digits of the time in a delta, `@0000000000000000@`, in microseconds.
pub const STAMP_DIGITS: usize = 16;

const TEXTS: [&str; 8] = [
    "HAI是一套事件驱动的",
    "Agent与前端交互协议，",
    "支持实时流式交互。",
    "according to the logs, ",
    "基站告警\\\"LOS\\\"已清除，",
    "第3步：核对配置项\\n",
    "温度25°C，湿度40%。",
    "小区退服原因分析完成✅",
];

/// Returns the time as agent and client write it; they share the clock of one machine.
pub fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The shape of one stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamPlan {
    /// Text deltas; 0 for a stream that stays open after its first delta.
    pub deltas: u64,
    /// Deltas in one write, which is one HTTP chunk. With more than `deltas`, one write contains the whole run.
    pub batch: usize,
    /// Deltas per second; 0 for as fast as they are read.
    pub rate: u64,
    /// Ends the stream after this time, even with fewer deltas; zero for no such end.
    pub limit: Duration,
}

impl StreamPlan {
    /// Returns the value of `forwardedProps.bench`.
    pub fn text(&self) -> String {
        format!("{} {} {} {}", self.deltas, self.batch, self.rate, self.limit.as_millis())
    }

    /// Returns true if the proxy can read the whole run at once.
    pub fn is_one_write(&self) -> bool {
        self.batch as u64 > self.deltas
    }

    /// Finds the plan in the body of a request, wherever the proxy put it.
    pub fn find(body: &[u8]) -> Option<StreamPlan> {
        let body = std::str::from_utf8(body).ok()?;
        let value = body.split("\"bench\"").nth(1)?.split('"').nth(1)?;
        let mut numbers = value.split(' ').map(|number| number.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        Some(StreamPlan {
            deltas: next()?,
            batch: usize::try_from(next()?).ok()?.max(1),
            rate: next()?,
            limit: Duration::from_millis(next()?),
        })
    }
}

/// A frame with a delta, and the place of its time.
struct DeltaFrame {
    bytes: Vec<u8>,
    stamp_at: usize,
}

/// The frames of every run, written once.
pub struct AgentScript {
    deltas: Vec<DeltaFrame>,
}

impl AgentScript {
    pub fn new() -> AgentScript {
        let frame = |text: &&str| {
            let stamp = format!("@{:0STAMP_DIGITS$}@", 0);
            let members = format!(r#""messageId": "msg-1", "delta": "{stamp}{text}", "timestamp": 1762000000123"#);
            let frame = event("BUSINESS_DATA_CONTENT", &members);
            let stamp_at = frame.find('@').map_or(0, |at| at + 1);
            DeltaFrame { bytes: frame.into_bytes(), stamp_at }
        };
        AgentScript { deltas: TEXTS.iter().map(frame).collect() }
    }

    /// Appends the first events of a run as one chunk. HAI's `RUN_STARTED` has no ids.
    pub fn write_opening(&self, out: &mut Vec<u8>) {
        let message = r#""messageId": "msg-1", "role": "assistant", "timestamp": 1762000000123"#;
        write_chunk(out, &[event("RUN_STARTED", message), event("BUSINESS_DATA_START", message)].concat());
    }

    /// Appends `count` deltas, counted from `first`, as one chunk that has the time of now.
    pub fn write_deltas(&self, first: u64, count: usize, out: &mut Vec<u8>) {
        let frames = || (first..).take(count).map(|at| &self.deltas[at as usize % self.deltas.len()]);
        let length: usize = frames().map(|frame| frame.bytes.len()).sum();
        let stamp = format!("{:0STAMP_DIGITS$}", now_micros());
        out.extend_from_slice(format!("{length:x}\r\n").as_bytes());
        for frame in frames() {
            let at = out.len() + frame.stamp_at;
            out.extend_from_slice(&frame.bytes);
            out[at..at + STAMP_DIGITS].copy_from_slice(stamp.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the last events of a run and the end of the response. The result of the call has the number of deltas, so that the
    /// client can check its own count.
    pub fn write_ending(&self, deltas: u64, out: &mut Vec<u8>) {
        let mut frames = String::new();
        let mut add = |kind, members: &str| frames.push_str(&event(kind, members));
        let call = r#""toolCallId": "call-1""#;
        add("TOOL_CALL_START", &format!(r#"{call}, "toolCallName": "get_weather", "parentMessageId": "msg-1""#));
        add("TOOL_CALL_ARGS", &format!(r#"{call}, "delta": "{{\"city\": \"北""#));
        add("TOOL_CALL_ARGS", &format!(r#"{call}, "delta": "京\"}}""#));
        add("TOOL_CALL_END", call);
        add(
            "TOOL_CALL_RESULT",
            &format!(r#""messageId": "msg-2", {call}, "content": "sent={deltas} 晴天", "role": "tool""#),
        );
        add("STATE_DELTA", r#""delta": [{"op": "add", "path": "/status", "value": "done"}]"#);
        add("BUSINESS_DATA_END", r#""messageId": "msg-1", "timestamp": 1762000000456"#);
        add("RUN_FINISHED", r#""messageId": "msg-1", "role": "assistant", "timestamp": 1762000000456"#);
        write_chunk(out, &frames);
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

/// Returns one frame, with blanks as Python's `json.dumps` writes them.
fn event(kind: &str, members: &str) -> String {
    let mut frame = String::new();
    let _ = write!(frame, "data: {{\"type\": \"{kind}\", {members}}}\n\n");
    frame
}

fn write_chunk(out: &mut Vec<u8>, body: &str) {
    out.extend_from_slice(format!("{:x}\r\n{body}\r\n", body.len()).as_bytes());
}
