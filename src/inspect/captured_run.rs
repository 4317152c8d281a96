//! One captured run: its identity, what its translator was given so far, and its state.
//!
//! The log only grows until it is full, so that a reader can always translate from the beginning; what comes later is
//! counted.

use super::agent_silence::{AgentSilence, RunSpan};
use super::capture_budget::CaptureBudget;
use super::capture_step::{CaptureStep, LogEntry};
use super::row::RunCause;
use super::step_log::{ReadPosition, StepLog};
use super::stream_settings::StreamSettings;
use crate::codec::json;
use crate::config::inspect::CaptureMode;
use crate::dialect::PeerDialect;
use crate::event::{Field, Json};
use crate::telemetry::label::RunOutcome;
use crate::telemetry::{RunTimeline, SHOWN_GAP};
use crate::translate::{ConversationState, EventCounts};
use bytes::Bytes;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// Bytes of the agent that a reader translates at a time.
const READ_BATCH: usize = 32 << 10;

/// About the memory of a run before its first step, its settings and entries in maps included.
const RUN_OVERHEAD: usize = 2 << 10;

/// A part of a run's log.
#[derive(Debug, Default)]
pub(super) struct CaptureBatch {
    entries: Vec<LogEntry>,
    bytes: Vec<u8>,
}

impl CaptureBatch {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entries, each with its bytes of the agent's body.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&LogEntry, &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.entries.iter().map(move |entry| {
            let (body, after) = rest.split_at(entry.step.body_length());
            rest = after;
            (entry, body)
        })
    }
}

/// The identity of a run, constant from its beginning.
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

/// The state of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunFacts {
    pub(crate) upstream: Option<Arc<str>>,
    pub(crate) events_in: u64,
    pub(crate) events_out: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) repairs: u64,
    pub(crate) losses: u64,
    /// kinds of them, as bits in the order of the labels
    pub(crate) repair_kinds: u32,
    pub(crate) loss_kinds: u32,
    /// dialect of the agent's events, if it is another than the route's
    pub(crate) looks_like: Option<&'static str>,
    pub(crate) first_event: Option<Duration>,
    /// status, fields and words with which the agent refused the request
    pub(crate) refusal: Option<Box<str>>,
    pub(crate) end: Option<RunEnd>,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunEnd {
    /// a label of `diglot_streams_total`
    pub(crate) outcome: &'static str,
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) duration: Duration,
}

/// The types of a run's events, as positions in the labels of a dialect.
#[derive(Debug, Default)]
pub(super) struct SeenTypes {
    /// each dialect's name, and a bit for each label
    dialects: Vec<(&'static str, u128)>,
    /// what the agent names by itself; absent if the route redacts, since it could be what is redacted
    agent_names: Option<Vec<Box<str>>>,
}

impl SeenTypes {
    /// Adds the types that were counted since the last report.
    pub(super) fn add(&mut self, dialect: &'static str, counts: &EventCounts) {
        self.add_bits(dialect, counts.nonzero().fold(0, |bits, (at, _)| bits | label_bit(at)));
    }

    /// Adds the names behind those that are there.
    pub(super) fn add_names(&mut self, names: &[Box<str>]) {
        let own = self.agent_names.get_or_insert_default();
        own.extend_from_slice(names.get(own.len()..).unwrap_or_default());
    }

    /// Returns the memory that [`SeenTypes::add_all`] takes for names.
    pub(super) fn growth(&self, others: &SeenTypes) -> usize {
        let new = others.new_names(self);
        new.iter().map(|name| name.len() + 2 * size_of::<Box<str>>()).sum()
    }

    fn new_names(&self, known: &SeenTypes) -> &[Box<str>] {
        let known = known.agent_names.as_ref().map_or(0, Vec::len);
        self.agent_names.as_ref().and_then(|names| names.get(known..)).unwrap_or_default()
    }

    pub(super) fn add_all(&mut self, others: &SeenTypes) {
        if let Some(names) = &others.agent_names {
            self.add_names(names);
        }
        self.add_labels(others);
    }

    pub(super) fn add_labels(&mut self, others: &SeenTypes) {
        others.dialects.iter().for_each(|(dialect, bits)| self.add_bits(dialect, *bits));
    }

    fn add_bits(&mut self, dialect: &'static str, bits: u128) {
        match self.dialects.iter_mut().find(|(own, _)| *own == dialect) {
            Some((_, own)) => *own |= bits,
            None => self.dialects.push((dialect, bits)),
        }
    }

