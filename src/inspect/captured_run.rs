//! One captured run: who it is, what its translator was given so far, and how it stands.
//!
//! The run itself writes through a [`RunCapture`], any number of [`RunReader`]s read. The log only grows until it is full,
//! so that a reader can always translate from the beginning; what comes later is counted.

use super::aligner::RunAligner;
use super::redaction::BodyRedactor;
use super::row::AlignedRow;
use super::store::CaptureBudget;
use super::stream_settings::StreamSettings;
use crate::codec::Framing;
use crate::config::inspect::CaptureMode;
use crate::translate::ConversationState;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// Bytes of the agent that a reader translates at a time.
const READ_BATCH: usize = 32 << 10;

/// About the memory of a run before its first step, its settings and entries in maps included.
const RUN_OVERHEAD: usize = 2 << 10;

/// Something that changed the state of the run's translator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaptureStep {
    /// the response of the agent began, in this framing
    Responded(Framing),
    /// the stream outlives the run and is read for this run id alone
    Followed(Option<Box<str>>),
    /// so many bytes of the body
    Read(usize),
    /// another connection continues the body
    Reconnected,
    /// the body ended
    BodyEnded,
    /// the gateway ended the run with this code and message
    Failed(Box<(String, String)>),
    /// the run was stopped on purpose
    Cancelled,
}

#[derive(Clone, Debug)]
pub(super) struct LogEntry {
    /// since the epoch
    pub(super) now_ms: i64,
    pub(super) step: CaptureStep,
}

/// Who a run is: constant from its beginning.
#[derive(Clone, Debug)]
pub(crate) struct RunHead {
    pub(crate) route: Arc<str>,
    /// the caller's subject
    pub(crate) caller: Option<String>,
    pub(crate) request_id: String,
    pub(crate) mode: CaptureMode,
    /// since the epoch
    pub(crate) started_ms: i64,
    pub(crate) started_at: Instant,
}

/// The bodies of both requests.
#[derive(Clone, Debug)]
pub(crate) struct CapturedRequests {
    pub(crate) client: Bytes,
    pub(crate) agent: Bytes,
}

/// How a run stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunFacts {
    pub(crate) upstream: Option<Arc<str>>,
    pub(crate) events_in: u64,
    pub(crate) events_out: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) repairs: u64,
    pub(crate) losses: u64,
    pub(crate) first_event: Option<Duration>,
    pub(crate) end: Option<RunEnd>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub(crate) struct RunEnd {
    /// a label of `diglot_streams_total`
    pub(crate) outcome: &'static str,
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) duration: Duration,
}

#[derive(Debug, Default)]
struct CaptureLog {
    entries: Vec<LogEntry>,
    bytes: Vec<u8>,
    /// memory that the budget counts for this run
    charged: usize,
    /// bytes of the agent that were not kept
    missed_bytes: u64,
    /// true once a step was not kept, so that no later one may be
    is_full: bool,
    facts: RunFacts,
    /// increases with every change
    version: u64,
}

#[derive(Debug)]
pub(crate) struct CapturedRun {
    /// unique in the process, in the order of beginning
    pub(crate) id: u64,
    pub(crate) head: RunHead,
    pub(crate) settings: StreamSettings,
    conversation: ConversationState,
    /// only in the mode `full`
    pub(crate) requests: Option<CapturedRequests>,
    log: Mutex<CaptureLog>,
    budget: Arc<CaptureBudget>,
}

impl CapturedRun {
    pub(super) fn new(
        id: u64,
        head: RunHead,
        settings: StreamSettings,
        conversation: ConversationState,
        requests: Option<CapturedRequests>,
        budget: Arc<CaptureBudget>,
    ) -> CapturedRun {
        let bodies = requests.as_ref().map_or(0, |both| both.client.len() + both.agent.len());
        let size = RUN_OVERHEAD + conversation.retained_bytes() + bodies;
        let is_full = !budget.charge(0, size);
        let log = CaptureLog { charged: if is_full { 0 } else { size }, is_full, ..CaptureLog::default() };
        let (conversation, requests) = if is_full { Default::default() } else { (conversation, requests) };
        CapturedRun { id, head, settings, conversation, requests, log: Mutex::new(log), budget }
    }

