//! Target `replay`: a store of replay logs, with joins at any number, condensation, eviction and reloads.
//!
//! Two bytes of an input are an operation. One run at a time has each of four keys.
//!
//! The laws: a reader receives every event once and in order, from its position on, or a recap and what follows it, or is visibly
//! cut off; a join after an event that is kept succeeds; the memory of the store stays below its limit, and returns to zero.

use crate::judge::{Judge, frames};
use crate::work;
use diglot::fuzzing::replay::{JoinFrom, ReadPiece, StoreLimits, TestReader, TestStore, TestWriter};

const BASE_WORK: u64 = 4_000_000;
const WORK_PER_BYTE: u64 = 200_000;
const KEYS: u8 = 4;
const MAX_OPERATIONS: usize = 200;

/// A run as it was written.
struct WrittenRun {
    key: u8,
    token: u64,
    writer: Option<TestWriter>,
    /// the text of the message, piece by piece, in the order of the events from 3
    deltas: Vec<String>,
}

/// A reader, and all that it received.
struct ActiveReader {
    token: u64,
    from: JoinFrom,
    reader: TestReader,
    received: Vec<u8>,
}

pub fn run(input: &[u8]) {
    let judge = Judge { target: "replay", input };
    let (_, work) = work::measure(|| Session::new(judge).perform(input));
    judge.require_linear(work, BASE_WORK, WORK_PER_BYTE);
}

struct Session<'i> {
    judge: Judge<'i>,
    store: TestStore,
    limit: usize,
    runs: Vec<WrittenRun>,
    readers: Vec<ActiveReader>,
    last_token: u64,
}

fn limits(size: u8) -> StoreLimits {
    let bytes = 8 << 10 << (size % 6);
    StoreLimits { runs: 1 + usize::from(size % 4), bytes, run_bytes: bytes / 2, backlog: 512 << (size % 5) }
}