    /// Returns the names that rows show. Labels that stand for other names are only used if those are not known.
    fn names(&self, sides: [PeerDialect; 2]) -> BTreeSet<Cow<'static, str>> {
        let known: Vec<_> = sides.iter().flat_map(PeerDialect::possible_dialects).collect();
        let own = self.agent_names.as_deref();
        let mut names: BTreeSet<_> = own.unwrap_or_default().iter().map(|name| Cow::Owned(name.to_string())).collect();
        for (name, bits) in &self.dialects {
            let Some(dialect) = known.iter().find(|known| known.name == *name) else { continue };
            let is_named = |at: usize| dialect.mapping.is_some() || at == dialect.other_label_index();
            let labels = dialect.labels().into_iter().enumerate();
            let labels = labels.filter(|(at, _)| bits & label_bit(*at) != 0 && !(own.is_some() && is_named(*at)));
            names.extend(labels.map(|(_, label)| Cow::Borrowed(label)));
        }
        names
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the bit of a label; no dialect has as many labels as there are bits.
fn label_bit(at: usize) -> u128 {
    u32::try_from(at).ok().and_then(|at| 1_u128.checked_shl(at)).unwrap_or_default()
}

#[derive(Debug, Default)]
pub(super) struct CaptureLog {
    steps: StepLog,
    /// memory that the budget counts for this run
    charged: usize,
    /// bytes of the agent that were not kept
    missed_bytes: u64,
    /// true once a step was not kept, so that no later one may be
    is_full: bool,
    /// the setting for which it was not kept
    limit: Option<&'static str>,
    /// true if the body cannot be redacted, and is not kept for that reason
    is_withheld: bool,
    pub(super) facts: RunFacts,
    pub(super) types: SeenTypes,
    silence: AgentSilence,
    /// when the last step was, since the run began
    last_step_ms: u64,
    /// increases with every change
    pub(super) version: u64,
}

#[derive(Debug)]
pub(crate) struct CapturedRun {
    /// unique in the process, in the order of beginning; 0 until the run is kept
    pub(crate) id: u64,
    pub(crate) head: RunHead,
    pub(crate) settings: StreamSettings,
    pub(super) conversation: ConversationState,
    pub(crate) timeline: Arc<RunTimeline>,
    /// only in the mode `full`
    pub(crate) requests: Option<CapturedRequests>,
    /// whether values may not be those that the agent and the client have sent
    pub(super) is_redacted: bool,
    /// set once it is searched for, and `None` if there is none
    cause: OnceLock<Option<Box<RunCause>>>,
    pub(super) log: Mutex<CaptureLog>,
    budget: Arc<CaptureBudget>,
}

impl CapturedRun {
    pub(super) fn new(
        head: RunHead,
        settings: StreamSettings,
        conversation: ConversationState,
        timeline: Arc<RunTimeline>,
        requests: Option<CapturedRequests>,
        budget: Arc<CaptureBudget>,
    ) -> CapturedRun {
        CapturedRun {
            id: 0,
            head,
            settings,
            conversation,
            timeline,
            requests,
            is_redacted: false,
            cause: OnceLock::new(),
            log: Mutex::default(),
            budget,
        }
    }

    /// Returns the state that the client has sent. Other dialects than AG-UI's may not send what their clients hold.
    pub(super) fn client_state(&self) -> Option<Json<'_>> {
        let body = self.requests.as_ref().filter(|_| self.settings.client.dialect.is_canonical())?;
        let members = json::parse_open_object(std::str::from_utf8(&body.client).ok()?).ok()?.members;
        members.into_iter().find_map(|(key, value)| (key.name() == Field::State.camel()).then_some(value))
    }

    /// Counts what the run has before its first step. If the bounds do not allow it, nothing is kept of the run.
    /// `evict` evicts a run that has ended, if there is one.
    pub(super) fn charge_beginning(&mut self, evict: impl FnMut() -> bool) {
        let bodies = self.requests.as_ref().map_or(0, |both| both.client.len() + both.agent.len());
        let size = RUN_OVERHEAD + self.timeline.reserved_bytes() + self.conversation.retained_bytes() + bodies;
        let log = self.log.get_mut();
        if self.budget.charge(0, size, evict) {
            log.charged = size;
        } else {
            log.is_full = true;
            log.limit = Some(self.budget.find_limit(0, size));
            (self.conversation, self.requests) = Default::default();
        }
    }