    /// Returns how the run stands, and a number that increases with every change.
    pub(crate) fn facts(&self) -> (RunFacts, u64) {
        let log = self.log.lock();
        (log.facts.clone(), log.version)
    }

    pub(crate) fn version(&self) -> u64 {
        self.log.lock().version
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.log.lock().facts.end.is_some()
    }

    /// Returns the bytes that are kept of the agent, and those that are not.
    pub(crate) fn kept_and_missed(&self) -> (u64, u64) {
        let log = self.log.lock();
        (log.bytes.len() as u64, log.missed_bytes)
    }

    /// Returns the times of the steps since the run began, for a picture of its course.
    pub(crate) fn step_times(&self) -> Vec<(u64, CaptureStep)> {
        let log = self.log.lock();
        log.entries.iter().map(|entry| (self.since_start(entry.now_ms), entry.step.clone())).collect()
    }

    pub(super) fn conversation(&self) -> &ConversationState {
        &self.conversation
    }

    pub(super) fn charged(&self) -> usize {
        self.log.lock().charged
    }

    pub(super) fn since_start(&self, now_ms: i64) -> u64 {
        u64::try_from(now_ms - self.head.started_ms).unwrap_or(0)
    }

    /// Returns entries from the one with this index, with the bytes at this offset, of about [`READ_BATCH`].
    pub(super) fn copy_batch(&self, from: usize, offset: usize) -> (Vec<LogEntry>, Vec<u8>) {
        let log = self.log.lock();
        let (mut entries, mut length) = (Vec::new(), 0);
        for entry in log.entries.get(from..).unwrap_or_default() {
            entries.push(entry.clone());
            if let CaptureStep::Read(bytes) = entry.step {
                length += bytes;
            }
            if length >= READ_BATCH || entries.len() >= READ_BATCH / 64 {
                break;
            }
        }
        (entries, log.bytes[offset..offset + length].to_vec())
    }

    fn append(&self, now_ms: i64, step: CaptureStep, bytes: &[u8]) {
        let mut log = self.log.lock();
        let log = &mut *log;
        log.version += 1;
        if log.is_full || !self.make_room(log, bytes.len()) {
            log.is_full = true;
            log.missed_bytes += bytes.len() as u64;
            return;
        }
        log.bytes.extend_from_slice(bytes);
        log.entries.push(LogEntry { now_ms, step });
    }

    /// Counts bytes that are not kept.
    fn miss(&self, bytes: usize) {
        let mut log = self.log.lock();
        log.is_full = true;
        log.missed_bytes += bytes as u64;
    }

    /// Grows the buffers for another step, if the bounds allow it.
    fn make_room(&self, log: &mut CaptureLog, bytes: usize) -> bool {
        let entries = grown_capacity(log.entries.len(), log.entries.capacity(), 1);
        let capacity = grown_capacity(log.bytes.len(), log.bytes.capacity(), bytes);
        let more_entries = entries - log.entries.capacity();
        let more_bytes = capacity - log.bytes.capacity();
        let more = more_entries * size_of::<LogEntry>() + more_bytes;
        if more == 0 {
            return true;
        }
        if !self.budget.charge(log.charged, more) {
            return false;
        }
        log.charged += more;
        log.entries.reserve_exact(entries - log.entries.len());
        log.bytes.reserve_exact(capacity - log.bytes.len());
        true
    }
}

/// Returns the capacity that a buffer needs for `more`; it grows by half.
fn grown_capacity(length: usize, capacity: usize, more: usize) -> usize {
    const FIRST: usize = 64;
    let needed = length + more;
    if needed <= capacity { capacity } else { needed.max(capacity + capacity / 2).max(FIRST) }
}

impl Drop for CapturedRun {
    fn drop(&mut self) {
        self.budget.release(self.log.get_mut().charged);
    }
}

