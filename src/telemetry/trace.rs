//! To which trace a request belongs, what its agent hears of that, and what a collector does.
//!
//! ```text
//!   traceparent ─▶ Parent ─▶ Trace, the request's own span ─▶ Calls ─▶ Call, a request to its agent: its id is the
//!                              │ taken by the run, or ended           │ traceparent there
//!                              │ with the answer                      │
//!                              ╰── Recording ─────────────────────────┴──▶ a bounded queue ─▶ the collector (`otel`)
//! ```
//! Ids there are always, in the log and for the agent. What is recorded of a span, and whether, is the affair of the feature
//! `otel` and of an endpoint in the environment; without them a `Recording` is nothing and takes no room.

mod context;

#[cfg(feature = "otel")]
mod collector;
#[cfg(feature = "otel")]
mod post;
#[cfg(feature = "otel")]
mod queue;
#[cfg(feature = "otel")]
mod recording;

#[cfg(not(feature = "otel"))]
mod silent;
#[cfg(not(feature = "otel"))]
use silent as recording;

pub use context::{Parent, SpanId, TraceId};

use self::context::Context;
use self::recording::{Recorder, Recording};
use super::occurrence::{Refused, RunEnded};
use super::{Metrics, label::Method};
use crate::error::Rejection;
use http::HeaderValue;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where spans go: to a collector, or nowhere.
#[derive(Clone, Debug, Default)]
pub struct Tracing(Option<Recorder>);

/// What is known of a request when its span begins.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// how it asks
    pub method: Method,
    /// its route's name and path, as configured; empty where none matched
    pub route: (&'a str, &'a str),
    /// whether it came over TLS
    pub tls: bool,
}

/// A request's span. Whoever holds it last ends it.
#[derive(Debug)]
pub struct Trace {
    own: Context,
    state: Option<Arc<HeaderValue>>,
    recorder: Option<Recorder>,
    recording: Recording,
}

/// Makes the spans of what is asked of agents for one request.
#[derive(Clone, Debug)]
pub struct Calls {
    of: Context,
    state: Option<Arc<HeaderValue>>,
    /// where they are recorded, if they are
    recorder: Option<Recorder>,
}

/// The span of one request to an agent. Where it is dropped before it has ended, nobody waited for the agent any more.
#[derive(Debug)]
pub struct Call {
    own: Context,
    state: Option<Arc<HeaderValue>>,
    recording: Recording,
}

/// A request's place in a trace: among its extensions, so that the run that it starts can take its span. What is left there
/// ends with the answer.
#[derive(Clone)]
pub struct Traced {
    id: TraceId,
    trace: Arc<Mutex<Option<Trace>>>,
}

impl Tracing {
    /// Spans go where the environment says (`OTEL_EXPORTER_OTLP_ENDPOINT` and its kin), and nowhere if it says nothing.
    ///
    /// # Errors
    /// Which variable cannot be meant, and why.
    pub fn from_environment(metrics: &Arc<Metrics>) -> Result<Tracing, String> {
        Recorder::from_environment(metrics).map(Tracing)
    }

    /// The span of a request that came just now.
    #[must_use]
    pub fn begin(&self, parent: Option<&Parent>, arrival: Arrival<'_>) -> Trace {
        let state = parent.and_then(|parent| parent.state.clone()).map(Arc::new);
        if let Some(recorder) = &self.0 {
            let (own, recording) = recorder.server(parent, arrival);
            // Of a request that nobody records its calls are not recorded either.
            let recorder = recording.is_recording().then(|| recorder.clone());
            return Trace { own, state, recorder, recording };
        }
        let own = parent.map_or_else(Context::root, |parent| parent.context.child());
        Trace { own, state, recorder: None, recording: Recording::default() }
    }

    /// Sends what waits, for no longer than that: the process ends. Blocks.
    pub fn flush(&self, patience: Duration) {
        if let Some(recorder) = &self.0 {
            recorder.flush(patience);
        }
    }
}

impl Trace {
    /// Which trace it belongs to.
    #[must_use]
    pub fn id(&self) -> TraceId {
        self.own.trace_id
    }

    /// What makes the spans of its calls.
    #[must_use]
    pub fn calls(&self) -> Calls {
        Calls { of: self.own, state: self.state.clone(), recorder: self.recorder.clone() }
    }

    /// The run of the request has ended so.
    pub(super) fn ended(mut self, ended: &RunEnded<'_>) {
        self.recording.run(ended);
    }

    /// The request was refused.
    pub(super) fn refused(mut self, refused: &Refused<'_>) {
        self.recording.refusal(refused);
    }

    /// The request was answered with that status, and is over.
    pub fn answered(mut self, status: u16) {
        self.recording.answer(status);
    }
}

impl Calls {
    /// The span of a request to an agent that begins now.
    #[must_use]
    pub fn begin(&self, method: Method, upstream: &str, path: &str) -> Call {
        let (own, recording) = match &self.recorder {
            Some(recorder) => recorder.client(&self.of, self.state.as_deref(), method, upstream, path),
            None => (self.of.child(), Recording::default()),
        };
        Call { own, state: self.state.clone(), recording }
    }
}

impl Call {
    /// What the agent is told: its `traceparent`, and the `tracestate` that goes with it.
    #[must_use]
    pub fn fields(&self) -> (Option<HeaderValue>, Option<&HeaderValue>) {
        (self.own.header(), self.state.as_deref())
    }

    /// The agent answered with that status.
    pub fn answered(&mut self, status: u16) {
        self.recording.head(status);
    }

    /// It came to nothing, or broke off.
    pub fn failed(&mut self, rejection: &Rejection) {
        self.recording.fail(rejection);
    }

    /// It is over, whatever is read of it yet.
    pub fn end(&mut self) {
        self.recording.end();
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.recording.abandon();
    }
}

impl Traced {
    /// A request's place in the trace that its span belongs to.
    #[must_use]
    pub fn new(trace: Trace) -> Traced {
        Traced { id: trace.id(), trace: Arc::new(Mutex::new(Some(trace))) }
    }

    /// Which trace.
    #[must_use]
    pub fn id(&self) -> TraceId {
        self.id
    }

    /// The span, once: whoever takes it ends it.
    #[must_use]
    pub fn take(&self) -> Option<Trace> {
        // Nothing panics while the lock is held.
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Traced({})", self.id)
    }
}