    pub(crate) fn facts(&self) -> RunFacts {
        self.log.lock().facts.clone()
    }

    /// Returns the types of both sides' events, as rows name them.
    pub(crate) fn types(&self) -> BTreeSet<Cow<'static, str>> {
        self.log.lock().types.names([self.settings.agent, self.settings.client])
    }

    /// Returns a number that increases with every change.
    pub(crate) fn version(&self) -> u64 {
        self.log.lock().version
    }

    /// Keeps why the run went wrong, after the search for it.
    pub(super) fn set_cause(&self, cause: Option<RunCause>) {
        let is_found = cause.is_some();
        if self.cause.set(cause.map(Box::new)).is_ok() && is_found {
            self.log.lock().version += 1;
        }
    }

    /// Returns whether the cause was searched for.
    pub(super) fn is_searched(&self) -> bool {
        self.cause.get().is_some()
    }

    /// Returns why the run went wrong, if that was searched for and found.
    pub(crate) fn cause(&self) -> Option<&RunCause> {
        self.cause.get()?.as_deref()
    }

    /// Returns when the gateway waited for the client to read.
    pub(crate) fn client_waits(&self) -> Vec<RunSpan> {
        let waits = self.timeline.client_waits().into_iter();
        waits.map(|wait| RunSpan { from_ms: millis(wait.at), until_ms: millis(wait.until) }).collect()
    }

    /// Returns whether the agent was silent, for long enough to show. The gateway does not read while it waits for the
    /// client.
    pub(crate) fn is_silence(&self, span: RunSpan) -> bool {
        let is_long = span.length_ms() >= millis(SHOWN_GAP);
        is_long && !self.client_waits().iter().any(|wait| wait.covers_half_of(span))
    }

    /// Returns the silence of the agent in which the run ended, unless the agent has ended it.
    pub(crate) fn last_silence(&self) -> Option<RunSpan> {
        let log = self.log.lock();
        let end = log.facts.end.as_ref().filter(|end| !RunOutcome::is_end_by_agent(end.outcome))?;
        let last = log.silence.since_last_read(millis(end.duration));
        drop(log);
        Some(last).filter(|last| self.is_silence(*last))
    }

    /// Returns the agent's longest silence.
    pub(crate) fn longest_silence(&self) -> Option<RunSpan> {
        let longest = self.log.lock().silence.longest();
        longest.into_iter().chain(self.last_silence()).max_by_key(|silence| silence.length_ms())
    }

    /// Returns when the agent's first bytes came, and when the last step was. Their clock is another than that of the
    /// end.
    pub(crate) fn first_read_and_last_step_ms(&self) -> (Option<u64>, u64) {
        let log = self.log.lock();
        (log.silence.first_read_ms(), log.last_step_ms)
    }

    /// Returns when the client left, if the run ended with that.
    pub(super) fn left_at_ms(&self) -> Option<u64> {
        let log = self.log.lock();
        let end = log.facts.end.as_ref().filter(|end| end.outcome == RunOutcome::ClientGone.label())?;
        Some(millis(end.duration).max(log.last_step_ms))
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.log.lock().facts.end.is_some()
    }

    /// Returns the bytes that are kept of the agent, and those that are not.
    pub(crate) fn kept_and_missed(&self) -> (u64, u64) {
        let log = self.log.lock();
        (log.steps.body_bytes() as u64, log.missed_bytes)
    }

    /// Returns whether the body is not kept because it cannot be redacted, rather than for a limit.
    pub(crate) fn is_withheld(&self) -> bool {
        self.log.lock().is_withheld
    }