/// The side of a captured run that the run itself has. The run counts as ended when it is dropped.
#[derive(Debug)]
pub(crate) struct RunCapture {
    pub(super) run: Arc<CapturedRun>,
    /// present if the route names content that must not be kept
    pub(super) redactor: Option<BodyRedactor>,
    /// set if the body cannot be redacted
    is_withheld: AtomicBool,
}

impl RunCapture {
    pub(super) fn new(run: Arc<CapturedRun>, redactor: Option<BodyRedactor>) -> RunCapture {
        RunCapture { run, redactor, is_withheld: AtomicBool::new(false) }
    }

    pub(crate) fn is_redacted(&self) -> bool {
        self.redactor.is_some()
    }

    pub(crate) fn record_read(&self, now_ms: i64, bytes: &[u8]) {
        match &self.redactor {
            None => self.run.append(now_ms, CaptureStep::Read(bytes.len()), bytes),
            Some(_) if self.is_withheld.load(Ordering::Relaxed) => self.run.miss(bytes.len()),
            Some(redactor) => self.record_redacted(now_ms, &redactor.redact(bytes)),
        }
    }

    pub(crate) fn record_step(&self, now_ms: i64, step: CaptureStep) {
        if let Some(redactor) = &self.redactor {
            match &step {
                // Only the text of events is searched.
                CaptureStep::Responded(Framing::Proto) => self.is_withheld.store(true, Ordering::Relaxed),
                CaptureStep::BodyEnded => self.record_redacted(now_ms, &redactor.finish()),
                _ => {}
            }
        }
        self.run.append(now_ms, step, &[]);
    }

    fn record_redacted(&self, now_ms: i64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.run.append(now_ms, CaptureStep::Read(bytes.len()), bytes);
        }
    }

    /// Replaces everything but the end, which [`RunCapture::record_end`] sets.
    pub(crate) fn update_facts(&self, facts: RunFacts) {
        let mut log = self.run.log.lock();
        let end = log.facts.end.take();
        log.facts = RunFacts { end, ..facts };
        log.version += 1;
    }

    pub(crate) fn record_end(&self, outcome: &'static str, code: Option<String>, message: Option<String>) {
        let duration = self.run.head.started_at.elapsed();
        let mut log = self.run.log.lock();
        log.facts.end.get_or_insert(RunEnd { outcome, code, message, duration });
        log.version += 1;
    }
}

impl Drop for RunCapture {
    fn drop(&mut self) {
        // A run that records its end does so before this.
        self.record_end("drained", None, None);
    }
}

/// Reads a captured run from its beginning, as far as it has come. It keeps no run from being evicted.
#[derive(Debug)]
pub(crate) struct RunReader {
    run: Weak<CapturedRun>,
    aligner: RunAligner,
    /// number of entries read so far
    entries: usize,
    bytes: usize,
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum ReaderStep {
    /// none if there are no more yet
    Rows(Vec<AlignedRow>),
    /// there are no more, and will be none
    Ended,
    /// the run was evicted
    Evicted,
}

impl RunReader {
    pub(crate) fn new(run: &Arc<CapturedRun>) -> RunReader {
        let aligner = RunAligner::new(&run.settings, run.conversation.clone());
        RunReader { run: Arc::downgrade(run), aligner, entries: 0, bytes: 0 }
    }

    /// Translates the next part of the run, which takes some milliseconds.
    pub(crate) fn next(&mut self) -> ReaderStep {
        let Some(run) = self.run.upgrade() else { return ReaderStep::Evicted };
        // Before the batch, since a run that has ended adds nothing.
        let is_ended = run.is_ended();
        let (entries, bytes) = run.copy_batch(self.entries, self.bytes);
        if entries.is_empty() && is_ended {
            return ReaderStep::Ended;
        }
        self.entries += entries.len();
        self.bytes += bytes.len();
        let (mut rows, mut rest) = (Vec::new(), bytes.as_slice());
        for LogEntry { now_ms, step } in entries {
            let length = if let CaptureStep::Read(length) = step { length } else { 0 };
            let (body, after) = rest.split_at(length);
            rest = after;
            self.aligner.apply(now_ms, run.since_start(now_ms), &step, body, &mut rows);
        }
        ReaderStep::Rows(rows)
    }
}
