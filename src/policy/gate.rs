//! A check in front of a service.

use super::dry_run::{DryRun, GateReport};
use crate::error::Rejection;
use futures_util::future::BoxFuture;
use http::Request;
use http::request::Parts;
use std::future::Future;
use std::task::{Context, Poll};
use tower::Service;

/// Checks the head of a request before it reaches a service.
pub(crate) trait Gate: Clone + Send + Sync + 'static {
    /// Lets the request pass, possibly with new extensions, or rejects it.
    fn pass(&self, head: &mut Parts) -> impl Future<Output = Result<(), Rejection>> + Send;

    /// Reports what [`Gate::pass`] would do, without side effects.
    fn dry_run(&self, head: &Parts) -> GateReport;
}

#[derive(Clone)]
pub(crate) struct GateService<G, S> {
    gate: G,
    inner: S,
}

impl<G, S> GateService<G, S> {
    pub(crate) fn new(gate: G, inner: S) -> Self {
        GateService { gate, inner }
    }
}

impl<G: Gate, S: DryRun> DryRun for GateService<G, S> {
    fn dry_run_all(&self, head: &Parts, all: &mut Vec<GateReport>) {
        all.push(self.gate.dry_run(head));
        self.inner.dry_run_all(head, all);
    }
}

impl<G, S, B> Service<Request<B>> for GateService<G, S>
where
    G: Gate,
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
        let gate = self.gate.clone();
        // tower: call the service that was polled ready, and keep the clone for the next call.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        Box::pin(async move {
            let (mut head, body) = request.into_parts();
            gate.pass(&mut head).await?;
            inner.call(Request::from_parts(head, body)).await
        })
    }
}
