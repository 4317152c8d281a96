//! Spans on their way to the collector: they wait in a bounded queue, and a thread of its own sends them in batches. Whoever
//! ends a span waits for nobody; what finds no room is dropped and counted.

use super::post::Post;
use crate::telemetry::label::SpanLoss;
use crate::telemetry::metric::SpanMetrics;
use crate::telemetry::occurrence;
use opentelemetry::Context;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter as _, SpanProcessor};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// How spans are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// how long a span may wait for others
    pub delay: Duration,
    /// how many may wait
    pub most: usize,
    /// how many are sent at once
    pub batch: usize,
}

/// The queue.
#[derive(Clone, Debug)]
pub(super) struct Queue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pace: Pace,
    metrics: SpanMetrics,
    state: Mutex<State>,
    /// for the thread: there is something to do
    work: Condvar,
    /// for who waits until nothing is left
    idle: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<SpanData>,
    /// when the first of them came
    since: Option<Instant>,
    /// whether a batch is on its way
    sending: bool,
    /// somebody waits until all are sent
    hurry: bool,
}

impl Queue {
    /// Starts the thread that sends.
    ///
    /// # Errors
    /// The system has no room for one.
    pub(super) fn start(exporter: SpanExporter, post: Post, pace: Pace, metrics: SpanMetrics) -> Result<Queue, String> {
        let (state, work, idle) = (Mutex::default(), Condvar::new(), Condvar::new());
        let inner = Arc::new(Inner { pace, metrics, state, work, idle });
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let sender = Sender { inner: Arc::clone(&inner), runtime, exporter, post, away: false };
        let thread = std::thread::Builder::new().name("traces".to_owned()).spawn(move || sender.run());
        // It ends with the process.
        thread.map(|_| Queue(inner)).map_err(|error| error.to_string())
    }

    /// Waits until all are sent, for no longer than that.
    pub(super) fn flush(&self, patience: Duration) {
        let mut state = self.0.state();
        state.hurry = true;
        self.0.work.notify_one();
        let left = |state: &mut State| state.sending || !state.waiting.is_empty();
        // A thread that panicked while it held the lock has sent nothing more.
        let _ = self.0.idle.wait_timeout_while(state, patience, left);
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        let Inner { pace, metrics, work, .. } = &*self.0;
        let mut state = self.0.state();
        if state.waiting.len() >= pace.most {
            drop(state);
            metrics.dropped(SpanLoss::QueueFull, 1);
            return;
        }
        state.waiting.push(span);
        let first = state.since.is_none();
        state.since.get_or_insert_with(Instant::now);
        // It sleeps until the first is old enough or a batch is full.
        let is_due = first || state.waiting.len() >= pace.batch;
        drop(state);
        if is_due {
            work.notify_one();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a batch.
    fn next(&self) -> Vec<SpanData> {
        let mut state = self.state();
        loop {
            let age = state.since.map(|since| since.elapsed());
            let full = state.waiting.len() >= self.pace.batch.min(self.pace.most);
            match age {
                Some(age) if full || state.hurry || age >= self.pace.delay => {
                    let most = state.waiting.len().min(self.pace.batch);
                    let rest = state.waiting.split_off(most);
                    let batch = std::mem::replace(&mut state.waiting, rest);
                    // Those that are left came at about the same time.
                    state.since = state.since.filter(|_| !state.waiting.is_empty());
                    state.sending = true;
                    return batch;
                }
                Some(age) => {
                    let waited = self.work.wait_timeout(state, self.pace.delay.saturating_sub(age));
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn sent(&self) {
        self.state().sending = false;
        self.idle.notify_all();
    }
}

/// The thread that sends.
struct Sender {
    inner: Arc<Inner>,
    runtime: Runtime,
    exporter: SpanExporter,
    post: Post,
    /// the last batch was not taken, and that was said
    away: bool,
}

impl Sender {
    fn run(mut self) {
        loop {
            let batch = self.inner.next();
            let count = batch.len() as u64;
            let taken = self.runtime.block_on(self.exporter.export(batch));
            match taken {
                Ok(()) => {
                    self.inner.metrics.taken(count);
                    if std::mem::take(&mut self.away) {
                        occurrence::CollectorAnswers.emit();
                    }
                }
                Err(error) => {
                    self.inner.metrics.dropped(SpanLoss::NotTaken, count);
                    if !std::mem::replace(&mut self.away, true) {
                        let cause = self.post.failure().unwrap_or_else(|| error.to_string());
                        occurrence::CollectorAway { cause }.emit();
                    }
                }
            }
            self.inner.sent();
        }
    }
}
