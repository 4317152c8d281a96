//! Reads and checks one response: HTTP/1.1 with chunks, SSE frames, event types, and the number of deltas.

use super::script::{STAMP_DIGITS, now_micros};
use memchr::{memchr, memmem};

/// The event types that a client may receive, and the type of a text delta.
pub struct EventTypes {
    delta: &'static str,
    others: &'static [&'static str],
}

/// What a client behind the gateway receives. `RUN_ERROR` is not in the list: it fails the benchmark.
pub const AG_UI: EventTypes = EventTypes {
    delta: "TEXT_MESSAGE_CONTENT",
    others: &[
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "STATE_SNAPSHOT",
        "STATE_DELTA",
        "RUN_FINISHED",
    ],
};

/// What a client behind a proxy that translates nothing receives.
pub const HAI: EventTypes = EventTypes {
    delta: "BUSINESS_DATA_CONTENT",
    others: &[
        "RUN_STARTED",
        "BUSINESS_DATA_START",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "STATE_DELTA",
        "BUSINESS_DATA_END",
        "RUN_FINISHED",
    ],
};

/// The place in the chunked body.
enum ChunkState {
    /// In the line with the size of a chunk.
    Size,
    /// This many bytes are left of a chunk.
    Data(usize),
    /// In the line end behind a chunk.
    DataEnd,
    /// In the lines behind the last chunk.
    Trailer,
    Done,
}

/// One response while it is read.
pub struct ResponseReader {
    types: &'static EventTypes,
    measures_latency: bool,
    /// The head until it is complete; then the line of a chunk.
    line: Vec<u8>,
    has_head: bool,
    state: ChunkState,
    /// Frames that are not complete.
    text: Vec<u8>,
    /// Text deltas so far.
    pub deltas: u64,
    sent: Option<u64>,
    is_finished: bool,
    /// Microseconds from the agent's write to this process, one for each delta.
    pub latencies: Vec<u32>,
}

impl ResponseReader {
    pub fn new(types: &'static EventTypes, measures_latency: bool) -> ResponseReader {
        ResponseReader {
            types,
            measures_latency,
            line: Vec::new(),
            has_head: false,
            state: ChunkState::Size,
            text: Vec::new(),
            deltas: 0,
            sent: None,
            is_finished: false,
            latencies: Vec::new(),
        }
    }

    /// Reads what the socket had. Returns true at the end of the response.
    pub fn push(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let mut rest = bytes;
        if !self.has_head {
            self.line.extend_from_slice(bytes);
            let Some(end) = memmem::find(&self.line, b"\r\n\r\n") else { return Ok(false) };
            check_head(&self.line[..end], &self.line[end..])?;
            rest = &bytes[bytes.len() - (self.line.len() - end - 4)..];
            self.line.clear();
            self.has_head = true;
        }
        while !rest.is_empty() && !matches!(self.state, ChunkState::Done) {
            rest = self.read_chunk(rest)?;
        }
        self.read_frames()?;
        Ok(matches!(self.state, ChunkState::Done))
    }

    /// Checks that the run is complete, at the end of its response.
    pub fn check_run(&self) -> Result<(), String> {
        if !self.is_finished {
            return Err("the response ended without RUN_FINISHED".to_owned());
        }
        match self.sent {
            Some(sent) if sent == self.deltas => Ok(()),
            sent => Err(format!("{} deltas arrived, and the agent sent {sent:?}", self.deltas)),
        }
    }

