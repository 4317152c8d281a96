//! Checks in front of a service.

use super::dry_run::{DryRun, GateReport};
use crate::error::Rejection;
use crate::telemetry::RunTimeline;
use futures_util::future::BoxFuture;
use http::Request;
use http::request::Parts;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::Service;

/// Checks the head of a request before it reaches a service.
pub(crate) trait Gate: Send + Sync + 'static {
    /// Lets the request pass, possibly with new extensions, or rejects it.
    fn pass(&self, head: &mut Parts) -> impl Future<Output = Result<(), Rejection>> + Send;

    /// Reports what [`Gate::pass`] would do, without side effects.
    fn dry_run(&self, head: &Parts) -> GateReport;
}

/// Gates in the order in which requests pass them: none, or a list and one more.
pub(crate) trait GateSequence: Send + Sync + 'static {
    /// Passes the gates in turn. `timeline` is present if the run is captured.
    fn pass_all(
        &self,
        head: &mut Parts,
        timeline: Option<&RunTimeline>,
    ) -> impl Future<Output = Result<(), Rejection>> + Send;

    fn dry_run_all(&self, head: &Parts, all: &mut Vec<GateReport>);
}

impl GateSequence for () {
    async fn pass_all(&self, _: &mut Parts, _: Option<&RunTimeline>) -> Result<(), Rejection> {
        Ok(())
    }

    fn dry_run_all(&self, _: &Parts, _: &mut Vec<GateReport>) {}
}

impl<L: GateSequence, G: Gate> GateSequence for (L, G) {
    async fn pass_all(&self, head: &mut Parts, timeline: Option<&RunTimeline>) -> Result<(), Rejection> {
        self.0.pass_all(head, timeline).await?;
        let decided = self.1.pass(head).await;
        if let Some(timeline) = timeline {
            self.1.dry_run(head).record_decision(&decided, timeline);
        }
        decided
    }

    fn dry_run_all(&self, head: &Parts, all: &mut Vec<GateReport>) {
        self.0.dry_run_all(head, all);
        all.push(self.1.dry_run(head));
    }
}

/// Builds a [`GateService`].
pub(crate) struct GateBuilder<L>(L);

impl GateBuilder<()> {
    pub(crate) fn new() -> Self {
        GateBuilder(())
    }
}

impl<L: GateSequence> GateBuilder<L> {
    /// Adds a gate behind the others.
    pub(crate) fn gate<G: Gate>(self, gate: G) -> GateBuilder<(L, G)> {
        GateBuilder((self.0, gate))
    }

    pub(crate) fn service<S>(self, inner: S) -> GateService<L, S> {
        GateService { gates: Arc::new(self.0), inner }
    }
}

/// A service behind gates. One future walks them all, since most of them never wait.
pub(crate) struct GateService<L, S> {
    gates: Arc<L>,
    inner: S,
}

impl<L, S: Clone> Clone for GateService<L, S> {
    fn clone(&self) -> Self {
        GateService { gates: Arc::clone(&self.gates), inner: self.inner.clone() }
    }
}

impl<L: GateSequence, S: DryRun> DryRun for GateService<L, S> {
    fn dry_run_all(&self, head: &Parts, all: &mut Vec<GateReport>) {
        self.gates.dry_run_all(head, all);
        self.inner.dry_run_all(head, all);
    }
}

impl<L, S, B> Service<Request<B>> for GateService<L, S>
where
    L: GateSequence,
    B: Send + 'static,
    S: Service<Request<B>, Error = Rejection> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = Rejection;
    type Future = BoxFuture<'static, Result<S::Response, Rejection>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Rejection>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let gates = Arc::clone(&self.gates);
        // tower: call the service that was polled ready, and keep the clone for the next call.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        Box::pin(async move {
            let (mut head, body) = request.into_parts();
            let timeline = head.extensions.get::<Arc<RunTimeline>>().cloned();
            gates.pass_all(&mut head, timeline.as_deref()).await?;
            inner.call(Request::from_parts(head, body)).await
        })
    }
}
