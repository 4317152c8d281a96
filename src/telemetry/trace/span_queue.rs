//! A bounded queue of spans, sent in batches by a dedicated thread. Ending a span never blocks: if the queue is full,
//! the span is dropped and counted.

use super::exporter_client::ExporterClient;
use crate::telemetry::internal_event;
use crate::telemetry::label::SpanLoss;
use crate::telemetry::metric::SpanMetrics;
use opentelemetry::Context;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter as _, SpanProcessor};
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

#[derive(Clone, Copy, Debug)]
pub(super) struct BatchConfig {
    /// maximum time that a span waits for its batch to fill
    pub(crate) schedule_delay: Duration,
    pub(crate) max_queue_size: usize,
    pub(crate) max_export_batch_size: usize,
}

#[derive(Clone)]
pub(super) struct SpanQueue(Arc<SpanQueueInner>);

struct SpanQueueInner {
    config: BatchConfig,
    metrics: SpanMetrics,
    state: Mutex<SpanQueueState>,
    /// wakes the thread
    work_ready: Condvar,
    /// wakes `flush` once all spans are sent
    idle: Condvar,
}

#[derive(Debug, Default)]
struct SpanQueueState {
    pending: Vec<SpanData>,
    /// when the oldest span was added
    oldest_since: Option<Instant>,
    sending: bool,
    flushing: bool,
}

impl fmt::Debug for SpanQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpanQueue")
    }
}

impl SpanQueue {
    /// Starts the sending thread, which runs until the process exits.
    pub(super) fn start(
        exporter: SpanExporter,
        client: ExporterClient,
        config: BatchConfig,
        metrics: SpanMetrics,
    ) -> io::Result<SpanQueue> {
        let state = Mutex::default();
        let inner =
            Arc::new(SpanQueueInner { config, metrics, state, work_ready: Condvar::new(), idle: Condvar::new() });
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let sender = BatchSender { inner: Arc::clone(&inner), runtime, exporter, client, unavailable: false };
        std::thread::Builder::new().name("traces".to_owned()).spawn(move || sender.run())?;
        Ok(SpanQueue(inner))
    }

    /// Waits up to `timeout` for all spans to be sent.
    pub(super) fn flush(&self, timeout: Duration) {
        let mut state = self.0.state.lock();
        state.flushing = true;
        self.0.work_ready.notify_one();
        let busy = |state: &mut SpanQueueState| state.sending || !state.pending.is_empty();
        self.0.idle.wait_while_for(&mut state, busy, timeout);
    }
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        let SpanQueueInner { config, metrics, work_ready, .. } = &*self.0;
        let mut state = self.0.state.lock();
        if state.pending.len() >= config.max_queue_size {
            drop(state);
            metrics.dropped.get(SpanLoss::QueueFull).inc();
            return;
        }
        state.pending.push(span);
        let first = state.oldest_since.is_none();
        state.oldest_since.get_or_insert_with(Instant::now);
        // The thread sleeps until the first span is old enough or a batch is full.
        let is_due = first || state.pending.len() >= config.max_export_batch_size;
        drop(state);
        if is_due {
            work_ready.notify_one();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl SpanQueueInner {
    fn next_batch(&self) -> Vec<SpanData> {
        let mut state = self.state.lock();
        loop {
            let age = state.oldest_since.map(|since| since.elapsed());
            let full = state.pending.len() >= self.config.max_export_batch_size.min(self.config.max_queue_size);
            match age {
                Some(age) if full || state.flushing || age >= self.config.schedule_delay => {
                    let most = state.pending.len().min(self.config.max_export_batch_size);
                    let rest = state.pending.split_off(most);
                    let batch = std::mem::replace(&mut state.pending, rest);
                    // The remaining spans were added at about the same time.
                    state.oldest_since = state.oldest_since.filter(|_| !state.pending.is_empty());
                    state.sending = true;
                    return batch;
                }
                Some(age) => {
                    self.work_ready.wait_for(&mut state, self.config.schedule_delay.saturating_sub(age));
                }
                None => self.work_ready.wait(&mut state),
            }
        }
    }

    fn mark_sent(&self) {
        self.state.lock().sending = false;
        self.idle.notify_all();
    }
}

struct BatchSender {
    inner: Arc<SpanQueueInner>,
    runtime: Runtime,
    exporter: SpanExporter,
    client: ExporterClient,
    /// whether the last batch failed, so that only the first failure is logged
    unavailable: bool,
}

impl BatchSender {
    fn run(mut self) {
        loop {
            let batch = self.inner.next_batch();
            let count = batch.len() as u64;
            match self.runtime.block_on(self.exporter.export(batch)) {
                Ok(()) => {
                    self.inner.metrics.exported.inc_by(count);
                    if std::mem::take(&mut self.unavailable) {
                        internal_event::CollectorRecovered {}.emit();
                    }
                }
                Err(error) => {
                    self.inner.metrics.dropped.get(SpanLoss::ExportFailed).inc_by(count);
                    if !std::mem::replace(&mut self.unavailable, true) {
                        let cause = self.client.take_failure().unwrap_or_else(|| error.to_string());
                        internal_event::CollectorUnavailable { cause }.emit();
                    }
                }
            }
            self.inner.mark_sent();
        }
    }
}