    fn read_chunk<'a>(&mut self, rest: &'a [u8]) -> Result<&'a [u8], String> {
        if let ChunkState::Data(left) = self.state {
            let (data, rest) = rest.split_at(left.min(rest.len()));
            self.text.extend_from_slice(data);
            self.state = if data.len() == left { ChunkState::DataEnd } else { ChunkState::Data(left - data.len()) };
            return Ok(rest);
        }
        let Some(end) = memchr(b'\n', rest) else {
            self.line.extend_from_slice(rest);
            return Ok(&[]);
        };
        self.line.extend_from_slice(&rest[..end]);
        let line = String::from_utf8_lossy(&self.line);
        let line = line.trim_end_matches('\r');
        self.state = match self.state {
            ChunkState::Size => {
                let size = line.split(';').next().unwrap_or_default().trim();
                match usize::from_str_radix(size, 16) {
                    Ok(0) => ChunkState::Trailer,
                    Ok(size) => ChunkState::Data(size),
                    Err(_) => return Err(format!("not the size of a chunk: {line:?}")),
                }
            }
            ChunkState::Trailer if line.is_empty() => ChunkState::Done,
            ChunkState::Trailer => ChunkState::Trailer,
            _ => ChunkState::Size,
        };
        self.line.clear();
        Ok(&rest[end + 1..])
    }

    /// Reads the complete frames of `text` and keeps the rest.
    fn read_frames(&mut self) -> Result<(), String> {
        let text = std::mem::take(&mut self.text);
        let now = if self.measures_latency { now_micros() } else { 0 };
        let mut rest = text.as_slice();
        while let Some(end) = memmem::find(rest, b"\n\n") {
            // A frame without data is a comment that keeps the connection alive.
            if let Some(data) = data_of(&rest[..end]) {
                self.read_event(data, now)?;
            }
            rest = &rest[end + 2..];
        }
        let consumed = text.len() - rest.len();
        self.text = text;
        self.text.drain(..consumed);
        Ok(())
    }

    fn read_event(&mut self, data: &[u8], now: u64) -> Result<(), String> {
        let kind = event_type(data)?;
        if self.is_finished {
            return Err(format!("{kind} behind RUN_FINISHED"));
        }
        if kind == self.types.delta {
            self.deltas += 1;
            if self.measures_latency {
                let stamp = stamp_of(data).ok_or_else(|| format!("a delta without its time: {}", excerpt(data)))?;
                self.latencies.push(u32::try_from(now.saturating_sub(stamp)).unwrap_or(u32::MAX));
            }
            return Ok(());
        }
        if !self.types.others.contains(&kind) {
            return Err(format!("unexpected event: {}", excerpt(data)));
        }
        if kind == "TOOL_CALL_RESULT" {
            let content = String::from_utf8_lossy(data);
            let number = content.split("sent=").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
            self.sent = Some(number.ok_or_else(|| format!("a result without its number: {content}"))?);
        }
        self.is_finished = kind == "RUN_FINISHED";
        Ok(())
    }
}

fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(300).collect()
}

fn check_head(head: &[u8], body: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    if !text.starts_with("http/1.1 200 ") {
        return Err(format!("refused: {} {}", excerpt(head), excerpt(body)));
    }
    let is_chunked = text.lines().any(|line| line.starts_with("transfer-encoding:") && line.contains("chunked"));
    let is_stream = text.lines().any(|line| line.starts_with("content-type:") && line.contains("text/event-stream"));
    if is_chunked && is_stream { Ok(()) } else { Err(format!("not a stream in chunks: {}", excerpt(head))) }
}

fn data_of(frame: &[u8]) -> Option<&[u8]> {
    let data = frame.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data:"))?;
    Some(data.strip_prefix(b" ").unwrap_or(data))
}

/// Returns the value of `type`, which is the first member in both dialects.
fn event_type(data: &[u8]) -> Result<&str, String> {
    let value = data.strip_prefix(b"{\"type\":").and_then(|rest| rest.trim_ascii_start().strip_prefix(b"\""));
    let name = value.and_then(|value| std::str::from_utf8(&value[..memchr(b'"', value)?]).ok());
    name.ok_or_else(|| format!("an event that does not begin with its type: {}", excerpt(data)))
}

fn stamp_of(data: &[u8]) -> Option<u64> {
    let at = memchr(b'@', data)? + 1;
    std::str::from_utf8(data.get(at..at + STAMP_DIGITS)?).ok()?.parse().ok()
}