impl Session<'_> {
    fn new(judge: Judge<'_>) -> Session<'_> {
        let limits = limits(7);
        let store = TestStore::new(limits);
        Session { judge, store, limit: limits.bytes, runs: Vec::new(), readers: Vec::new(), last_token: 0 }
    }

    fn perform(mut self, input: &[u8]) {
        for (at, operation) in input.chunks_exact(2).take(MAX_OPERATIONS).enumerate() {
            let [what, how] = [operation[0], operation[1]];
            self.step(what, how);
            // Reading a metric takes longer than most operations.
            if at % 8 == 7 {
                let shown = self.store.shown_bytes();
                self.judge.require(shown <= self.limit as u64, || format!("{shown} bytes, more than {}", self.limit));
            }
        }
        // Every reader reads on to the end.
        for run in &mut self.runs {
            if let Some(writer) = run.writer.take() {
                writer.finish();
            }
        }
        for at in 0..self.readers.len() {
            self.read(at, usize::MAX);
        }
        self.readers.clear();
        self.runs.clear();
        // A limit of nothing evicts every run.
        self.store.set_limits(StoreLimits { runs: 1, bytes: 0, run_bytes: 0, backlog: 1 });
        let (shown, stored) = (self.store.shown_bytes(), self.store.stored_runs());
        self.judge.require(shown == 0 && stored == 0, || format!("{shown} bytes and {stored} runs are left"));
    }

    fn step(&mut self, what: u8, how: u8) {
        let at = usize::from(how) % self.runs.len().max(1);
        match what % 12 {
            0 => self.insert(how % KEYS),
            1..=4 => self.write(at, what, how),
            5 => self.join(at, JoinKind::Start),
            6 => self.join(at, JoinKind::Recap),
            7 | 8 => self.join(at, JoinKind::Cursor(how)),
            9 if !self.readers.is_empty() => self.read(usize::from(how) % self.readers.len(), usize::from(what) / 12),
            10 if !self.readers.is_empty() => {
                let at = usize::from(how) % self.readers.len();
                self.read(at, 0);
                self.readers.swap_remove(at);
            }
            11 => self.end(at, what / 12, how),
            _ => {}
        }
    }

    fn insert(&mut self, key: u8) {
        self.last_token += 1;
        let token = self.last_token;
        if let Some(writer) = self.store.insert(key, token) {
            self.runs.push(WrittenRun { key, token, writer: Some(writer), deltas: Vec::new() });
        }
    }

    fn write(&mut self, at: usize, what: u8, how: u8) {
        let Some(run) = self.runs.get_mut(at) else { return };
        let Some(writer) = &mut run.writer else { return };
        let mut events = Vec::new();
        if writer.last() == 0 {
            events.push(r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#.to_owned());
            events.push(r#"{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}"#.to_owned());
        }
        let mut deltas = Vec::new();
        for number in 0..=what / 60 {
            let delta = format!("{}.{number}{}", writer.last(), "x".repeat(usize::from(how) * usize::from(what % 12)));
            events.push(format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"{delta}"}}"#));
            deltas.push(delta);
        }
        if writer.write(run.token, &events) {
            run.deltas.extend(deltas);
        }
        writer.send_comment();
    }

    fn join(&mut self, at: usize, kind: JoinKind) {
        let Some(run) = self.runs.get(at) else { return };
        let last = run.deltas.len() as u64 + if run.deltas.is_empty() { 0 } else { 2 };
        let from = match kind {
            JoinKind::Start => JoinFrom::Start,
            JoinKind::Recap => JoinFrom::Recap,
            JoinKind::Cursor(how) => {
                JoinFrom::Cursor { token: run.token, number: last.saturating_sub(u64::from(how) / 4) }
            }
        };
        if let Some(reader) = self.store.join(run.key, from) {
            // Another run may have the key by now; only a cursor names the run.
            let stored = self.runs.iter().rev().find(|own| own.key == run.key).map_or(run.token, |own| own.token);
            self.readers.push(ActiveReader { token: stored, from, reader, received: Vec::new() });
        }
    }

    /// Reads `pieces` pieces, and checks all that the reader has received.
    fn read(&mut self, at: usize, pieces: usize) {
        let ActiveReader { token, from, reader, received } = &mut self.readers[at];
        let mut is_whole = false;
        for _ in 0..pieces {
            match reader.read() {
                ReadPiece::Bytes(bytes) => {
                    self.judge.require(!bytes.is_empty(), || format!("{from:?}: an empty piece"));
                    received.extend_from_slice(&bytes);
                }
                ReadPiece::Waiting | ReadPiece::End => {
                    is_whole = true;
                    break;
                }
                ReadPiece::CutOff => break,
            }
        }
        let Some(run) = self.runs.iter().find(|run| run.token == *token) else { return };
        let skipped = match from {
            JoinFrom::Cursor { number, .. } => usize::try_from(number.saturating_sub(2)).unwrap_or(usize::MAX),
            JoinFrom::Start | JoinFrom::Recap => 0,
        };
        let expected = run.deltas.get(skipped..).unwrap_or_default().concat();
        // A piece may end within a frame.
        let end = received.windows(2).rposition(|two| two == b"\n\n").map_or(0, |at| at + 2);
        let text = deltas(&received[..end]).concat();
        self.judge.require(expected.starts_with(&text), || format!("{from:?}: read {text:?} of {expected:?}"));
        self.judge.require(!is_whole || text.len() == expected.len(), || {
            format!("{from:?}: waits after {text:?} of {expected:?}\n{}", String::from_utf8_lossy(received))
        });
    }

    fn end(&mut self, at: usize, what: u8, how: u8) {
        match what % 4 {
            0 => {
                let limits = limits(how);
                self.store.set_limits(limits);
                self.limit = self.limit.max(limits.bytes);
            }
            1 if at < self.runs.len() => {
                if let Some(writer) = self.runs[at].writer.take() {
                    writer.finish();
                }
            }
            2 if at < self.runs.len() => {
                if let Some(writer) = &mut self.runs[at].writer {
                    writer.forget();
                }
            }
            // Dropping the writer cuts the run.
            3 if at < self.runs.len() => self.runs[at].writer = None,
            _ => {}
        }
    }
}

enum JoinKind {
    Start,
    Recap,
    Cursor(u8),
}

/// Returns the text of the message, as a client adds it up.
fn deltas(body: &[u8]) -> Vec<String> {
    let events = frames(body).into_iter().filter_map(|frame| serde_json::from_str::<serde_json::Value>(&frame).ok());
    events.filter_map(|event| event["delta"].as_str().map(str::to_owned)).collect()
}
