//! A run store with its logs, writers and readers.

use crate::config::replay::{ReplayConfig, ReplayStoreKind};
use crate::dialect::{AG_UI, PeerDialect};
use crate::replay::{
    Cursor, InsertOutcome, LogReader, LogWriter, NewRun, ReadFrom, RunDescriptor, RunKeys, RunStore, RunToken,
};
use crate::telemetry::Metrics;
use crate::translate::RunIds;
use crate::translate::recap::{Recap, RecapInput};
use futures_util::FutureExt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// Longer than any input takes.
const NEVER: Duration = Duration::from_secs(1 << 20);

/// The limits of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreLimits {
    pub runs: usize,
    pub bytes: usize,
    pub run_bytes: usize,
    pub backlog: usize,
}

impl StoreLimits {
    fn replay(self) -> ReplayConfig {
        ReplayConfig {
            runs: NonZeroUsize::new(self.runs).unwrap_or(NonZeroUsize::MIN),
            bytes: self.bytes,
            run_bytes: self.run_bytes,
            age: NEVER,
            store: ReplayStoreKind::Memory,
        }
    }
}

/// A store, without a runtime: nothing happens between two calls.
#[allow(missing_debug_implementations, reason = "the store has no form to print")]
pub struct TestStore {
    store: Arc<RunStore>,
    metrics: Metrics,
}

impl TestStore {
    /// Creates an empty store.
    ///
    /// # Panics
    /// Panics if two metrics have one name.
    #[must_use]
    pub fn new(limits: StoreLimits) -> TestStore {
        #[expect(clippy::expect_used, reason = "a test")]
        let metrics = Metrics::new().expect("unique names");
        let store = RunStore::new(limits.replay(), limits.backlog, NEVER, metrics.replay.clone());
        TestStore { store, metrics }
    }

    /// Applies other limits, as a reload does.
    pub fn set_limits(&self, limits: StoreLimits) {
        self.store.set_bounds(limits.replay(), limits.backlog);
    }

    /// Stores a run, unless it exists or the store is full.
    #[must_use]
    pub fn insert(&self, key: u8, token: u64) -> Option<TestWriter> {
        let side = PeerDialect::new(&AG_UI);
        let ids = RunIds::new("t", "r");
        let recap = Recap::new(side, &ids, RecapInput::default());
        let body = token.to_le_bytes().repeat(4).try_into().unwrap_or([0; 32]);
        let keys = RunKeys { run: [key; 32], thread: [key % 2; 32], body, caller: [key % 3; 32] };
        let descriptor = RunDescriptor { keys, token: RunToken::new(token), side, ids };
        let fresh = NewRun { descriptor, recap, abandon_after: NEVER, remote_through: None };
        match self.store.insert(fresh) {
            InsertOutcome::New(writer) => Some(TestWriter { writer, last: 0 }),
            InsertOutcome::Existing(_) | InsertOutcome::Conflict | InsertOutcome::Full => None,
        }
    }

    /// Joins the run with this key, if it is stored and can be joined.
    #[must_use]
    pub fn join(&self, key: u8, from: JoinFrom) -> Option<TestReader> {
        let log = Arc::clone(&self.store.find(&[key; 32])?.log);
        let from = match from {
            JoinFrom::Start => ReadFrom::Start(0),
            JoinFrom::Recap => ReadFrom::Recap(0),
            JoinFrom::Cursor { token, number } => ReadFrom::Cursor(Cursor { token: RunToken::new(token), number }),
        };
        log.join(from, false, ()).ok().map(|reader| TestReader { reader })
    }

    /// Returns the memory that the metric shows.
    #[must_use]
    pub fn shown_bytes(&self) -> u64 {
        let text = self.metrics.render();
        let line = text.lines().find_map(|line| line.strip_prefix("diglot_replay_bytes "));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(u64::MAX)
    }

    /// Returns the number of runs that can be found.
    #[must_use]
    pub fn stored_runs(&self) -> usize {
        (0..=u8::MAX).filter(|key| self.store.find(&[*key; 32]).is_some()).count()
    }
}

/// The position at which a reader begins.
#[derive(Clone, Copy, Debug)]
pub enum JoinFrom {
    Start,
    Recap,
    Cursor { token: u64, number: u64 },
}

/// The writer of a run.
#[allow(missing_debug_implementations, reason = "the writer has no form to print")]
pub struct TestWriter {
    writer: LogWriter,
    last: u64,
}

impl TestWriter {
    /// Returns the number of the last event.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Appends the data of events as frames. Returns `false` if the run would have to wait, and then appends nothing.
    pub fn write(&mut self, token: u64, events: &[String]) -> bool {
        let mut frames = Vec::new();
        let mut number = self.last;
        for data in events {
            number += 1;
            let id = Cursor { token: RunToken::new(token), number };
            frames.extend_from_slice(format!("id: {id}\ndata: {data}\n\n").as_bytes());
        }
        let written = matches!(self.writer.write(&mut frames, number).now_or_never(), Some(Ok(())));
        if written {
            self.last = number;
        }
        written
    }

    /// Sends a comment to readers that wait.
    pub fn send_comment(&self) {
        self.writer.send_comment();
    }

    /// Ends the run, and keeps its log.
    pub fn finish(self) {
        self.writer.finish();
    }

    /// Removes the run from the store; its readers read to the end.
    pub fn forget(&mut self) {
        self.writer.forget();
    }
}

/// A reader of a run.
#[derive(Debug)]
pub struct TestReader {
    reader: LogReader,
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadPiece {
    Bytes(Vec<u8>),
    Waiting,
    End,
    CutOff,
}

impl TestReader {
    /// Reads the next piece.
    #[must_use]
    pub fn read(&self) -> ReadPiece {
        match std::future::poll_fn(|cx| self.reader.poll_next(cx)).now_or_never() {
            Some(Some(Ok(bytes))) => ReadPiece::Bytes(bytes.to_vec()),
            Some(Some(Err(_))) => ReadPiece::CutOff,
            Some(None) => ReadPiece::End,
            None => ReadPiece::Waiting,
        }
    }
}