    /// Returns the setting that allowed no more of the run to be kept.
    pub(crate) fn limit(&self) -> Option<&'static str> {
        self.log.lock().limit
    }

    /// Returns what is unusual about the form of the agent's stream, which is read all the same. Event streams may have
    /// any line ending, but those of AG-UI: "LF line endings MUST" (`specs/ag-ui-1.0.md` §4.2).
    pub(crate) fn body_form(&self) -> Option<&'static str> {
        let log = self.log.lock();
        let (mut read, mut beginning, mut searched) = (ReadPosition::default(), Vec::new(), 0);
        while beginning.len() < READ_BATCH && !beginning[searched..].contains(&b'\n') {
            searched = beginning.len();
            if log.steps.read_next(&mut read, &mut beginning).is_none() {
                break;
            }
        }
        let line = beginning.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        let is_forbidden = self.settings.agent.dialect.is_canonical();
        match (beginning.starts_with(b"\xef\xbb\xbf"), line.ends_with(b"\r\n")) {
            (true, true) if is_forbidden => {
                Some("begins with a byte order mark, and its lines end in CR LF, where AG-UI has LF alone")
            }
            (true, true) => Some("begins with a byte order mark, and its lines end in CR LF"),
            (true, false) => Some("begins with a byte order mark"),
            (false, true) if is_forbidden => Some("has lines that end in CR LF, where AG-UI has LF alone"),
            (false, true) => Some("has lines that end in CR LF"),
            (false, false) => None,
        }
    }

    /// Returns the times of the steps since the run began, for a picture of its timeline.
    pub(crate) fn step_times(&self) -> Vec<(u64, CaptureStep)> {
        let log = self.log.lock();
        log.steps.entries().map(|entry| (self.since_start(entry.now_ms), entry.step)).collect()
    }

    pub(super) fn conversation(&self) -> &ConversationState {
        &self.conversation
    }

    /// Returns the memory that the budget counts for this run.
    pub(super) fn charged_bytes(&self) -> usize {
        self.log.lock().charged
    }

    /// Gives the run's memory back to the budget, before it is freed, and returns how much.
    pub(super) fn release_budget(&self) -> usize {
        let charged = std::mem::take(&mut self.log.lock().charged);
        self.budget.release(charged);
        charged
    }

    pub(super) fn since_start(&self, now_ms: i64) -> u64 {
        u64::try_from(now_ms - self.head.started_ms).unwrap_or(0)
    }

    /// Returns the entries behind those of earlier batches, of about [`READ_BATCH`] bytes.
    pub(super) fn copy_batch(&self, read: &mut ReadPosition) -> CaptureBatch {
        let log = self.log.lock();
        let mut batch = CaptureBatch::default();
        while batch.bytes.len() < READ_BATCH && batch.entries.len() < READ_BATCH / 64 {
            let Some(entry) = log.steps.read_next(read, &mut batch.bytes) else { break };
            batch.entries.push(entry);
        }
        batch
    }

    /// Appends a step, if the bounds allow it. `evict` evicts a run that has ended, if there is one.
    pub(super) fn append(&self, now_ms: i64, step: CaptureStep, bytes: &[u8], evict: impl FnMut() -> bool) {
        let mut log = self.log.lock();
        log.version += 1;
        log.last_step_ms = self.since_start(now_ms);
        if let CaptureStep::Read(_) = step {
            let at_ms = log.last_step_ms;
            log.silence.end_at(at_ms, |span| self.is_silence(span));
        }
        let growth = log.steps.growth(&step, bytes.len());
        if log.is_full || (growth > 0 && !self.budget.charge(log.charged, growth, evict)) {
            if !std::mem::replace(&mut log.is_full, true) {
                log.limit = Some(self.budget.find_limit(log.charged, growth));
            }
            log.missed_bytes += bytes.len() as u64;
            return;
        }
        log.charged += growth;
        log.steps.push(now_ms, step, bytes);
    }

    /// Adds types, and names as far as the bounds allow it. `evict` evicts a run that has ended, if there is one.
    pub(super) fn add_types(&self, log: &mut CaptureLog, types: &SeenTypes, evict: impl FnMut() -> bool) {
        let growth = log.types.growth(types);
        if growth > 0 && !self.budget.charge(log.charged, growth, evict) {
            return log.types.add_labels(types);
        }
        log.charged += growth;
        log.types.add_all(types);
    }

    /// Keeps how the agent refused the request, as far as the bounds allow it. `evict` evicts a run that has ended, if
    /// there is one.
    pub(super) fn add_refusal(&self, answer: &str, evict: impl FnMut() -> bool) {
        let mut log = self.log.lock();
        if self.budget.charge(log.charged, answer.len(), evict) {
            log.charged += answer.len();
            log.facts.refusal = Some(answer.into());
        }
    }

    /// Counts bytes of a body that cannot be redacted.
    pub(super) fn withhold(&self, bytes: usize) {
        let mut log = self.log.lock();
        // Without it, later steps would be translated as if the agent had sent nothing.
        (log.is_withheld, log.is_full) = (true, true);
        log.missed_bytes += bytes as u64;
    }
}

impl Drop for CapturedRun {
    fn drop(&mut self) {
        self.release_budget();
    }
}
